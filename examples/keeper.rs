//! A supervisor of one node keeps an actor of another one: a keeper, its child, has the actor
//! spawned there over TCP, and fails when that fails. Then the supervisor restarts the keeper.
//!
//! `cargo run --example keeper` prints:
//!
//! ```text
//! beta/sum is 5
//! beta/sum was killed, and made anew: it is 1
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::spawn::{Child, Offered, Restart, Strategy, Supervisor};

/// An actor that a supervisor of another node keeps.
struct Sum {
    keeper: ActorRef<Keeper>,
    sum: u64,
}

#[actor]
impl Actor for Sum {
    /// Links this actor and its keeper: if one fails, so does the other, even if the two nodes lose
    /// each other or the answer to the spawn is lost. So no sum is left without a keeper.
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        cx.link(&self.keeper);
        Ok(())
    }
}

#[handlers]
impl Sum {
    #[handler]
    fn add(&mut self, amount: u64) -> u64 {
        self.sum += amount;
        self.sum
    }
}

impl Offered for Sum {
    type Arguments = ActorRef<Keeper>;

    fn create(keeper: ActorRef<Keeper>) -> Result<Self, BoxError> {
        Ok(Sum { keeper, sum: 0 })
    }
}

/// The child of a supervisor that stands for the sum on beta: whenever it is restarted, it spawns a
/// new sum.
#[derive(Default)]
struct Keeper {
    sum: Option<ActorRef<Sum>>,
}

#[actor]
impl Actor for Keeper {
    /// An error is a failure like others, and tried again after the pause of `Restart`: while beta
    /// is not linked, and while the last sum has not ended yet (`NameTaken`).
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let spawn = cx.node().peer("beta").spawn("sum", cx.actor().clone());
        self.sum = Some(spawn.await?);
        Ok(())
    }

    /// A link tells of failures only.
    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        if let Some(sum) = &self.sum {
            sum.stop().await.ok();
        }
    }
}

#[handlers]
impl Keeper {}

/// Makes a supervisor of alpha keep the sum on beta, which is killed once.
async fn keep(alpha: &Node, beta: &Node) -> Result<(), BoxError> {
    beta.offer::<Sum>()?;
    let pause = Duration::from_millis(10);
    // Each attempt while beta is not linked counts: enough for ten minutes of a node that is away.
    let restart = Restart::on_failure().at_most(600, Duration::from_secs(600));
    let restart = restart.backoff(pause, Duration::from_secs(5));
    let keeper = Child::new(Keeper::default).named("keeper").restart(restart);
    let keepers = Supervisor::new(Strategy::OneForOne).child(keeper);
    let keepers = alpha.spawn("keepers", keepers).await?;
    // Follows the name: after a restart the sum is another actor.
    let sum: ActorRef<Sum> = alpha.named("beta/sum")?;
    sum.add(2).await?;
    println!("beta/sum is {}", sum.add(3).await?);
    alpha.actor::<Sum>("beta/sum").await?.kill().await?;
    // An ask that may have been handled is not repeated.
    let anew = loop {
        match sum.add(1).await {
            Ok(sum) => break sum,
            Err(error) if error.is_retryable() => tokio::time::sleep(pause).await,
            Err(error) => return Err(error.into()),
        }
    };
    println!("beta/sum was killed, and made anew: it is {anew}");
    keepers.stop().await?;
    keepers.wait_stopped().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let alpha = Node::builder("alpha").listen("127.0.0.1:0").start().await?;
    let beta = Node::builder("beta").listen("127.0.0.1:0").seeds(alpha.addresses()).start().await?;
    alpha.ready(1).await?;
    keep(&alpha, &beta).await?;
    beta.shutdown(Duration::from_secs(5)).await;
    alpha.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
