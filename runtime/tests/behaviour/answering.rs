//! Answers of actors of another node: late, passed on, large, many, none.

use std::time::Duration;

use futures::future::join_all;
use ringpost::prelude::*;
use ringpost::{Inbox, NotBegun};
use tokio::sync::mpsc;

use super::world::{World, end, until};
use crate::actors::{Hold, Note, Notebook, fill, held};
use crate::asking::{Deposit, Teller};
use crate::cause;
use crate::remote::PATIENCE;

/// Answers in every way.
#[actor]
#[derive(Default)]
struct Desk {
    colleague: Option<ActorRef<Teller>>,
    waiting: Vec<(u64, ReplyTo<u64>)>,
}

#[message]
struct Meet {
    colleague: ActorRef<Teller>,
}

#[message]
struct Lend {
    who: ActorRef<Notebook>,
}

#[handlers]
impl Desk {
    #[handler]
    fn meet(&mut self, msg: Meet) {
        self.colleague = Some(msg.colleague);
    }

    /// Forwards the ask to the colleague.
    #[handler]
    fn pass_on(&mut self, cents: u64, reply: ReplyTo<u64>) {
        let colleague = self.colleague.as_ref().unwrap();
        reply.forward(colleague, Deposit { account: "ada".into(), cents });
    }

    /// Forwards the ask to the colleague, by a recipient of `Deposit`.
    #[handler]
    fn pass_on_blindly(&mut self, cents: u64, reply: ReplyTo<u64>) {
        let colleague = self.colleague.as_ref().unwrap().asker::<Deposit>();
        reply.forward(&colleague, Deposit { account: "ada".into(), cents });
    }

    #[handler]
    fn slowly(&mut self, number: u64, reply: ReplyTo<u64>, cx: &mut Context<Self>) {
        cx.spawn_task(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            reply.send(2 * number);
        });
    }

    /// Answers when it opens.
    #[handler]
    fn queue(&mut self, number: u64, reply: ReplyTo<u64>) {
        self.waiting.push((number, reply));
    }

    #[handler]
    fn open(&mut self) -> u64 {
        let waiting = self.waiting.drain(..).map(|(number, reply)| reply.send(number));
        waiting.count() as u64
    }

    #[handler]
    fn never(&mut self, reply: ReplyTo<u64>) {
        drop(reply);
    }

    #[handler]
    fn mirror(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    #[handler]
    fn lend(&mut self, msg: Lend) -> ActorRef<Notebook> {
        msg.who
    }
}

async fn desk(alpha: &Node, beta: &Node) -> ActorRef<Desk> {
    beta.spawn("desk", Desk::default()).await.unwrap();
    alpha.actor("beta/desk").await.unwrap()
}

// Promised in docs/SEMANTICS.md.
pub async fn an_answer_of_another_node_may_come_later_or_from_a_third_one(world: &World) {
    let [alpha, beta] = world.pair().await;
    let gamma = world.node("gamma", &[&beta]).await;
    gamma.ready(1).await.unwrap();
    gamma.spawn("teller", Teller::default()).await.unwrap();
    let desk = desk(&alpha, &beta).await;
    assert_eq!(desk.slowly(4).await, Ok(8));
    assert_eq!(cause(desk.never().await), Err(AskCause::NoReply));
    let waiting = (0..5).map(|number| desk.queue(number).into_ask());
    let waiting: Vec<_> = waiting.map(tokio::spawn).collect();
    let mut opened = 0;
    while opened < 5 {
        opened += desk.open().await.unwrap();
    }
    for (number, answer) in (0..5).zip(join_all(waiting).await) {
        assert_eq!(answer.unwrap(), Ok(number));
    }
    // The colleague is on a node that the asker's never met; then it is on the asker's own.
    let there = beta.actor::<Teller>("gamma/teller").await.unwrap();
    desk.meet(Meet { colleague: there.clone() }).await.unwrap();
    assert_eq!(desk.pass_on(1).await, Ok(1));
    assert_eq!(desk.pass_on_blindly(2).await, Ok(3));
    let own = alpha.spawn("teller", Teller::default()).await.unwrap();
    desk.meet(Meet { colleague: own.clone() }).await.unwrap();
    assert_eq!(desk.pass_on(4).await, Ok(4));
    own.kill().await.unwrap();
    own.wait_stopped().await;
    // It never begins: as the asker of an actor that has ended it may ask again.
    let never = AskCause::NotBegun(NotBegun::Stopped);
    assert_eq!(cause(desk.pass_on(5).await), Err(never.clone()));
    assert_eq!(cause(desk.pass_on_blindly(6).await), Err(never.clone()));
    // The same if the colleague's node is gone.
    gamma.shutdown(PATIENCE).await;
    until(|| beta.linked().len() == 1).await;
    desk.meet(Meet { colleague: there }).await.unwrap();
    assert_eq!(cause(desk.pass_on(7).await), Err(never));
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn many_asks_of_another_node_have_an_answer_each(world: &World) {
    let [alpha, beta] = world.pair().await;
    let desk = desk(&alpha, &beta).await;
    let asks = (0..500).map(|number| desk.slowly(number).into_ask());
    let answers = join_all(asks).await;
    assert!(answers.into_iter().zip(0..500).all(|(answer, number)| answer == Ok(2 * number)));
    // Large ones beside small ones, both ways.
    let sizes = [0, 1, 100, 9_000, 70_000, 3 << 20, 5, 300_000];
    let asks = sizes.map(|bytes| desk.mirror(vec![7; bytes]).timeout(12 * PATIENCE).into_ask());
    for (answer, bytes) in join_all(asks).await.into_iter().zip(sizes) {
        assert_eq!(answer.map(|bytes| bytes == vec![7; bytes.len()]), Ok(true), "{bytes}");
    }
    end([alpha, beta]).await;
}

/// A reference is the same on each node, and still so when it was away and came back.
pub async fn a_reference_that_comes_back_is_the_one_that_left(world: &World) {
    let [alpha, beta] = world.pair().await;
    let desk = desk(&alpha, &beta).await;
    let own = alpha.spawn("own", Notebook::new()).await.unwrap();
    let back = desk.lend(Lend { who: own.clone() }).await.unwrap();
    assert!(back.is_local() && back == own);
    own.kill().await.unwrap();
    own.wait_stopped().await;
    let next = alpha.spawn("own", Notebook::new()).await.unwrap();
    let gone = desk.lend(Lend { who: own.clone() }).await.unwrap();
    assert!(gone == own && gone != next);
    assert_eq!(gone.wait_stopped().await, ActorExit::NoActor);
    let refused = gone.tell(Note { number: 1 }).await.unwrap_err();
    assert!(matches!(refused.cause, Cause::NoSuchActor | Cause::Stopped), "{refused}");
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn sends_to_another_node_end_by_their_time_outs(world: &World) {
    let [alpha, beta] = world.pair().await;
    let held = held(&beta, 8).await;
    let notebook = alpha.actor::<Notebook>("beta/held").await.unwrap();
    let short = Duration::from_millis(50);
    let begun = beta.spawn("other", Notebook::new()).await.unwrap();
    let other = alpha.actor::<Notebook>("beta/other").await.unwrap();
    assert_eq!(cause(other.ask(Hold).timeout(short).await), Err(AskCause::Timeout), "it was begun");
    begun.kill().await.unwrap();
    let asked = notebook.ask(Note { number: 0 }).timeout(short).await;
    let is_late = |error: &AskError| {
        matches!(error.cause, AskCause::Timeout | AskCause::NotBegun(NotBegun::Timeout))
    };
    assert!(asked.as_ref().is_err_and(is_late), "{asked:?}");
    // A misspelt node name waits like a node that has not come up yet; the text says so.
    let misspelt = alpha.named::<Notebook>("bleta/held").unwrap();
    let unknown = misspelt.notes().timeout(short).await.unwrap_err();
    assert_eq!(unknown.cause, AskCause::NotSent(Cause::Timeout));
    let text = unknown.to_string();
    assert!(text.ends_with("no node `bleta` has been linked yet: check the name, and the seeds"));
    assert!(!asked.unwrap_err().to_string().contains("been linked"), "beta is");
    let told = fill(&notebook, short).await;
    held.gate.add_permits(1);
    assert_eq!(notebook.notes().await, Ok((0..told).collect::<Vec<_>>()));
    end([alpha, beta]).await;
}

/// Each message is handled once, and the messages of one sender in their order.
// Promised in docs/SEMANTICS.md.
pub async fn senders_that_wait_for_a_mailbox_of_another_node_lose_nothing(world: &World) {
    const EACH: u64 = 400;
    let [alpha, beta] = world.pair().await;
    let held = held(&beta, 8).await;
    let notebook = alpha.actor::<Notebook>("beta/held").await.unwrap();
    let senders = (0..8).map(|sender| {
        let notebook = notebook.clone();
        tokio::spawn(async move {
            for number in 0..EACH {
                notebook.tell(Note { number: sender * EACH + number }).await.unwrap();
            }
        })
    });
    let senders: Vec<_> = senders.collect();
    let is_stuck = |node: &Node| {
        let links = node.snapshot().peers.into_iter().flat_map(|peer| peer.link);
        links.flat_map(|link| link.waiting).count() > 0
    };
    until(|| is_stuck(&alpha)).await;
    assert!(senders.iter().any(|sender| !sender.is_finished()));
    held.gate.add_permits(1);
    assert!(join_all(senders).await.into_iter().all(|sender| sender.is_ok()));
    let notes = notebook.notes().await.unwrap();
    for sender in 0..8 {
        let own = notes.iter().filter(|note| **note / EACH == sender);
        assert!(own.copied().eq(sender * EACH..(sender + 1) * EACH));
    }
    assert_eq!(notes.len() as u64, 8 * EACH);
    end([alpha, beta]).await;
}

/// A tell is a dead letter of the actor's node; an asker is told.
// Promised in docs/SEMANTICS.md.
pub async fn what_waits_for_an_actor_of_another_node_that_ends_is_accounted_for(world: &World) {
    let [alpha, beta] = world.pair().await;
    let held = held(&beta, 64).await;
    let notebook = alpha.actor::<Notebook>("beta/held").await.unwrap();
    for number in 0..10 {
        let told = notebook.tell(Note { number }).confirmed().await;
        assert_eq!(told, Ok(ringpost::send::Fate::Delivered));
    }
    let asked = tokio::spawn(notebook.notes().into_ask());
    until(|| {
        let actors = beta.snapshot().actors;
        actors.iter().map(|actor| actor.mailbox.remote).sum::<usize>() == 11
    })
    .await;
    held.actor.kill().await.unwrap();
    let never = AskCause::NotBegun(NotBegun::Stopped);
    assert_eq!(cause(asked.await.unwrap()), Err(never));
    assert_eq!(beta.dead_letters().count(ringpost::observe::DeadLetterCause::Stopped), 10);
    assert_eq!((beta.dead_letters().total(), alpha.dead_letters().total()), (10, 0));
    end([alpha, beta]).await;
}

pub async fn an_inbox_is_told_by_another_node(world: &World) {
    let [alpha, beta] = world.pair().await;
    let mut inbox: Inbox<Note> = alpha.inbox(8).await.unwrap();
    let notebook = beta.spawn("notebook", Forwarder(None)).await.unwrap();
    let there = alpha.actor::<Forwarder>("beta/notebook").await.unwrap();
    there.ask(Take(inbox.recipient())).await.unwrap();
    notebook.tell(Note { number: 5 }).await.unwrap();
    assert_eq!(inbox.receive().await, Some(Note { number: 5 }));
    end([alpha, beta]).await;
    assert_eq!(inbox.receive().await, None);
}

pub async fn an_inbox_ends_after_the_last_message_of_the_actor_it_ends_with(world: &World) {
    let [alpha, beta] = world.pair().await;
    for node in [&alpha, &beta] {
        let sender = node.spawn("sender", Forwarder(None)).await.unwrap();
        let place = format!("{}/sender", node.name());
        let seen = alpha.actor::<Forwarder>(&place).await.unwrap();
        // It takes four of the hundred messages: the sender waits while none is received.
        let mut inbox: Inbox<Note> = alpha.inbox(4).await.unwrap();
        inbox.end_with(&seen);
        seen.ask(Take(inbox.recipient())).await.unwrap();
        let sends = tokio::spawn(async move {
            for number in 0..100 {
                sender.tell(Note { number }).await.unwrap();
            }
            sender.drain().await.unwrap();
        });
        let mut received = 0;
        while let Some(note) = inbox.receive().await {
            assert_eq!(note, Note { number: received });
            received += 1;
        }
        assert_eq!(received, 100);
        let down = inbox.down().expect("it has ended the inbox");
        assert_eq!((&down.actor, &down.exit), (seen.address(), &ringpost::ActorExit::Stopped));
        assert!(inbox.recipient().tell(Note { number: 1 }).await.is_err(), "it is closed");
        sends.await.unwrap();
    }
    let seen = beta.spawn("sender", Forwarder(None)).await.unwrap();
    let mut inbox: Inbox<Note> = alpha.inbox(4).await.unwrap();
    inbox.end_with(&alpha.actor::<Forwarder>("beta/sender").await.unwrap());
    drop(seen);
    assert_eq!(beta.shutdown(4 * PATIENCE).await, vec![]);
    assert_eq!(inbox.receive().await, None);
    assert!(inbox.down().is_some(), "its node has ended");
    end([alpha, beta]).await;
}

#[message]
struct Take(Recipient<Note>);

#[actor]
struct Forwarder(Option<Recipient<Note>>);

#[handlers]
impl Forwarder {
    #[handler]
    fn subscribe(&mut self, msg: Take) {
        self.0 = Some(msg.0);
    }

    #[handler]
    async fn note(&mut self, msg: Note) {
        if let Some(to) = &self.0 {
            to.tell(msg).await.unwrap();
        }
    }
}

/// Answers nothing, and says so when an asker has given up.
#[actor]
struct Waiter {
    events: mpsc::UnboundedSender<(&'static str, u64)>,
}

#[handlers]
impl Waiter {
    #[handler]
    fn wait(&mut self, number: u64, mut reply: ReplyTo<u64>, cx: &mut Context<Self>) {
        let events = self.events.clone();
        events.send(("begun", number)).unwrap();
        cx.spawn_task(async move {
            // The second wait finds what the first one, which was dropped, had registered.
            assert!(futures::poll!(Box::pin(reply.given_up())).is_pending());
            reply.given_up().await;
            let is_known = reply.is_given_up();
            events.send((if is_known { "gone" } else { "late" }, number)).unwrap();
        });
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn it_is_told_when_the_asker_gives_up(world: &World) {
    const HOUR: Duration = Duration::from_secs(3600);
    let [alpha, beta] = world.pair().await;
    let (events, mut happened) = mpsc::unbounded_channel();
    let near = beta.spawn("waiter", Waiter { events }).await.unwrap();
    let far: ActorRef<Waiter> = alpha.actor("beta/waiter").await.unwrap();
    for (number, waiter) in [(1, &near), (2, &far)] {
        // It is dropped long before its time.
        let asked = tokio::spawn(waiter.wait(number).timeout(HOUR).into_ask());
        assert_eq!(happened.recv().await, Some(("begun", number)));
        asked.abort();
        assert_eq!(happened.recv().await, Some(("gone", number)));
    }
    for (number, waiter) in [(3, &near), (4, &far)] {
        // Its time passes at both nodes, and which of them looks first is open.
        let late = waiter.wait(number).timeout(Duration::from_millis(50)).await;
        assert_eq!(cause(late), Err(AskCause::Timeout));
        assert_eq!(happened.recv().await, Some(("begun", number)));
        let told = happened.recv().await.unwrap();
        assert!(told == ("gone", number) || told == ("late", number), "{told:?}");
    }
    let asked = tokio::spawn(far.wait(5).timeout(HOUR).into_ask());
    assert_eq!(happened.recv().await, Some(("begun", 5)));
    alpha.shutdown(PATIENCE).await;
    assert_eq!(happened.recv().await, Some(("gone", 5)));
    assert!(asked.await.unwrap().is_err());
    // A tell has no asker that could give up.
    near.tell(Wait { number: 6 }).await.unwrap();
    assert_eq!(happened.recv().await, Some(("begun", 6)));
    end([alpha, beta]).await;
    assert_eq!(happened.recv().await, None);
}
