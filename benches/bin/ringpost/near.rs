//! Ringpost within a process: a node with actors whose handlers run the behaviors.

use ringpost::Local;
use ringpost::prelude::*;
use ringpost::spawn::{Child, SpawnError};
use ringpost_benches::system::{Family, Then, at_once, or_exit};
use ringpost_benches::{Behavior, Failure, System};

use super::{PATIENCE, of};

/// A message without an answer.
#[message(local)]
pub(crate) struct Told<M> {
    message: M,
}

/// A message without an answer whose handler waits.
#[message(local)]
pub(crate) struct Waiting<M> {
    message: M,
}

/// A message with an answer.
#[message(local)]
pub(crate) struct Asked<M> {
    question: M,
}

/// An actor with a behavior.
#[actor]
pub(crate) struct Behaving<B>(B);

#[handlers]
impl<B: Behavior> Behaving<B> {
    #[handler]
    fn told(&mut self, msg: Told<B::Tell>, cx: &mut Context<Self>) {
        if or_exit(at_once(self.0.told(msg.message))) == Then::End {
            cx.stop();
        }
    }

    #[handler]
    async fn told_to_wait(&mut self, msg: Waiting<B::Tell>, cx: &mut Context<Self>) {
        if or_exit(self.0.told(msg.message).await) == Then::End {
            cx.stop();
        }
    }

    #[handler]
    fn asked(&mut self, msg: Asked<B::Question>) -> Local<B::Answer> {
        Local(or_exit(at_once(self.0.asked(msg.question))))
    }
}

/// An actor with children.
#[actor]
pub(crate) struct Parent<B: Behavior> {
    child: Child<Behaving<B>>,
}

/// Children that a parent spawns before it answers.
const AT_ONCE: usize = 10_000;

#[handlers]
impl<B: Behavior> Parent<B> {
    #[handler]
    async fn found(
        &mut self,
        msg: Found,
        cx: &mut Context<Self>,
    ) -> Local<Result<Vec<ActorRef<Behaving<B>>>, SpawnError>> {
        let mut children = Vec::with_capacity(msg.children);
        for _ in 0..msg.children {
            match cx.spawn(self.child.clone()).await {
                Ok(child) => children.push(child),
                Err(error) => return Local(Err(error)),
            }
        }
        Local(Ok(children))
    }
}

/// An order to a parent to spawn children.
#[message(local)]
pub(crate) struct Found {
    children: usize,
}

/// The contestant.
#[derive(Clone)]
pub(crate) struct Near(Node);

impl System for Near {
    type Ref<B: Behavior> = ActorRef<Behaving<B>>;

    async fn start() -> Result<Self, Failure> {
        Node::builder("alone").start().await.map(Near).map_err(Failure::of)
    }

    async fn spawn<B: Behavior>(&self, behavior: B) -> Result<Self::Ref<B>, Failure> {
        self.0.spawn_anonymous(Behaving(behavior)).await.map_err(Failure::of)
    }

    async fn supervise<B: Behavior>(
        &self,
        count: usize,
        make: impl Fn() -> B + Send + Sync + 'static,
    ) -> Result<Family, Failure> {
        let child = Child::new(move || Behaving(make()));
        let parent = self.0.spawn_anonymous(Parent { child }).await.map_err(Failure::of)?;
        let mut actors = Vec::with_capacity(count);
        while actors.len() < count {
            let children = AT_ONCE.min(count - actors.len());
            let found = parent.ask(Found { children }).timeout(PATIENCE).await.map_err(of)?;
            actors.extend(found.0.map_err(Failure::of)?);
        }
        Ok(Family::new(move || {
            drop(actors);
            // It has not ended.
            drop(parent.request_stop());
        }))
    }

    async fn tell<B: Behavior>(to: &Self::Ref<B>, message: B::Tell) -> Result<(), Failure> {
        let told = if B::WAITS {
            to.tell(Waiting { message }).await.map_err(|error| error.without_message())
        } else {
            to.tell(Told { message }).await.map_err(|error| error.without_message())
        };
        told.map_err(of)
    }

    async fn ask<B: Behavior>(
        to: &Self::Ref<B>,
        question: B::Question,
    ) -> Result<B::Answer, Failure> {
        Ok(to.ask(Asked { question }).await.map_err(of)?.0)
    }

    fn stop<B: Behavior>(actor: Self::Ref<B>) {
        // An actor that has ended needs no stop.
        drop(actor.request_stop());
    }
}
