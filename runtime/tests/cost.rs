//! The cost of a message: allocations and sizes, printed.

use allocation_counter::measure;
use ringpost::__private::ActorPort;
use ringpost::prelude::*;
use ringpost::send::{Ask, Tell};
use ringpost::spawn::Child;
use ringpost::{Handlers, ReplyTo};

use crate::actors::{Note, Notebook, node};
use crate::asking::{Deposit, Teller};
use crate::remote::{PATIENCE, listening};

/// Calls that are counted.
const CALLS: u64 = 4096;

/// Allocations of this thread per call, once everything has reached its size. Of several rounds the
/// least: a thread that is interrupted in a turn hands its next asks to their actors.
macro_rules! allocations {
    ($runtime:expr, $what:literal, $call:expr) => {
        allocations!($runtime, $what, 1, $call)
    };
    ($runtime:expr, $what:literal, $rounds:expr, $call:expr) => {{
        let count = CALLS / $rounds;
        let calls = async || {
            for _ in 0..count {
                $call;
            }
        };
        (0..$rounds).for_each(|_| $runtime.block_on(calls()));
        let counted = (0..$rounds).map(|_| measure(|| $runtime.block_on(calls())).count_total);
        let each = counted.min().unwrap() as f64 / count as f64;
        println!("allocations {}: {each:.4}", $what);
        each
    }};
}

#[test]
fn sends_of_one_node_allocate_nothing_but_archives() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = runtime.block_on(node());
    let actor = runtime.block_on(node.spawn("counter", Counter::default())).unwrap();
    let recipient: Recipient<Count> = actor.recipient();
    let asker = actor.asker::<Count>();
    let tell = allocations!(runtime, "local tell typed", {
        actor.tell(Count { by: 1 }).await.unwrap();
    });
    let erased = allocations!(runtime, "local tell recipient", {
        recipient.tell(Count { by: 1 }).await.unwrap();
    });
    runtime.block_on(async { actor.ask(Count { by: 0 }).await }).unwrap();
    let yielding = allocations!(runtime, "local try_tell typed", {
        actor.try_tell(Count { by: 1 }).unwrap();
        tokio::task::yield_now().await;
    });
    let ask = allocations!(runtime, "local ask typed", {
        actor.ask(Count { by: 1 }).await.unwrap();
    });
    let asked = allocations!(runtime, "local ask recipient", {
        asker.ask(Count { by: 1 }).await.unwrap();
    });
    let view = allocations!(runtime, "local tell to a view handler", {
        actor.tell(Seen { by: 1 }).await.unwrap();
    });
    assert!(tell < 0.01 && erased < 0.01 && yielding < 0.01, "nothing");
    // (Where the thread was interrupted in a turn, some asks go the usual way.)
    assert!(ask < 0.1 && asked < 0.1, "the handler answers in place");
    assert!(view < 1.01, "one for the archive");
}

/// The answer of a handler that is `async`, its future, and its link in the chains of its asks.
#[test]
fn asks_of_a_handler_allocate_its_answer_and_a_link() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = runtime.block_on(node());
    let counter = runtime.block_on(node.spawn("counter", Counter::default())).unwrap();
    let clerk = runtime.block_on(node.spawn("clerk", Clerk { counter })).unwrap();
    let of_one = allocations!(runtime, "local ask of a handler that asks once", 64, {
        clerk.count_so_often(1).await.unwrap();
    });
    let of_two = allocations!(runtime, "local ask of a handler that asks twice", 64, {
        clerk.count_so_often(2).await.unwrap();
    });
    let each = of_two - of_one;
    // (Now and then a task is switched to, and the ask takes its place among the deadlines.)
    assert!(each < 0.1 && of_one < 3.2, "{each}, {of_one}");
}

/// The memory of an idle actor: its cell, its task, and a place in the table.
#[test]
fn an_idle_actor_is_small_and_a_burst_is_given_back() {
    const ACTORS: u64 = 4096;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = runtime.block_on(node());
    let spawn = |supervised: bool| {
        let counted = measure(|| {
            runtime.block_on(async {
                for _ in 0..ACTORS {
                    if supervised {
                        node.supervise(Child::new(Counter::default)).await.unwrap();
                    } else {
                        node.spawn_anonymous(Counter::default()).await.unwrap();
                    }
                }
            });
        });
        let allocations = counted.count_total as f64 / ACTORS as f64;
        (counted.bytes_current as f64 / ACTORS as f64, allocations)
    };
    // The table of places has its size then.
    spawn(false);
    spawn(false);
    let (bytes, allocations) = spawn(false);
    println!("an idle actor: {bytes:.0} bytes, {allocations:.2} allocations to spawn it");
    assert!(bytes <= 800.0 && allocations < 3.1, "{bytes} bytes, {allocations} allocations");
    let (bytes, allocations) = spawn(true);
    println!("an idle supervised actor: {bytes:.0} bytes, {allocations:.2} allocations");
    assert!(bytes <= 920.0 && allocations < 5.1, "{bytes} bytes, {allocations} allocations");
    let actor = runtime.block_on(node.spawn_anonymous(Counter::default())).unwrap();
    let burst = || async {
        for _ in 0..1024 {
            actor.try_tell(Count { by: 1 }).unwrap();
        }
        actor.ask(Count { by: 0 }).await.unwrap();
        tokio::task::yield_now().await;
    };
    let kept = measure(|| runtime.block_on(burst())).bytes_current;
    println!("kept after a burst of 1,024 messages: {kept} bytes");
    assert!(kept <= 64 * 72, "{kept} bytes are kept after a burst");
}

/// The nodes run on threads of their own, so that only the sender's allocations are counted.
#[test]
fn a_remote_tell_and_ask_allocate_little_on_the_senders_thread() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    };
    let (here, there) = (runtime(), runtime());
    let (alpha, beta, actor) = here.block_on(async {
        let spawned = there.spawn(listening("beta", &[]));
        let beta = spawned.await.unwrap();
        let alpha = listening("alpha", &[&beta]).await;
        alpha.ready(1).await.unwrap();
        beta.spawn("counter", Counter::default()).await.unwrap();
        let actor = alpha.actor::<Counter>("beta/counter").await.unwrap();
        (alpha, beta, actor)
    });
    let tell = allocations!(here, "remote tell eager, sender", {
        actor.tell(Count { by: 1 }).await.unwrap();
    });
    let ask = allocations!(here, "remote ask eager, sender", {
        actor.ask(Count { by: 1 }).await.unwrap();
    });
    assert!(tell <= 1.0 && ask <= 4.0);
    here.block_on(async { tokio::join!(alpha.shutdown(PATIENCE), beta.shutdown(PATIENCE)) });
}

/// Both nodes run on this thread, so that everything is counted: sender, drivers, mailbox and
/// actor.
#[test]
fn a_remote_tell_allocates_nothing_on_either_side_and_an_ask_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (alpha, beta, actor) = runtime.block_on(async {
        let beta = listening("beta", &[]).await;
        let alpha = listening("alpha", &[&beta]).await;
        alpha.ready(1).await.unwrap();
        beta.spawn("counter", Counter::default()).await.unwrap();
        let actor = alpha.actor::<Counter>("beta/counter").await.unwrap();
        (alpha, beta, actor)
    });
    let tell = allocations!(runtime, "remote tell, both sides", {
        actor.tell(Count { by: 1 }).await.unwrap();
    });
    let view = allocations!(runtime, "remote tell to a view handler, both sides", {
        actor.tell(Seen { by: 1 }).await.unwrap();
    });
    let ask = allocations!(runtime, "remote ask, both sides", {
        actor.ask(Count { by: 1 }).await.unwrap();
    });
    assert!(tell < 0.05 && view < 0.05 && ask < 1.05);
    runtime.block_on(async { tokio::join!(alpha.shutdown(PATIENCE), beta.shutdown(PATIENCE)) });
}

#[test]
fn references_are_three_words_in_size() {
    fn size<T>(what: &str) -> usize {
        println!("size {what}: {}", size_of::<T>());
        size_of::<T>()
    }
    assert_eq!(size::<ActorRef<Teller>>("ActorRef"), 24);
    assert_eq!(size::<Recipient<Note>>("Recipient"), 32);
    assert_eq!(size::<Option<ActorRef<Teller>>>("Option<ActorRef>"), 32);
    assert!(size::<View<Deposit>>("View") <= 64);
    assert!(size::<ReplyTo<u64>>("ReplyTo") <= 32);
    assert!(size::<Tell<'_, ActorPort<Notebook>, Note>>("Tell of 8 bytes") <= 56);
    assert!(size::<Ask<'_, ActorPort<Notebook>, Note>>("Ask of 8 bytes") <= 160);
    assert!(size::<<Notebook as Handlers>::Envelope>("envelope of five messages") <= 48);
}

#[message]
pub struct Count {
    pub by: u64,
}

#[message]
pub struct Seen {
    pub by: u64,
}

#[actor]
#[derive(Default)]
struct Counter {
    total: u64,
}

#[handlers]
impl Counter {
    #[handler]
    fn count(&mut self, msg: Count) -> u64 {
        self.total += msg.by;
        self.total
    }

    #[handler]
    fn seen(&mut self, msg: View<Seen>) {
        self.total += msg.by.to_native();
    }
}

/// Asks a counter again and again.
#[actor]
struct Clerk {
    counter: ActorRef<Counter>,
}

#[handlers]
impl Clerk {
    #[handler]
    async fn count_so_often(&mut self, count: u64) {
        for _ in 0..count {
            self.counter.ask(Count { by: 1 }).await.unwrap();
        }
    }
}
