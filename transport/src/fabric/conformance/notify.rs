//! Arming and waiting: PV-8. A notification may be spurious, so the cases ask for those that have
//! to come.

use std::future::poll_fn;
use std::task::Context;

use super::pair::{End, Pair, Pairs, Plan};
use crate::fabric::{Halves, Notify, Status};

/// Sends one frame from `end` that wakes only who armed for any completion.
fn send_unsolicited(end: &mut End, number: u8) {
    let mut request = end.request(&[number]);
    request.solicited = false;
    end.send(request);
}

/// PV-8: armed for solicited completions, a solicited frame notifies; the unsolicited one before it
/// is polled with it.
pub(crate) async fn recv_solicited_notify(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.halves.done.arm(Notify::Solicited);
    send_unsolicited(&mut pair.a, 0);
    let solicited = pair.a.request(&[1]);
    pair.a.send(solicited);
    while pair.b.got.len() < 2 {
        pair.until_b_is_notified().await;
        pair.b.halves.done.arm(Notify::Solicited);
        pair.b.collect();
    }
    assert_eq!(pair.b.frames(), [[0], [1]]);
}

/// PV-8: armed for any completion, an unsolicited frame notifies.
pub(crate) async fn recv_any_notify(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    for i in 0..3 {
        pair.b.halves.done.arm(Notify::Any);
        send_unsolicited(&mut pair.a, i);
        while pair.b.got.len() <= usize::from(i) {
            pair.until_b_is_notified().await;
            pair.b.halves.done.arm(Notify::Any);
            pair.b.collect();
        }
    }
    assert_eq!(pair.b.frames(), [[0], [1], [2]]);
}

/// PV-8: a send that completes notifies who armed for any completion.
pub(crate) async fn send_completion_notify(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.halves.done.arm(Notify::Any);
    pair.b.send_numbers(1);
    while pair.b.got.is_empty() {
        pair.until_b_is_notified().await;
        pair.b.halves.done.arm(Notify::Any);
        pair.b.collect();
    }
    assert_eq!(pair.b.sent(), [Status::Success]);
}

/// PV-8: arming for solicited completions does not undo arming for any.
pub(crate) async fn arm_is_not_weakened(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.halves.done.arm(Notify::Any);
    pair.b.halves.done.arm(Notify::Solicited);
    send_unsolicited(&mut pair.a, 0);
    while pair.b.got.is_empty() {
        pair.until_b_is_notified().await;
        pair.b.halves.done.arm(Notify::Any);
        pair.b.halves.done.arm(Notify::Solicited);
        pair.b.collect();
    }
}

/// PV-8: a completion from before the arming may notify nobody, but the poll after it finds it.
pub(crate) async fn one_shot_arm_missed_event(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.halves.done.arm(Notify::Any);
    pair.a.send_numbers(1);
    // b's notification says that the completion is there.
    pair.until_b_is_notified().await;
    while pair.b.got.is_empty() {
        pair.b.halves.done.arm(Notify::Any);
        pair.b.collect();
        if pair.b.got.is_empty() {
            // It was spurious.
            pair.until_b_is_notified().await;
        }
    }
    assert_eq!(pair.b.frames(), [[0]]);
}

/// PV-8: an error notifies who armed for solicited completions, of a receive and of a send.
pub(crate) async fn error_completion_is_solicited(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.halves.done.arm(Notify::Solicited);
    pair.b.halves.done.close();
    while pair.b.got.len() < 4 {
        pair.until_b_is_notified().await;
        pair.b.halves.done.arm(Notify::Solicited);
        pair.b.collect();
    }
    assert_eq!(pair.b.received(), [Status::Flushed; 4]);

    let mut plan = Plan::new(4, 4);
    plan.posted[0] = 0;
    let mut pair = Pair::new(pairs, plan).await;
    pair.b.halves.done.arm(Notify::Solicited);
    pair.b.send_numbers(1);
    while pair.b.sent().is_empty() {
        pair.until_b_is_notified().await;
        pair.b.halves.done.arm(Notify::Solicited);
        pair.b.collect();
    }
    assert_eq!(pair.b.sent(), [Status::RnrRetryExceeded]);
}

/// The task that asked last is woken, not one that asked before.
pub(crate) async fn last_waker_is_woken(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.halves.done.arm(Notify::Any);
    let nobody = &mut Context::from_waker(std::task::Waker::noop());
    let _spurious = pair.b.halves.done.poll_ready(nobody);
    pair.b.halves.done.arm(Notify::Any);
    pair.a.send_numbers(1);
    while pair.b.got.is_empty() {
        // Only b is waited for: a wake-up for a must not be what helps.
        poll_fn(|cx| pair.b.halves.done.poll_ready(cx)).await;
        pair.b.halves.done.arm(Notify::Any);
        pair.b.collect();
    }
    assert_eq!(pair.b.frames(), [[0]]);
}

/// PV-7, PV-8: the halves are used apart. Who waits for completions is woken by what another task
/// posts.
pub(crate) async fn post_wakes_another_task(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.a.halves.done.close();
    pair.a.until(|a| a.got.len() == 4).await;
    let request = pair.a.request(b"late");
    let Halves { mut send, recv: _recv, mut done } = pair.a.halves;
    let waiting = tokio::spawn(async move {
        let mut got = Vec::new();
        loop {
            done.arm(Notify::Solicited);
            if done.poll(&mut got, 1) > 0 {
                return got;
            }
            poll_fn(|cx| done.poll_ready(cx)).await;
        }
    });
    // It waits by now, or will find the completion when it polls.
    tokio::task::yield_now().await;
    send.post(&mut vec![request]).unwrap();
    assert_eq!(waiting.await.unwrap()[0].status, Status::Flushed);
}
