//! Messages between two ranks: sends, receives and probes.

use std::future::poll_fn;
use std::sync::Arc;

use futures::future::BoxFuture;
use ringpost::Cause;
use tokio::sync::SemaphorePermit;

use crate::core::Core;
use crate::error::WorldError;
use crate::limits::{CIRCLE_LOOK, CIRCLE_LOOKS, MESSAGE_BYTES_MAX, PACKET_BYTES};
use crate::matching::Arrived;
use crate::packet::{Element, Note, Packet, Target};
use crate::state::{Received, Standing};
use crate::status::{Plain, Source, Status, Tag};
use crate::value::{self, Value};
use crate::world::World;

/// # Messages
impl World {
    /// Sends elements to a rank, which may be this one. Returns when they are on their way, or wait
    /// at that rank: up to [`limits::WINDOW_BYTES`](crate::limits::WINDOW_BYTES) (80 MiB) of this
    /// rank's messages may wait there, and one message of any size where no other one does. Beyond
    /// that it waits until that rank receives.
    ///
    /// Messages from one rank to another are received in the order in which they were sent.
    ///
    /// # Errors
    /// [`NoSuchRank`](WorldError::NoSuchRank), [`TooLong`](WorldError::TooLong) beyond 1 GiB;
    /// [`Died`](WorldError::Died) and [`Left`](WorldError::Left) when that rank is gone;
    /// [`LockedUp`](WorldError::LockedUp) when it waited for room for 4 s in a circle of sends, and
    /// no rank of the circle received a message in that time; [`Revoked`](WorldError::Revoked),
    /// [`Closed`](WorldError::Closed).
    ///
    /// # Cancel safety
    /// Dropped before it has returned, the message is received whole or not at all.
    pub async fn send<T: Plain>(
        &self,
        to: usize,
        tag: u32,
        elements: &[T],
    ) -> Result<(), WorldError> {
        let target = Target::Message { tag, element: Element::of::<T>() };
        self.core().send(to, target, bytemuck::cast_slice(elements)).await
    }

    /// Sends a value, such as a `#[message]`, as an archive. It is received by
    /// [`recv_value`](Self::recv_value).
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`Archive`](WorldError::Archive).
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    pub async fn send_value<V: Value>(
        &self,
        to: usize,
        tag: u32,
        value: &V,
    ) -> Result<(), WorldError> {
        let bytes = value::write(value)?;
        let target = Target::Message { tag, element: Element::value::<V>() };
        self.core().send(to, target, &bytes).await
    }

    /// Receives the first message of this source and tag. It is in line from the call on, in the
    /// order of calls, and not only from the first poll: the future replaces `MPI_Irecv`.
    ///
    /// # Errors
    /// [`WrongType`](WorldError::WrongType) where the message has elements of another type, and is
    /// still there; [`Died`](WorldError::Died) and [`Left`](WorldError::Left) when the source is
    /// gone and nothing of it is left, or from any source when a rank has died (see
    /// [`acknowledge`](Self::acknowledge)) or no other rank is left;
    /// [`NoSuchRank`](WorldError::NoSuchRank),
    /// [`Revoked`](WorldError::Revoked), [`Closed`](WorldError::Closed).
    ///
    /// # Cancel safety
    /// Dropped before it has returned, the message is there for another receive, at its place.
    pub fn recv<T: Plain>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> BoxFuture<'static, Result<(Vec<T>, Status), WorldError>> {
        let receive = Receive::post(self.core(), source.into(), tag.into());
        Box::pin(async move {
            let taken = receive?.take(Element::of::<T>(), usize::MAX).await?;
            let mut elements = vec![T::zeroed(); taken.message.bytes / size_of::<T>()];
            copy(&taken.message, bytemuck::cast_slice_mut(&mut elements));
            Ok((elements, status(&taken)))
        })
    }

    /// Receives the first message of this source and tag into the first elements of a slice. The
    /// status says how many bytes it had.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`Truncated`](WorldError::Truncated) where the message is
    /// longer than the slice, and is still there.
    ///
    /// # Cancel safety
    /// As [`recv`](Self::recv).
    pub fn recv_into<'a, T: Plain>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
        elements: &'a mut [T],
    ) -> BoxFuture<'a, Result<Status, WorldError>> {
        let receive = Receive::post(self.core(), source.into(), tag.into());
        Box::pin(async move {
            let taken = receive?.take(Element::of::<T>(), elements.len()).await?;
            let bytes = bytemuck::cast_slice_mut(elements);
            copy(&taken.message, &mut bytes[..taken.message.bytes]);
            Ok(status(&taken))
        })
    }

    /// Receives the first message of this source and tag, which is a value.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`Archive`](WorldError::Archive) where its bytes are no archive
    /// of such a value.
    ///
    /// # Cancel safety
    /// As [`recv`](Self::recv).
    pub fn recv_value<V: Value>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> BoxFuture<'static, Result<(V, Status), WorldError>> {
        let receive = Receive::post(self.core(), source.into(), tag.into());
        Box::pin(async move {
            let taken = receive?.take(Element::value::<V>(), usize::MAX).await?;
            let mut bytes = value::buffer(taken.message.bytes);
            copy(&taken.message, &mut bytes);
            Ok((value::read(&bytes)?, status(&taken)))
        })
    }

    /// Waits until a message of this source and tag has come, and returns its status. The message
    /// stays there.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), but for types.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn probe(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status, WorldError> {
        let (source, tag) = (self.core().source(source.into())?, tag.into());
        loop {
            let mut changed = std::pin::pin!(self.core().changed.notified());
            changed.as_mut().enable();
            {
                let state = self.core().state.lock();
                if let Some(arrived) = state.matching.probe(source, tag) {
                    return Ok(status(arrived));
                }
                state.trouble(source).map_or(Ok(()), Err)?;
            }
            changed.await;
        }
    }

    /// Returns the status of the first message of this source and tag that has come. The message
    /// stays there.
    pub fn try_probe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Option<Status> {
        let state = self.core().state.lock();
        state.matching.probe(source.into(), tag.into()).map(status)
    }
}

fn status(arrived: &Arrived<Received>) -> Status {
    Status { source: arrived.from, tag: arrived.tag, bytes: arrived.message.bytes }
}

/// Copies a message to as many bytes.
fn copy(message: &Received, to: &mut [u8]) {
    let mut rest = to;
    for part in &message.parts {
        let (now, later) = rest.split_at_mut(part.bytes.len());
        now.copy_from_slice(&part.bytes);
        rest = later;
    }
}

/// A receive that is in line, until it is dropped.
struct Receive {
    core: Arc<Core>,
    number: u64,
}

impl Receive {
    fn post(core: &Arc<Core>, source: Source, tag: Tag) -> Result<Self, WorldError> {
        let source = core.source(source)?;
        let mut state = core.state.lock();
        let trouble = state.trouble(source);
        let number = state.matching.post(source, tag, trouble);
        drop(state);
        Ok(Receive { core: core.clone(), number })
    }

    /// Takes its message, if that has elements of this type and no more than there is room for.
    async fn take(self, element: Element, room: usize) -> Result<Arrived<Received>, WorldError> {
        let poll = |cx: &mut std::task::Context<'_>| {
            self.core.state.lock().matching.poll(self.number, cx.waker())
        };
        let arrived = poll_fn(poll).await?;
        let (rank, tag, found) = (arrived.from, arrived.tag, arrived.message.element);
        let elements = arrived.message.bytes.checked_div(found.size as usize).unwrap_or(0);
        let mut state = self.core.state.lock();
        let error = if found != element || elements * found.size as usize > arrived.message.bytes {
            Some(WorldError::WrongType { rank, tag, bytes: found.size as usize })
        } else if elements > room {
            Some(WorldError::Truncated { rank, tag, elements, room })
        } else {
            None
        };
        match error {
            Some(error) => {
                state.matching.put_back(arrived);
                self.core.changed.notify_waiters();
                Err(error)
            }
            None => {
                self.core.consumed(&mut state, rank, arrived.message.bytes);
                Ok(arrived)
            }
        }
    }
}

impl Drop for Receive {
    fn drop(&mut self) {
        if self.core.state.lock().matching.withdraw(self.number) {
            self.core.changed.notify_waiters();
        }
    }
}

/// A send that waits for room, until it is dropped.
struct Waiting<'a> {
    core: &'a Core,
    to: usize,
}

impl<'a> Waiting<'a> {
    fn new(core: &'a Core, to: usize) -> Self {
        core.state.lock().circles.wait(to);
        Waiting { core, to }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.core.state.lock().circles.go_on(self.to);
    }
}

impl Core {
    fn source(&self, source: Source) -> Result<Source, WorldError> {
        match source {
            Source::Rank(rank) => self.check(rank).map(|()| source),
            Source::Any => Ok(source),
        }
    }

    /// Checks that there is a rank of this number.
    pub(crate) fn check(&self, rank: usize) -> Result<(), WorldError> {
        let error = WorldError::NoSuchRank { rank, size: self.size };
        (rank < self.size).then_some(()).ok_or(error)
    }

    /// Checks that bytes are no more than a message may have.
    pub(crate) fn check_bytes(&self, bytes: &[u8]) -> Result<(), WorldError> {
        let error = WorldError::TooLong { bytes: bytes.len(), limit: MESSAGE_BYTES_MAX };
        (bytes.len() <= MESSAGE_BYTES_MAX).then_some(()).ok_or(error)
    }

    /// Sends a message, when there is room for it.
    async fn send(
        self: &Arc<Self>,
        to: usize,
        target: Target,
        bytes: &[u8],
    ) -> Result<(), WorldError> {
        self.check(to)?;
        self.check_bytes(bytes)?;
        let route = &self.mesh().routes[to];
        let _turn = route.turn.lock().await;
        self.is_open(to)?;
        let room = self.room(to, self.cost(bytes.len())).await?;
        self.deliver(to, target, bytes, 1, Some(room)).await
    }

    fn is_open(&self, to: usize) -> Result<(), WorldError> {
        let state = self.state.lock();
        match (state.ended(), state.standing(to)) {
            (Some(ended), _) => Err(ended),
            (None, Standing::Living) => Ok(()),
            (None, Standing::Died) => Err(WorldError::Died { rank: to }),
            (None, Standing::Left(_)) => Err(WorldError::Left { rank: to }),
        }
    }

    /// Takes room for a message at another rank.
    async fn room(
        self: &Arc<Self>,
        to: usize,
        cost: usize,
    ) -> Result<SemaphorePermit<'_>, WorldError> {
        let room = &self.mesh().routes[to].room;
        let cost = cost as u32;
        if let Ok(permit) = room.try_acquire_many(cost) {
            return Ok(permit);
        }
        let _waiting = Waiting::new(self, to);
        let mut acquired = std::pin::pin!(room.acquire_many(cost));
        let mut fate = std::pin::pin!(self.fate(to));
        self.note(to, Note::Wanted);
        let (mut looks, mut probe, mut received) = (0, None, 0);
        loop {
            tokio::select! {
                biased;
                error = &mut fate => return Err(error),
                permit = &mut acquired => return permit.map_err(|_| WorldError::Closed),
                () = tokio::time::sleep(CIRCLE_LOOK) => {}
            }
            let mut state = self.state.lock();
            let is_circle = probe.is_some_and(|number| state.circles.is_back(number))
                && received == state.circles.count();
            looks = if is_circle { looks + 1 } else { 0 };
            if looks == CIRCLE_LOOKS {
                return Err(WorldError::LockedUp { rank: to });
            }
            received = state.circles.count();
            let number = state.circles.probe();
            probe = Some(number);
            drop(state);
            self.note(to, Note::Circle { origin: self.mesh().rank as u32, number });
        }
    }

    /// Sends bytes in packets, each of which has whole elements of `unit` bytes. The room is used
    /// when the last one is sent: a send that is given up before has it back.
    pub(crate) async fn deliver(
        &self,
        to: usize,
        target: Target,
        bytes: &[u8],
        unit: usize,
        room: Option<SemaphorePermit<'_>>,
    ) -> Result<(), WorldError> {
        let mesh = self.mesh();
        let route = &mesh.routes[to];
        let key = *route.key.get().ok_or(WorldError::Closed)?;
        let most = (PACKET_BYTES / unit.max(1) * unit.max(1)).max(unit).max(1);
        let mut at = 0;
        loop {
            let part = &bytes[at..bytes.len().min(at + most)];
            let packet = Packet {
                bytes: part.to_vec(),
                from: mesh.rank as u32,
                key,
                sent: route.sent(),
                at: at as u64,
                total: bytes.len() as u64,
                to: target,
            };
            if let Err(error) = route.commit(route.packets.tell(packet)).await {
                return Err(self.unsent(to, error.cause).await);
            }
            at += part.len();
            if at == bytes.len() {
                if let Some(room) = room {
                    room.forget();
                }
                return Ok(());
            }
        }
    }

    /// Returns why a packet could not be sent, when this rank has learned what became of the other.
    async fn unsent(&self, to: usize, cause: Cause) -> WorldError {
        match cause {
            Cause::Shutdown | Cause::NoNetwork => WorldError::Closed,
            Cause::Archive(_) | Cause::TooLarge { .. } | Cause::SchemaMismatch => {
                WorldError::Archive(cause.to_string())
            }
            _ => self.fate(to).await,
        }
    }
}
