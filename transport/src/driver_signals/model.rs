//! No signal is lost, under loom: the orders in which two takers and a driver can run, with the
//! code of the link itself: it looks only where it was woken since (DR-5). A wake-up that is lost
//! leaves the driver asleep for ever, which loom finds.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use loom::future::block_on;
use loom::model::Builder;
use loom::thread;

use super::{DriverSignals, Packed, Taken};
use crate::proto::window::WindowSize;
use crate::sync::loomed::Loomed;

/// Bytes of each message.
const BYTES: u32 = 4;
/// Messages that wait when a model begins; each taker takes one.
const TAKERS: u32 = 2;

/// How often a thread may be interrupted where it could go on, unless `LOOM_MAX_PREEMPTIONS` says
/// how often: with three there are too many orders for each commit, with more too many to try, and
/// hardly any error needs more (loom's own advice is two or three).
const PREEMPTIONS: usize = 2;

/// The state that the takers and the driver share.
struct Shared {
    signals: Arc<DriverSignals<Loomed>>,
    taken: Arc<Taken<Loomed>>,
}

impl Shared {
    /// Returns an account with a window for `messages`.
    fn new(messages: u32) -> Arc<Self> {
        let signals = Arc::new(DriverSignals::new());
        let taken = Taken::new(&signals, 0, WindowSize { messages, bytes: 1000 });
        Arc::new(Shared { signals, taken })
    }

    /// As the driver's turn: the messages that are reported, once there are any.
    fn poll_report(&self, (seen, wakes): (&mut Packed, &mut u64), cx: &Context<'_>) -> Poll<u32> {
        self.signals.register(cx.waker());
        // DR-5.
        let before = std::mem::replace(wakes, self.signals.wakes());
        if before == *wakes {
            return Poll::Pending;
        }
        let mut messages = 0;
        for key in self.signals.take().taken {
            assert_eq!(key, 0);
            messages += self.report(seen);
        }
        if messages == 0 { Poll::Pending } else { Poll::Ready(messages) }
    }

    fn report(&self, seen: &mut Packed) -> u32 {
        let count = self.taken.harvest(seen);
        assert_eq!(count.bytes, u64::from(count.messages * BYTES));
        // As the driver: a mark that another look has taken the news of is no report.
        if count.messages > 0 {
            self.taken.reported(*seen);
        }
        count.messages
    }
}

/// Runs `driver` beside the takers, in every order; says how many there were.
fn model(messages: u32, driver: fn(&Shared)) -> u64 {
    let orders = Arc::new(AtomicU64::new(0));
    let count = orders.clone();
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        let shared = Shared::new(messages);
        for _ in 0..TAKERS {
            let shared = shared.clone();
            thread::spawn(move || shared.taken.take(BYTES));
        }
        driver(&shared);
    });
    orders.load(Ordering::Relaxed)
}

/// A report is due for each message: all that was taken is reported.
fn report_all(shared: &Shared, mut reported: u32, mut seen: Packed) {
    let mut wakes = 0;
    while reported < TAKERS {
        reported += block_on(poll_fn(|cx| shared.poll_report((&mut seen, &mut wakes), cx)));
    }
    assert_eq!(reported, TAKERS);
}

// Promised in docs/SEMANTICS.md.
#[test]
fn model_of_marks_and_wake_ups() {
    let due = model(TAKERS, |shared| report_all(shared, 0, Packed::default()));
    // The amount alone makes no report due; the peer waits for the link's window, or the mailbox's.
    let link = model(100, |shared| {
        let mut seen = Packed::default();
        shared.signals.set_peer_blocked(true);
        let reported = shared.report(&mut seen);
        report_all(shared, reported, seen);
    });
    let mailbox = model(100, |shared| {
        let (mut seen, mut wakes, mut reported) = (Packed::default(), 0, 0);
        while reported < TAKERS {
            // As for a sender that says again that it waits, because the report was not enough.
            shared.taken.block();
            reported += match shared.report(&mut seen) {
                0 => block_on(poll_fn(|cx| shared.poll_report((&mut seen, &mut wakes), cx))),
                some => some,
            };
        }
        assert_eq!(reported, TAKERS);
    });
    println!("marks and wake-ups: {due} orders of events where reports are due, {link} where the");
    println!(
        "peer waits for the link's window, {mailbox} where for the mailbox's: nothing is lost"
    );
    assert!(due > 100 && link > 100 && mailbox > 100);
}
