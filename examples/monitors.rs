//! An actor watches actors of another node, over TCP, and is told how each of them ended: after the
//! last message that it got from it.
//!
//! `cargo run --example monitors` prints, beside the report of the panic:
//!
//! ```text
//! wall 1 is painted
//! wall 2 is painted
//! beta/ada has ended: it stopped
//! wall 1 is painted
//! wall 2 is painted
//! beta/bob has ended: it panicked: the ladder fell
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;
use tokio::sync::mpsc;

#[actor]
struct Painter {
    ladder_holds: bool,
}

#[handlers]
impl Painter {
    #[handler]
    async fn paint(&self, foreman: ActorRef<Foreman>, cx: &mut Context<Self>) {
        for wall in 1..=2 {
            drop(foreman.tell(Painted { wall }).await);
        }
        assert!(self.ladder_holds, "the ladder fell");
        cx.stop();
    }
}

#[actor]
struct Foreman {
    painted: u64,
    /// Receives how many walls each painter has painted, and how that painter ended.
    ends: mpsc::UnboundedSender<(u64, ActorExit)>,
}

#[handlers]
impl Foreman {
    #[handler]
    async fn hire(&mut self, painter: ActorRef<Painter>, cx: &mut Context<Self>) {
        self.painted = 0;
        cx.watch(&painter);
        // Of a painter that cannot be told, `Down` says why.
        drop(painter.tell(Paint { foreman: cx.actor().clone() }).await);
    }

    #[handler]
    fn painted(&mut self, wall: u64) {
        println!("wall {wall} is painted");
        self.painted += 1;
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        println!("{} has ended: {}", msg.actor, msg.exit);
        drop(self.ends.send((self.painted, msg.exit)));
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let alpha = Node::builder("alpha").listen("127.0.0.1:0").start().await?;
    let beta = Node::builder("beta").listen("127.0.0.1:0").seeds(alpha.addresses()).start().await?;
    let (ends, mut ended) = mpsc::unbounded_channel();
    let foreman = alpha.spawn("foreman", Foreman { painted: 0, ends }).await?;
    beta.spawn("ada", Painter { ladder_holds: true }).await?;
    beta.spawn("bob", Painter { ladder_holds: false }).await?;
    alpha.ready(1).await?;

    let fell = ActorExit::Panicked("the ladder fell".into());
    for (painter, exit) in [("beta/ada", ActorExit::Stopped), ("beta/bob", fell)] {
        let painter: ActorRef<Painter> = alpha.actor(painter).await?;
        foreman.hire(painter).await?;
        if ended.recv().await != Some((2, exit)) {
            return Err("a painter did not end as it should after its second wall".into());
        }
    }

    beta.shutdown(Duration::from_secs(5)).await;
    alpha.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
