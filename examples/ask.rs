//! Asks an actor and waits for its answer, in four ways.
//!
//! `cargo run --example ask` prints:
//!
//! ```text
//! ask: 3
//! client: 5
//! the handler's own error: Err("there is no square root of -1")
//! time-out: no answer came in time: the message may have been handled, or may be later; ...
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;

#[actor]
struct Calculator;

#[handlers]
impl Calculator {
    /// Its parameters are the message `Root { of }`; its result is the reply.
    #[handler]
    fn root(&self, of: i64) -> Result<u64, String> {
        let negative = || format!("there is no square root of {of}");
        Ok(u64::try_from(of).map_err(|_| negative())?.isqrt())
    }

    #[handler]
    async fn think(&self) {
        std::future::pending().await
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let node = Node::builder("alpha").start().await?;
    let calculator = node.spawn("calculator", Calculator).await?;

    println!("ask: {}", calculator.ask(Root { of: 9 }).await??);
    println!("client: {}", calculator.root(25).await??);
    println!("the handler's own error: {:?}", calculator.root(-1).await?);

    let late = calculator.think().timeout(Duration::from_millis(100)).await;
    println!("time-out: {}", late.err().ok_or("it has thought of something")?);

    calculator.kill().await?;
    node.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
