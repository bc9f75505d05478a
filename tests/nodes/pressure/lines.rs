//! Two references to one actor of another node, by its name and by its identity: their senders wait
//! in one line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::join_all;
use ringpost::net::Profile;
use ringpost::prelude::*;
use tokio::task::JoinSet;

use super::{Held, Stack, end, load, pair, until};
use crate::process::within;

/// Senders that wait, by each reference in turn.
const WAITING: u64 = 40;
/// Messages that may wait in the mailbox for whose room they wait.
const WINDOW: u32 = 8;
/// More than the window of any mailbox: it waits until the mailbox is empty.
const LARGE: usize = 16 * 1024 * 1024;
/// Tasks that tell small messages.
const TELLERS: u64 = 16;
/// Messages that may be handled between the begin of the wait of a large one and its own turn:
/// several windows of them.
const OVERTAKEN_MAX: u64 = 2_000;

/// The stack `stuck` of beta, which takes nothing; alpha's references to it by name and by
/// identity, both used before; and how many messages, numbered from 0, fill its mailbox.
async fn full(alpha: &Node, beta: &Node) -> (Held, [ActorRef<Stack>; 2], u64) {
    let held = Held::stuck(beta, "stuck").await;
    Held::free(beta, "guide").await;
    let guide = alpha.actor::<Stack>("beta/guide").await.unwrap();
    let by_identity = within(async { guide.find("stuck".into()).await }).await.unwrap();
    let by_identity = by_identity.expect("it lives there");
    let by_name = alpha.named::<Stack>("beta/stuck").unwrap();
    assert_ne!(by_name, by_identity, "each leads there by itself");
    within(by_identity.tell(load(0, 10)).confirmed()).await.unwrap();
    within(by_name.tell(load(1, 10)).confirmed()).await.unwrap();
    let mut number = 2;
    while by_name.try_tell(load(number, 10)).is_ok() {
        number += 1;
    }
    (held, [by_name, by_identity], number)
}

/// Each sender is a task of its own, and little room comes at a time. On one thread, tasks that are
/// granted room together also commit in the order in which they were woken.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn senders_wait_in_one_line_whichever_reference_they_have() {
    let profile = Profile { mailbox_window_messages: WINDOW, ..Profile::default() };
    let (alpha, beta) = pair(profile).await;
    let (held, there, filled) = full(&alpha, &beta).await;
    let tell = |number: u64| {
        let there = there[(number % 2) as usize].clone();
        Box::pin(async move { there.tell(load(number, 10)).await })
    };
    let mut waiting: Vec<_> = (filled..filled + WAITING).map(tell).collect();
    for sender in &mut waiting {
        // In the order of the numbers.
        assert!(sender.now_or_never().is_none(), "there is no room");
    }
    let tasks = waiting.into_iter().map(tokio::spawn);
    let tasks = join_all(tasks.collect::<Vec<_>>());
    held.release();
    for told in within(tasks).await {
        told.unwrap().unwrap();
    }
    let handled = within(async { there[0].numbers().await }).await.unwrap();
    let late = handled.windows(2).filter(|pair| pair[0] > pair[1]).count();
    println!("{late} times room went to a sender that had waited for less than another");
    assert!(handled.into_iter().eq(0..filled + WAITING), "room goes to those who came first");
    end([&alpha, &beta]).await;
}

/// A large message, which waits until its mailbox is empty, does not wait for ever because others
/// use another reference.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_message_does_not_starve_behind_small_ones_of_another_reference() {
    const ITSELF: u64 = u64::MAX;
    // Fewer than the tellers: without the large message it would never be empty.
    let profile = Profile { mailbox_window_messages: WINDOW, ..Profile::default() };
    let (alpha, beta) = pair(profile).await;
    let (held, [by_name, by_identity], _) = full(&alpha, &beta).await;
    let mut large = Box::pin(by_name.tell(load(ITSELF, LARGE)));
    assert!((&mut large).now_or_never().is_none(), "there is no room");
    let enough = Arc::new(AtomicBool::new(false));
    let mut tellers = JoinSet::new();
    for _ in 0..TELLERS {
        let (there, enough) = (by_identity.clone(), enough.clone());
        tellers.spawn(async move {
            while !enough.load(Ordering::Relaxed) {
                there.tell(load(0, 10)).await.unwrap();
            }
        });
    }
    let sent = || alpha.links()[0].1.messages_sent;
    let before = sent();
    held.release();
    let committed = tokio::select! {
        told = large => told.is_ok(),
        // Far beyond the bound, so that a message that starves does not hold up the test.
        () = until(|| sent() - before > 10 * OVERTAKEN_MAX) => false,
    };
    let overtaken = sent() - before;
    enough.store(true, Ordering::Relaxed);
    within(tellers.join_all()).await;
    println!("the large message was sent: {committed}, after {overtaken} others");
    assert!(committed, "it starves");
    assert!(overtaken <= OVERTAKEN_MAX, "{overtaken} messages overtook it");
    end([&alpha, &beta]).await;
}
