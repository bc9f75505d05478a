//! A handler that takes a `ReplyTo` does not answer itself: a task of the actor does, or another
//! actor. The actor handles other messages meanwhile.
//!
//! `cargo run --example delegated_reply` prints:
//!
//! ```text
//! opening hours: 9 to 5
//! from the stacks: Middlemarch
//! from the archive: Beowulf, in the hand of alpha/archivist
//! a `ReplyTo` that was dropped: the handler began and gave no answer, because ...
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;
use tokio::sync::oneshot;

#[actor]
struct Archivist;

#[handlers]
impl Archivist {
    #[handler]
    fn transcribe(&self, title: String, cx: &mut Context<Self>) -> String {
        format!("{title}, in the hand of {}", cx.actor().address())
    }
}

#[actor]
struct Librarian {
    archivist: ActorRef<Archivist>,
    /// Is ready when the stacks are open.
    stacks: Option<oneshot::Receiver<()>>,
}

#[handlers]
impl Librarian {
    /// `Fetch { title }` is a message as any other, and its asker gets a `String`.
    #[handler]
    fn fetch(&mut self, title: String, reply: ReplyTo<String>, cx: &mut Context<Self>) {
        // Where the stacks are fetched from already, `reply` is dropped unused.
        let Some(stacks) = self.stacks.take() else { return };
        cx.spawn_task(async move {
            if stacks.await.is_ok() {
                reply.send(title);
            }
        });
    }

    #[handler]
    fn fetch_old(&self, title: String, reply: ReplyTo<String>) {
        reply.forward(&self.archivist, Transcribe { title });
    }

    #[handler]
    fn opening_hours(&self) -> String {
        "9 to 5".into()
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let node = Node::builder("alpha").start().await?;
    let archivist = node.spawn("archivist", Archivist).await?;
    let (open, stacks) = oneshot::channel();
    let stacks = Some(stacks);
    let librarian = node.spawn("librarian", Librarian { archivist, stacks }).await?;

    // The stacks open only when the librarian has answered the second question.
    let ask_another = async {
        let hours = librarian.opening_hours().await;
        open.send(()).map_err(|()| "nothing is fetched from the stacks")?;
        Ok::<_, BoxError>(hours?)
    };
    let (book, hours) = tokio::join!(librarian.fetch("Middlemarch".into()), ask_another);
    println!("opening hours: {}", hours?);
    println!("from the stacks: {}", book?);

    println!("from the archive: {}", librarian.fetch_old("Beowulf".into()).await?);
    let dropped = librarian.fetch("Emma".into()).await;
    println!("a `ReplyTo` that was dropped: {}", dropped.err().ok_or("it was answered")?);

    node.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
