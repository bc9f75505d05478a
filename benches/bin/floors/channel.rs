//! A task that takes from a bounded channel of tokio, and answers through a oneshot channel.

use ringpost_benches::{Failure, Local};
use tokio::sync::{mpsc, oneshot};

/// Most messages that may wait, as many as in a mailbox of Ringpost.
const CAPACITY: usize = 1024;

enum Message {
    Tell(u64),
    Ask(u64, oneshot::Sender<u64>),
    Handled(oneshot::Sender<u64>),
}

/// The sending end.
#[derive(Clone)]
pub(crate) struct Channel(mpsc::Sender<Message>);

impl Channel {
    async fn ask(&self, message: Message, answer: oneshot::Receiver<u64>) -> Result<u64, Failure> {
        self.0.send(message).await.map_err(Failure::of)?;
        answer.await.map_err(Failure::of)
    }
}

impl Local for Channel {
    async fn start() -> Result<Self, Failure> {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        tokio::spawn(handle(receiver));
        Ok(Channel(sender))
    }

    async fn ask(&self, number: u64) -> Result<u64, Failure> {
        let (sender, receiver) = oneshot::channel();
        Channel::ask(self, Message::Ask(number, sender), receiver).await
    }

    async fn tell(&self, number: u64) -> Result<(), Failure> {
        self.0.send(Message::Tell(number)).await.map_err(Failure::of)
    }

    async fn handled(&self) -> Result<u64, Failure> {
        let (sender, receiver) = oneshot::channel();
        Channel::ask(self, Message::Handled(sender), receiver).await
    }
}

async fn handle(mut messages: mpsc::Receiver<Message>) {
    let mut handled = 0;
    while let Some(message) = messages.recv().await {
        // An asker that is gone needs no answer.
        match message {
            Message::Tell(number) => handled += u64::from(number < u64::MAX),
            Message::Ask(number, asker) => drop(asker.send(number)),
            Message::Handled(asker) => drop(asker.send(handled)),
        }
    }
}
