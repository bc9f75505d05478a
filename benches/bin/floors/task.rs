//! Tasks of tokio, each with a bounded channel, which answer through oneshot channels.

use ringpost_benches::Failure;
use ringpost_benches::system::{Behavior, System, Then, or_exit};
use tokio::sync::{mpsc, oneshot};

/// Most messages that may wait, as many as in a mailbox of Ringpost.
const CAPACITY: usize = 1024;

/// The contestant.
#[derive(Clone)]
pub(crate) struct Tasks;

pub(crate) enum Message<B: Behavior> {
    Tell(B::Tell),
    Ask(B::Question, oneshot::Sender<B::Answer>),
}

impl System for Tasks {
    type Ref<B: Behavior> = mpsc::Sender<Message<B>>;

    async fn start() -> Result<Self, Failure> {
        Ok(Tasks)
    }

    async fn spawn<B: Behavior>(&self, behavior: B) -> Result<Self::Ref<B>, Failure> {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        tokio::spawn(handle(behavior, receiver));
        Ok(sender)
    }

    async fn tell<B: Behavior>(to: &Self::Ref<B>, message: B::Tell) -> Result<(), Failure> {
        to.send(Message::Tell(message)).await.map_err(Failure::of)
    }

    async fn ask<B: Behavior>(
        to: &Self::Ref<B>,
        question: B::Question,
    ) -> Result<B::Answer, Failure> {
        let (asker, answer) = oneshot::channel();
        to.send(Message::Ask(question, asker)).await.map_err(Failure::of)?;
        answer.await.map_err(Failure::of)
    }

    fn stop<B: Behavior>(actor: Self::Ref<B>) {
        drop(actor);
    }
}

async fn handle<B: Behavior>(mut behavior: B, mut messages: mpsc::Receiver<Message<B>>) {
    while let Some(message) = messages.recv().await {
        match message {
            Message::Tell(message) => {
                if or_exit(behavior.told(message).await) == Then::End {
                    return;
                }
            }
            Message::Ask(question, asker) => {
                // An asker that is gone needs no answer.
                drop(asker.send(or_exit(behavior.asked(question).await)));
            }
        }
    }
}
