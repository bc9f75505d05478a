//! One end of a connection: an actor without a name, and the state that it shares with its owner.
//!
//! Items arrive in the order in which they were sent, each once. If an item was lost with a link,
//! the connection ends with [`EndCause::Lost`] on both sides, even if no item follows: after each
//! lost link both ends send the number of their items.
//!
//! An end that its owner closes sends [`Frame::Fin`] after its last item, and [`Frame::NotReading`]
//! when its owner takes no more items. All other ends come with the end of a link or of the peer's
//! node. Then a watch is made, which reports the end of the peer after its last message.
//!
//! An end that waits has no task, no watch and no other registration, since there may be many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringpost::rkyv::Archived;
use ringpost::spawn::{SpawnError, SpawnOptions};
use ringpost::wire::Wire;
use ringpost::{
    Actor, ActorExit, ActorRef, BoxError, Context, Down, Handler, Node, Recipient, View, actor,
    handlers, message,
};
use tokio::runtime::Handle;

use crate::end::EndCause;
use crate::frame::{ArchivedFrame, Frame, Received, Why};
use crate::incoming::{Incoming, Limit};
use crate::links::Ends;
use crate::notices::{Courier, Notice, Notices};
use crate::outgoing::Outgoing;

/// The settings of channels, or of streams.
pub(crate) struct Kind<Rx: Wire> {
    pub(crate) limit: Limit,
    /// Returns how many bytes of the limit an item takes.
    ///
    /// # Errors
    /// The reason why no peer of this version sends such an item.
    pub(crate) weigh: fn(&Archived<Rx>) -> Result<u64, &'static str>,
    pub(crate) is_stream: bool,
}

impl<Rx: Wire> Clone for Kind<Rx> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Rx: Wire> Copy for Kind<Rx> {}

/// The state that the owner of an end and its actor share.
pub(crate) struct Parts<Tx: Wire, Rx: Wire> {
    pub(crate) outgoing: Arc<Outgoing<Tx>>,
    pub(crate) incoming: Arc<Incoming<Rx>>,
    pub(crate) notices: Arc<Notices>,
}

impl<Tx: Wire, Rx: Wire> Clone for Parts<Tx, Rx> {
    fn clone(&self) -> Self {
        let Parts { outgoing, incoming, notices } = self;
        Parts { outgoing: outgoing.clone(), incoming: incoming.clone(), notices: notices.clone() }
    }
}

impl<Tx: Wire, Rx: Wire> Parts<Tx, Rx> {
    fn new(kind: Kind<Rx>) -> Self {
        Parts {
            outgoing: Arc::new(Outgoing::new()),
            incoming: Arc::new(Incoming::new(kind.limit)),
            notices: Arc::new(Notices::new(kind.is_stream)),
        }
    }

    /// Notes where the peer is.
    pub(crate) fn bind(&self, peer: Recipient<Frame<Tx>>) {
        self.outgoing.bind(peer);
        self.notices.bind();
    }

    /// Ends both directions: nothing more comes, and nothing more can be sent.
    fn end(&self, cause: &EndCause) {
        self.outgoing.break_off(cause.clone());
        self.incoming.end(cause.clone());
    }

    /// Ends the connection, and tells the peer why.
    pub(crate) fn fail(&self, cause: &EndCause) {
        self.end(cause);
        self.notices.post_reset(match cause {
            EndCause::Violation(_) => Why::Violation,
            EndCause::Lost => Why::Lost,
            _ => Why::Dropped,
        });
    }

    /// Ends the connection as [`fail`](Self::fail) does, and drops the items that are not read:
    /// bytes before them are missing.
    pub(crate) fn discard(&self, cause: EndCause) {
        self.incoming.discard(cause.clone());
        self.fail(&cause);
    }

    /// Returns the message that a notice is sent as; `None` of the last one.
    pub(crate) fn frame_of(&self, notice: Notice) -> Option<Frame<Tx>> {
        let load = |count: &AtomicU64| count.load(Ordering::SeqCst);
        Some(match notice {
            Notice::Reset(why) => Frame::Reset { why },
            Notice::Read => Frame::Read {
                bytes: load(&self.incoming.read_bytes),
                items: load(&self.incoming.read_items),
            },
            Notice::Check => Frame::Check {
                sent: self.outgoing.sent().items,
                report_at: load(&self.outgoing.report_at),
            },
            Notice::Fin { is_closed } => {
                Frame::Fin { number: self.outgoing.sent().items, is_closed }
            }
            Notice::NotReading => Frame::NotReading,
            Notice::Leave | Notice::Watch => return None,
        })
    }
}

/// Makes an end on a node: its actor, and the state that it shares with its owner. The actor waits
/// for [`Parts::bind`], and ends when its owner has dropped both halves.
///
/// # Errors
/// [`SpawnError::Shutdown`] when the node is shutting down.
pub(crate) async fn open<Tx: Wire, Rx: Wire>(
    node: &Node,
    kind: Kind<Rx>,
) -> Result<(Parts<Tx, Rx>, Recipient<Frame<Rx>>), SpawnError> {
    let (parts, ends) = (Parts::new(kind), Ends::of(node).await?);
    let parts_of_actor = parts.clone();
    let end = Connection { parts: parts_of_actor, kind, ends, key: 0, expected: 0, is_over: false };
    let actor = node.spawn_with(SpawnOptions::anonymous(), end).await?;
    Ok((parts, actor.recipient()))
}

/// The actor of an end: takes the messages of the other end.
struct Connection<Tx: Wire, Rx: Wire> {
    parts: Parts<Tx, Rx>,
    kind: Kind<Rx>,
    ends: Arc<Ends>,
    /// Its key there.
    key: usize,
    /// The number of the next item.
    expected: u64,
    /// Nothing more is taken from the peer.
    is_over: bool,
}

#[actor(name = "ringpost_streams::Connection")]
impl<Tx: Wire, Rx: Wire> Actor for Connection<Tx, Rx> {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let (parts, me) = (self.parts.clone(), cx.actor().clone());
        let courier: Arc<dyn Courier> = Arc::new(Sending { parts, me, runtime: Handle::current() });
        self.key = self.ends.add(&courier);
        self.parts.notices.employ(Some(courier));
        Ok(())
    }

    /// Sends the notices that are posted: a node that shuts down ends its connections in order.
    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        let Ok(peer) = self.parts.outgoing.peer() else { return };
        while let Some(notice) = self.parts.notices.first() {
            let Some(frame) = self.parts.frame_of(notice) else { return };
            if notice == Notice::NotReading || peer.tell(frame).await.is_err() {
                return;
            }
            self.parts.notices.sent(notice);
        }
    }
}

/// Tells an end to watch its peer.
#[message(local)]
struct Watch;

#[handlers(View<Frame<Rx>>, Watch, Down)]
impl<Tx: Wire, Rx: Wire> Connection<Tx, Rx> {
    /// Takes a frame that is no item.
    fn control(&mut self, frame: &ArchivedFrame<Rx>) -> Result<(), EndCause> {
        let Parts { outgoing, incoming, notices } = &self.parts;
        match frame {
            ArchivedFrame::Item { .. } | ArchivedFrame::Answer { .. } => {}
            ArchivedFrame::Fin { number, is_closed } => {
                self.count(number.to_native())?;
                incoming.end(if *is_closed { EndCause::Closed } else { EndCause::Dropped });
            }
            ArchivedFrame::NotReading => outgoing.break_off(EndCause::NotReading),
            ArchivedFrame::Reset { why } => {
                self.parts.end(&why.cause());
                self.is_over = true;
            }
            ArchivedFrame::Read { bytes, items } => {
                outgoing.note_read(bytes.to_native(), items.to_native())?;
            }
            ArchivedFrame::Check { sent, report_at } => {
                self.count(sent.to_native())?;
                if incoming.set_report_at(report_at.to_native()) {
                    notices.post_read();
                }
            }
        }
        Ok(())
    }

    /// Takes the answer to an offer.
    fn answered(&self, frame: Frame<Rx>) -> Result<(), EndCause> {
        match frame {
            Frame::Answer { number, memory } => self.parts.outgoing.answer(number, memory),
            _ => Ok(()),
        }
    }

    /// Compares the items that came with the number that the peer has sent.
    fn count(&self, sent: u64) -> Result<(), EndCause> {
        match sent > self.expected {
            true => Err(EndCause::Lost),
            false => Ok(()),
        }
    }

    /// Checks an item. Returns how many bytes it takes.
    fn check(&mut self, number: u64, item: &Archived<Rx>) -> Result<u64, EndCause> {
        if number < self.expected || self.parts.incoming.has_ended() {
            return Err(EndCause::Violation("an item came twice, or after the last one"));
        }
        self.count(number)?;
        self.expected += 1;
        (self.kind.weigh)(item).map_err(EndCause::Violation)
    }

    /// Ends the connection, and tells the peer why.
    fn fail(&mut self, cause: &EndCause) {
        self.is_over = true;
        self.parts.fail(cause);
    }
}

impl<Tx: Wire, Rx: Wire> Handler<View<Frame<Rx>>> for Connection<Tx, Rx> {
    type Reply = ();

    async fn handle(&mut self, msg: View<Frame<Rx>>, _cx: &mut Context<Self>) {
        if self.is_over {
            return;
        }
        let checked = match &*msg {
            ArchivedFrame::Item { number, item } => self.check(number.to_native(), item).map(Some),
            ArchivedFrame::Answer { .. } => self.answered(msg.to_owned()).map(|()| None),
            other => self.control(other).map(|()| None),
        };
        let taken = match checked {
            Ok(Some(bytes)) => self.parts.incoming.offer(Received::new(msg), bytes).await,
            Ok(None) => Ok(()),
            Err(cause) => Err(cause),
        };
        if let Err(cause) = taken {
            self.fail(&cause);
        }
    }
}

impl<Tx: Wire, Rx: Wire> Handler<Watch> for Connection<Tx, Rx> {
    type Reply = ();

    async fn handle(&mut self, _msg: Watch, cx: &mut Context<Self>) {
        if let Ok(peer) = self.parts.outgoing.peer() {
            cx.watch(peer);
        }
    }
}

impl<Tx: Wire, Rx: Wire> Handler<Down> for Connection<Tx, Rx> {
    type Reply = ();

    async fn handle(&mut self, msg: Down, cx: &mut Context<Self>) {
        self.parts.end(&EndCause::Gone(msg.exit));
        cx.stop();
    }
}

impl<Tx: Wire, Rx: Wire> Drop for Connection<Tx, Rx> {
    fn drop(&mut self) {
        self.ends.remove(self.key);
        self.parts.notices.employ(None);
        self.parts.end(&EndCause::Gone(ActorExit::Stopped));
    }
}

/// Sends the notices of an end. Kept by the notices while the actor lives.
struct Sending<Tx: Wire, Rx: Wire> {
    parts: Parts<Tx, Rx>,
    me: ActorRef<Connection<Tx, Rx>>,
    runtime: Handle,
}

impl<Tx: Wire, Rx: Wire> Sending<Tx, Rx> {
    /// Tells the actor to watch its peer. If its mailbox is full, it was told before.
    fn watch(&self) {
        self.me.try_tell(Watch).ok();
    }

    /// Sends the notices that there are. The last one ends the actor.
    async fn run(self: Arc<Self>) {
        let Parts { outgoing, incoming, notices } = &self.parts;
        while let Some(notice) = notices.next() {
            if notice == Notice::Watch {
                self.watch();
                continue;
            }
            let (frame, peer) = (self.parts.frame_of(notice), outgoing.peer());
            let (Some(frame), Ok(peer)) = (frame, peer) else {
                // No stop: messages that wait would be dead letters. For an actor of this node it
                // never fails.
                self.me.drain().await.ok();
                return;
            };
            // A peer that has ended both directions may be gone. It wants reports if it is not.
            let is_over = outgoing.broken().is_some() && incoming.has_ended();
            let is_wanted = !is_over || matches!(notice, Notice::Reset(_) | Notice::Read);
            if is_wanted && let Err(error) = peer.tell(frame).await {
                // The watch ends the actor, after the messages that came before.
                self.watch();
                if let Some(cause) = EndCause::of_unsent(&error.cause) {
                    outgoing.break_off(cause);
                }
            }
            notices.sent(notice);
        }
    }
}

impl<Tx: Wire, Rx: Wire> Courier for Sending<Tx, Rx> {
    fn begin(self: Arc<Self>) {
        self.runtime.clone().spawn(self.run());
    }

    fn is_to(&self, node: Option<&str>) -> bool {
        let is_there = |at: &str| node.is_none_or(|node| node == at);
        let peer = self.parts.outgoing.peer();
        peer.map_or(true, |peer| !peer.is_local() && is_there(peer.address().node()))
    }

    fn trouble(&self) {
        self.parts.notices.repeat();
        self.parts.outgoing.decline();
    }
}
