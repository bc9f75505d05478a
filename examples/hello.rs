//! Spawns an actor and tells it something.
//!
//! `cargo run --example hello` prints:
//!
//! ```text
//! hello, ada
//! hello, grace
//! greeted 2 people
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;

#[message]
struct Greet {
    name: String,
}

#[actor]
#[derive(Default)]
struct Greeter {
    greeted: u64,
}

#[handlers]
impl Greeter {
    /// A parameter called `msg` is the message.
    #[handler]
    fn greet(&mut self, msg: Greet) {
        println!("hello, {}", msg.name);
        self.greeted += 1;
    }
}

impl Drop for Greeter {
    fn drop(&mut self) {
        println!("greeted {} people", self.greeted);
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let node = Node::builder("alpha").start().await?;
    let greeter = node.spawn("greeter", Greeter::default()).await?;
    for name in ["ada", "grace"] {
        greeter.tell(Greet { name: name.into() }).await?;
    }
    // The actor handles all earlier messages before it ends.
    greeter.drain().await?;
    greeter.wait_stopped().await;
    node.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
