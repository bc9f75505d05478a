//! The acts on the pool of a scene.

use std::cell::RefCell;
use std::time::Duration;

use futures::future::{join, join_all, join4};
use ringpost::observe::{ActorState, DeadLetterCause};
use ringpost::pool::{Pool, Router, Routing};
use ringpost::prelude::*;

use super::super::{MS, SECOND, Scene};
use super::book::{Book, LATE, Trouble};
use super::judge::judge;
use super::sender::Sender;
use super::worker::{Job, OwnPool, Then, Worker};

/// Longer than anything takes when the faults are over: a pool rests for a second at most.
const SETTLED: Duration = Duration::from_secs(30);
const SIZE_MAX: usize = 5;

/// How the pool of a scene ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Stop,
    Drain,
    Shutdown,
}

struct Stage {
    scene: Scene,
    book: Book,
    pool: Pool<Worker>,
    own: OwnPool,
    router: RefCell<ActorRef<Router<Worker, Job>>>,
    near: Node,
    far: [Node; 2],
}

/// Plays the scene of a seed, and judges it.
///
/// # Panics
/// When a rule was broken.
pub(in crate::models) async fn play(scene: Scene) {
    let keyed = scene.one_in(2);
    let stage = Stage::new(scene, keyed).await;
    let scene = &stage.scene;
    let (keys, panics) = (scene.one_of(&[1, 3, 8]), scene.one_in(2));
    // While a worker is closed, messages of its keys go to another one.
    let stops = !keyed && scene.one_in(2);
    if stops {
        stage.book.trouble(Trouble::Stop);
    }
    let sender = |number| {
        let (scene, book) = (scene.clone(), stage.book.clone());
        Sender { scene, book, number, keys, panics, stops }
    };
    let senders = [0, 1, 2, 3, 4, 5].map(sender);
    let [a, b, c, d, e, f] = &senders;
    let jobs = || 5 + scene.below(20) as u64;
    let near = join(a.send_near(&stage.pool, jobs()), b.send_near(&stage.pool, jobs()));
    let by_router = c.send_far(&stage.near, jobs());
    let [x, y] = &stage.far;
    let others = join(d.send_far(x, jobs()), e.send_far(y, jobs()));
    let all = join4(near, by_router, others, f.send_near(&stage.pool, jobs()));
    join(all, join(stage.resizes(), stage.troubles(keyed))).await;
    stage.end().await;
    let letters = stage.near.dead_letters().count(DeadLetterCause::Stopped);
    judge(scene, stage.book.close(letters), keyed);
}

/// Returns what makes the workers of a pool.
fn maker(scene: &Scene, book: &Book, own: &OwnPool) -> impl Fn() -> Worker + Send + Sync + use<> {
    let (book, cluster, own) = (book.clone(), scene.cluster.clone(), own.clone());
    move || {
        book.is_made();
        Worker { book: book.clone(), cluster: cluster.clone(), pool: own.clone() }
    }
}

impl Stage {
    async fn new(scene: Scene, keyed: bool) -> Self {
        let [near, x, y] = ["n1", "n2", "n3"].map(async |name| scene.cluster.node(name).await);
        let (near, x, y) = (near.await, x.await, y.await);
        let book = Book::default();
        let own = OwnPool::default();
        let make = maker(&scene, &book, &own);
        let most = scene.one_of(&[2, 1000]);
        let builder = Pool::builder(make)
            .size(1 + scene.below(3))
            .routing(scene.one_of(&[Routing::RoundRobin, Routing::LeastLoaded]))
            .mailbox_capacity(scene.one_of(&[1, 2, 16]))
            .restart_at_most(most, 60 * SECOND)
            .restart_backoff(scene.one_of(&[MS, 100 * MS]), SECOND);
        let builder = if keyed { builder.by_key(|job: &Job| job.key) } else { builder };
        if most < 1000 {
            // If a worker fails too often, jobs that wait for all of them are lost.
            book.trouble(Trouble::Stop);
        }
        let pool = builder.spawn(&near, "pool").await.unwrap();
        *own.lock() = Some(pool.clone());
        let router = near.spawn("router", pool.router::<Job>()).await.unwrap();
        let (router, far) = (RefCell::new(router), [x, y]);
        let stage = Stage { scene, book, pool, own, router, near, far };
        stage.note_workers();
        stage
    }

    fn note_workers(&self) {
        let workers = self.pool.workers();
        self.book.begin_stretch(workers.iter().map(|worker| worker.address().clone()).collect());
    }

    async fn resizes(&self) {
        for _ in 0..self.scene.below(5) {
            self.scene.rest(SECOND).await;
            let size = self.scene.below(SIZE_MAX + 1);
            let before = self.pool.workers();
            let waiting = self.book.waiting();
            self.scene.note_if(waiting > 0, "the size changed while jobs waited");
            let is_smaller = size.max(1) < before.len();
            self.scene.note_if(is_smaller && waiting > 0, "a pool with jobs was made smaller");
            self.scene.cluster.log(&format!("{waiting} jobs wait, to have {size} workers"));
            self.book.change();
            let resized = self.pool.resize(size).await;
            match resized {
                Ok(()) => {
                    let now = self.pool.workers();
                    assert_eq!(now.len(), size.max(1), "after it was made {size} of {before:?}");
                    self.scene.note_if(size == 0, "a pool was to have no workers");
                    if !self.book.is_troubled() {
                        let common = now.len().min(before.len());
                        assert_eq!(now[..common], before[..common], "the others are the same");
                    }
                }
                Err(error) => {
                    assert!(self.book.is_troubled(), "a pool was not resized: {error}");
                    self.scene.cluster.log("a pool was not resized");
                }
            }
            self.book.change();
            self.note_workers();
        }
    }

    async fn troubles(&self, keyed: bool) {
        let faults = self.scene.one_of(&[0, 0, 1, 3]);
        for _ in 0..faults {
            self.scene.rest(2 * SECOND).await;
            self.trouble(keyed).await;
        }
    }

    async fn trouble(&self, keyed: bool) {
        let workers = self.pool.workers();
        let Some(worker) = workers.get(self.scene.below(workers.len().max(1))) else { return };
        let waits = self.near.snapshot().actors;
        let waits = waits.iter().find(|actor| actor.address == *worker.address());
        let has_jobs = waits.is_some_and(|actor| actor.mailbox.local > 0);
        // A kill then ends it without a restart, and its place is closed until another has it.
        let rests = waits.is_some_and(|actor| actor.state == ActorState::Resting);
        let kind = self.scene.below(6);
        self.scene.note_if(has_jobs && kind < 4, "a worker with jobs was killed or stopped");
        self.scene.cluster.log(&format!("trouble {kind} for {worker:?}"));
        match kind {
            0 | 1 if rests && keyed => {}
            0 | 1 => {
                self.book.trouble(if rests { Trouble::Stop } else { Trouble::Kill });
                worker.kill().await.ok();
            }
            2 if !keyed => {
                // The second kill may find it at rest: then it is not restarted.
                self.book.trouble(Trouble::Stop);
                worker.kill().await.ok();
                self.scene.rest(20 * MS).await;
                worker.kill().await.ok();
                self.scene.note("a worker was killed twice");
            }
            3 if !keyed => {
                self.book.trouble(Trouble::Stop);
                worker.stop().await.ok();
            }
            4 => self.end_router().await,
            _ => {
                self.book.trouble(Trouble::Far);
                let other = self.scene.one_of(&["n2", "n3"]);
                self.scene.disturb("n1", other, self.scene.one_in(2)).await;
            }
        }
    }

    /// Ends the router, and spawns another one.
    async fn end_router(&self) {
        self.book.trouble(Trouble::Far);
        let router = self.router.borrow().clone();
        let ended = match self.scene.below(3) {
            0 => router.drain().await,
            1 => router.stop().await,
            _ => router.kill().await,
        };
        drop(ended);
        router.wait_stopped().await;
        self.scene.note("the router was ended");
        self.book.change();
        if let Ok(again) = self.near.spawn("router", self.pool.router::<Job>()).await {
            *self.router.borrow_mut() = again;
        }
    }

    /// Waits until all is done, and checks the pool; then ends it while some senders wait.
    async fn end(&self) {
        self.scene.cluster.mend_all();
        self.scene.cluster.sleep(SETTLED).await;
        let supervisor = self.pool.supervisor();
        let is_there = self.pool.resize(self.pool.workers().len()).await.is_ok();
        if is_there {
            for worker in self.pool.workers() {
                let there = worker.there().await;
                assert_eq!(there, Ok(true), "a worker of a pool that lives: {worker:?}");
            }
            assert_eq!(self.book.living(), self.pool.workers().len(), "workers that are no more");
        } else {
            assert!(self.book.is_troubled(), "a pool ended by itself");
            self.scene.cluster.log("a pool failed");
        }
        // They wait as the pool ends, and are told so.
        let waiting = (0..self.scene.below(30)).map(|number| {
            let (scene, book) = (self.scene.clone(), self.book.clone());
            let number = LATE + number;
            Sender { scene, book, number, keys: 2, panics: false, stops: false }
        });
        let waiting: Vec<Sender> = waiting.collect();
        let end = self.scene.one_of(&[End::Stop, End::Drain, End::Shutdown]);
        let stop = async {
            self.scene.rest(10 * MS).await;
            self.end_by(end).await;
            supervisor.wait_stopped().await;
        };
        join(join_all(waiting.iter().map(|sender| sender.wait_near(&self.pool))), stop).await;
        assert_eq!(self.book.living(), 0, "workers outlive their pool");
        let job = |number| Job { number, key: 0, then: Then::Rest(0) };
        let cause = if end == End::Shutdown { Cause::Shutdown } else { Cause::Stopped };
        let late = self.pool.try_tell(job(u64::MAX));
        assert_eq!(late.unwrap_err().cause, cause);
        let late = self.pool.ask(job(u64::MAX)).await;
        assert_eq!(late.unwrap_err().cause, AskCause::NotSent(cause));
        self.own.lock().take();
        self.scene.cluster.sleep(SECOND).await;
    }

    async fn end_by(&self, end: End) {
        let waits = self.book.waiting() > 0;
        self.scene.cluster.log(&format!("the pool ends: {end:?}"));
        match end {
            End::Stop => {
                self.pool.supervisor().stop().await.ok();
            }
            End::Drain => {
                self.scene.note_if(waits, "the pool was drained with jobs that waited");
                self.book.is_drained();
                self.pool.drain().await.expect("it has begun");
            }
            End::Shutdown => {
                self.book.is_drained();
                let killed = self.near.shutdown(SETTLED).await;
                assert!(killed.is_empty() || self.book.is_troubled(), "{killed:?} were killed");
            }
        }
    }
}
