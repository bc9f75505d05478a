//! The stash: what an actor puts aside for later.

use std::time::Duration;

use ringpost::limits;
use ringpost::prelude::*;
use ringpost::spawn::Child;

use super::{Clerk, Do, MS, Order, within};
use crate::actors::{Note, node};
use crate::remote::pair;

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn what_is_put_aside_comes_back_in_its_order_before_the_mailbox() {
    let node = node().await;
    let clerk = node.supervise(Child::new(Clerk::default)).await.unwrap();
    within(&clerk, |clerk, _| clerk.shut = true).await;
    let asks: Vec<_> = (0..3)
        .map(|number| {
            let clerk = clerk.clone();
            tokio::spawn(async move { clerk.ask(Order { number }).await })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(clerk.notes().await, Ok(vec![]));
    assert_eq!(clerk.open().await, Ok(3));
    for (number, ask) in asks.into_iter().enumerate() {
        assert_eq!(ask.await.unwrap(), Ok(number as u64));
    }
    within(&clerk, |_, cx| {
        for number in 0..1024 {
            cx.stash(Note { number }).unwrap();
        }
        let full = cx.stash(Note { number: 1024 }).unwrap_err();
        assert_eq!(full.message.number, 1024);
    })
    .await;
    // A restart puts the stashed messages back; an end makes dead letters of them.
    clerk.fail().await.unwrap_err();
    assert_eq!(clerk.notes().await.unwrap().len(), 1024);
    within(&clerk, |_, cx| cx.stash(Note { number: 1 }).unwrap()).await;
    clerk.stop().await.unwrap();
    clerk.wait_stopped().await;
    assert_eq!(node.dead_letters().total(), 1);
}

/// A message that is put aside ahead of older messages, or put aside again, has its old place.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn what_is_put_aside_while_others_come_back_is_behind_the_older_ones() {
    let node = node().await;
    let clerk = Clerk::spawn(&node).await;
    within(&clerk, |clerk, _| clerk.shut = true).await;
    let ask = |number| {
        let clerk = clerk.clone();
        tokio::spawn(async move { clerk.ask(Order { number }).await })
    };
    let asks: Vec<_> = (0..3).map(ask).collect();
    tokio::task::yield_now().await;
    // They come back while the clerk is shut, so each is put aside again; and a timer, which goes
    // ahead of them, puts aside one more.
    within(&clerk, |_, cx| {
        let deed = |_: &mut Clerk, cx: &mut Context<Clerk>| {
            cx.stash(Note { number: 10 }).unwrap();
        };
        cx.tell_after(1, Duration::ZERO, Do(Box::new(deed)));
        assert_eq!(cx.unstash(), 3);
    })
    .await;
    assert_eq!(clerk.notes().await, Ok(vec![]));
    assert_eq!(clerk.open().await, Ok(4));
    for (number, ask) in asks.into_iter().enumerate() {
        assert_eq!(ask.await.unwrap(), Ok(number as u64));
    }
    assert_eq!(clerk.notes().await, Ok(vec![0, 1, 2, 10]));
    within(&clerk, |_, cx| {
        let deed = |_: &mut Clerk, cx: &mut Context<Clerk>| {
            cx.stash(Note { number: 3 }).unwrap();
            assert_eq!(cx.unstash(), 1);
        };
        cx.tell_after(1, Duration::ZERO, Do(Box::new(deed)));
        (1..3).for_each(|number| cx.stash(Note { number }).unwrap());
        cx.unstash();
    })
    .await;
    assert_eq!(clerk.notes().await, Ok(vec![1, 2, 3]));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn what_is_put_aside_keeps_its_order_and_its_deadline() {
    let node = node().await;
    let clerk = Clerk::spawn(&node).await;
    within(&clerk, |_, cx| {
        cx.stash(Note { number: 1 }).unwrap();
        cx.stash(Note { number: 2 }).unwrap();
        cx.unstash();
        cx.stash(Note { number: 0 }).unwrap();
        assert_eq!(cx.unstash(), 1);
    })
    .await;
    assert_eq!(clerk.notes().await, Ok(vec![1, 2, 0]));
    within(&clerk, |clerk, _| clerk.shut = true).await;
    let asked = {
        let clerk = clerk.clone();
        tokio::spawn(async move { clerk.ask(Order { number: 3 }).timeout(50 * MS).await })
    };
    tokio::task::yield_now().await;
    within(&clerk, |clerk, _| clerk.asks_when = true).await;
    assert_eq!(clerk.open().await, Ok(1));
    assert_eq!(asked.await.unwrap(), Ok(3));
    assert_eq!(clerk.notes().await, Ok(vec![50]));
}

/// An ask that was put aside was begun, but is dropped if its asker no longer waits for it.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn what_was_put_aside_and_given_up_does_not_come_back() {
    let node = node().await;
    let clerk = Clerk::spawn(&node).await;
    within(&clerk, |clerk, _| clerk.shut = true).await;
    let ask = |number| {
        let clerk = clerk.clone();
        tokio::spawn(
            async move { clerk.ask(Order { number }).timeout(50 * MS * number as u32).await },
        )
    };
    let (dropped, late, waits) = (ask(1000), ask(1), ask(1001));
    tokio::task::yield_now().await;
    assert_eq!(clerk.notes().await, Ok(vec![]));
    dropped.abort();
    assert!(late.await.unwrap().is_err());
    within(&clerk, |_, cx| cx.stash(Note { number: 7 }).unwrap()).await;
    assert_eq!(clerk.open().await, Ok(4));
    assert_eq!(waits.await.unwrap(), Ok(1001));
    assert_eq!(clerk.notes().await, Ok(vec![1001, 7]));
}

#[message]
struct Heavy(Vec<u8>);

/// Puts aside all that it can, and says whether it could.
#[actor]
#[derive(Default)]
struct Hoarder;

#[handlers]
impl Hoarder {
    #[handler]
    fn heavy(&mut self, msg: View<Heavy>, cx: &mut Context<Self>) -> bool {
        cx.stash(msg).is_ok()
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn messages_of_other_nodes_are_put_aside_up_to_so_many_bytes() {
    let (alpha, beta) = pair().await;
    let near = beta.spawn("hoarder", Hoarder).await.unwrap();
    let far: ActorRef<Hoarder> = alpha.actor("beta/hoarder").await.unwrap();
    let half = limits::STASH_BYTES_MAX / 2;
    let heavy = |bytes| far.ask(Heavy(vec![1; bytes]));
    assert_eq!((heavy(half).await, heavy(100).await), (Ok(true), Ok(true)));
    assert_eq!((heavy(half).await, heavy(100).await), (Ok(false), Ok(true)));
    assert_eq!(near.ask(Heavy(vec![2; half])).await, Ok(true), "it is of its own node");
    near.stop().await.unwrap();
    near.wait_stopped().await;
    assert_eq!(beta.dead_letters().total(), 4);
}
