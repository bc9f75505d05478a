//! Asks an actor and waits for its answer, in five ways.
//!
//! `cargo run --example ask` prints:
//!
//! ```text
//! ask: 3
//! client: 5
//! the handler's own error: Err("there is no square root of -1")
//! time-out: no answer came in time: the message may have been handled, or may be later; ...
//! asked again until it was there: 4
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;
use tokio::time::sleep;

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

/// Asks again where that can help, and never has the message handled twice.
async fn patient_root(calculator: &ActorRef<Calculator>, of: i64) -> Result<u64, BoxError> {
    let mut pause = Duration::from_millis(10);
    loop {
        match calculator.root(of).await {
            Err(error) if error.is_retryable() && pause < Duration::from_secs(1) => {
                sleep(pause).await;
                pause *= 2;
            }
            answer => return Ok(answer??),
        }
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
    calculator.wait_stopped().await;

    // By name a reference leads to the next actor that has it, too.
    let next = node.named::<Calculator>("alpha/calculator")?;
    let later = async {
        sleep(Duration::from_millis(50)).await;
        node.spawn("calculator", Calculator).await
    };
    let (root, spawned) = tokio::join!(patient_root(&next, 16), later);
    spawned?;
    println!("asked again until it was there: {}", root?);

    node.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
