//! What a message costs: allocations and sizes, printed.
#![allow(unsafe_code, reason = "a global allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ringpost::prelude::*;
use ringpost::{Ask, Handlers, ReplyTo, Tell};

use crate::actors::{Note, Notebook, node};
use crate::asking::{Deposit, Teller};
use crate::remote::{PATIENCE, listening};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting in a thread-local without a
// destructor allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller keeps the system allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `alloc`, which is the system's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread per call, once everything has reached its size.
macro_rules! allocations {
    ($what:literal, $call:expr) => {{
        for _ in 0..4096 {
            $call;
        }
        let before = COUNT.get();
        for _ in 0..4096 {
            $call;
        }
        let each = (COUNT.get() - before) as f64 / 4096.0;
        println!("allocations {}: {each}", $what);
        each
    }};
}

#[tokio::test]
async fn sends_on_the_typed_path_allocate_the_reply_and_nothing_else() {
    let node = node().await;
    let actor = node.spawn("counter", Counter::default()).await.unwrap();
    let recipient: Recipient<Count> = actor.recipient();
    let asker = actor.asker::<Count>();
    let tell = allocations!("local tell typed", actor.tell(Count { by: 1 }).await.unwrap());
    let erased =
        allocations!("local tell recipient", recipient.tell(Count { by: 1 }).await.unwrap());
    actor.ask(Count { by: 0 }).await.unwrap();
    let yielding = allocations!("local try_tell typed", {
        actor.try_tell(Count { by: 1 }).unwrap();
        tokio::task::yield_now().await;
    });
    let ask = allocations!("local ask typed", actor.ask(Count { by: 1 }).await.unwrap());
    let asked = allocations!("local ask recipient", asker.ask(Count { by: 1 }).await.unwrap());
    let view = allocations!("local tell to a view handler", {
        actor.tell(Seen { by: 1 }).await.unwrap();
    });
    assert_eq!((tell, erased, yielding), (0.0, 0.0, 0.0));
    assert_eq!((ask, asked), (1.0, 1.0));
    assert!(view <= 1.01, "one for the archive");
}

/// The nodes run on threads of their own, so that what is counted is the sender's.
#[test]
fn a_remote_tell_and_ask_allocate_little_on_the_senders_thread() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    };
    let (here, there) = (runtime(), runtime());
    let (alpha, beta) = here.block_on(async {
        let spawned = there.spawn(listening("beta", &[]));
        let beta = spawned.await.unwrap();
        let alpha = listening("alpha", &[&beta]).await;
        alpha.ready(1).await;
        (alpha, beta)
    });
    here.block_on(async {
        beta.spawn("counter", Counter::default()).await.unwrap();
        let actor = alpha.actor::<Counter>("beta/counter").await.unwrap();
        let tell = allocations!("remote tell eager", actor.tell(Count { by: 1 }).await.unwrap());
        let ask = allocations!("remote ask eager", actor.ask(Count { by: 1 }).await.unwrap());
        assert!(tell <= 1.0 && ask <= 4.0);
        tokio::join!(alpha.shutdown(PATIENCE), beta.shutdown(PATIENCE));
    });
}

#[test]
fn references_are_a_pointer_in_size() {
    fn size<T>(what: &str) -> usize {
        println!("size {what}: {}", size_of::<T>());
        size_of::<T>()
    }
    assert_eq!(size::<ActorRef<Teller>>("ActorRef"), 8);
    assert_eq!(size::<Recipient<Note>>("Recipient"), 8);
    assert_eq!(size::<Option<ActorRef<Teller>>>("Option<ActorRef>"), 8);
    assert!(size::<View<Deposit>>("View") <= 64);
    assert!(size::<ReplyTo<u64>>("ReplyTo") <= 32);
    assert!(size::<Tell<'_, Notebook, Note>>("Tell of 8 bytes") <= 96);
    assert!(size::<Ask<'_, Notebook, Note>>("Ask of 8 bytes") <= 320);
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
