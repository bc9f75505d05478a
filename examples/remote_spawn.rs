//! A node offers a type of actors, and another node spawns actors of it there over TCP. The actor
//! that spawns them watches them from before they run.
//!
//! `cargo run --example remote_spawn` prints:
//!
//! ```text
//! beta/even counts 50
//! beta/even has ended: it stopped
//! beta/odd counts 50
//! beta/odd has ended: it stopped
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::spawn::Offered;
use tokio::sync::mpsc;

#[actor]
struct Counter {
    rest: u64,
}

#[handlers]
impl Counter {
    #[handler]
    fn count(&self, up_to: u64, cx: &mut Context<Self>) -> u64 {
        cx.stop();
        (0..up_to).filter(|number| number % 2 == self.rest).count() as u64
    }
}

impl Offered for Counter {
    type Arguments = u64;

    fn create(rest: u64) -> Result<Self, BoxError> {
        Ok(Counter { rest })
    }
}

#[actor]
struct Foreman {
    ends: mpsc::UnboundedSender<Down>,
}

#[handlers]
impl Foreman {
    #[handler]
    async fn employ(&self, name: String, rest: u64, cx: &mut Context<Self>) -> Result<u64, String> {
        let beta = cx.node().peer("beta");
        let counter = beta.spawn::<Counter>(name, rest).watched_by(cx).await;
        let counter = counter.map_err(|error| error.to_string())?;
        counter.count(100).await.map_err(|error| error.to_string())
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        drop(self.ends.send(msg));
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let alpha = Node::builder("alpha").listen("127.0.0.1:0").start().await?;
    let beta = Node::builder("beta").listen("127.0.0.1:0").seeds(alpha.addresses()).start().await?;
    beta.offer::<Counter>()?;
    alpha.ready(1).await?;
    let (ends, mut ended) = mpsc::unbounded_channel();
    let foreman = alpha.spawn("foreman", Foreman { ends }).await?;
    for (name, rest) in [("even", 0), ("odd", 1)] {
        println!("beta/{name} counts {}", foreman.employ(name.into(), rest).await??);
        let down = ended.recv().await.ok_or("the foreman has gone")?;
        println!("{} has ended: {}", down.actor, down.exit);
    }
    beta.shutdown(Duration::from_secs(5)).await;
    alpha.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
