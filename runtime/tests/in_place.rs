//! Turns on the thread of the asker: when an actor takes one, and that nothing else is different.

mod graphs;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ringpost::limits::{IN_PLACE_DEPTH_MAX, IN_PLACE_RESTS, IN_PLACE_TURN_MAX};
use ringpost::prelude::*;
use tokio::task;

use crate::actors::node;
use crate::random::Dice;
use crate::remote::{end, pair};

#[message(local)]
struct Row {
    asker: task::Id,
}

/// Returns the name of the task that calls.
fn here() -> String {
    format!("{:?}", task::try_id())
}

/// Says in which task its handlers run, and passes that on along a row of its kind.
#[actor]
struct Runner {
    next: Option<ActorRef<Runner>>,
}

#[handlers]
impl Runner {
    #[handler]
    fn task(&self) -> String {
        here()
    }

    #[handler]
    async fn task_async(&self) -> String {
        here()
    }

    /// Returns how many of the row are in this task, up to the first that is not.
    #[handler]
    async fn row(&self, msg: Row) -> u32 {
        if task::try_id() != Some(msg.asker) {
            return 0;
        }
        let Some(next) = &self.next else { return 1 };
        1 + next.ask(msg).await.unwrap()
    }

    #[handler]
    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    #[handler]
    fn span(&self) -> bool {
        tracing::Span::current().is_none()
    }

    #[handler]
    fn fail(&self) {
        panic!("as it was told")
    }
}

/// As [`Runner`], in tasks of its own alone.
struct Aloof;

#[actor]
impl Actor for Aloof {
    const IN_PLACE: bool = false;
}

#[handlers]
impl Aloof {
    #[handler]
    fn own_task(&self) -> String {
        here()
    }
}

/// Spawns a runner that is idle.
async fn runner(node: &Node, next: Option<ActorRef<Runner>>) -> ActorRef<Runner> {
    let runner = node.spawn_anonymous(Runner { next }).await.unwrap();
    // Until its own task has given the turn back.
    while runner.task().await.unwrap() != here() {
        task::yield_now().await;
    }
    runner
}

/// Runs a test in a task, which has an id.
async fn in_a_task<F: Future<Output = ()> + Send + 'static>(test: F) {
    tokio::spawn(test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_actor_handles_an_ask_in_the_task_of_its_asker_unless_its_type_says_no() {
    in_a_task(async {
        let node = node().await;
        let near = runner(&node, None).await;
        let own = here();
        // (Not each time, where this thread was interrupted in the turn before.)
        while near.task_async().await.unwrap() != own {}
        while near.asker::<Task>().ask(Task {}).await.unwrap() != own {}
        let aloof = node.spawn_anonymous(Aloof).await.unwrap();
        for _ in 0..8 {
            assert_ne!(aloof.own_task().await.unwrap(), own);
        }
    })
    .await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_that_arrives_alone_is_handled_in_the_task_of_its_link() {
    let (alpha, beta) = pair().await;
    beta.spawn("one", Runner { next: None }).await.unwrap();
    beta.spawn("two", Runner { next: None }).await.unwrap();
    beta.spawn("aloof", Aloof).await.unwrap();
    let one = alpha.actor::<Runner>("beta/one").await.unwrap();
    let two = alpha.actor::<Runner>("beta/two").await.unwrap();
    let aloof = alpha.actor::<Aloof>("beta/aloof").await.unwrap();
    // (Not each time, where the thread of the link was interrupted in the turn before.)
    let mut link = one.task().await.unwrap();
    while two.task().await.unwrap() != link {
        link = one.task().await.unwrap();
    }
    assert_ne!(aloof.own_task().await.unwrap(), link);
    end([alpha, beta]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_of_another_runtime_stays_there() {
    in_a_task(async {
        let other = task::spawn_blocking(|| {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap()
        });
        let other = other.await.unwrap();
        let node = other.spawn(node()).await.unwrap();
        let far = other
            .spawn(async move { node.spawn_anonymous(Runner { next: None }).await.unwrap() })
            .await
            .unwrap();
        for _ in 0..8 {
            assert_ne!(far.task().await.unwrap(), here());
        }
        other.shutdown_background();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_actors_take_their_turns_within_each_other() {
    in_a_task(async {
        let node = node().await;
        let mut row = None;
        for _ in 0..2 * IN_PLACE_DEPTH_MAX {
            row = Some(runner(&node, row).await);
        }
        let (row, asker) = (row.unwrap(), task::id());
        let mut most = 0;
        while most < u32::from(IN_PLACE_DEPTH_MAX) {
            most = row.ask(Row { asker }).await.unwrap();
        }
        assert_eq!(most, u32::from(IN_PLACE_DEPTH_MAX));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn after_a_long_turn_a_thread_wakes_actors_for_a_while() {
    in_a_task(async {
        let node = node().await;
        let (slow, fast) = (runner(&node, None).await, runner(&node, None).await);
        let mut woken = 0;
        while woken < u32::from(IN_PLACE_RESTS) {
            slow.sleep(2 * IN_PLACE_TURN_MAX).await.unwrap();
            woken = 0;
            while fast.task().await.unwrap() != here() {
                woken += 1;
            }
        }
        // (More, where the thread was interrupted meanwhile.)
        assert!(woken < 2 * u32::from(IN_PLACE_RESTS), "{woken}");
    })
    .await;
}

/// A panic is the actor's alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_that_panics_in_place_ends_and_its_asker_is_told() {
    in_a_task(async {
        let node = node().await;
        let near = runner(&node, None).await;
        let error = near.fail().await.unwrap_err();
        assert_eq!(error.cause, AskCause::Panicked);
        assert!(matches!(near.wait_stopped().await, ActorExit::Panicked(_)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_is_not_in_the_span_of_its_asker() {
    use tracing::Instrument;
    use tracing::instrument::WithSubscriber;
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
    let test = async {
        let node = node().await;
        let near = runner(&node, None).await;
        let asker = async {
            let here = tracing::Span::current();
            assert!(!here.is_none() && near.span().await.unwrap());
            assert_eq!(tracing::Span::current().id(), here.id());
        };
        asker.instrument(tracing::info_span!("asker")).await;
    };
    in_a_task(test.with_subscriber(subscriber)).await;
}

/// Counts its messages, and sees that no two are handled at once.
#[actor]
struct Counter {
    is_busy: Arc<AtomicBool>,
    handled: Arc<AtomicU64>,
}

impl Counter {
    fn begin(&self) -> impl Drop + use<> {
        struct Ends(Arc<AtomicBool>);
        impl Drop for Ends {
            fn drop(&mut self) {
                assert!(self.0.swap(false, Ordering::Relaxed));
            }
        }
        assert!(!self.is_busy.swap(true, Ordering::Relaxed), "two at once");
        self.handled.fetch_add(1, Ordering::Relaxed);
        Ends(self.is_busy.clone())
    }
}

#[handlers]
impl Counter {
    #[handler]
    fn at_once(&self) {
        drop(self.begin());
    }

    #[handler]
    async fn later(&self, others: Vec<ActorRef<Counter>>) {
        let _busy = self.begin();
        for other in others {
            other.at_once().await.unwrap();
        }
        task::yield_now().await;
    }
}

/// Many tasks ask a few actors: each message is handled once, and alone.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn turns_of_one_actor_never_overlap() {
    const TASKS: u64 = 8;
    const ASKS: u64 = 500;
    let node = node().await;
    let handled = Arc::<AtomicU64>::default();
    let mut actors = Vec::new();
    for _ in 0..4 {
        let counter = Counter { is_busy: Arc::default(), handled: handled.clone() };
        actors.push(node.spawn_anonymous(counter).await.unwrap());
    }
    let tasks = (0..TASKS).map(|seed| {
        let actors = actors.clone();
        tokio::spawn(async move {
            let (mut dice, mut sent) = (Dice::new(seed), 0);
            for _ in 0..ASKS {
                let to = dice.below(actors.len());
                // Only of higher numbers: nobody waits in a circle.
                let others = actors[to + 1..].to_vec();
                sent += 1;
                if dice.below(2) == 0 {
                    actors[to].at_once().await.unwrap();
                } else {
                    sent += others.len() as u64;
                    actors[to].later(others).await.unwrap();
                }
            }
            sent
        })
    });
    let sent = futures::future::join_all(tasks).await;
    let sent: u64 = sent.into_iter().map(Result::unwrap).sum();
    assert_eq!(handled.load(Ordering::Relaxed), sent);
}
