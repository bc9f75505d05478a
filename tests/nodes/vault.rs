//! Memory that processes share: its counters are exact, whichever of them is killed.

use std::time::Duration;

use ringpost::RegionError;
use ringpost::prelude::*;
use ringpost_tests::vault::{Account, Vault, VaultUser};
use tokio::task::JoinSet;

use crate::process::{Process, linked, within};

const USERS: u64 = 3;
/// The one that is killed.
const MORTAL: u64 = 2;
/// Operations of all users, and those of one turn of a user.
const OPERATIONS: u64 = 100_000;
const TURN: u64 = 1_000;
const TURNS: u64 = OPERATIONS / USERS / TURN;

/// All processes of a test, and the node that judges.
struct Scene {
    judge: Node,
    owner: Process,
    users: Vec<Option<Process>>,
}

impl Scene {
    async fn open() -> Self {
        let owner = Process::start("owner", &[]).await;
        let mut users = Vec::new();
        for user in 0..USERS {
            let name = format!("user{user}");
            users.push(Some(Process::start(&name, std::slice::from_ref(&owner.address)).await));
        }
        let all: Vec<&Process> = users.iter().flatten().chain([&owner]).collect();
        let judge = linked("judge", &all, Duration::from_secs(3)).await;
        Scene { judge, owner, users }
    }

    async fn vault(&self) -> ActorRef<Vault> {
        within(self.judge.when_named("owner/vault")).await.unwrap()
    }

    /// Has a user work a turn.
    async fn turn(
        &self,
        user: u64,
        vault: &RemoteRegion<u64>,
        turn: u64,
    ) -> Result<Account, BoxError> {
        let path = format!("user{user}/user");
        let worker = self.judge.actor::<VaultUser>(&path).await?;
        let seed = user << 32 | turn;
        Ok(worker.work(vault.clone(), user, seed, TURN).timeout(Duration::from_secs(50)).await?)
    }
}

/// The bounds of a counter, as far as it is known.
fn bounds(accounts: &[Account], counter: usize, lost: u64) -> std::ops::RangeInclusive<u64> {
    let done: u64 = accounts.iter().map(|account| account.done[counter]).sum();
    let unknown: u64 = accounts.iter().map(|account| account.unknown[counter]).sum();
    done..=done + unknown + lost
}

/// 100,000 operations of three processes on the memory of a fourth, of which one is killed in the
/// middle of its work; then the memory is revoked, and then its owner is killed.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_are_exact_whoever_is_killed() {
    let mut scene = Scene::open().await;
    let vault = scene.vault().await;
    let region = within(async { vault.shared().await }).await.unwrap();
    let mut accounts = vec![Account::default(); USERS as usize];
    let mut lost = [0; USERS as usize];
    for turn in 0..TURNS {
        let mut turns = JoinSet::new();
        for user in 0..USERS {
            let (path, region) = (format!("user{user}/user"), region.clone());
            let judge = scene.judge.clone();
            turns.spawn(async move {
                let work = async {
                    let worker = judge.actor::<VaultUser>(&path).await?;
                    let seed = user << 32 | turn;
                    let work = worker.work(region, user, seed, TURN);
                    Ok::<_, BoxError>(work.timeout(Duration::from_secs(50)).await?)
                };
                (user, work.await)
            });
        }
        if turn == TURNS / 2 {
            // In the middle of its turn, as near as can be told.
            let before = within(async { vault.counters(USERS).await }).await.unwrap();
            while within(async { vault.counters(USERS).await }).await.unwrap() == before {}
            scene.users[MORTAL as usize].take().unwrap().kill().await;
        }
        while let Some(ended) = within(turns.join_next()).await {
            let (user, account) = ended.unwrap();
            match account {
                Ok(account) => accounts[user as usize].add(&account),
                Err(error) => {
                    assert!(user == MORTAL && turn >= TURNS / 2, "user {user}: {error}");
                    lost[user as usize] = TURN;
                }
            }
        }
    }
    let counters = within(async { vault.counters(USERS).await }).await.unwrap();
    println!("{counters:?} after {accounts:?}");
    assert_eq!(lost, [0, 0, TURN]);
    for (user, account) in accounts.iter().enumerate() {
        let is_mortal = user as u64 == MORTAL;
        assert_eq!((account.wrong, &account.ended), (0, &None), "user {user}");
        assert_eq!(account.tried, if is_mortal { TURNS / 2 * TURN } else { TURNS * TURN });
        // No link was lost but that of the one that was killed.
        assert_eq!(account.unknown, [0; 3], "user {user}");
        let own = &accounts[user..=user];
        assert!(bounds(own, 2, lost[user]).contains(&counters[2 + user]), "user {user}");
    }
    let lost = lost.iter().sum();
    for counter in [0, 1] {
        assert!(bounds(&accounts, counter, lost).contains(&counters[counter]), "{counter}");
        assert!(counters[counter] > OPERATIONS / 20, "{counter}");
    }

    revoked(&scene, &vault, &region).await;
    owner_killed(&mut scene).await;
    scene.owner.end().await;
    for user in scene.users.into_iter().flatten() {
        user.end().await;
    }
    scene.judge.shutdown(Duration::from_secs(10)).await;
}

/// After the revocation no user reaches the memory any more.
async fn revoked(scene: &Scene, vault: &ActorRef<Vault>, region: &RemoteRegion<u64>) {
    assert!(within(async { vault.revoke().await }).await.unwrap());
    let before = within(async { vault.counters(USERS).await }).await.unwrap();
    for user in 0..MORTAL {
        let account = scene.turn(user, region, 0).await.unwrap();
        assert_eq!((account.done, account.ended), ([0; 3], Some(RegionError::Revoked.to_string())));
    }
    assert_eq!(within(async { vault.counters(USERS).await }).await.unwrap(), before);
}

/// Users of memory whose owner is killed hear so, and go on with the memory of the next one.
async fn owner_killed(scene: &mut Scene) {
    let seed = scene.users[0].as_ref().unwrap().address.clone();
    let next = Process::start("owner2", std::slice::from_ref(&seed)).await;
    let other: ActorRef<Vault> = within(scene.judge.when_named("owner2/vault")).await.unwrap();
    let region = within(async { other.shared().await }).await.unwrap();
    let account = scene.turn(0, &region, 0).await.unwrap();
    assert_eq!((account.wrong, account.unknown, &account.ended), (0, [0; 3], &None));
    next.kill().await;
    let mut account = Account::default();
    while account.ended.is_none() {
        account.add(&scene.turn(1, &region, 1).await.unwrap());
    }
    assert!(account.ended.as_deref().unwrap().contains("the node owner2 is down"), "{account:?}");
    assert_eq!(account.done, [0; 3], "nothing is done to memory that is gone");
    assert_eq!(account.wrong, 0);
}
