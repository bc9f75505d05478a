//! One end of a connection: an actor without a name, and what its owner shares with it.
//!
//! - **CO-1 order or an end**: items arrive in the order in which they were sent, each once. Where
//!   one is missing, since a link was lost, the connection ends with [`EndCause::Lost`] on both
//!   sides, also if nothing is sent after it.
//! - **CO-2 last words first**: an end that its owner closes is told in the way of the items
//!   ([`Frame::Fin`]). A watch tells of the others, after all that came before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringpost::rkyv::Archived;
use ringpost::{
    Actor, ActorExit, ActorRef, BoxError, Context, Down, Handler, Node, NodeEvent, Recipient,
    SpawnError, SpawnOptions, View, Wire, actor, handlers,
};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::care::{Care, Debt};
use crate::end::EndCause;
use crate::frame::{ArchivedFrame, Frame, Received, Why};
use crate::incoming::{Incoming, Limit};
use crate::outgoing::Outgoing;

/// What distinguishes connections of one kind: of channels, or of streams.
pub(crate) struct Kind<Rx: Wire> {
    pub(crate) limit: Limit,
    /// Returns how many bytes of the limit an item takes.
    ///
    /// # Errors
    /// Says why no peer sends such an item.
    pub(crate) weigh: fn(&Archived<Rx>) -> Result<u64, &'static str>,
    pub(crate) is_stream: bool,
}

impl<Rx: Wire> Clone for Kind<Rx> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Rx: Wire> Copy for Kind<Rx> {}

/// What the owner of an end and its actor share.
pub(crate) struct Parts<Tx: Wire, Rx: Wire> {
    pub(crate) outgoing: Arc<Outgoing<Tx>>,
    pub(crate) incoming: Arc<Incoming<Rx>>,
    pub(crate) care: Arc<Care>,
}

impl<Tx: Wire, Rx: Wire> Clone for Parts<Tx, Rx> {
    fn clone(&self) -> Self {
        let Parts { outgoing, incoming, care } = self;
        Parts { outgoing: outgoing.clone(), incoming: incoming.clone(), care: care.clone() }
    }
}

impl<Tx: Wire, Rx: Wire> Parts<Tx, Rx> {
    fn new(kind: Kind<Rx>) -> Self {
        Parts {
            outgoing: Arc::new(Outgoing::new()),
            incoming: Arc::new(Incoming::new(kind.limit)),
            care: Arc::new(Care::new(kind.is_stream)),
        }
    }

    /// Notes where the peer is.
    pub(crate) fn bind(&self, peer: Recipient<Frame<Tx>>) {
        self.outgoing.bind(peer);
        self.care.wake();
    }

    /// Waits until it is known where the peer is; `None` when the owner has dropped both halves.
    async fn bound(&self) -> Option<Recipient<Frame<Tx>>> {
        let look = |care: &Care| match self.outgoing.peer() {
            Ok(peer) => Some(Some(peer.clone())),
            Err(_) => care.is_left().then_some(None),
        };
        self.care.wait(look).await
    }

    /// Ends both directions: nothing more comes, and nothing more can be sent.
    fn end(&self, cause: &EndCause) {
        self.outgoing.break_off(cause.clone());
        self.incoming.end(cause.clone());
    }

    /// Returns the message that pays a debt.
    pub(crate) fn payment(&self, debt: Debt) -> Option<Frame<Tx>> {
        let load = |count: &AtomicU64| count.load(Ordering::SeqCst);
        Some(match debt {
            Debt::Reset(why) => Frame::Reset { why },
            Debt::Read => Frame::Read {
                bytes: load(&self.incoming.read_bytes),
                items: load(&self.incoming.read_items),
            },
            Debt::Check => Frame::Check {
                sent: self.outgoing.sent().items,
                report_at: load(&self.outgoing.report_at),
            },
            Debt::Fin { is_closed } => {
                Frame::Fin { number: self.outgoing.sent().items, is_closed }
            }
            Debt::NotReading => Frame::NotReading,
            Debt::Leave => return None,
        })
    }
}

/// Makes an end on a node: its actor, and what its owner has of it. It waits for
/// [`Outgoing::bind`], and ends by itself when its owner has dropped both halves.
///
/// # Errors
/// [`SpawnError::Shutdown`] when the node is shutting down.
pub(crate) async fn open<Tx: Wire, Rx: Wire>(
    node: &Node,
    kind: Kind<Rx>,
) -> Result<(Parts<Tx, Rx>, Recipient<Frame<Rx>>), SpawnError> {
    let parts = Parts::new(kind);
    let end = Connection { parts: parts.clone(), kind, expected: 0, is_over: false };
    let actor = node.spawn_with(SpawnOptions::anonymous(), end).await?;
    Ok((parts, actor.recipient()))
}

/// The actor of an end: takes what the other end sends, and watches it. One task of it pays what
/// this end owes the other one.
struct Connection<Tx: Wire, Rx: Wire> {
    parts: Parts<Tx, Rx>,
    kind: Kind<Rx>,
    /// The number of the next item.
    expected: u64,
    /// Nothing more is taken from the peer.
    is_over: bool,
}

#[actor(name = "ringpost_streams::Connection")]
impl<Tx: Wire, Rx: Wire> Actor for Connection<Tx, Rx> {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let parts = self.parts.clone();
        let bound = async move { parts.bound().await };
        cx.pipe(bound, |end, peer, cx| match peer {
            Some(peer) => end.begin(peer, cx),
            None => cx.stop(),
        });
        Ok(())
    }

    /// Pays what is owed still: so closing a connection and shutting its node down loses nothing.
    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        let Ok(peer) = self.parts.outgoing.peer() else { return };
        while let Some(debt) = self.parts.care.first() {
            let Some(frame) = self.parts.payment(debt) else { return };
            if debt == Debt::NotReading || peer.tell(frame).await.is_err() {
                return;
            }
            self.parts.care.paid(debt);
        }
    }
}

#[handlers(View<Frame<Rx>>, Down)]
impl<Tx: Wire, Rx: Wire> Connection<Tx, Rx> {
    /// Begins to watch the peer, and to pay what is owed to it.
    fn begin(&mut self, peer: Recipient<Frame<Tx>>, cx: &mut Context<Self>) {
        cx.watch(&peer);
        let (parts, me) = (self.parts.clone(), cx.actor().clone());
        let events = (!peer.is_local()).then(|| cx.node().events());
        cx.spawn_task(pay(parts, peer, events, me));
    }

    /// Takes a frame that is no item.
    fn control(&mut self, frame: &ArchivedFrame<Rx>) -> Result<(), EndCause> {
        let Parts { outgoing, incoming, care } = &self.parts;
        match frame {
            ArchivedFrame::Item { .. } => {}
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
                    care.owe_read();
                }
            }
        }
        Ok(())
    }

    /// Compares what came with what the peer has sent so far (CO-1).
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

    /// Ends the connection, and has the peer told why.
    fn fail(&mut self, cause: &EndCause) {
        self.is_over = true;
        self.parts.end(cause);
        self.parts.care.owe_reset(match cause {
            EndCause::Violation(_) => Why::Violation,
            _ => Why::Lost,
        });
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

impl<Tx: Wire, Rx: Wire> Handler<Down> for Connection<Tx, Rx> {
    type Reply = ();

    async fn handle(&mut self, msg: Down, cx: &mut Context<Self>) {
        self.parts.end(&EndCause::Gone(msg.exit));
        cx.stop();
    }
}

impl<Tx: Wire, Rx: Wire> Drop for Connection<Tx, Rx> {
    fn drop(&mut self) {
        self.parts.end(&EndCause::Gone(ActorExit::Stopped));
    }
}

/// Pays what an end owes its peer, until there is nothing more to say.
async fn pay<Tx: Wire, Rx: Wire>(
    parts: Parts<Tx, Rx>,
    peer: Recipient<Frame<Tx>>,
    mut events: Option<broadcast::Receiver<NodeEvent>>,
    me: ActorRef<Connection<Tx, Rx>>,
) {
    let care = &parts.care;
    loop {
        let debt = tokio::select! {
            biased;
            () = link_lost(&mut events, peer.address().node()) => {
                care.owe_again();
                continue;
            }
            debt = care.next() => debt,
        };
        let Some(frame) = parts.payment(debt) else { break };
        if let Err(error) = peer.tell(frame).await {
            // The watch ends the actor, after what came in before.
            if let Some(cause) = EndCause::of_unsent(&error.cause) {
                parts.outgoing.break_off(cause);
            }
            return;
        }
        care.paid(debt);
    }
    // What came in is handled first: it would be a dead letter. It is an actor of this node, for
    // which that does not fail.
    me.drain().await.ok();
}

/// Waits until a link to the node was lost; forever where there is none.
async fn link_lost(events: &mut Option<broadcast::Receiver<NodeEvent>>, peer: &str) {
    while let Some(receiver) = events {
        match receiver.recv().await {
            Ok(NodeEvent::LinkDown { node, .. }) if node.name.as_str() == peer => return,
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => *events = None,
            Ok(_) => {}
        }
    }
    std::future::pending().await
}
