//! One-sided access over one more queue pair of a fabric: operations travel as frames, and the
//! driver of the memory's owner executes them.
//!
//! - **EM-1 window**: at most [`WINDOW`] requests are without an answer, and each side has as many
//!   receives posted for the peer's requests, and for the answers to its own. So no frame of an
//!   honest peer finds no receive (PV-5).
//! - **EM-2 order**: requests are executed and answered in their order, by one side each; so an
//!   answer needs no name.
//! - **EM-3 pieces**: an operation longer than a frame goes in pieces that are cut between words
//!   (PV-15).
//! - **EM-4 hostile bytes** end the queue pair with [`Status::Corrupt`]; a request waits in the
//!   receive that it came in, so a peer takes no more memory than those.

use std::collections::VecDeque;
use std::io;
use std::mem::take;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use futures::future::BoxFuture;
use zeroize::Zeroizing;

use super::frame::{ANSWER_BYTES, Answer, REQUEST_BYTES, Request};
use super::grants::{Grants, Wanted};
use super::{
    Access, Executor, Granting, Kind, Locked, Making, OneSided, OneSidedConfig, Opening, Operation,
    Outcome,
};
use crate::fabric::{
    Completion, Fabric, FabricError, Notify, PostError, QueuePair, QueuePairConfig, SendRequest,
    Status, Work,
};
use crate::limits::{ONE_SIDED_FRAME_BYTES, ONE_SIDED_WINDOW};
use crate::memory::{Buffer, Region, Slot, Words};
use crate::steps::step;

/// Requests without an answer (EM-1).
const WINDOW: usize = ONE_SIDED_WINDOW;
/// Frames of either queue: requests and answers.
const QUEUE: usize = 2 * WINDOW;
/// Looks at the queue pair in one poll; other tasks run before the next ones.
const LOOKS: usize = 16;

/// Opens one over a queue pair of `fabric`.
pub(in crate::fabric) fn open<F: Fabric + ?Sized>(
    fabric: &F,
    config: OneSidedConfig,
) -> Result<Box<dyn Opening>, FabricError> {
    let frame_bytes = ONE_SIDED_FRAME_BYTES.min(fabric.limits().frame_bytes_max as usize) & !15;
    let mut opening = fabric.open(QueuePairConfig {
        send_queue: QUEUE as u32,
        recv_queue: QUEUE as u32,
        inline_bytes: 0,
        rnr_retry: 0,
        side: config.side,
        binding: config.binding,
        avoid: Vec::new(),
    })?;
    let mut receives = fabric.alloc(2 * QUEUE * frame_bytes)?.into_slots(frame_bytes);
    // A fabric may round up to pages.
    receives.truncate(2 * QUEUE);
    let frames = receives.split_off(QUEUE);
    opening.post_recv(&mut receives).map_err(|e| FabricError::Connect(io::Error::other(e)))?;
    let bounds = Bounds {
        operations: config.operations.max(1) as usize,
        notices: config.notices as usize,
        piece: (frame_bytes - REQUEST_BYTES) & !7,
    };
    Ok(Box::new(Unconnected { opening, frames, bounds }))
}

struct Unconnected {
    opening: Box<dyn crate::fabric::Opening>,
    frames: Vec<Slot>,
    bounds: Bounds,
}

#[derive(Clone, Copy)]
struct Bounds {
    operations: usize,
    notices: usize,
    /// Bytes of a piece that begins at a word.
    piece: usize,
}

impl Opening for Unconnected {
    fn offer(&self) -> Zeroizing<Vec<u8>> {
        self.opening.offer()
    }

    fn ways(&self, peer: &[u8]) -> Vec<u32> {
        self.opening.ways(peer)
    }

    fn connect(
        self: Box<Self>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> BoxFuture<'static, Result<Box<dyn OneSided>, FabricError>> {
        let Unconnected { opening, frames, bounds } = *self;
        let connected = opening.connect(peer, way);
        async move {
            let queue_pair = connected.await?;
            let emulated = Emulated {
                queue_pair,
                bounds,
                frames,
                grants: Grants::default(),
                running: VecDeque::new(),
                sent: 0,
                in_flight: 0,
                requests: VecDeque::new(),
                outcomes: Outcomes::default(),
                has_ended: false,
                farewell: None,
                failure: None,
            };
            Ok(Box::new(emulated) as Box<dyn OneSided>)
        }
        .boxed()
    }
}

/// A connected one.
struct Emulated {
    queue_pair: Box<dyn QueuePair>,
    bounds: Bounds,
    grants: Grants,
    /// Slots for frames that are to be sent; the others are on their way.
    frames: Vec<Slot>,
    /// Operations of this side without an outcome.
    running: VecDeque<Running>,
    /// How many of them were sent whole.
    sent: usize,
    /// Requests that were sent and not answered.
    in_flight: usize,
    /// Requests of the peer that wait for a frame for their answer, with the slots they lie in.
    requests: VecDeque<(Slot, Request)>,
    outcomes: Outcomes,
    has_ended: bool,
    /// The final status, until the owner is told: only after a refusal has been sent, since the
    /// owner may then drop the queue pair.
    farewell: Option<Status>,
    /// The status of a failed frame, until all are looked at; any other one replaces `Flushed`.
    failure: Option<Status>,
}

struct Running {
    operation: Operation,
    /// Bytes for which a request was sent, and bytes that were answered.
    sent: u32,
    answered: u32,
}

impl Running {
    fn wanted(&self) -> Wanted {
        let Operation { kind, key, at, bytes, .. } = self.operation;
        Wanted { kind, key, at, bytes }
    }

    /// Returns the bytes of the piece that begins `from` bytes after its beginning (EM-3).
    fn piece(&self, from: u32, bounds: Bounds) -> u32 {
        let into_word = (self.operation.at % 8 + u64::from(from)) % 8;
        (self.operation.bytes - from).min(bounds.piece as u32 - into_word as u32)
    }
}

/// Outcomes that wait to be polled, and the task that waits for them (PV-8).
#[derive(Default)]
struct Outcomes {
    waiting: VecDeque<Outcome>,
    /// Operations and notices among them.
    done: usize,
    notices: usize,
    is_armed: bool,
    is_notified: bool,
    waker: Option<Waker>,
}

impl Outcomes {
    fn push(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Done { .. } => self.done += 1,
            Outcome::Notice(_) => self.notices += 1,
            Outcome::Ended(_) => {}
        }
        self.waiting.push_back(outcome);
        if take(&mut self.is_armed) {
            self.notify();
        }
    }

    fn notify(&mut self) {
        self.is_notified = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn take(&mut self, out: &mut Vec<Outcome>, max: usize) -> usize {
        let count = self.waiting.len().min(max);
        for outcome in self.waiting.drain(..count) {
            match outcome {
                Outcome::Done { .. } => self.done -= 1,
                Outcome::Notice(_) => self.notices -= 1,
                Outcome::Ended(_) => {}
            }
            out.push(outcome);
        }
        count
    }
}

impl OneSided for Emulated {
    fn grant(&mut self, memory: &Arc<Words>, at: u64, bytes: u64, access: Access) -> Granting {
        Granting::Done(self.grants.add(memory, at, bytes, access))
    }

    fn executor(&self) -> Executor {
        Executor::Processor
    }

    fn lend(&mut self, bytes: &Arc<Buffer>) -> Granting {
        Granting::Done(Ok(self.grants.lend(bytes)))
    }

    fn alloc(&self, bytes: usize) -> Making<Locked> {
        let memory = Locked::plain(Region::heap(bytes), bytes);
        Making::Done(memory.ok_or(FabricError::Offer("no memory was asked for")))
    }

    fn post(&mut self, batch: &mut Vec<Operation>) -> Result<(), PostError> {
        let room = self.bounds.operations - self.running.len() - self.outcomes.done;
        let refused = batch.iter().enumerate().find_map(|(place, operation)| {
            let full = if place < room { Ok(()) } else { Err(PostError::Full) };
            operation.check().and(full).err().map(|why| (place, why))
        });
        let accepted = refused.map_or(batch.len(), |(place, _)| place);
        for operation in batch.drain(..accepted) {
            if self.has_ended {
                let Operation { slot, .. } = operation;
                self.outcomes.push(Outcome::Done { slot, status: Status::Flushed });
            } else {
                self.running.push_back(Running { operation, sent: 0, answered: 0 });
            }
        }
        self.send_requests();
        refused.map_or(Ok(()), |(_, why)| Err(why))
    }

    fn poll(&mut self, out: &mut Vec<Outcome>, max: usize) -> usize {
        let mut completions = Vec::with_capacity(QUEUE);
        // The last notification may have brought no outcome; then the owner is still armed.
        if self.outcomes.is_armed {
            self.queue_pair.arm(Notify::Any);
        }
        for look in 0..LOOKS {
            if self.queue_pair.poll(&mut completions, QUEUE) == 0 {
                if let Some(status) = self.failure.take() {
                    self.fail(status);
                } else if self.queue_pair.tail_wanted().is_some() {
                    // EM-4.
                    self.fail(Status::Corrupt);
                }
                break;
            }
            completions.drain(..).for_each(|completion| self.on_completion(completion));
            self.execute_requests();
            self.send_requests();
            if look + 1 == LOOKS {
                // There may be more to look at.
                self.outcomes.notify();
            }
        }
        self.outcomes.take(out, max)
    }

    fn arm(&mut self) {
        self.outcomes.is_armed = true;
        self.queue_pair.arm(Notify::Any);
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if take(&mut self.outcomes.is_notified) {
            return Poll::Ready(());
        }
        self.outcomes.waker = Some(cx.waker().clone());
        self.queue_pair.poll_ready(cx)
    }

    fn close(&mut self) {
        self.fail(Status::Flushed);
    }
}

impl Emulated {
    /// Sends requests for the posted operations, as far as the window allows (EM-1).
    fn send_requests(&mut self) {
        let mut batch = Vec::new();
        while self.in_flight < WINDOW
            && let Some(running) = self.running.get_mut(self.sent)
            && let Some(mut slot) = self.frames.pop()
        {
            let (from, piece) = (running.sent, running.piece(running.sent, self.bounds));
            let request = Request { wanted: running.wanted(), from, piece };
            request.encode(&mut slot);
            let bytes = REQUEST_BYTES + request.payload();
            let written = &running.operation.slot[from as usize..][..request.payload()];
            slot[REQUEST_BYTES..bytes].copy_from_slice(written);
            running.sent += piece;
            self.sent += usize::from(request.is_last());
            self.in_flight += 1;
            batch.push(send(slot, bytes));
        }
        self.post_frames(batch);
    }

    fn post_frames(&mut self, mut batch: Vec<SendRequest>) {
        // There are no more frames than the send queue holds.
        if !batch.is_empty() && self.queue_pair.post_send(&mut batch).is_err() {
            self.fail(Status::Fatal);
        }
    }

    fn on_completion(&mut self, Completion { work, slot, status }: Completion) {
        match (work, status) {
            (Work::Send, Status::Success) => {
                self.frames.push(slot);
                if self.has_ended && self.frames.len() == QUEUE {
                    self.fail(Status::Flushed);
                }
            }
            (Work::Recv { .. }, Status::Success) if self.has_ended => {}
            (Work::Recv { bytes }, Status::Success) => self.on_frame(slot, bytes as usize),
            (_, status) => {
                let failure = self.failure.get_or_insert(status);
                if *failure == Status::Flushed {
                    *failure = status;
                }
            }
        }
    }

    fn on_frame(&mut self, slot: Slot, bytes: usize) {
        let frame = &slot[..bytes];
        if let Some(request) = Request::decode(frame) {
            self.requests.push_back((slot, request));
            // EM-1, EM-4.
            if self.requests.len() > WINDOW {
                self.fail(Status::Corrupt);
            }
            return;
        }
        match Answer::decode(frame) {
            Some(Answer::Forbidden) if self.in_flight > 0 => self.fail(Status::RemoteAccess),
            Some(Answer::NoPlace) if self.in_flight > 0 => self.fail(Status::RnrRetryExceeded),
            Some(Answer::Done { word, .. })
                if self.in_flight > 0 && self.on_done(&frame[ANSWER_BYTES..], word) =>
            {
                self.receive(slot);
            }
            _ => self.fail(Status::Corrupt),
        }
    }

    /// Takes the answer to the oldest request. Returns false if it is none.
    fn on_done(&mut self, read: &[u8], word: u64) -> bool {
        let Some(running) = self.running.front_mut() else { return false };
        let piece = running.piece(running.answered, self.bounds) as usize;
        let slot = &mut running.operation.slot;
        match running.operation.kind {
            Kind::Read if read.len() == piece => {
                slot[running.answered as usize..][..piece].copy_from_slice(read);
            }
            Kind::Write | Kind::WriteAndNotify(_) if read.is_empty() => {}
            Kind::FetchAdd(_) | Kind::CompareAndSwap { .. } if read.is_empty() => {
                slot[..8].copy_from_slice(&word.to_ne_bytes());
            }
            _ => return false,
        }
        running.answered += piece as u32;
        self.in_flight -= 1;
        if running.answered == running.operation.bytes
            && let Some(Running { operation, .. }) = self.running.pop_front()
        {
            self.sent -= 1;
            let Operation { slot, .. } = operation;
            self.outcomes.push(Outcome::Done { slot, status: Status::Success });
        }
        true
    }

    /// Posts a slot again that a frame came in.
    fn receive(&mut self, slot: Slot) {
        if self.queue_pair.post_recv(&mut vec![slot]).is_err() {
            self.fail(Status::Fatal);
        }
    }

    /// Executes requests of the peer, each when there is a frame for its answer (EM-2).
    fn execute_requests(&mut self) {
        while !self.has_ended
            && !self.requests.is_empty()
            && let Some(mut frame) = self.frames.pop()
            && let Some((slot, request)) = self.requests.pop_front()
        {
            let answer = self.execute(&request, &slot[REQUEST_BYTES..], &mut frame[ANSWER_BYTES..]);
            answer.encode(&mut frame);
            step!(any matches!(request.wanted.kind, Kind::Read)
                .then_some(crate::steps::Step::ReadExecuted));
            // The receive is there before the peer can know that it may send its next request.
            self.receive(slot);
            self.post_frames(vec![send(frame, ANSWER_BYTES + answer.payload())]);
            if !matches!(answer, Answer::Done { .. }) {
                self.end(Status::Flushed);
            }
        }
    }

    fn execute(&mut self, request: &Request, written: &[u8], read: &mut [u8]) -> Answer {
        let (wanted, piece) = (request.wanted_piece(), request.piece as usize);
        if !self.grants.allows(request.wanted) || piece > read.len() {
            return Answer::Forbidden;
        }
        let told = match wanted.kind {
            Kind::WriteAndNotify(number) if request.is_last() => Some(number),
            _ => None,
        };
        if told.is_some() && self.outcomes.notices >= self.bounds.notices {
            return Answer::NoPlace;
        }
        let done = match wanted.kind {
            Kind::Read => self.grants.read(wanted, &mut read[..piece]).map(|()| (request.piece, 0)),
            Kind::Write | Kind::WriteAndNotify(_) => {
                self.grants.write(wanted, &written[..piece]).map(|()| (0, 0))
            }
            Kind::FetchAdd(_) | Kind::CompareAndSwap { .. } => {
                self.grants.act(wanted).map(|word| (0, word))
            }
        };
        let Ok((bytes, word)) = done else { return Answer::Forbidden };
        if let Some(number) = told {
            self.outcomes.push(Outcome::Notice(number));
        }
        Answer::Done { bytes, word }
    }

    /// Ends, closes the queue pair below, which tells the peer, and tells the owner.
    fn fail(&mut self, status: Status) {
        self.end(status);
        self.queue_pair.close();
        if let Some(status) = self.farewell.take() {
            self.outcomes.push(Outcome::Ended(status));
        }
    }

    /// Ends; the queue pair below still sends the posted frames. The oldest operation gets
    /// `status`: its answer is the cause, or no operation is known to be.
    fn end(&mut self, status: Status) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let mut next = status;
        for Running { operation: Operation { slot, .. }, .. } in take(&mut self.running) {
            let status = std::mem::replace(&mut next, Status::Flushed);
            self.outcomes.push(Outcome::Done { slot, status });
        }
        self.requests.clear();
        (self.sent, self.in_flight) = (0, 0);
        self.farewell = Some(status);
    }
}

fn send(slot: Slot, bytes: usize) -> SendRequest {
    SendRequest {
        slot,
        bytes: bytes as u32,
        tail: None,
        signaled: true,
        solicited: true,
        inline: false,
    }
}
