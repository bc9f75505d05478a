//! The operations of both sides of one queue pair, between the frames of its link.

use std::collections::VecDeque;
use std::mem::{replace, take};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rkyv::util::AlignedVec;

use super::frames::Frames;
use super::outcomes::Outcomes;
use super::posted::Posted;
use super::{Bounds, WINDOW};
use crate::fabric::one_sided::frame::{ANSWER_BYTES, Answer, REQUEST_BYTES, Request, is_one_sided};
use crate::fabric::one_sided::grants::Grants;
use crate::fabric::one_sided::{Kind, Operation, Outcome};
use crate::fabric::{Completion, Notify, PostError, QueuePair, SendRequest, Status, Work};
use crate::memory::{Slot, Tail, TailRoom};
use crate::steps::step;

/// Looks at the queue pair in one poll; other tasks run before the next ones.
const LOOKS: usize = 16;
/// A connected queue pair, and the operations that travel over it.
pub(super) struct Engine {
    pub(super) below: Box<dyn QueuePair>,
    pub(super) outcomes: Outcomes,
    bounds: Bounds,
    grants: Grants,
    frames: Frames,
    /// Receives that are not the link's, without those in which requests wait.
    receives: usize,
    posted: Posted,
    /// Requests of the peer that wait for a frame for their answer.
    requests: VecDeque<Waiting>,
    has_ended: bool,
    /// The final status, until the owner is told: only after a refusal has been sent, since the
    /// owner may then drop the queue pair.
    farewell: Option<Status>,
    /// The status of a failed frame, until all are looked at; any other one replaces `Flushed`.
    failure: Option<Status>,
    /// The next tail belongs to an operation.
    reads_tail: bool,
    /// Memory for the next tail.
    spare: AlignedVec<16>,
    /// The last poll left something to look at.
    has_more: bool,
    /// Completions that were just polled; a list that is reused.
    polled: Vec<Completion>,
    /// Wakes the owner of the link.
    owner: Option<Waker>,
}

/// A request, the slot that it lies in, and its tail.
struct Waiting {
    slot: Slot,
    request: Request,
    tail: Option<TailRoom>,
}

impl Engine {
    pub(super) fn new(below: Box<dyn QueuePair>, bounds: Bounds, frames: Frames) -> Self {
        Engine {
            below,
            outcomes: Outcomes::default(),
            bounds,
            grants: Grants::default(),
            frames,
            receives: 0,
            posted: Posted::default(),
            requests: VecDeque::new(),
            has_ended: false,
            farewell: None,
            failure: None,
            reads_tail: false,
            spare: AlignedVec::new(),
            has_more: false,
            polled: Vec::new(),
            owner: None,
        }
    }

    pub(super) fn grants(&self) -> Grants {
        self.grants.clone()
    }

    /// Posts the receives for frames of operations, if they are not posted: before the peer may
    /// send any (EM-1).
    pub(super) fn equip(&mut self) {
        if let Some(mut receives) = self.frames.cut() {
            self.receives = receives.len();
            if self.below.post_recv(&mut receives).is_err() {
                self.fail(Status::Fatal);
            }
        }
    }

    pub(super) fn post(&mut self, batch: &mut Vec<Operation>) -> Result<(), PostError> {
        self.equip();
        let room = self.bounds.operations - self.posted.count() - self.outcomes.done();
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
                self.posted.push(operation);
            }
        }
        self.send_requests();
        refused.map_or(Ok(()), |(_, why)| Err(why))
    }

    /// Polls the completions of the link's frames, and goes on with the operations.
    pub(super) fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        let before = out.len();
        let mut polled = take(&mut self.polled);
        for look in 0..LOOKS {
            if self.below.poll(&mut polled, max) == 0 {
                if self.give_tail_room() {
                    continue;
                }
                if let Some(status) = self.failure.take() {
                    self.fail(status);
                }
                break;
            }
            // In their order: after an error no receive succeeds.
            for completion in polled.drain(..) {
                if self.is_own(&completion) {
                    self.on_completion(completion);
                } else {
                    out.push(completion);
                }
            }
            self.execute_requests();
            self.send_requests();
            if out.len() > before {
                break;
            }
            self.has_more = look + 1 == LOOKS;
        }
        self.polled = polled;
        out.len() - before
    }

    pub(super) fn arm(&mut self, on: Notify) {
        // A frame that is sent makes room for a request, or for an answer.
        self.below.arm(if self.frames.are_all_sent() { Notify::Any } else { on });
    }

    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if take(&mut self.has_more) {
            return Poll::Ready(());
        }
        if !self.owner.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            self.owner = Some(cx.waker().clone());
        }
        self.below.poll_ready(cx)
    }

    /// Ends, closes the queue pair below, which tells the peer, and tells the owner.
    pub(super) fn fail(&mut self, status: Status) {
        self.end(status);
        self.below.close();
        if let Some(status) = self.farewell.take() {
            self.outcomes.push(Outcome::Ended(status));
        }
        if let Some(owner) = self.owner.take() {
            owner.wake();
        }
    }

    /// Returns true if a completion is of an operation's frame. Once the queue pair has failed its
    /// receives are all alike: as many are kept as there are.
    fn is_own(&mut self, Completion { work, slot, status }: &Completion) -> bool {
        match work {
            Work::Recv { bytes } if *status == Status::Success => {
                is_one_sided(&slot[..*bytes as usize])
            }
            Work::Recv { .. } => {
                self.note_failure(*status);
                // The receive by which it failed is for the link.
                let is_own = *status == Status::Flushed && self.receives > 0;
                self.receives -= usize::from(is_own);
                is_own
            }
            Work::Send => {
                if *status != Status::Success {
                    self.note_failure(*status);
                }
                self.frames.owns(slot)
            }
        }
    }

    fn note_failure(&mut self, status: Status) {
        let failure = self.failure.get_or_insert(status);
        if *failure == Status::Flushed {
            *failure = status;
        }
    }

    /// Gives memory for the tail of an operation, if one waits for it.
    fn give_tail_room(&mut self) -> bool {
        let Engine { below, spare, .. } = self;
        let gives = below.give_tail_room(&mut |frame, tail| {
            if !is_one_sided(frame) {
                return None;
            }
            let mut memory = take(spare);
            if memory.len() < tail {
                memory.resize(tail, 0);
            }
            Some(TailRoom::new(memory, 0..tail))
        });
        self.reads_tail |= gives;
        gives
    }

    /// Sends requests for the posted operations, as far as the window allows (EM-1).
    fn send_requests(&mut self) {
        let mut batch = Vec::new();
        while self.posted.may_send()
            && let Some(mut slot) = self.frames.take()
            && let Some((request, written)) = self.posted.next_request(self.bounds)
        {
            request.encode(&mut slot);
            batch.push(send(slot, REQUEST_BYTES, written, self.bounds));
        }
        self.post_frames(batch);
    }

    fn post_frames(&mut self, mut batch: Vec<SendRequest>) {
        // There are no more frames than the send queue holds.
        if !batch.is_empty() && self.below.post_send(&mut batch).is_err() {
            self.fail(Status::Fatal);
        }
    }

    fn on_completion(&mut self, Completion { work, slot, status }: Completion) {
        match (work, status) {
            (Work::Send, Status::Success) => {
                self.frames.give(slot);
                if self.has_ended && self.frames.are_all_here() {
                    self.fail(Status::Flushed);
                }
            }
            (Work::Recv { bytes }, Status::Success) => {
                let tail = if take(&mut self.reads_tail) { self.below.take_tail() } else { None };
                self.on_frame(slot, bytes as usize, tail);
            }
            // It was noted (`is_own`).
            _ => {}
        }
    }

    fn on_frame(&mut self, slot: Slot, bytes: usize, mut tail: Option<TailRoom>) {
        let behind = tail.as_mut().map_or(&[][..], |tail| tail.bytes_mut());
        let frame = &slot[..bytes];
        if self.has_ended {
            return self.repost(slot);
        }
        if let Some(request) = Request::decode(frame, behind) {
            // EM-1, EM-4.
            if self.receives == 0 || self.requests.len() == WINDOW {
                return self.fail(Status::Corrupt);
            }
            self.receives -= 1;
            return self.requests.push_back(Waiting { slot, request, tail });
        }
        match Answer::decode(frame, behind) {
            Some(Answer::Forbidden) if self.posted.is_awaiting() => self.fail(Status::RemoteAccess),
            Some(Answer::NoPlace) if self.posted.is_awaiting() => {
                self.fail(Status::RnrRetryExceeded)
            }
            Some(Answer::Done { word, .. }) if self.posted.is_awaiting() => {
                let read = if behind.is_empty() { &frame[ANSWER_BYTES..] } else { behind };
                let Ok(done) = self.posted.take_answer(read, word, self.bounds) else {
                    return self.fail(Status::Corrupt);
                };
                if let Some(slot) = done {
                    self.outcomes.push(Outcome::Done { slot, status: Status::Success });
                }
                self.keep(tail);
                self.repost(slot);
            }
            _ => self.fail(Status::Corrupt),
        }
    }

    /// Keeps the memory of a tail for the next one.
    fn keep(&mut self, tail: Option<TailRoom>) {
        if let Some(tail) = tail {
            self.spare = tail.into_buffer();
        }
    }

    /// Posts a slot again that a frame came in.
    fn repost(&mut self, slot: Slot) {
        if self.below.post_recv(&mut vec![slot]).is_err() {
            self.fail(Status::Fatal);
        }
    }

    /// Executes requests of the peer, each when there is a frame for its answer (EM-2).
    fn execute_requests(&mut self) {
        while !self.has_ended
            && !self.requests.is_empty()
            && let Some(mut frame) = self.frames.take()
            && let Some(Waiting { slot, request, mut tail }) = self.requests.pop_front()
        {
            let written = match &mut tail {
                Some(tail) => tail.bytes_mut(),
                None => &slot[REQUEST_BYTES..],
            };
            let mut read = AlignedVec::<16>::new();
            let answer = self.execute(&request, written, &mut read);
            answer.encode(&mut frame);
            step!(any matches!(request.wanted.kind, Kind::Read)
                .then_some(crate::steps::Step::ReadExecuted));
            // The receive is there before the peer can know that it may send its next request.
            self.keep(tail);
            self.receives += 1;
            self.repost(slot);
            self.post_frames(vec![send(frame, ANSWER_BYTES, &read, self.bounds)]);
            if !matches!(answer, Answer::Done { .. }) {
                self.end(Status::Flushed);
            }
        }
    }

    fn execute(&mut self, request: &Request, written: &[u8], read: &mut AlignedVec<16>) -> Answer {
        let (wanted, piece) = (request.wanted_piece(), request.piece as usize);
        if !self.grants.allows(request.wanted) || piece > self.bounds.piece {
            return Answer::Forbidden;
        }
        let told = match wanted.kind {
            Kind::WriteAndNotify(number) if request.is_last() => Some(number),
            _ => None,
        };
        if told.is_some() && self.outcomes.notices() >= self.bounds.notices {
            return Answer::NoPlace;
        }
        let done = match wanted.kind {
            Kind::Read => {
                read.resize(piece, 0);
                self.grants.read(wanted, read).map(|()| (request.piece, 0))
            }
            Kind::Write | Kind::WriteAndNotify(_) => {
                self.grants.write(wanted, &written[..piece]).map(|()| (0, 0))
            }
            Kind::FetchAdd(_) | Kind::CompareAndSwap { .. } => {
                self.grants.act(wanted).map(|word| (0, word))
            }
        };
        let Ok((bytes, word)) = done else {
            read.clear();
            return Answer::Forbidden;
        };
        if let Some(number) = told {
            self.outcomes.push(Outcome::Notice(number));
        }
        Answer::Done { bytes, word }
    }

    /// Ends; the queue pair below still sends the posted frames. The oldest operation gets
    /// `status`: its answer is the cause, or no operation is known to be.
    fn end(&mut self, status: Status) {
        if replace(&mut self.has_ended, true) {
            return;
        }
        let mut next = status;
        for slot in self.posted.leave() {
            let status = replace(&mut next, Status::Flushed);
            self.outcomes.push(Outcome::Done { slot, status });
        }
        self.requests.clear();
        self.farewell = Some(status);
    }
}

/// Returns the request to send a frame: its head lies in the slot, its bytes behind that if there
/// is room, and else they are its tail.
fn send(mut slot: Slot, head: usize, bytes: &[u8], bounds: Bounds) -> SendRequest {
    let fits = bytes.len() <= bounds.frame;
    let tail = if fits {
        slot[head..head + bytes.len()].copy_from_slice(bytes);
        None
    } else {
        let mut copied = AlignedVec::with_capacity(bytes.len());
        copied.extend_from_slice(bytes);
        Some(Tail::new(Arc::new(copied.into()), 0..bytes.len()))
    };
    let bytes = (head + if fits { bytes.len() } else { 0 }) as u32;
    SendRequest { slot, bytes, tail, signaled: true, solicited: true, inline: false }
}
