//! A supervisor on one node, and what answers for it to an actor of another: the recipe of the
//! example `remote_spawn`.

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::spawn::{Child, Offered, Restart, Strategy, Supervisor};
use ringpost::test_kit::{self, Cluster};

const SECOND: Duration = Duration::from_secs(1);

/// An actor that is spawned on another node, and fails with the keeper that has it.
struct Counter {
    keeper: ActorRef<Keeper>,
    count: u64,
}

#[actor]
impl Actor for Counter {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        cx.link(&self.keeper);
        Ok(())
    }
}

#[handlers]
impl Counter {
    #[handler]
    fn add(&mut self, amount: u64) -> u64 {
        self.count += amount;
        self.count
    }

    #[handler]
    fn fail(&mut self) {
        panic!("as it was told")
    }
}

impl Offered for Counter {
    type Arguments = ActorRef<Keeper>;

    fn create(keeper: ActorRef<Keeper>) -> Result<Self, BoxError> {
        Ok(Counter { keeper, count: 0 })
    }
}

/// A child of a supervisor that has a counter on beta: it fails with that, and ends it.
#[derive(Default)]
struct Keeper {
    counter: Option<ActorRef<Counter>>,
}

#[actor]
impl Actor for Keeper {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let spawn = cx.node().peer("beta").spawn("counter", cx.actor().clone());
        self.counter = Some(spawn.await?);
        Ok(())
    }

    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        if let Some(counter) = &self.counter {
            drop(counter.stop().await);
        }
    }
}

#[handlers]
impl Keeper {}

/// Makes a supervisor keep a counter on beta.
async fn kept(cluster: &Cluster) -> ([Node; 2], ActorRef<Supervisor>) {
    let [alpha, beta] = [cluster.node("alpha").await, cluster.node("beta").await];
    beta.offer::<Counter>().unwrap();
    let restart = Restart::on_failure().at_most(1_000, 60 * SECOND).backoff(SECOND, 5 * SECOND);
    let keeper = Child::new(Keeper::default).named("keeper").restart(restart);
    let keepers = Supervisor::new(Strategy::OneForOne).child(keeper);
    let keepers = alpha.spawn("keepers", keepers).await.unwrap();
    ([alpha, beta], keepers)
}

/// Adds until a new counter answers: it begins at zero.
async fn until_new(cluster: &Cluster, node: &Node) {
    let counter: ActorRef<Counter> = node.named("beta/counter").unwrap();
    while counter.add(1).await != Ok(1) {
        cluster.sleep(SECOND / 10).await;
    }
}

/// Waits until beta has no counter.
async fn until_none(cluster: &Cluster, beta: &Node) {
    while beta.actor::<Counter>("counter").await.is_ok() {
        cluster.sleep(SECOND / 10).await;
    }
}

// Promised in docs/SEMANTICS.md.
#[test]
fn an_actor_of_another_node_is_restarted_by_the_supervisor_of_its_keeper() {
    test_kit::check(0..8, |cluster| async move {
        let ([alpha, beta], keepers) = kept(&cluster).await;
        until_new(&cluster, &alpha).await;
        let counter = alpha.actor::<Counter>("beta/counter").await.unwrap();
        counter.fail().await.unwrap_err();
        until_new(&cluster, &alpha).await;
        // The link is lost, and each side takes the other for down.
        cluster.cut("alpha", "beta");
        cluster.sleep(30 * SECOND).await;
        cluster.mend("alpha", "beta");
        until_new(&cluster, &alpha).await;
        // Its node comes back without it.
        drop(beta);
        let beta = cluster.restart("beta").await;
        beta.offer::<Counter>().unwrap();
        until_new(&cluster, &alpha).await;
        // It ends with the supervisor.
        keepers.stop().await.unwrap();
        keepers.wait_stopped().await;
        until_none(&cluster, &beta).await;
    });
}

#[test]
fn an_actor_of_another_node_ends_when_the_node_of_its_keeper_is_lost() {
    test_kit::check(0..8, |cluster| async move {
        let ([alpha, beta], _) = kept(&cluster).await;
        drop(alpha);
        cluster.sleep_up_to(SECOND).await;
        cluster.kill("alpha").await;
        until_none(&cluster, &beta).await;
    });
}
