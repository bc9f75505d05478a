//! LN-4 under loom: the orders in which two takers and a driver can run, with the code of the link
//! itself. A wake-up that is lost leaves the driver asleep for ever, which loom finds.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use loom::future::block_on;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use super::{News, Window};
use crate::proto::window::{RecvWindow, WindowSize};
use crate::sync::loomed::Loomed;

/// Bytes of each message.
const BYTES: u32 = 4;
/// Messages that wait when a model begins; each taker takes one.
const TAKERS: u32 = 2;

/// How often a thread may be interrupted where it could go on: with more than this the orders are
/// too many to try, and hardly any error needs more (loom's own advice is two or three).
const PREEMPTIONS: usize = 3;

/// What the takers and the driver share.
struct Shared {
    news: News<Loomed>,
    window: Window<Loomed>,
}

impl Shared {
    /// A window for `messages` in which one message waits for each taker.
    fn new(messages: u32) -> Arc<Self> {
        let mut window = RecvWindow::new(WindowSize { messages, bytes: 1000 });
        for _ in 0..TAKERS {
            window.arrive(BYTES).expect("there is room");
        }
        Arc::new(Shared { news: News::new(), window: Window::new(0, window) })
    }

    /// As a receipt that is dropped.
    fn take(&self) {
        self.window.change(&self.news, |window| window.take(BYTES));
    }

    /// As the driver's turn: the messages that were reported, once there are any.
    fn poll_report(&self, cx: &Context<'_>) -> Poll<u32> {
        self.news.register(cx.waker());
        let mut messages = 0;
        for index in self.news.take().windows {
            assert_eq!(index, 0);
            messages += self.window.report().0.messages;
        }
        if messages == 0 { Poll::Pending } else { Poll::Ready(messages) }
    }
}

/// Runs `driver` beside the takers, in every order; says how many there were.
fn model(messages: u32, driver: fn(&Shared)) -> u64 {
    let orders = std::sync::Arc::new(AtomicU64::new(0));
    let count = orders.clone();
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        let shared = Shared::new(messages);
        for _ in 0..TAKERS {
            let shared = shared.clone();
            thread::spawn(move || shared.take());
        }
        driver(&shared);
    });
    orders.load(Ordering::Relaxed)
}

/// A report is due for each message: all that was taken is reported.
fn report_all(shared: &Shared) {
    let mut reported = 0;
    while reported < TAKERS {
        reported += block_on(poll_fn(|cx| shared.poll_report(cx)));
    }
    assert_eq!(reported, TAKERS);
}

/// No report is due by itself, and the peer waits for the link's window.
fn report_when_blocked(shared: &Shared) {
    shared.news.set_peer_blocked(true);
    shared.window.change(&shared.news, |_| ());
    report_all(shared);
}

#[test]
fn model_of_marks_and_wake_ups() {
    let due = model(TAKERS, report_all);
    let blocked = model(100, report_when_blocked);
    println!("marks and wake-ups: {due} orders of events where reports are due, {blocked} where");
    println!("the peer waits for the link's window: nothing is lost");
    assert!(due > 100 && blocked > 100);
}
