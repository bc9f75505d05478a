//! References as values: compared, hashed, sent in messages, erased.

use std::collections::HashMap;
use std::time::Duration;

use crate::cause;
use ringpost::prelude::*;
use ringpost::rkyv;

use crate::actors::{Note, Notebook, node};

#[message]
pub struct Subscribe {
    pub who: ActorRef<Notebook>,
    pub notes: Recipient<Note>,
    pub asks: Recipient<Note, ()>,
}

/// Handles a message on its archive, so that a local send goes through one.
#[actor]
#[derive(Default)]
pub struct Topic {
    subscribers: Vec<Recipient<Note>>,
}

#[handlers]
impl Topic {
    #[handler]
    pub async fn subscribe(&mut self, msg: View<Subscribe>, cx: &mut Context<Self>) -> String {
        let names = format!("{}/{}", msg.who.node(), msg.who.name().unwrap_or("?"));
        let who = cx.own::<ActorRef<Notebook>>(&msg.who);
        assert_eq!(who.is_local(), cx.node().name() == msg.who.node());
        let all = msg.to_owned();
        assert_eq!(all.who, who);
        assert_eq!(all.asks.ask(Note { number: 1 }).await, Ok(()));
        self.subscribers.push(all.notes);
        names
    }

    #[handler]
    pub async fn publish(&mut self, number: u64) -> u64 {
        for subscriber in &self.subscribers {
            subscriber.tell(Note { number }).await.unwrap();
        }
        self.subscribers.len() as u64
    }
}

#[tokio::test]
async fn references_travel_in_messages_and_are_bound_where_they_arrive() {
    let node = node().await;
    let notebook = node.spawn("notebook", Notebook::new()).await.unwrap();
    let anonymous = node.spawn_anonymous(Notebook::new()).await.unwrap();
    let topic = node.spawn("topic", Topic::default()).await.unwrap();
    for actor in [&notebook, &anonymous] {
        let message =
            Subscribe { who: actor.clone(), notes: actor.recipient(), asks: actor.asker() };
        let expected = actor.address().name().map_or("alpha/?", |_| "alpha/notebook");
        assert_eq!(topic.subscribe(message).await.unwrap(), expected);
    }
    assert_eq!(topic.publish(2).await, Ok(2));
    assert_eq!(notebook.notes().await, Ok(vec![1, 2]));
    assert_eq!(anonymous.notes().await, Ok(vec![1, 2]));
}

#[actor]
struct Reader;

#[handlers]
impl Reader {
    /// Returns for each of the three references of a message whether its actor is gone.
    #[handler]
    async fn read(&mut self, msg: View<Subscribe>) -> Vec<bool> {
        let Subscribe { who, notes, asks } = msg.to_owned();
        let gone = Cause::NoSuchActor;
        vec![
            who.tell(Note { number: 1 }).await.is_err_and(|e| e.cause == gone),
            notes.try_tell(Note { number: 1 }).is_err_and(|e| e.cause == gone),
            cause(asks.ask(Note { number: 1 }).await) == Err(AskCause::NotSent(gone)),
            who.stop().await == Ok(()),
            who.wait_stopped().await == ActorExit::NoActor,
        ]
    }
}

#[tokio::test]
async fn a_reference_to_an_actor_that_is_gone_is_a_value_that_says_so() {
    let node = node().await;
    let gone = node.spawn("notebook", Notebook::new()).await.unwrap();
    let message = Subscribe { who: gone.clone(), notes: gone.recipient(), asks: gone.asker() };
    gone.kill().await.unwrap();
    gone.wait_stopped().await;
    let next = node.spawn("notebook", Notebook::new()).await.unwrap();
    let reader = node.spawn("reader", Reader).await.unwrap();
    assert_eq!(reader.read(message).await.unwrap(), [true; 5]);
    assert_eq!(next.notes().await, Ok(vec![]), "the next of the same name is not meant");
}

#[tokio::test]
async fn references_to_one_actor_are_one_key() {
    let node = node().await;
    let first = node.spawn("first", Notebook::new()).await.unwrap();
    let second = node.spawn("second", Notebook::new()).await.unwrap();
    let mut keys = HashMap::from([(first.clone(), 1), (second.clone(), 2)]);
    assert_eq!(keys.remove(&node.actor("alpha/first").await.unwrap()), Some(1));
    assert_eq!(keys.remove(&first), None);
    let recipients = HashMap::from([(second.recipient::<Note>(), 2)]);
    assert_eq!(recipients.get(&second.recipient()), Some(&2));
    assert!(format!("{first:?}").ends_with("Notebook>(alpha/first)"), "{first:?}");
    assert!(format!("{:?}", first.recipient::<Note>()).ends_with("Note>(alpha/first)"));
    assert_eq!(first.address().to_string(), "alpha/first");
    node.shutdown(Duration::from_secs(1)).await;
}

#[test]
fn the_archive_of_a_reference_can_be_read_without_a_node() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let bytes = runtime.block_on(async {
        let node = node().await;
        let actor = node.spawn("notebook", Notebook::new()).await.unwrap();
        let message =
            Subscribe { who: actor.clone(), notes: actor.recipient(), asks: actor.asker() };
        rkyv::to_bytes::<rkyv::rancor::Error>(&message).unwrap()
    });
    let archive = rkyv::access::<rkyv::Archived<Subscribe>, rkyv::rancor::Error>(&bytes).unwrap();
    assert_eq!((archive.who.node(), archive.who.name()), ("alpha", Some("notebook")));
    assert_eq!((archive.notes.node(), archive.asks.name()), ("alpha", Some("notebook")));
    let mut hostile = bytes.clone();
    hostile.fill(0xfe);
    assert!(rkyv::access::<rkyv::Archived<Subscribe>, rkyv::rancor::Error>(&hostile).is_err());
}

#[tokio::test]
async fn an_error_can_be_passed_on_without_its_message() {
    async fn send(actor: &ActorRef<Notebook>) -> Result<(), BoxError> {
        actor.tell(Note { number: 1 }).await.map_err(TellError::without_message)?;
        actor.notes().await?;
        Ok(())
    }
    let node = node().await;
    let actor = node.spawn("notebook", Notebook::new()).await.unwrap();
    send(&actor).await.unwrap();
    actor.stop().await.unwrap();
    actor.wait_stopped().await;
    let error = send(&actor).await.unwrap_err();
    assert!(error.to_string().starts_with("not sent: the actor has stopped"), "{error}");
}

/// Never leaves its node, so that its arguments have no names that other nodes would know.
#[message(local)]
struct Keep<T>(T);

#[actor]
#[derive(Default)]
struct Keeper {
    numbers: u64,
    texts: Vec<&'static str>,
}

#[handlers]
impl Keeper {
    #[handler]
    fn keep_number(&mut self, msg: Keep<u64>) {
        self.numbers += msg.0;
    }

    #[handler]
    fn keep_text(&mut self, msg: Keep<&'static str>) -> u64 {
        self.texts.push(msg.0);
        self.texts.len() as u64
    }

    #[handler]
    fn kept(&self) -> (u64, u64) {
        (self.numbers, self.texts.len() as u64)
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn generic_messages_of_one_node_are_told_apart() {
    let node = node().await;
    let keeper = node.spawn("keeper", Keeper::default()).await.unwrap();
    let numbers: Recipient<Keep<u64>> = node.recipient("keeper").await.unwrap();
    numbers.tell(Keep(7)).await.unwrap();
    assert_eq!(keeper.asker().ask(Keep("seven")).await, Ok(1));
    let texts = keeper.recipient::<Keep<&'static str>>();
    texts.tell(Keep("eight")).await.unwrap();
    assert_eq!(keeper.kept().await, Ok((7, 2)));
    let none: Result<Recipient<Keep<u8>>, _> = node.recipient("keeper").await;
    assert_eq!(none.unwrap_err().cause(), Some(&Cause::NotAccepted));
}
