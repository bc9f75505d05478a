//! The queue of senders that wait for room.

use std::collections::VecDeque;
use std::task::{Context, Waker};

use ringpost_transport::shield;
use tokio::time::Instant;

/// Senders in the order of their arrival. Turns are increasing numbers, so the queue is sorted.
#[derive(Default)]
pub(super) struct SenderQueue {
    waiting: VecDeque<WaitingSender>,
    next: u64,
}

struct WaitingSender {
    turn: u64,
    since: Instant,
    /// Taken when the sender is woken: the sender stays in the queue until its next poll.
    waker: Option<Waker>,
}

/// The outcome of [`SenderQueue::admit`].
pub(super) enum Admission {
    /// The sender has room. Contains the sender as it left the queue, if it waited there.
    Yes(Option<DepartedSender>),
    /// It still waits. Contains its previous waker, to be dropped outside of the lock.
    Not { _old: Option<Waker> },
    /// It has begun to wait.
    Begun,
}

/// A sender that has left the queue.
pub(super) struct DepartedSender {
    since: Instant,
    /// To be dropped outside of the lock.
    _waker: Option<Waker>,
}

impl DepartedSender {
    /// Counts its waiting time. Must be called outside of the lock.
    #[cold]
    pub(super) fn count(self) {
        let waited_us = self.since.elapsed().as_micros() as u64;
        shield::run(|| metrics::counter!("ringpost_mailbox_wait_us_total").increment(waited_us));
    }
}

impl From<WaitingSender> for DepartedSender {
    fn from(WaitingSender { since, waker, .. }: WaitingSender) -> Self {
        DepartedSender { since, _waker: waker }
    }
}

impl SenderQueue {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Admits the sender with this turn if fewer than `room` senders are ahead of it; otherwise it
    /// waits. Drop the result outside of the lock.
    pub(super) fn admit(
        &mut self,
        turn: &mut Option<u64>,
        room: usize,
        cx: &mut Context<'_>,
    ) -> Admission {
        let ahead = turn.map_or(self.waiting.len(), |turn| self.place(turn));
        if ahead < room {
            let waited = turn.take().and_then(|_| self.waiting.remove(ahead));
            return Admission::Yes(waited.map(DepartedSender::from));
        }
        let waker = Some(cx.waker().clone());
        if let Some(waiting) = self.waiting.get_mut(ahead) {
            return Admission::Not { _old: std::mem::replace(&mut waiting.waker, waker) };
        }
        self.waiting.push_back(WaitingSender { turn: self.next, since: Instant::now(), waker });
        *turn = Some(self.next);
        self.next += 1;
        Admission::Begun
    }

    /// Returns the start of the longest wait.
    pub(super) fn longest(&self) -> Option<Instant> {
        self.waiting.front().map(|first| first.since)
    }

    /// Returns the wakers of the first `room` senders.
    pub(super) fn call(&mut self, room: usize) -> Vec<Waker> {
        self.waiting.iter_mut().take(room).filter_map(|w| w.waker.take()).collect()
    }

    /// Returns the waker of the last of the first `room` senders: the one for which a place was
    /// just added.
    pub(super) fn call_last(&mut self, room: usize) -> Option<Waker> {
        self.waiting.get_mut(room.checked_sub(1)?)?.waker.take()
    }

    /// Removes the sender with this turn from the queue. Returns `None` if it has left already.
    pub(super) fn leave(&mut self, turn: u64) -> Option<DepartedSender> {
        let place = self.place(turn);
        if self.waiting.get(place).is_none_or(|w| w.turn != turn) {
            return None;
        }
        self.waiting.remove(place).map(DepartedSender::from)
    }

    /// Returns true if the sender with this turn was woken, and may have one of `room` places.
    pub(super) fn was_called(&self, turn: u64, room: usize) -> bool {
        let place = self.place(turn);
        let sender = self.waiting.get(place).filter(|w| w.turn == turn && place < room);
        sender.is_some_and(|w| w.waker.is_none())
    }

    /// Returns the number of senders ahead of this turn.
    fn place(&self, turn: u64) -> usize {
        // Few senders leave the queue in its middle, so turns are mostly consecutive.
        let first = self.waiting.front().map_or(turn, |first| first.turn);
        let guess = turn.saturating_sub(first) as usize;
        match self.waiting.get(guess) {
            Some(w) if w.turn == turn => guess,
            _ => self.waiting.partition_point(|w| w.turn < turn),
        }
    }
}
