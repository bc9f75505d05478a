//! A supervisor restarts a child that panics, and here also the children that it started after it.
//!
//! `cargo run --example supervision` prints, beside the report of the panic:
//!
//! ```text
//! alpha/reader starts
//! alpha/parser starts
//! alpha/writer starts
//! handled: reader 1, parser 1, writer 1
//! alpha/parser starts
//! alpha/writer starts
//! handled: reader 2, parser 1, writer 1
//! the asker of the line that was in hand: the handler began and gave no answer, because ...
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::spawn::{Child, Strategy, Supervisor};

#[derive(Default)]
struct Stage {
    handled: u64,
}

#[actor]
impl Actor for Stage {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        println!("{} starts", cx.actor().address());
        Ok(())
    }
}

#[handlers]
impl Stage {
    /// Returns how many lines this incarnation has handled.
    #[handler]
    fn handle(&mut self, line: String) -> u64 {
        assert!(!line.contains('\0'), "there is a zero byte in the line");
        self.handled += 1;
        self.handled
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let node = Node::builder("alpha").start().await?;
    // Each stage depends on those before it: when one fails, the later ones are restarted, too.
    let pipeline = Supervisor::new(Strategy::RestForOne)
        .child(Child::new(Stage::default).named("reader"))
        .child(Child::new(Stage::default).named("parser"))
        .child(Child::new(Stage::default).named("writer"));
    node.spawn("pipeline", pipeline).await?;
    let reader: ActorRef<Stage> = node.actor("reader").await?;
    let parser: ActorRef<Stage> = node.actor("parser").await?;
    let writer: ActorRef<Stage> = node.actor("writer").await?;

    let handle_one_each = async || -> Result<[u64; 3], BoxError> {
        let line = || "one line".to_owned();
        let handled = [
            reader.handle(line()).await?,
            parser.handle(line()).await?,
            writer.handle(line()).await?,
        ];
        println!("handled: reader {}, parser {}, writer {}", handled[0], handled[1], handled[2]);
        Ok(handled)
    };
    handle_one_each().await?;
    let panicked = parser.handle("\0".into()).await;
    // The references lead to the new incarnations, whose state is new.
    if handle_one_each().await? != [2, 1, 1] {
        return Err("not exactly the parser and the writer are new".into());
    }
    let error = panicked.err().ok_or("a zero byte was parsed")?;
    println!("the asker of the line that was in hand: {error}");

    node.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
