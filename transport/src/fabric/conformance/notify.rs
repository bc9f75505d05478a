//! Arming and waiting: PV-8. A notification may be spurious, so the cases check only that the
//! required ones come.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Context;

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::pair::{End, Pair, Pairs, Plan};
use crate::fabric::{Completion, Notify, QueuePair, SendRequest, Status, Work};

/// Sends one frame from `end` that wakes only an owner that armed for any completion.
fn send_unsolicited(end: &mut End, number: u8) {
    let mut request = end.request(&[number]);
    request.solicited = false;
    end.send(request);
}

/// PV-8: armed for solicited completions, a solicited frame notifies; the unsolicited one before it
/// is polled with it.
pub(crate) async fn recv_solicited_notify(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.queue_pair.arm(Notify::Solicited);
    send_unsolicited(&mut pair.a, 0);
    let solicited = pair.a.request(&[1]);
    pair.a.send(solicited);
    while pair.b.got.len() < 2 {
        pair.until_b_is_notified().await;
        pair.b.queue_pair.arm(Notify::Solicited);
        pair.b.collect();
    }
    assert_eq!(pair.b.frames(), [[0], [1]]);
}

/// PV-8: armed for any completion, an unsolicited frame notifies.
pub(crate) async fn recv_any_notify(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    for i in 0..3 {
        pair.b.queue_pair.arm(Notify::Any);
        send_unsolicited(&mut pair.a, i);
        while pair.b.got.len() <= usize::from(i) {
            pair.until_b_is_notified().await;
            pair.b.queue_pair.arm(Notify::Any);
            pair.b.collect();
        }
    }
    assert_eq!(pair.b.frames(), [[0], [1], [2]]);
}

/// PV-8: a send that completes notifies an owner that armed for any completion.
pub(crate) async fn send_completion_notify(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.queue_pair.arm(Notify::Any);
    pair.b.send_numbers(1);
    while pair.b.got.is_empty() {
        pair.until_b_is_notified().await;
        pair.b.queue_pair.arm(Notify::Any);
        pair.b.collect();
    }
    assert_eq!(pair.b.sent(), [Status::Success]);
}

/// PV-8: arming for solicited completions does not undo arming for any.
pub(crate) async fn arm_is_not_weakened(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.queue_pair.arm(Notify::Any);
    pair.b.queue_pair.arm(Notify::Solicited);
    send_unsolicited(&mut pair.a, 0);
    while pair.b.got.is_empty() {
        pair.until_b_is_notified().await;
        pair.b.queue_pair.arm(Notify::Any);
        pair.b.queue_pair.arm(Notify::Solicited);
        pair.b.collect();
    }
}

/// PV-8: a completion from before the arming may notify no owner, but the poll after it finds it.
pub(crate) async fn one_shot_arm_missed_event(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.queue_pair.arm(Notify::Any);
    pair.a.send_numbers(1);
    // b's notification says that the completion is there.
    pair.until_b_is_notified().await;
    while pair.b.got.is_empty() {
        pair.b.queue_pair.arm(Notify::Any);
        pair.b.collect();
        if pair.b.got.is_empty() {
            // It was spurious.
            pair.until_b_is_notified().await;
        }
    }
    assert_eq!(pair.b.frames(), [[0]]);
}

/// PV-8: an error notifies an owner armed for solicited completions, of a receive and of a send.
pub(crate) async fn error_completion_is_solicited(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.queue_pair.arm(Notify::Solicited);
    pair.b.queue_pair.close();
    while pair.b.got.len() < 4 {
        pair.until_b_is_notified().await;
        pair.b.queue_pair.arm(Notify::Solicited);
        pair.b.collect();
    }
    assert_eq!(pair.b.received(), [Status::Flushed; 4]);

    if !pairs.acknowledge() {
        return;
    }
    let mut plan = Plan::new(4, 4);
    plan.posted[0] = 0;
    let mut pair = Pair::new(pairs, plan).await;
    pair.b.queue_pair.arm(Notify::Solicited);
    pair.b.send_numbers(1);
    while pair.b.sent().is_empty() {
        pair.until_b_is_notified().await;
        pair.b.queue_pair.arm(Notify::Solicited);
        pair.b.collect();
    }
    assert_eq!(pair.b.sent(), [Status::RnrRetryExceeded]);
}

/// The task that called `poll_ready` last is woken, not an earlier one.
pub(crate) async fn last_waker_is_woken(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.queue_pair.arm(Notify::Any);
    let nobody = &mut Context::from_waker(std::task::Waker::noop());
    let _spurious = pair.b.queue_pair.poll_ready(nobody);
    pair.b.queue_pair.arm(Notify::Any);
    pair.a.send_numbers(1);
    while pair.b.got.is_empty() {
        // Only b is waited for: a wake-up for a must not be what helps.
        poll_fn(|cx| pair.b.queue_pair.poll_ready(cx)).await;
        pair.b.queue_pair.arm(Notify::Any);
        pair.b.collect();
    }
    assert_eq!(pair.b.frames(), [[0]]);
}

/// A queue pair that one task polls while others post, as its owner keeps it.
type Shared = Arc<Mutex<Box<dyn QueuePair>>>;

/// Polls in a task of its own until `count` work requests completed. The flag says that the task
/// sleeps, having armed for this and polled.
fn poller(
    queue_pair: &Shared,
    on: Notify,
    count: usize,
) -> (JoinHandle<Vec<Completion>>, Arc<Mutex<bool>>) {
    let asleep = Arc::new(Mutex::new(false));
    let (queue_pair, sleeps) = (queue_pair.clone(), asleep.clone());
    let polling = tokio::spawn(async move {
        let mut got = Vec::new();
        loop {
            queue_pair.lock().arm(on);
            while queue_pair.lock().poll(&mut got, 7) > 0 {}
            if got.len() >= count {
                return got;
            }
            poll_fn(|cx| {
                let ready = queue_pair.lock().poll_ready(cx);
                *sleeps.lock() = ready.is_pending();
                ready
            })
            .await;
        }
    });
    (polling, asleep)
}

async fn until_asleep(asleep: &Mutex<bool>) {
    while !*asleep.lock() {
        tokio::task::yield_now().await;
    }
}

/// PV-7, PV-8: a post by another task to a queue pair that failed wakes the task that polls.
pub(crate) async fn post_wakes_another_task(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.a.queue_pair.close();
    pair.a.until(|a| a.got.len() == 4).await;
    let request = pair.a.request(b"late");
    let queue_pair = Arc::new(Mutex::new(pair.a.queue_pair));
    let (polling, asleep) = poller(&queue_pair, Notify::Solicited, 1);
    until_asleep(&asleep).await;
    queue_pair.lock().post_send(&mut vec![request]).unwrap();
    assert_eq!(polling.await.unwrap()[0].status, Status::Flushed);
}

/// PV-8: a thread posts more than the way to the peer holds, and receives, while the task that
/// polls sleeps: that task carries on what the posts could not finish, and sees all of it complete.
pub(crate) async fn post_while_the_poller_sleeps(pairs: &impl Pairs) {
    const BYTES: usize = 1024 * 1024;
    const FRAMES: usize = 12;
    let plan = Plan { slot_bytes: BYTES, ..Plan::new(FRAMES as u32, FRAMES as u32) };
    let plan = Plan { posted: [0, FRAMES], ..plan };
    let Pair { mut a, mut b } = Pair::new(pairs, plan).await;
    let filled = |end: &mut End, i: usize| {
        let mut request = end.request(&[]);
        request.slot.fill(i as u8);
        SendRequest { bytes: BYTES as u32, ..request }
    };
    let mut batch = (0..FRAMES).map(|i| filled(&mut a, i)).collect::<Vec<_>>();
    let mut receives = a.slots.split_off(a.slots.len() - 2);
    let queue_pair = Arc::new(Mutex::new(a.queue_pair));
    let (polling, asleep) = poller(&queue_pair, Notify::Any, FRAMES + 2);
    until_asleep(&asleep).await;
    // The runtime of the poller has one thread, this one: the poller sleeps until it is joined.
    let posting = std::thread::spawn(move || {
        queue_pair.lock().post_recv(&mut receives).unwrap();
        queue_pair.lock().post_send(&mut batch).unwrap();
        assert!(receives.is_empty() && batch.is_empty(), "what is accepted is taken");
    });
    posting.join().unwrap();
    b.until(|b| b.frames().len() == FRAMES).await;
    assert!(b.frames().iter().enumerate().all(|(i, frame)| **frame == [i as u8; BYTES]));
    b.send_numbers(2);
    b.until(|b| b.sent().len() == 2).await;
    let got = polling.await.unwrap();
    assert!(got.iter().all(|done| done.status == Status::Success));
    let sends = got.iter().filter(|done| done.work == Work::Send);
    assert!(sends.map(|done| done.slot[0]).eq(0..FRAMES as u8));
}
