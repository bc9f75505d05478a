//! The asker's end of an ask.
//!
//! A reply slot belongs to one asker from its ask's commit until the asker has taken the answer or
//! has gone; an answer that comes later meets no other asker. Slots are used again, so an ask
//! allocates nothing once as many were pending. When the link ends, every slot whose asker waits
//! gets an answer, even if the answer of the peer was read and could not be dispatched any more.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::LinkHandle;
use crate::cause::{LinkCause, Refusal};
use crate::memory::Payload;

/// The cause for which a committed ask will not be answered.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyLoss {
    /// It never left this node: its time was over before.
    #[error("it could not be sent in time")]
    Late,
    /// The link was lost before the whole ask had left this node: it is certainly not handled.
    #[error("the link was lost before it was sent: {0}")]
    Unsent(LinkCause),
    /// The link was lost; whether the ask was handled is unknown.
    #[error("the link was lost: {0}")]
    LinkDown(LinkCause),
    /// It was not delivered.
    #[error("it was not delivered: {0:?}")]
    Refused(Refusal),
    /// The handler's side answered with a code of the layer above, or with one of
    /// [`Replier`](super::Replier)'s.
    #[error("the peer answered with code {0}")]
    Failed(u16),
}

crate::debug_by_display!(ReplyLoss);

type Answer = Result<Payload, ReplyLoss>;

/// Names the reply slot of an ask: its place, and which user of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    place: u32,
    generation: u32,
}

/// The reply slots of a link. Created with it, under a lock of their own, which is taken after the
/// link's.
#[derive(Default)]
pub(super) struct ReplySlots {
    slots: Vec<ReplySlot>,
    free: Vec<u32>,
}

struct ReplySlot {
    generation: u32,
    state: SlotState,
}

pub(super) enum SlotState {
    Free,
    Waiting(Option<Waker>),
    Answered(Answer),
}

impl ReplySlots {
    /// Takes a slot for an asker that is woken by `waker`.
    pub(super) fn insert(&mut self, waker: Option<&Waker>) -> Asker {
        let state = SlotState::Waiting(waker.cloned());
        if let Some(place) = self.free.pop() {
            let slot = &mut self.slots[place as usize];
            slot.state = state;
            return Asker { place, generation: slot.generation };
        }
        self.slots.push(ReplySlot { generation: 0, state });
        Asker { place: self.slots.len() as u32 - 1, generation: 0 }
    }

    /// Keeps an answer for its asker. Returns the waker to be woken, or the answer that no asker
    /// waits for any more, to be dropped without the lock.
    fn answer(&mut self, asker: Asker, answer: Answer) -> Result<Option<Waker>, Answer> {
        let Some(slot) = self.find(asker) else { return Err(answer) };
        match mem::replace(&mut slot.state, SlotState::Answered(answer)) {
            SlotState::Waiting(waker) => Ok(waker),
            _ => Ok(None),
        }
    }

    /// Answers all that still wait with `loss`. Returns their wakers.
    fn end(&mut self, loss: &ReplyLoss) -> Vec<Waker> {
        let waiting = |slot: &mut ReplySlot| match &mut slot.state {
            SlotState::Waiting(waker) => {
                let waker = waker.take();
                slot.state = SlotState::Answered(Err(loss.clone()));
                waker
            }
            _ => None,
        };
        self.slots.iter_mut().filter_map(waiting).collect()
    }

    /// Takes the answer, and frees the slot; or keeps the waker. Returns a waker to be dropped
    /// without the lock, too.
    fn poll(&mut self, asker: Asker, waker: &Waker) -> (Poll<Option<Answer>>, Option<Waker>) {
        let Some(slot) = self.find(asker) else { return (Poll::Ready(None), None) };
        if let SlotState::Waiting(kept) = &mut slot.state {
            let same = kept.as_ref().is_some_and(|kept| kept.will_wake(waker));
            let old = if same { None } else { kept.replace(waker.clone()) };
            return (Poll::Pending, old);
        }
        match self.remove(asker) {
            Some(SlotState::Answered(answer)) => (Poll::Ready(Some(answer)), None),
            _ => (Poll::Ready(None), None),
        }
    }

    /// Frees the slot. Returns its state, to be dropped without the lock.
    pub(super) fn remove(&mut self, asker: Asker) -> Option<SlotState> {
        let slot = self.find(asker)?;
        slot.generation = slot.generation.wrapping_add(1);
        let state = mem::replace(&mut slot.state, SlotState::Free);
        self.free.push(asker.place);
        Some(state)
    }

    fn find(&mut self, asker: Asker) -> Option<&mut ReplySlot> {
        let slot = self.slots.get_mut(asker.place as usize)?;
        (slot.generation == asker.generation).then_some(slot)
    }
}

impl LinkHandle {
    /// Gives an asker its answer, and wakes it.
    pub(crate) fn answer(&self, asker: Asker, answer: Answer) {
        let answered = self.replies.lock().answer(asker, answer);
        // An asker that has gone in this moment wants no answer.
        if let Ok(Some(waker)) = answered {
            waker.wake();
        }
    }

    /// Answers all askers that still wait, because the link has ended.
    pub(super) fn answer_all(&self, loss: &ReplyLoss) {
        let wakers = self.replies.lock().end(loss);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// The answer to an ask, when it comes; the task that sent the ask is woken for it before this was
/// polled, too. Dropping it gives the ask up: an ask that was not sent never will be; for any other
/// the peer is told, and does not begin it, or drops its answer where it is made.
///
/// # Errors
/// [`ReplyLoss`] when there will be none: the link ended, or the other side refused or failed.
pub struct PendingReply {
    link: Arc<LinkHandle>,
    correlation: u64,
    /// `None` once the answer came, or was given up.
    asker: Option<Asker>,
    /// The form of the answer.
    form: u8,
}

impl PendingReply {
    pub(super) fn new(link: Arc<LinkHandle>, correlation: u64, asker: Asker, form: u8) -> Self {
        PendingReply { link, correlation, asker: Some(asker), form }
    }

    /// Returns the form of the answer's archive: a place among the
    /// [`replies`](crate::host::MessageForms::replies) of the message.
    pub fn form(&self) -> u8 {
        self.form
    }

    /// Returns the number under which the peer answers.
    #[cfg(test)]
    pub(crate) fn correlation(&self) -> u64 {
        self.correlation
    }

    /// Gives the ask up, as dropping this does. Returns true if it was not sent, and so certainly
    /// is never handled.
    pub fn give_up(&mut self) -> bool {
        let Some(asker) = self.asker.take() else { return false };
        let mut state = self.link.state.lock();
        let unsent = state.send_queue.give_up(self.correlation);
        self.link.finish(state);
        let left = self.link.replies.lock().remove(asker);
        drop(left);
        unsent
    }
}

impl Future for PendingReply {
    type Output = Answer;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let lost = Err(ReplyLoss::LinkDown(LinkCause::Closed));
        let Some(asker) = self.asker else { return Poll::Ready(lost) };
        let (polled, old) = self.link.replies.lock().poll(asker, cx.waker());
        drop(old);
        let answer = std::task::ready!(polled);
        self.asker = None;
        Poll::Ready(answer.unwrap_or(lost))
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl fmt::Debug for PendingReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingReply({:#x})", self.correlation)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Wakes(Mutex<u32>);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            *self.0.lock() += 1;
        }
    }

    fn refused(code: u16) -> Answer {
        Err(ReplyLoss::Failed(code))
    }

    fn code(answer: Answer) -> u16 {
        match answer {
            Err(ReplyLoss::Failed(code)) => code,
            other => panic!("not a code: {other:?}"),
        }
    }

    #[test]
    fn a_late_answer_meets_no_other_asker() {
        let mut slots = ReplySlots::default();
        let first = slots.insert(None);
        assert!(slots.remove(first).is_some(), "its asker has gone");
        let second = slots.insert(None);
        assert_eq!((first.place, slots.slots.len()), (second.place, 1), "the slot is used again");
        assert_eq!(slots.answer(first, refused(1)).map_err(code).unwrap_err(), 1, "given back");
        assert!(slots.poll(second, Waker::noop()).0.is_pending());
        assert!(slots.answer(second, refused(2)).is_ok());
        assert!(slots.remove(first).is_none(), "it is not its slot any more");
        let Poll::Ready(Some(answer)) = slots.poll(second, Waker::noop()).0 else { panic!() };
        assert_eq!(code(answer), 2);
        assert!(slots.answer(second, refused(3)).is_err(), "the answer was taken");
        assert_eq!(slots.free, [0]);
    }

    #[test]
    fn the_waker_of_the_last_poll_is_woken() {
        let mut slots = ReplySlots::default();
        let wakes = [(); 2].map(|()| Arc::new(Wakes::default()));
        let wakers = wakes.clone().map(Waker::from);
        let asker = slots.insert(Some(&wakers[0]));
        assert!(slots.poll(asker, &wakers[0]).1.is_none(), "it has this one");
        let (polled, old) = slots.poll(asker, &wakers[1]);
        assert!(polled.is_pending() && old.is_some_and(|old| old.will_wake(&wakers[0])));
        slots.answer(asker, refused(1)).unwrap().unwrap().wake();
        assert_eq!(wakes.map(|wakes| *wakes.0.lock()), [0, 1]);
    }
}
