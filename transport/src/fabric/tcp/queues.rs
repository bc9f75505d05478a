//! The two work queues and the completion queue of a queue pair: what verbs say about them, and
//! nothing of streams.

use std::collections::VecDeque;
use std::task::Waker;

use arrayvec::ArrayVec;

use super::prefix::{PREFIX_BYTES_MAX, Prefix};
use crate::fabric::{Completion, Notify, PostError, QueuePairConfig, SendRequest, Status, Work};
use crate::limits::{TCP_FRAME_BYTES_MAX, TCP_TAIL_BYTES_MAX};
use crate::memory::{Owner, Slot};

/// Pieces of a send on the stream: its prefix, its frame, and its tail.
pub(super) const FRAME_PIECES: usize = 3;

/// The queues of one queue pair.
///
/// Sends are counted from the first one posted. `returned <= sent <= posted`: those from
/// `returned` to `sent` were written and wait for a signaled one (PV-4).
pub(super) struct Queues {
    sends: VecDeque<Send>,
    returned: u64,
    sent: u64,
    unsent_bytes: usize,
    recvs: VecDeque<Slot>,
    done: VecDeque<Completion>,
    room: Room,
    rules: Rules,
    error: bool,
    alarm: Alarm,
}

/// The rules that a work request must keep to.
struct Rules {
    /// Its memory is this one's (PV-1).
    owner: Owner,
    inline_bytes: u32,
}

impl Rules {
    fn check(&self, request: &SendRequest) -> Result<(), PostError> {
        let (bytes, tail) = (request.bytes, request.tail().len());
        let fits = bytes as usize <= request.slot.len() && bytes <= TCP_FRAME_BYTES_MAX;
        if !fits || tail > TCP_TAIL_BYTES_MAX as usize {
            Err(PostError::TooLong)
        } else if request.inline && bytes as usize + tail > self.inline_bytes as usize {
            Err(PostError::InlineTooLong)
        } else {
            self.check_memory(&request.slot)
        }
    }

    fn check_memory(&self, slot: &Slot) -> Result<(), PostError> {
        if slot.region().is_of(self.owner) { Ok(()) } else { Err(PostError::Foreign) }
    }
}

/// How many requests from the front can be posted, and why not more.
fn fitting<T>(
    requests: &[T],
    room: u32,
    check: impl Fn(&T) -> Result<(), PostError>,
) -> (usize, Result<(), PostError>) {
    for (i, request) in requests.iter().enumerate() {
        let full = if i >= room as usize { Err(PostError::Full) } else { Ok(()) };
        if let Err(error) = full.and_then(|()| check(request)) {
            return (i, Err(error));
        }
    }
    (requests.len(), Ok(()))
}

/// A send that waits to be written, or to be returned.
struct Send {
    prefix: ArrayVec<u8, PREFIX_BYTES_MAX>,
    request: SendRequest,
}

impl Send {
    fn new(request: SendRequest) -> Self {
        let (bytes, tail) = (request.bytes, request.tail().len() as u32);
        let prefix = Prefix { bytes, tail, solicited: request.solicited }.encode();
        Send { prefix, request }
    }
}

/// How many more work requests can be posted. They count until they were polled (PV-9).
struct Room {
    send: u32,
    recv: u32,
}

/// The one-shot notification (PV-8).
#[derive(Default)]
struct Alarm {
    armed: Option<Notify>,
    rang: bool,
    waker: Option<Waker>,
}

/// The failure that moved a queue pair to the error state (PV-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The oldest send that was not written, if there is one.
    Send(Status),
    /// The oldest receive, or where there is none the oldest send.
    Stream(Status),
    /// No work request.
    Closed,
}

impl Queues {
    /// Empty queues of the sizes in `config`. Their memory grows with the most requests ever
    /// outstanding (TC-5): most links never come near their bound.
    pub(super) fn new(config: &QueuePairConfig, owner: Owner) -> Self {
        let (send, recv) = (config.send_queue, config.recv_queue);
        Queues {
            sends: VecDeque::new(),
            returned: 0,
            sent: 0,
            unsent_bytes: 0,
            recvs: VecDeque::new(),
            done: VecDeque::new(),
            room: Room { send, recv },
            rules: Rules { owner, inline_bytes: config.inline_bytes },
            error: false,
            alarm: Alarm::default(),
        }
    }

    pub(super) fn post_send(&mut self, batch: &mut Vec<SendRequest>) -> Result<(), PostError> {
        let (kept, result) = fitting(batch, self.room.send, |request| self.rules.check(request));
        self.room.send -= kept as u32;
        for request in batch.drain(..kept) {
            if self.error {
                self.complete(Work::Send, request.slot, Status::Flushed, true);
            } else {
                self.unsent_bytes += request.frame_bytes();
                self.sends.push_back(Send::new(request));
            }
        }
        result
    }

    pub(super) fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        let (kept, result) = fitting(slots, self.room.recv, |slot| self.rules.check_memory(slot));
        self.room.recv -= kept as u32;
        for slot in slots.drain(..kept) {
            if self.error {
                self.complete(Work::Recv { bytes: 0 }, slot, Status::Flushed, true);
            } else {
                self.recvs.push_back(slot);
            }
        }
        result
    }

    /// Sends posted so far.
    pub(super) fn posted(&self) -> u64 {
        self.returned + self.sends.len() as u64
    }

    /// Prefix and bytes of a send that was not written, in pieces.
    pub(super) fn frame(&self, position: u64) -> [&[u8]; FRAME_PIECES] {
        let Send { prefix, request } = &self.sends[(position - self.returned) as usize];
        [prefix, request.bytes(), request.tail()]
    }

    /// Returns the bytes of the sends that were not written.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    /// Returns the oldest receive.
    pub(super) fn next_recv(&mut self) -> Option<&mut Slot> {
        self.recvs.front_mut()
    }

    /// Returns the first `bytes` bytes of the oldest receive.
    pub(super) fn first(&self, bytes: usize) -> Option<&[u8]> {
        self.recvs.front()?.get(..bytes)
    }

    /// Notifies the owner (PV-8) of something other than a completion.
    pub(super) fn notify(&mut self) {
        self.alarm.ring(true);
    }

    /// The oldest receive is filled.
    pub(super) fn arrived(&mut self, bytes: u32, solicited: bool) {
        if let Some(slot) = self.recvs.pop_front() {
            self.complete(Work::Recv { bytes }, slot, Status::Success, solicited);
        }
    }

    /// The sends before `position` were written (PV-4).
    pub(super) fn sent(&mut self, position: u64) {
        while self.sent < position {
            let next = (self.sent - self.returned) as usize;
            self.sent += 1;
            self.unsent_bytes -= self.sends[next].request.frame_bytes();
            self.sends[next].request.tail = None;
            if self.sends[next].request.signaled {
                self.return_sent();
                self.alarm.ring(false);
            }
        }
    }

    /// Moves to the error state and flushes (PV-7).
    pub(super) fn fail(&mut self, failure: Failure) {
        self.error = true;
        self.return_sent();
        let mut status = match failure {
            Failure::Send(status) | Failure::Stream(status) => status,
            Failure::Closed => Status::Flushed,
        };
        if let Failure::Stream(failed) = failure
            && let Some(slot) = self.recvs.pop_front()
        {
            self.complete(Work::Recv { bytes: 0 }, slot, failed, true);
            status = Status::Flushed;
        }
        while let Some(send) = self.sends.pop_front() {
            self.returned += 1;
            self.complete(Work::Send, send.request.slot, status, true);
            status = Status::Flushed;
        }
        self.sent = self.returned;
        while let Some(slot) = self.recvs.pop_front() {
            self.complete(Work::Recv { bytes: 0 }, slot, Status::Flushed, true);
        }
    }

    /// Returns true if it is in the error state.
    pub(super) fn failed(&self) -> bool {
        self.error
    }

    /// Completions that wait to be polled.
    pub(super) fn waiting(&self) -> usize {
        self.done.len()
    }

    pub(super) fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        let count = self.done.len().min(max);
        if count == 0 {
            return 0;
        }
        for completion in self.done.drain(..count) {
            match completion.work {
                Work::Send => self.room.send += 1,
                Work::Recv { .. } => self.room.recv += 1,
            }
            out.push(completion);
        }
        count
    }

    pub(super) fn arm(&mut self, on: Notify) {
        // A notification that was polled already must not end the next wait.
        self.alarm.rang &= !self.done.is_empty();
        if self.alarm.armed != Some(Notify::Any) {
            self.alarm.armed = Some(on);
        }
    }

    /// Returns true if the notification came; it is used up by this.
    pub(super) fn take_notification(&mut self) -> bool {
        std::mem::take(&mut self.alarm.rang)
    }

    /// Keeps the waker of the task that waits for the notification.
    pub(super) fn wait(&mut self, waker: &Waker) {
        self.alarm.waker.get_or_insert_with(|| waker.clone()).clone_from(waker);
    }

    /// Returns true if the notification came and was not used up.
    pub(super) fn rang(&self) -> bool {
        self.alarm.rang
    }

    /// Takes the waker of the task that waits for the notification, if one does.
    pub(super) fn waiter(&mut self) -> Option<Waker> {
        self.alarm.waker.take()
    }

    fn return_sent(&mut self) {
        while self.returned < self.sent {
            let Some(send) = self.sends.pop_front() else { return };
            self.returned += 1;
            let completion =
                Completion { work: Work::Send, slot: send.request.slot, status: Status::Success };
            self.done.push_back(completion);
        }
    }

    fn complete(&mut self, work: Work, slot: Slot, status: Status, solicited: bool) {
        self.done.push_back(Completion { work, slot, status });
        self.alarm.ring(solicited);
    }
}

impl Alarm {
    /// A completion was added.
    fn ring(&mut self, solicited: bool) {
        if self.armed == Some(Notify::Any) || (self.armed.is_some() && solicited) {
            self.armed = None;
            self.rang = true;
        }
    }
}
