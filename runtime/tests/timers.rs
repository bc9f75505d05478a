//! Random timers of one actor: set, replaced and cancelled, by handlers that take time, fail and
//! are ended, of an actor that is restarted. A judge reads the actor's diary.
//!
//! All tasks run on one thread, whose clock stands still while any of them has something to do. So
//! each entry of the diary has its millisecond, and the judge knows when each is to be made.
//!
//! `RINGPOST_TIMERS` says how many seeds there are, and `RINGPOST_TIMERS_SEED` which one runs
//! alone.

mod judge;
mod plan;
mod reached;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::context::TimerKey;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart};
use tokio::time::{Instant, sleep};

use crate::actors::node;
use crate::random::{Dice, Reached, Replay, seeds};
use judge::{Event, Judge, Key, Kind};
use plan::{Deed, Deeds, MANY, Order, Plan};
use reached::STATES;

const SEEDS: u64 = 1_000;

/// The diary of the actor of one seed, in all its incarnations, and of the senders to its mailbox.
struct Diary {
    begun: Instant,
    entries: Mutex<Vec<(u64, Event)>>,
    /// Timers that were set.
    timers: AtomicU64,
}

impl Diary {
    fn note(&self, event: Event) {
        self.entries.lock().push((self.now(), event));
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap()
    }
}

/// Does the deeds of its messages.
struct Timekeeper {
    diary: Arc<Diary>,
    start: Deeds,
}

impl Drop for Timekeeper {
    fn drop(&mut self) {
        self.diary.note(Event::Dropped);
    }
}

#[actor]
impl Actor for Timekeeper {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.diary.note(Event::Started);
        let start = self.start.clone();
        self.act(&start, cx).await;
        Ok(())
    }
}

/// The message of a timer.
#[message(local)]
#[derive(Clone)]
struct Fire {
    number: u64,
    deeds: Deeds,
}

#[message(local)]
struct Act(Deeds);

#[handlers]
impl Timekeeper {
    #[handler]
    async fn fire(&mut self, msg: Fire, cx: &mut Context<Self>) {
        self.diary.note(Event::Fired(msg.number));
        self.act(&msg.deeds, cx).await;
    }

    #[handler]
    async fn perform(&mut self, msg: Act, cx: &mut Context<Self>) {
        self.diary.note(Event::Begun);
        self.act(&msg.0, cx).await;
    }
}

impl Timekeeper {
    async fn act(&self, deeds: &[Deed], cx: &mut Context<Self>) {
        for deed in deeds {
            self.do_one(deed, cx).await;
        }
        self.diary.note(Event::Done);
    }

    async fn do_one(&self, deed: &Deed, cx: &mut Context<Self>) {
        match deed {
            Deed::After(key, after, then) => {
                let fire = self.set(Key::Number(*key), Kind::After(*after), then);
                cx.tell_after(*key, ms(*after), fire);
            }
            Deed::Every(key, period, then) => {
                let fire = self.set(Key::Number(*key), Kind::Every(*period), then);
                cx.tell_every(*key, ms(*period), fire);
            }
            Deed::WhenIdle(after, then) => {
                let fire = self.set(Key::Idle, Kind::Idle(*after), then);
                cx.tell_when_idle(ms(*after), fire);
            }
            Deed::Many(count, after) => {
                for key in MANY..MANY + count {
                    let fire = self.set(Key::Number(key), Kind::After(*after), &Deeds::default());
                    cx.tell_after(key, ms(*after), fire);
                }
            }
            Deed::Cancel(key) => {
                let was_there = cx.cancel(*key);
                self.diary.note(Event::Cancelled(Key::Number(*key), was_there));
            }
            Deed::CancelIdle => {
                let was_there = cx.cancel(TimerKey::Idle);
                self.diary.note(Event::Cancelled(Key::Idle, was_there));
            }
            Deed::Wait(time) => sleep(ms(*time)).await,
            // Without what a panic writes to the terminal.
            Deed::Panic => std::panic::resume_unwind(Box::new("boom")),
        }
    }

    /// Returns the message of a timer that is about to be set.
    fn set(&self, key: Key, kind: Kind, deeds: &Deeds) -> Fire {
        let number = self.diary.timers.fetch_add(1, Ordering::Relaxed);
        self.diary.note(Event::Set(key, number, kind));
        Fire { number, deeds: deeds.clone() }
    }
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

// Promised in docs/SEMANTICS.md.
#[test]
fn random_timers_are_neither_stale_nor_lost() {
    let seeds = seeds("RINGPOST_TIMERS", SEEDS);
    let is_alone = seeds.end - seeds.start == 1;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    let mut reached = Reached::new(&STATES);
    let mut entries = 0;
    for seed in seeds.clone() {
        let _replay = Replay("RINGPOST_TIMERS", seed);
        let plan = plan::plan(&mut Dice::new(seed));
        let (tried, trial) = runtime.block_on(async {
            let mut trial = Trial::start(&plan).await;
            (trial.run(&plan).await, trial)
        });
        if let Err(text) = tried {
            panic!("{plan:#?}\n{}{text}", trial.text());
        }
        reached.add(&trial.judge.reached);
        entries += trial.read.len();
    }
    println!("{reached}timers: {} seeds, {entries} entries", seeds.end - seeds.start);
    assert!(is_alone || reached.missing().is_empty(), "not reached: {:?}", reached.missing());
}

/// An actor while it is tested.
struct Trial {
    node: Node,
    actor: ActorRef<Timekeeper>,
    diary: Arc<Diary>,
    judge: Judge,
    /// The entries that the judge has read.
    read: Vec<(u64, Event)>,
}

impl Trial {
    async fn start(plan: &Plan) -> Self {
        let (entries, timers) = Default::default();
        let diary = Arc::new(Diary { begun: Instant::now(), entries, timers });
        let (of_actor, start) = (diary.clone(), plan.start.clone());
        let make = move || Timekeeper { diary: of_actor.clone(), start: start.clone() };
        let restart = if plan.is_always { Restart::always() } else { Restart::on_failure() };
        let restart = restart.at_most(u32::MAX, ms(1)).backoff(ms(plan.pause), ms(plan.pause));
        let node = node().await;
        let actor = node.supervise(Child::new(make).restart(restart)).await.unwrap();
        Trial { node, actor, diary, judge: Judge::new(), read: Vec::new() }
    }

    async fn run(&mut self, plan: &Plan) -> Result<(), String> {
        for (wait, order) in &plan.steps {
            sleep(ms(*wait)).await;
            self.check()?;
            if *wait > 0 {
                self.judge.rest(self.diary.now())?;
            }
            self.order(order).await;
        }
        // A shutdown also ends an actor that is restarted however it ends, or is never idle.
        self.node.shutdown(ms(100)).await;
        self.actor.wait_stopped().await;
        self.check()?;
        if !self.judge.has_ended() {
            return Err("the actor lives".into());
        }
        sleep(ms(1_000)).await;
        self.check()
    }

    /// Passes the entries since the last time to the judge.
    fn check(&mut self) -> Result<(), String> {
        for (at, event) in std::mem::take(&mut *self.diary.entries.lock()) {
            self.read.push((at, event));
            self.judge.read(at, event)?;
        }
        Ok(())
    }

    fn text(&self) -> String {
        self.read.iter().map(|(at, event)| format!("    {at:6} ms: {event:?}\n")).collect()
    }

    async fn order(&self, order: &Order) {
        match order {
            Order::Tell(deeds) => {
                // It is refused while the actor stops, and when it has ended.
                if self.actor.try_tell(Act(deeds.clone())).is_ok() {
                    self.diary.note(Event::Sent);
                }
            }
            Order::Kill => self.actor.kill().await.unwrap(),
            Order::Stop => self.actor.stop().await.unwrap(),
            Order::Drain => self.actor.drain().await.unwrap(),
        }
    }
}
