//! A node that sends numbered messages, and logs its sends, their fates and the messages that it
//! handles, for the judge of histories.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use ringpost::observe::{DeadLetter, DeadLetterCause, NodeEvent};
use ringpost::prelude::*;
use ringpost_history::{Event, Fate, Origin, Writer};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{oneshot, watch};

/// The name of the mailbox of every node.
const INBOX: &str = "inbox";
/// One message in this many is larger than a slot.
const LARGE_ONE_IN: u64 = 16;
const LARGE_BYTES: u64 = 20_000;
/// Tells between two pauses; asks go one by one.
const BURST: u64 = 4;
/// Pause before another try, after a failed one.
const BACK_OFF: Duration = Duration::from_millis(20);

/// The log of this run, shared by all its writers.
#[derive(Clone)]
pub struct Diary(Arc<Mutex<Writer<File>>>);

impl Diary {
    /// Starts the log of a run of a node in a new file.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn start(path: &Path, node: &str, run: u64) -> std::io::Result<Self> {
        let file = File::create_new(path)?;
        Ok(Diary(Arc::new(Mutex::new(Writer::start(file, node, run)?))))
    }

    /// Writes an event down before anything else happens.
    ///
    /// # Panics
    /// When the file cannot be written: what follows would have no history.
    pub fn note(&self, event: &Event<'_>) {
        self.0.lock().note(event).expect("the log can be written");
    }
}

/// A numbered message; its bytes follow from the number.
#[message]
pub struct Numbered {
    /// The node that sends it.
    pub node: String,
    /// The node's run.
    pub run: u64,
    /// The stream.
    pub stream: String,
    /// Its number in the stream.
    pub number: u64,
    /// Its filling.
    pub bytes: Vec<u8>,
}

impl Numbered {
    fn filling(number: u64) -> Vec<u8> {
        let large = number % LARGE_ONE_IN == LARGE_ONE_IN - 1;
        let length = if large { LARGE_BYTES + number % 1000 } else { number % 200 };
        (0..length).map(|at| (number.wrapping_mul(31) ^ at) as u8).collect()
    }
}

/// Logs the messages that it handles, and answers with their numbers.
#[actor]
pub struct Inbox {
    diary: Diary,
    /// How long each message takes.
    work: Duration,
    handled: watch::Sender<u64>,
}

impl Inbox {
    /// An inbox that takes `work` for each message and counts them in `handled`.
    pub fn new(diary: Diary, work: Duration, handled: watch::Sender<u64>) -> Self {
        Inbox { diary, work, handled }
    }

    /// Its name on each node.
    pub const NAME: &'static str = INBOX;
}

#[handlers]
impl Inbox {
    /// Notes the message before anything else.
    #[handler]
    pub async fn take(&mut self, msg: Numbered) -> u64 {
        let Numbered { node, run, stream, number, bytes } = &msg;
        let whole = *bytes == Numbered::filling(*number);
        let event = if whole { Event::Handled } else { Event::Damaged };
        let origin = Origin { node, run: *run, stream, number: *number };
        self.diary.note(&event(INBOX, origin));
        self.handled.send_modify(|handled| *handled += 1);
        if !self.work.is_zero() {
            tokio::time::sleep(self.work).await;
        }
        *number
    }
}

/// Sends a numbered series of messages to the inbox of one other node.
#[derive(Clone)]
pub struct Sender {
    /// The node it sends from.
    pub node: Node,
    /// The node's run.
    pub run: u64,
    /// The node it sends to.
    pub to: String,
    /// How long it pauses after each ask, and after a few tells.
    pub pause: Duration,
    /// The log.
    pub diary: Diary,
}

/// A tell whose fate is not known yet, with its number.
type PendingFate<'a> = BoxFuture<'a, (u64, Option<ringpost::send::Fate>)>;

/// The messages of a sender. Its tells are one stream, its asks another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Tells, in bursts; the stream has the name of the node it goes to.
    Tells,
    /// Asks, each after the answer to the last.
    Asks,
}

impl Sender {
    /// Sends until `quiet` is true, then waits for the fates of its tells.
    pub async fn send(self, kind: Kind, quiet: watch::Receiver<bool>) {
        let node = self.to.as_str();
        let asks = format!("asks.{node}");
        let stream = if kind == Kind::Asks { &asks } else { node };
        self.diary.note(&Event::Stream { stream, node, mailbox: INBOX });
        let Some(inbox) = self.find(&quiet).await else { return };
        let mut number = 0;
        let mut fates = FuturesUnordered::new();
        while !*quiet.borrow() {
            number += 1;
            let message = Numbered {
                node: self.node.name().to_owned(),
                run: self.run,
                stream: stream.to_owned(),
                number,
                bytes: Numbered::filling(number),
            };
            let sent = match kind {
                Kind::Tells => self.tell(&inbox, message, &mut fates).await,
                Kind::Asks => self.ask(&inbox, stream, message).await,
            };
            while let Some(Some((number, fate))) = fates.next().now_or_never() {
                self.note_fate(number, fate);
            }
            if !sent {
                tokio::time::sleep(BACK_OFF).await;
            } else if kind == Kind::Asks || number.is_multiple_of(BURST) {
                tokio::time::sleep(self.pause).await;
            }
        }
        while let Some((number, fate)) = fates.next().await {
            self.note_fate(number, fate);
        }
    }

    /// Returns a reference to the inbox by its name, which leads there even after a restart of its
    /// node; `None` if `quiet` is true before there is an inbox.
    async fn find(&self, quiet: &watch::Receiver<bool>) -> Option<ActorRef<Inbox>> {
        let path = format!("{}/{INBOX}", self.to);
        while !*quiet.borrow() {
            match self.node.actor::<Inbox>(&path).await {
                Ok(_) => return self.node.named(&path).ok(),
                Err(error) => self.diary.note(&Event::Remark(&error.to_string())),
            }
            tokio::time::sleep(BACK_OFF).await;
        }
        None
    }

    /// Returns true if the message was sent. Its fate is to be awaited among the others.
    async fn tell<'a>(
        &self,
        inbox: &'a ActorRef<Inbox>,
        message: Numbered,
        fates: &mut FuturesUnordered<PendingFate<'a>>,
    ) -> bool {
        let (stream, number) = (self.to.as_str(), message.number);
        self.diary.note(&Event::Try(stream, number));
        let mut told = inbox.tell(message).confirmed();
        match told.committed().await {
            Ok(()) => {
                self.diary.note(&Event::Committed(stream, number));
                fates.push(Box::pin(async move { (number, told.await.ok()) }));
                true
            }
            Err(error) => {
                self.diary.note(&Event::Refused(stream, number, &error.cause.to_string()));
                false
            }
        }
    }

    fn note_fate(&self, number: u64, fate: Option<ringpost::send::Fate>) {
        let fate = match fate {
            Some(ringpost::send::Fate::Delivered) => Fate::Delivered,
            Some(ringpost::send::Fate::NotSent) => Fate::NotSent,
            Some(ringpost::send::Fate::Refused) => Fate::Refused("the actor had ended"),
            _ => Fate::Unknown,
        };
        self.diary.note(&Event::Fate(&self.to, Some(number), fate));
    }

    /// Returns true if there was an answer.
    async fn ask(&self, inbox: &ActorRef<Inbox>, stream: &str, message: Numbered) -> bool {
        let number = message.number;
        self.diary.note(&Event::Ask(stream, number));
        let answer = inbox.ask(message).await;
        let said = answer.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let fate = |fate| Event::Fate(stream, Some(number), fate);
        self.diary.note(&match answer.as_ref().map_err(|error| &error.cause) {
            Ok(answer) if *answer == number => Event::Answered(stream, number),
            // The answer to another message: the judge finds that this ask has no end.
            Ok(_) => Event::Remark("the answer is not the ask's"),
            Err(AskCause::NotSent(_)) => Event::Refused(stream, number, &said),
            Err(AskCause::NotBegun(_)) => fate(Fate::Refused(&said)),
            Err(AskCause::ReplyTooLarge | AskCause::InvalidReply) => fate(Fate::Delivered),
            Err(_) => fate(Fate::Unknown),
        });
        answer.is_ok()
    }
}

/// Notes the dead letters of `node` from now until `end`, and all that came before it. Only letters
/// of its own ended inbox are events: senders learn all other fates by number.
pub fn note_dead_letters(
    node: &Node,
    diary: Diary,
    mut end: oneshot::Receiver<()>,
) -> impl Future<Output = ()> + use<> {
    let mut letters = node.dead_letters().subscribe();
    async move {
        loop {
            tokio::select! {
                biased;
                letter = letters.recv() => match letter {
                    Ok(letter) => note_dead_letter(&letter, &diary),
                    // A link that ends with a full window brings more letters at once than there is
                    // room for. Only letters of the ended inbox count here; if one of them were
                    // missed, the judge would find its message neither handled nor lost.
                    Err(RecvError::Lagged(missed)) => {
                        diary.note(&Event::Remark(&format!("{missed} dead letters were missed")));
                    }
                    Err(RecvError::Closed) => return,
                },
                _ = &mut end => return,
            }
        }
    }
}

fn note_dead_letter(letter: &DeadLetter, diary: &Diary) {
    match letter.cause {
        DeadLetterCause::Stopped => diary.note(&Event::Closed(INBOX)),
        _ => diary.note(&Event::Remark(&letter.to_string())),
    }
}

/// Notes the links and nodes that come and go, as remarks, from now on as long as the node lives.
pub fn note_events(node: &Node, diary: Diary) -> impl Future<Output = ()> + use<> {
    let mut events = node.events();
    async move {
        loop {
            let remark = match events.recv().await {
                Ok(NodeEvent::LinkUp { node, fabric }) => format!("link up {} {fabric}", node.name),
                Ok(NodeEvent::LinkDown { node, cause }) => {
                    format!("link down {}: {cause}", node.name)
                }
                Ok(NodeEvent::NodeDown { node, cause }) => {
                    format!("node down {}: {cause}", node.name)
                }
                Ok(NodeEvent::Paused { lasted }) => format!("stood still for {lasted:?}"),
                Ok(_) | Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            diary.note(&Event::Remark(&remark));
        }
    }
}
