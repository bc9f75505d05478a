//! Memory that processes share: its counters are exact, whichever of them is killed.

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::region::{RegionError, RemoteRegion};
use ringpost_tests::vault::{Account, EXCHANGED, SUM, Vault, VaultUser, WORDS, own, tally};
use tokio::task::JoinSet;

use crate::process::{PATIENCE, Process, linked, within};

const USERS: u64 = 3;
/// The user that is killed.
const MORTAL: u64 = 2;
/// Operations of all users that are counted, and operations in one turn of a user.
const OPERATIONS: u64 = 100_000;
const TURN: u64 = 1_000;
/// Turns of the users that live. The mortal user does half as many, and is killed in its next turn,
/// which has no end.
const TURNS: u64 = 2 * OPERATIONS.div_ceil((2 * USERS - 1) * TURN);
const ENDLESS: u64 = u64::MAX;

/// All processes of a test, and the node that judges.
struct Scene {
    judge: Node,
    owner: Process,
    users: Vec<Option<Process>>,
}

/// Turns under way: the user, and the account of its operations.
type Turns = JoinSet<(u64, Result<Account, BoxError>)>;

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

    /// Finds a node's memory.
    async fn vault(&self, node: &str) -> (ActorRef<Vault>, RemoteRegion<u64>) {
        let path = format!("{node}/vault");
        let vault: ActorRef<Vault> = within(self.judge.when_named(&path)).await.unwrap();
        // Just after a restart the first ask may still meet the end of the run before.
        let shared = async {
            loop {
                if let Ok(shared) = vault.shared().wait_for_link().await {
                    return shared;
                }
            }
        };
        let shared = within(shared).await;
        (vault, shared)
    }

    /// Begins a turn of `count` operations of a user.
    fn begin(
        &self,
        turns: &mut Turns,
        user: u64,
        region: &RemoteRegion<u64>,
        (turn, count): (u64, u64),
    ) {
        let (judge, region) = (self.judge.clone(), region.clone());
        turns.spawn(async move {
            let work = async {
                let worker = judge.actor::<VaultUser>(&format!("user{user}/user")).await?;
                let work = worker.work(region, user, user << 32 | turn, count);
                Ok::<_, BoxError>(work.timeout(PATIENCE).await?)
            };
            (user, work.await)
        });
    }

    /// Begins endless turns of the users that live, and returns when each has done something.
    async fn begin_endless(&self, vault: &ActorRef<Vault>, region: &RemoteRegion<u64>) -> Turns {
        let mut turns = JoinSet::new();
        let before = words(vault).await;
        for user in 0..MORTAL {
            self.begin(&mut turns, user, region, (TURNS, ENDLESS));
        }
        for user in 0..MORTAL {
            counted(vault, user, tally(&before, user)).await;
        }
        turns
    }
}

async fn words(vault: &ActorRef<Vault>) -> Vec<u64> {
    within(async { vault.words().await }).await.unwrap()
}

/// Waits until a user has counted more than this.
async fn counted(vault: &ActorRef<Vault>, user: u64, before: [u64; 3]) {
    within(async { while tally(&vault.words().await.unwrap(), user) == before {} }).await;
}

/// Waits for turns that end because the memory cannot be reached any more, each with an error that
/// contains `why`, and with at most one operation of unknown outcome, its last.
async fn ended(mut turns: Turns, why: &str) -> Vec<Account> {
    let mut accounts = vec![Account::default(); turns.len()];
    while let Some(ended) = within(turns.join_next()).await {
        let (user, account) = ended.unwrap();
        let account = account.unwrap_or_else(|error| panic!("user {user}: {error}"));
        let says_why = account.ended.as_deref().is_some_and(|ended| ended.contains(why));
        assert!(says_why && account.wrong == 0 && account.unknown() <= 1, "{user}: {account:?}");
        accounts[user as usize] = account;
    }
    accounts
}

/// More than 100,000 operations of three processes on the memory of a fourth, of which one is
/// killed in the middle of its work; then the memory is revoked. Then an owner is killed, and its
/// memory of the next run revoked, both while users are at work on it.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_are_exact_whoever_is_killed() {
    let mut scene = Scene::open().await;
    user_killed(&mut scene).await;
    let owner = owner_killed(&mut scene).await;
    revoked_under_work(&scene).await;
    for process in scene.users.into_iter().flatten().chain([scene.owner, owner]) {
        process.end().await;
    }
    scene.judge.shutdown(Duration::from_secs(10)).await;
}

async fn user_killed(scene: &mut Scene) {
    let (vault, region) = scene.vault("owner").await;
    let mut accounts = vec![Account::default(); USERS as usize];
    for turn in 0..TURNS {
        let mut turns = JoinSet::new();
        for user in 0..USERS {
            let count = if (user, turn) == (MORTAL, TURNS / 2) { ENDLESS } else { TURN };
            if user != MORTAL || turn <= TURNS / 2 {
                scene.begin(&mut turns, user, &region, (turn, count));
            }
        }
        if turn == TURNS / 2 {
            counted(&vault, MORTAL, accounts[MORTAL as usize].done).await;
            scene.users[MORTAL as usize].take().unwrap().kill().await;
        }
        while let Some(ended) = within(turns.join_next()).await {
            let (user, account) = ended.unwrap();
            match account {
                Ok(account) => accounts[user as usize].add(&account),
                Err(error) => assert!((user, turn) == (MORTAL, TURNS / 2), "{user}: {error}"),
            }
        }
    }
    // When this returns, nothing reaches the memory any more, not even operations that the killed
    // user had sent.
    assert!(within(async { vault.revoke().await }).await.unwrap());
    let words = words(&vault).await;
    println!("{words:?} after {accounts:?}");
    let tried: u64 = accounts.iter().map(|account| account.tried).sum();
    assert!(tried >= OPERATIONS, "{tried}");
    let tallies: Vec<[u64; 3]> = (0..USERS).map(|user| tally(&words, user)).collect();
    let mut beyond = 0;
    for (user, account) in (0..).zip(&accounts) {
        // Only the killed user lost its link.
        assert_eq!((account.wrong, account.unknown(), &account.ended), (0, 0, &None), "{user}");
        let [told, kept] = [account.done, tallies[user as usize]];
        if user == MORTAL {
            assert!(kept.iter().sum::<u64>() > told.iter().sum(), "it was killed at work");
            beyond += words[own(user)] - kept[2];
        } else {
            assert_eq!((told, words[own(user)]), (kept, kept[2]), "user {user}");
        }
    }
    for (counter, word) in [(0, SUM), (1, EXCHANGED)] {
        beyond += words[word] - tallies.iter().map(|tally| tally[counter]).sum::<u64>();
        assert!(words[word] > OPERATIONS / 20, "{counter}");
    }
    assert!(beyond <= 1, "only what was under way at the kill is in no tally: {beyond}");

    let mut turns = JoinSet::new();
    (0..MORTAL).for_each(|user| scene.begin(&mut turns, user, &region, (TURNS, TURN)));
    for account in ended(turns, &RegionError::Revoked.to_string()).await {
        assert_eq!((account.done, account.unknown()), ([0; 3], 0));
    }
    assert_eq!(self::words(&vault).await, words);
}

/// An owner is killed while users are at work on its memory: they hear that its node is down, and
/// none of them reaches the memory of its next run. Returns the process of that run.
async fn owner_killed(scene: &mut Scene) -> Process {
    let seeds = vec![scene.owner.address.clone(), scene.judge.addresses()[0].clone()];
    let first = Process::start("owner2", &seeds).await;
    let (vault, region) = scene.vault("owner2").await;
    let turns = scene.begin_endless(&vault, &region).await;
    first.kill().await;
    let next = Process::start("owner2", &seeds).await;
    let why = "the node owner2";
    for account in ended(turns, why).await {
        assert!(account.done.iter().sum::<u64>() > 0, "it was at work: {account:?}");
    }
    let (vault, _) = scene.vault("owner2").await;
    let mut turns = JoinSet::new();
    (0..MORTAL).for_each(|user| scene.begin(&mut turns, user, &region, (TURNS, TURN)));
    for account in ended(turns, why).await {
        assert_eq!((account.done, account.unknown(), account.tried), ([0; 3], 0, 1));
    }
    assert_eq!(words(&vault).await, [0; WORDS]);
    next
}

/// Runs of an owner that is killed again and again, unless `RINGPOST_TEST_CASES` says how many, and
/// the references to their memory that are kept.
const RUNS: u64 = 10;
const KEPT: usize = 32;

/// Reads memory of a run until that fails: it has the number of that run in each word.
async fn read_all(run: u64, region: RemoteRegion<u64>) -> (u64, RegionError) {
    for count in 0.. {
        match region.read(..).await {
            Ok(words) => assert_eq!(words, [run; WORDS], "in run {run}"),
            Err(error) => return (count, error),
        }
    }
    unreachable!()
}

/// An owner is killed and started again under its name, over and over, while a reader has
/// references to memory of its runs. A read by one of an earlier run fails, at the end as one of
/// another run, and never brings the number that a later run has written there.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reference_never_reaches_the_memory_of_a_later_run() {
    let cases = std::env::var("RINGPOST_TEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let runs = cases.unwrap_or(RUNS);
    let judge = linked("judge", &[], Duration::from_secs(3)).await;
    let (mut chance, mut references) = (fastrand::Rng::with_seed(5), Vec::new());
    let (mut readers, mut met, mut reads) = (JoinSet::new(), [0, 0], 0);
    for run in 1..=runs {
        let owner = Process::start("owner", &judge.addresses()).await;
        let scene = Scene { judge: judge.clone(), owner, users: Vec::new() };
        let (_, region) = scene.vault("owner").await;
        within(region.write(0, &[run; WORDS])).await.unwrap();
        for old in &references {
            let error = within(read_all(0, RemoteRegion::clone(old))).await;
            assert_eq!(error, (0, RegionError::OtherRun("owner".into())), "in run {run}");
        }
        // They went on while their run was killed and this one started.
        while let Some(ended) = within(readers.join_next()).await {
            let (count, error) = ended.unwrap();
            let is_other_run = matches!(error, RegionError::OtherRun(_));
            assert!(is_other_run || matches!(error, RegionError::NodeDown { .. }), "{error}");
            met[usize::from(is_other_run)] += 1;
            reads += count;
        }
        references.push(region.clone());
        if references.len() > KEPT {
            references.swap_remove(chance.usize(..KEPT));
        }
        (0..4).for_each(|_| drop(readers.spawn(read_all(run, region.clone()))));
        tokio::time::sleep(Duration::from_millis(chance.u64(..30))).await;
        scene.owner.kill().await;
    }
    println!("{runs} runs, {reads} reads; readers found it down, and another run: {met:?}");
    readers.shutdown().await;
    judge.shutdown(Duration::from_secs(10)).await;
}

/// Memory is revoked while users are at work on it: operations under way end before the revocation
/// does.
async fn revoked_under_work(scene: &Scene) {
    let (vault, region) = scene.vault("owner2").await;
    // For users the owner is down until they are linked to its next run.
    for user in 0..MORTAL {
        let reaching = async {
            let user = scene.judge.actor::<VaultUser>(&format!("user{user}/user")).await.unwrap();
            user.reach("owner2/vault".into()).timeout(PATIENCE).await
        };
        assert_eq!(within(reaching).await, Ok(true));
    }
    let turns = scene.begin_endless(&vault, &region).await;
    assert!(within(async { vault.revoke().await }).await.unwrap());
    let words = words(&vault).await;
    let accounts = ended(turns, &RegionError::Revoked.to_string()).await;
    assert_eq!(self::words(&vault).await, words, "it is reached after the revocation");
    println!("{words:?} after {accounts:?}");
    let bounds = |counter: usize, accounts: &[Account]| {
        let done: u64 = accounts.iter().map(|account| account.done[counter]).sum();
        done..=done + accounts.iter().map(|account| account.unknown[counter]).sum::<u64>()
    };
    for (user, account) in (0..).zip(&accounts) {
        assert!(bounds(2, std::slice::from_ref(account)).contains(&words[own(user)]), "{user}");
    }
    for (counter, word) in [(0, SUM), (1, EXCHANGED)] {
        assert!(bounds(counter, &accounts).contains(&words[word]), "{counter}");
    }
}
