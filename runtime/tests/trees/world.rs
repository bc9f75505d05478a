//! The actors of a tree, and what can be seen of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use ringpost::Handlers;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart, SpawnError, Supervisor};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::model::{Entry, Event};
use super::plan::{Order, Recipe, Type, WINDOW, When};

/// The events of the actors of one tree, in order, and their times.
type Diary = Arc<Mutex<Vec<(usize, Event, Instant)>>>;

/// Fails on request.
struct Worker {
    number: usize,
    diary: Diary,
    bad_starts: Arc<AtomicU64>,
    wake: Arc<Notify>,
}

impl Worker {
    fn note(&self, event: Event) {
        self.diary.lock().push((self.number, event, Instant::now()));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.note(Event::Dropped);
    }
}

#[actor]
impl Actor for Worker {
    async fn on_start(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        let left = |bad: u64| bad.checked_sub(1);
        if self.bad_starts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok() {
            self.note(Event::CouldNotStart);
            return Err("no luck".into());
        }
        self.note(Event::Started);
        Ok(())
    }

    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        self.note(Event::Stopped);
    }
}

#[handlers]
impl Worker {
    /// Panics, without what a panic writes to the terminal.
    #[handler]
    fn panic(&mut self) {
        std::panic::resume_unwind(Box::new("boom"));
    }

    #[handler]
    async fn wait_and_panic(&mut self) {
        self.wake.notified().await;
        std::panic::resume_unwind(Box::new("boom"));
    }
}

/// A reference to an actor of a tree.
#[derive(Clone, PartialEq)]
enum AnyRef {
    Worker(ActorRef<Worker>),
    Supervisor(ActorRef<Supervisor>),
}

impl AnyRef {
    async fn stop(&self) {
        match self {
            AnyRef::Worker(actor) => actor.stop().await.unwrap(),
            AnyRef::Supervisor(actor) => actor.stop().await.unwrap(),
        }
    }

    async fn drain(&self) {
        match self {
            AnyRef::Worker(actor) => actor.drain().await.unwrap(),
            AnyRef::Supervisor(actor) => actor.drain().await.unwrap(),
        }
    }

    async fn kill(&self) {
        match self {
            AnyRef::Worker(actor) => actor.kill().await.unwrap(),
            AnyRef::Supervisor(actor) => actor.kill().await.unwrap(),
        }
    }

    /// Returns how it ended, if it has.
    fn exit(&self) -> Option<ActorExit> {
        match self {
            AnyRef::Worker(actor) => actor.wait_stopped().now_or_never(),
            AnyRef::Supervisor(actor) => actor.wait_stopped().now_or_never(),
        }
    }
}

pub struct World<'a> {
    node: &'a Node,
    tree: &'a [Recipe],
    pub begun: Instant,
    diary: Diary,
    bad_starts: Vec<Arc<AtomicU64>>,
    wake: Arc<Notify>,
    /// The actors that were found, by name, each with how many had its name before.
    found: Vec<Option<(AnyRef, usize)>>,
}

impl<'a> World<'a> {
    pub fn new(node: &'a Node, tree: &'a [Recipe]) -> Self {
        let bad_starts = |recipe: &Recipe| Arc::new(AtomicU64::new(recipe.bad_starts));
        World {
            node,
            tree,
            begun: Instant::now(),
            diary: Diary::default(),
            bad_starts: tree.iter().map(bad_starts).collect(),
            wake: Arc::default(),
            found: vec![None; tree.len()],
        }
    }

    /// Spawns the root on the node; with it start all others.
    pub async fn start(&self) -> Result<(), SpawnError> {
        let root = self.child(0, self.supervisor(0));
        self.node.supervise(root).await.map(drop)
    }

    fn supervisor(&self, at: usize) -> impl Fn() -> Supervisor + Send + Sync + 'static {
        let Type::Supervisor(strategy) = self.tree[at].is else { panic!("a worker") };
        let mut template = Supervisor::new(strategy);
        for child in (0..self.tree.len()).filter(|child| self.tree[*child].parent == Some(at)) {
            template = match self.tree[child].is {
                Type::Worker => template.child(self.child(child, self.worker(child))),
                Type::Supervisor(_) => template.child(self.child(child, self.supervisor(child))),
            };
        }
        move || template.clone()
    }

    fn worker(&self, number: usize) -> impl Fn() -> Worker + Send + Sync + 'static {
        let (diary, wake) = (self.diary.clone(), self.wake.clone());
        let bad_starts = self.bad_starts[number].clone();
        move || {
            let (diary, wake) = (diary.clone(), wake.clone());
            Worker { number, diary, bad_starts: bad_starts.clone(), wake }
        }
    }

    fn child<A: Handlers>(
        &self,
        number: usize,
        make: impl Fn() -> A + Send + Sync + 'static,
    ) -> Child<A> {
        let Recipe { name, when, most, pause, .. } = &self.tree[number];
        let restart = match when {
            When::Never => Restart::never(),
            When::OnFailure => Restart::on_failure(),
            When::Always => Restart::always(),
        };
        let restart = restart.at_most(*most, Duration::from_millis(WINDOW));
        let pause = Duration::from_millis(*pause);
        let diary = self.diary.clone();
        let make = move || {
            diary.lock().push((number, Event::Made, Instant::now()));
            make()
        };
        Child::new(make).named(name).restart(restart.backoff(pause, pause))
    }

    pub fn have_bad_starts(&self, number: usize, count: u64) {
        self.bad_starts[number].store(count, Ordering::SeqCst);
    }

    /// Does something to an actor that lives.
    pub async fn order(&self, order: Order, number: usize) {
        let (actor, _) = self.found[number].as_ref().expect("the model has it live");
        match order {
            // An actor that was stopped or drained while it rests may refuse it.
            Order::Panic => drop(self.found_worker(number).tell(Panic).await),
            Order::Kill => actor.kill().await,
            Order::Stop => actor.stop().await,
            Order::Drain => actor.drain().await,
            Order::StopAndKill => {
                actor.stop().await;
                actor.kill().await;
            }
            Order::StopThenKill | Order::StopThenPanic => {
                self.found_worker(number).tell(WaitAndPanic).await.unwrap();
                // Until it waits: all tasks have their turns before the clock goes on.
                tokio::time::sleep(Duration::from_millis(1)).await;
                actor.stop().await;
                match order {
                    Order::StopThenKill => actor.kill().await,
                    _ => self.wake.notify_waiters(),
                }
            }
        }
    }

    /// Returns a worker that lives.
    fn found_worker(&self, number: usize) -> &ActorRef<Worker> {
        let Some((AnyRef::Worker(worker), _)) = &self.found[number] else { panic!("no worker") };
        worker
    }

    /// Takes the entries since the last time.
    pub fn take_diary(&self) -> Vec<Entry> {
        let entry = |(actor, event, at): (usize, Event, Instant)| {
            let at = at.duration_since(self.begun).as_millis();
            Entry { actor, event, at: u64::try_from(at).unwrap() }
        };
        std::mem::take(&mut *self.diary.lock()).into_iter().map(entry).collect()
    }

    /// Compares the actors that have and had a name with the model's.
    pub async fn compare(
        &mut self,
        number: usize,
        actors: &[Option<ActorExit>],
    ) -> Result<(), String> {
        let name = &self.tree[number].name;
        let there = match self.tree[number].is {
            Type::Worker => self.node.actor::<Worker>(name).await.ok().map(AnyRef::Worker),
            _ => self.node.actor::<Supervisor>(name).await.ok().map(AnyRef::Supervisor),
        };
        let lives = actors.last().is_some_and(Option::is_none);
        if there.is_some() != lives {
            return Err(format!("{name} lives: {}, by the model: {lives}", there.is_some()));
        }
        if let Some((known, at)) = &self.found[number] {
            let (exit, expected) = (known.exit(), &actors[*at]);
            if exit != *expected {
                return Err(format!("{name} ended as {exit:?}, by the model: {expected:?}"));
            }
            if lives && (there.as_ref() == Some(known)) != (at + 1 == actors.len()) {
                return Err(format!("{name} is another actor than by the model, or the same"));
            }
        }
        self.found[number] = there.map(|there| (there, actors.len() - 1));
        Ok(())
    }
}
