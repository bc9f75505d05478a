//! Bounded mailboxes: order, room, turns.

use std::future::Future;
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::Duration;

use ringpost::prelude::*;
use ringpost::send::{ActorPermit, RecipientPermit};
use ringpost::spawn::SpawnOptions;

use crate::actors::{Note, Notebook, held, node};
use crate::cause;
use crate::remote::{end, pair};

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(Waker::noop()))
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn messages_of_one_sender_are_handled_in_the_order_they_were_sent() {
    let node = node().await;
    let notebook = node.spawn("notebook", Notebook::new()).await.unwrap();
    for number in 0..10_000 {
        notebook.tell(Note { number }).await.unwrap();
    }
    assert_eq!(notebook.notes().await.unwrap(), (0..10_000).collect::<Vec<_>>());
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_senders_wait_for_room_and_none_is_lost() {
    let node = node().await;
    let options = SpawnOptions::anonymous().mailbox_capacity(3);
    let notebook = node.spawn_with(options, Notebook::new()).await.unwrap();
    let senders = (0..8u64).map(|sender| {
        let notebook = notebook.clone();
        tokio::spawn(async move {
            for number in 0..500 {
                notebook.tell(Note { number: sender * 1000 + number }).await.unwrap();
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    let notes = notebook.notes().await.unwrap();
    assert_eq!(notes.len(), 4000);
    for sender in 0..8 {
        let own: Vec<u64> = notes.iter().copied().filter(|n| n / 1000 == sender).collect();
        assert!(own.is_sorted(), "each sender's messages keep their order");
    }
}

/// A sender that never has to wait still yields, so that its thread's other tasks, and the actor,
/// do not wait for its last message.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_task_that_only_tells_lets_others_run() {
    let node = node().await;
    let options = SpawnOptions::anonymous().mailbox_capacity(100_000);
    let notebook = node.spawn_with(options, Notebook::new()).await.unwrap();
    let other = tokio::spawn(async {});
    let mut told_before = 0;
    while !other.is_finished() {
        notebook.tell(Note { number: told_before }).await.unwrap();
        told_before += 1;
        assert!(told_before < 10_000, "the other task does not run");
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_full_mailbox_refuses_try_tell_and_gives_the_message_back() {
    let node = node().await;
    let held = held(&node, 2).await;
    held.actor.try_tell(Note { number: 1 }).unwrap();
    held.actor.try_tell(Note { number: 2 }).unwrap();
    let refused = held.actor.try_tell(Note { number: 3 }).unwrap_err();
    assert_eq!(refused.message, Note { number: 3 });
    assert_eq!(refused.cause, Cause::MailboxFull);
    assert!(refused.cause.is_retryable());
    held.gate.add_permits(1);
    assert_eq!(held.actor.notes().await.unwrap(), [1, 2]);
}

#[tokio::test]
async fn a_mailbox_capacity_of_nothing_starts_as_one() {
    let beta = Node::builder("beta").mailbox_capacity(0).start().await.unwrap();
    let by_the_node = beta.spawn("notebook", Notebook::new()).await.unwrap();
    let alpha = node().await;
    let by_the_spawner = held(&alpha, 0).await;
    // Neither actor runs before the next await.
    for notebook in [&by_the_node, &by_the_spawner.actor] {
        notebook.try_tell(Note { number: 1 }).unwrap();
        let refused = notebook.try_tell(Note { number: 2 }).unwrap_err();
        assert_eq!(refused.cause, Cause::MailboxFull);
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_tell_waits_for_room_and_is_handled_when_there_is_some() {
    let node = node().await;
    let held = held(&node, 1).await;
    held.actor.tell(Note { number: 1 }).await.unwrap();
    let mut waiting = pin!(held.actor.tell(Note { number: 2 }));
    assert!(poll(waiting.as_mut()).is_pending());
    held.gate.add_permits(1);
    waiting.await.unwrap();
    assert_eq!(held.actor.notes().await.unwrap(), [1, 2]);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_tell_that_is_dropped_gives_its_turn_to_the_next() {
    let node = node().await;
    let held = held(&node, 1).await;
    held.actor.tell(Note { number: 1 }).await.unwrap();
    let mut second = pin!(held.actor.tell(Note { number: 3 }));
    {
        let mut first = pin!(held.actor.tell(Note { number: 2 }));
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending());
        held.gate.add_permits(1);
    }
    second.await.unwrap();
    assert_eq!(held.actor.notes().await.unwrap(), [1, 3]);
}

/// The oracle is the message that comes back, and the turn that the next sender has.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_tell_with_a_time_out_comes_back_and_gives_its_turn_to_the_next() {
    let node = node().await;
    let held = held(&node, 1).await;
    let limit = Duration::from_secs(3);
    held.actor.tell(Note { number: 1 }).timeout(limit).await.unwrap();
    let began = tokio::time::Instant::now();
    let mut late = pin!(held.actor.tell(Note { number: 2 }).timeout(limit));
    let mut next = pin!(held.actor.tell(Note { number: 3 }));
    assert!(poll(late.as_mut()).is_pending() && poll(next.as_mut()).is_pending());
    let refused = late.as_mut().await.unwrap_err();
    let waited = began.elapsed();
    assert!((limit..limit + Duration::from_millis(500)).contains(&waited), "{waited:?}");
    assert_eq!((refused.message, refused.cause), (Note { number: 2 }, Cause::Timeout));
    held.gate.add_permits(1);
    next.await.unwrap();
    assert_eq!(held.actor.notes().await.unwrap(), [1, 3]);
    let nobody = held.actor.clone();
    held.actor.stop().await.unwrap();
    held.actor.wait_stopped().await;
    let refused = nobody.tell(Note { number: 4 }).timeout(limit).await.unwrap_err();
    assert_eq!(refused.cause, Cause::Stopped);
}

#[actor]
struct Talker;

#[handlers]
impl Talker {
    /// Tells itself until its mailbox is full; gives the cause of the first refusal.
    #[handler]
    async fn flood(&mut self, cx: &mut Context<Self>) -> u32 {
        let mut sent = 0;
        loop {
            match cx.actor().tell(Nothing).await {
                Ok(()) => sent += 1,
                Err(TellError { cause: Cause::MailboxFull, .. }) => return sent,
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[handler]
    fn nothing(&mut self) {}
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_tell_to_oneself_never_waits() {
    let node = node().await;
    let options = SpawnOptions::anonymous().mailbox_capacity(5);
    let talker = node.spawn_with(options, Talker).await.unwrap();
    assert_eq!(talker.flood().await.unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_failed_keeps_no_turn() {
    let node = node().await;
    let held = held(&node, 1).await;
    held.actor.tell(Note { number: 1 }).await.unwrap();
    let mut failed = pin!(held.actor.notes().timeout(Duration::from_millis(10)));
    assert!(poll(failed.as_mut()).is_pending());
    let mut next = pin!(held.actor.tell(Note { number: 2 }));
    assert!(poll(next.as_mut()).is_pending());
    assert_eq!(cause(failed.as_mut().await), Err(AskCause::NotSent(Cause::Timeout)));
    held.gate.add_permits(1);
    next.await.unwrap();
    assert_eq!(held.actor.notes().await, Ok(vec![1, 2]));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn room_that_is_reserved_is_kept_for_its_message_or_goes_to_the_next() {
    let node = node().await;
    let held = held(&node, 2).await;
    let notes = held.actor.recipient::<Note>();
    let first = held.actor.reserve::<Note>().await.unwrap();
    let second = notes.reserve().await.unwrap();
    let full = held.actor.try_tell(Note { number: 9 }).unwrap_err();
    assert_eq!(full.cause, Cause::MailboxFull);
    let mut third = Box::pin(held.actor.reserve::<Note>());
    let mut given_up = Box::pin(notes.reserve());
    let mut told = Box::pin(held.actor.tell(Note { number: 3 }).into_future());
    assert!(futures::poll!(&mut third).is_pending() && futures::poll!(&mut given_up).is_pending());
    assert!(futures::poll!(&mut told).is_pending());
    second.tell(Note { number: 1 }).unwrap();
    drop(first);
    third.await.unwrap().tell(Note { number: 2 }).unwrap();
    assert!(futures::poll!(&mut told).is_pending());
    held.gate.add_permits(1);
    drop(given_up);
    told.await.unwrap();
    while held.actor.notes().await.unwrap() != [1, 2, 3] {}
    let late = held.actor.reserve::<Note>().await.unwrap();
    let mut letters = node.dead_letters().subscribe();
    held.actor.stop().await.unwrap();
    held.actor.wait_stopped().await;
    late.tell(Note { number: 4 }).unwrap();
    assert_eq!(letters.recv().await.unwrap().to, *held.actor.address());
    assert_eq!(held.actor.reserve::<Note>().await.map(|_| ()), Err(Cause::Stopped));
}

/// Has room in mailboxes before it has messages: the types of permits have names.
struct Booked {
    actor: ActorPermit<Notebook, Note>,
    told: RecipientPermit<Note>,
    asked: RecipientPermit<Note, ()>,
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_struct_may_have_a_permit_of_each_reference() {
    let (alpha, beta) = pair().await;
    let notebook = beta.spawn("notebook", Notebook::new()).await.unwrap();
    let far = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    for at in [&notebook, &far] {
        let booked = Booked {
            actor: at.reserve().await.unwrap(),
            told: at.recipient().reserve().await.unwrap(),
            asked: at.asker().reserve().await.unwrap(),
        };
        booked.actor.tell(Note { number: 1 }).unwrap();
        booked.told.tell(Note { number: 2 }).unwrap();
        booked.asked.tell(Note { number: 3 }).unwrap();
    }
    while notebook.notes().await.unwrap().len() != 6 {}
    end([alpha, beta]).await;
}
