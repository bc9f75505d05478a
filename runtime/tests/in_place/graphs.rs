//! Random calls among actors that panic, sleep, stop and kill each other: whether their askers take
//! their turns makes no difference to what each asker is told.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use ringpost::prelude::*;
use ringpost::spawn::Child;

use crate::actors::node;
use crate::random::{Dice, Replay, seeds};

const ACTORS: usize = 5;

/// A mode of the test: askers take the turns of actors, or do not.
trait Mode: Send + Sync + 'static {
    const ON: bool;
}

struct On;
struct Off;

impl Mode for On {
    const ON: bool = true;
}

impl Mode for Off {
    const ON: bool = false;
}

#[message(local)]
struct Act(Arc<Call>);

#[message(local)]
struct ActAsync(Arc<Call>);

/// An ask, and what its handler does. A handler that is not async asks nobody, and does not sleep.
struct Call {
    to: usize,
    is_async: bool,
    timeout: Duration,
    steps: Vec<Step>,
}

enum Step {
    Ask(Arc<Call>),
    Sleep(Duration),
    Stop(usize),
    Drain(usize),
    Kill(usize),
    Panic,
}

fn draw(dice: &mut Dice, depth: u32) -> Arc<Call> {
    let is_async = dice.below(2) == 0;
    let steps = (0..dice.below(4)).filter_map(|_| {
        Some(match dice.below(40) {
            0..18 if is_async && depth > 0 => Step::Ask(draw(dice, depth - 1)),
            18..22 if is_async => Step::Sleep(Duration::from_millis(10 * dice.below(5) as u64)),
            36 => Step::Stop(dice.below(ACTORS)),
            37 => Step::Drain(dice.below(ACTORS)),
            38 => Step::Kill(dice.below(ACTORS)),
            39 => Step::Panic,
            _ => return None,
        })
    });
    let steps = steps.collect();
    // None ends in the very moment in which another one or a sleep does.
    let short = [21, 43, 87, 175][depth as usize];
    let timeout = Duration::from_millis(short + dice.one_of(&[0, 1000, 1000]));
    Arc::new(Call { to: dice.below(ACTORS), is_async, timeout, steps })
}

/// The messages that were handled and the outcomes of asks, in the order in which they came.
type Book = Arc<Mutex<Vec<String>>>;

struct World<M: Mode> {
    actors: OnceLock<Vec<ActorRef<Worker<M>>>>,
    /// How many handlers of each actor run: one or none.
    running: [AtomicU32; ACTORS],
    book: Book,
}

impl<M: Mode> World<M> {
    fn actor(&self, number: usize) -> &ActorRef<Worker<M>> {
        &self.actors.get().unwrap()[number]
    }

    fn note(&self, what: String) {
        self.book.lock().push(what);
    }

    fn ask(self: Arc<Self>, call: Arc<Call>) -> BoxFuture<'static, ()> {
        async move {
            let actor = self.actor(call.to);
            let told = match call.is_async {
                true => actor.ask(ActAsync(call.clone())).timeout(call.timeout).await,
                false => actor.ask(Act(call.clone())).timeout(call.timeout).await,
            };
            let told = told.map_err(|error| error.cause.to_string());
            self.note(format!("ask of {}: {told:?}", call.to));
        }
        .boxed()
    }

    /// Notes that a handler of an actor runs, until what this returns is dropped.
    fn handles(self: &Arc<Self>, number: usize) -> impl Drop + use<M> {
        struct Ends<M: Mode>(Arc<World<M>>, usize);
        impl<M: Mode> Drop for Ends<M> {
            fn drop(&mut self) {
                self.0.running[self.1].fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.note(format!("{number} handles"));
        assert_eq!(self.running[number].fetch_add(1, Ordering::Relaxed), 0);
        Ends(self.clone(), number)
    }

    /// Does a step that waits for nothing.
    fn act(&self, step: &Step) {
        match *step {
            Step::Ask(_) | Step::Sleep(_) => {}
            Step::Stop(whom) => drop(self.actor(whom).request_stop()),
            Step::Drain(whom) => drop(self.actor(whom).drain().now_or_never()),
            // (A handler that was killed goes on to where it waits: that is not at an ask which is
            // answered in place.)
            Step::Kill(whom) if self.running[whom].load(Ordering::Relaxed) > 0 => {}
            Step::Kill(whom) => drop(self.actor(whom).kill().now_or_never()),
            Step::Panic => panic!("as it was told"),
        }
    }
}

struct Worker<M: Mode> {
    number: usize,
    handled: u32,
    world: Arc<World<M>>,
    _mode: PhantomData<M>,
}

#[actor]
impl<M: Mode> Actor for Worker<M> {
    const IN_PLACE: bool = M::ON;
}

#[handlers]
impl<M: Mode> Worker<M> {
    #[handler]
    fn act(&mut self, msg: Act) -> u32 {
        self.handled += 1;
        let _runs = self.world.handles(self.number);
        msg.0.steps.iter().for_each(|step| self.world.act(step));
        self.handled
    }

    #[handler]
    async fn act_async(&mut self, msg: ActAsync) -> u32 {
        self.handled += 1;
        let _runs = self.world.handles(self.number);
        for step in &msg.0.steps {
            match step {
                Step::Ask(call) => self.world.clone().ask(call.clone()).await,
                Step::Sleep(time) => tokio::time::sleep(*time).await,
                step => self.world.act(step),
            }
        }
        self.handled
    }
}

/// Plays the calls of a seed, one after the other, and returns its book.
async fn play<M: Mode>(seed: u64) -> Vec<String> {
    let node = node().await;
    let world = Arc::new(World::<M> {
        actors: OnceLock::new(),
        running: Default::default(),
        book: Book::default(),
    });
    let mut dice = Dice::new(seed);
    let mut actors = Vec::new();
    for number in 0..ACTORS {
        let make = {
            let world = world.clone();
            move || Worker { number, handled: 0, world: world.clone(), _mode: PhantomData }
        };
        actors.push(match dice.below(3) {
            0 => node.spawn_anonymous(make()).await.unwrap(),
            _ => node.supervise(Child::new(make)).await.unwrap(),
        });
    }
    assert!(world.actors.set(actors).is_ok());
    for _ in 0..8 {
        world.clone().ask(draw(&mut dice, 3)).await;
        // Actors that were told to end have ended after this.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    std::mem::take(&mut *world.book.lock())
}

// Promised in docs/SEMANTICS.md.
#[test]
fn askers_are_told_the_same_whether_they_take_turns_or_not() {
    for seed in seeds("RINGPOST_TEST_CASES", 1000) {
        let _replay = Replay("RINGPOST_TEST_CASES", seed);
        let run = || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().start_paused(true).build().unwrap()
        };
        let (on, off) = (run().block_on(play::<On>(seed)), run().block_on(play::<Off>(seed)));
        // The names of types, which texts have, differ by the mode.
        let on = on.iter().map(|line| line.replace("graphs::On", "graphs::Off"));
        assert_eq!(on.collect::<Vec<_>>(), off, "seed {seed}");
    }
}
