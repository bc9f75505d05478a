//! A bounded mailbox: `try_tell` says when it is full, `tell` waits for room.
//!
//! `cargo run --example backpressure` prints:
//!
//! ```text
//! page 3 is not taken: the mailbox is full: try again later; `tell` waits for room, except in
//! an actor that tells itself
//! page 3 waits, and here is some paper
//! printed page 1
//! printed page 2
//! printed page 3
//! ```
#![deny(warnings)]

use std::sync::Arc;
use std::time::Duration;

use ringpost::prelude::*;
use tokio::sync::Semaphore;

#[actor]
struct Printer {
    paper: Arc<Semaphore>,
}

#[handlers]
impl Printer {
    #[handler]
    async fn print(&self, page: u32) {
        // Without paper the printer is busy, and its mailbox fills.
        if let Ok(sheet) = self.paper.acquire().await {
            sheet.forget();
            println!("printed page {page}");
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let paper = Arc::new(Semaphore::new(0));
    let node = Node::builder("alpha").mailbox_capacity(2).start().await?;
    let printer = node.spawn("printer", Printer { paper: paper.clone() }).await?;

    printer.try_tell(Print { page: 1 })?;
    printer.try_tell(Print { page: 2 })?;
    let Err(refused) = printer.try_tell(Print { page: 3 }) else { return Err("it fits".into()) };
    println!("page {} is not taken: {}", refused.message.page, refused.cause);

    // The message came back with the error; now its sender waits as long as the printer does.
    let more_paper = async {
        println!("page 3 waits, and here is some paper");
        paper.add_permits(3);
    };
    let (told, ()) = tokio::join!(printer.tell(refused.message), more_paper);
    told?;

    node.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
