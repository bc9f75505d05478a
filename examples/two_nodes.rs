//! Two nodes, here in one process, over TCP: a remote actor is used like a local one, and a
//! reference inside a message works wherever it arrives.
//!
//! `cargo run --example two_nodes` prints:
//!
//! ```text
//! alpha/pupil learns on alpha: a message keeps its type on the way
//! beta/teacher has 1 pupil
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;

#[actor]
struct Pupil;

#[handlers]
impl Pupil {
    #[handler]
    fn learn(&self, text: String, cx: &mut Context<Self>) {
        println!("alpha/pupil learns on {}: {text}", cx.node().name());
    }
}

#[actor]
#[derive(Default)]
struct Teacher {
    pupils: u64,
}

#[handlers]
impl Teacher {
    /// The reference leads back to the node it came from.
    #[handler]
    async fn teach(&mut self, pupil: ActorRef<Pupil>) -> Result<u64, String> {
        let text = "a message keeps its type on the way".into();
        pupil.learn(text).await.map_err(|e| e.to_string())?;
        self.pupils += 1;
        Ok(self.pupils)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let alpha = Node::builder("alpha").listen("127.0.0.1:0").start().await?;
    let beta = Node::builder("beta").listen("127.0.0.1:0").seeds(alpha.addresses()).start().await?;
    let pupil = alpha.spawn("pupil", Pupil).await?;
    beta.spawn("teacher", Teacher::default()).await?;
    alpha.ready(1).await?;

    let teacher: ActorRef<Teacher> = alpha.actor("beta/teacher").await?;
    println!("beta/teacher has {} pupil", teacher.teach(pupil).await??);

    beta.shutdown(Duration::from_secs(5)).await;
    alpha.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
