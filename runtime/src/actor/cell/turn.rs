//! The turn of an actor: the right to poll its life, the future that runs the actor. Either the
//! actor's task takes it, or an asker that finds the actor idle.
//!
//! - **TN-1 one at a time**: only the thread that has taken the turn polls the life.
//! - **TN-3 seated**: the task's future, and the life in it, stay in place while the turn is taken:
//!   dropping the future waits until the turn is given back. A life that waits for messages stores
//!   its address in the turn, and the address is cleared before the life is polled again.
//!
//! A task that finds the turn taken is woken when the turn is given back.
#![allow(unsafe_code, reason = "polls a life that lies in the task of its actor")]

use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use stackfuture::StackFuture;

use crate::mailbox::ErasedMailbox;
use crate::slot::AskInPlace;

/// A life that lies in tokio's task. With a life of this size the task takes 512 bytes, of which 32
/// are the two pointers of this type and the reference to the cell. Larger lives are boxed.
pub(crate) type InlineActorFuture = StackFuture<'static, (), 376>;

pub(crate) type BoxedActorFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The turn is taken. (This and the next constants are bits of a turn's word, beside the address of
/// the [`ActorTask`]. The word is zero while there is no address: the task has not been polled, or
/// its future is being dropped.)
const TAKEN: usize = 1;
/// The turn is taken, and the task of the actor wants it.
const WANTED: usize = 2;
/// The [`ActorTask`] holds a [`BoxedActorFuture`].
const LARGE: usize = 4;
const BITS: usize = TAKEN | WANTED | LARGE;

/// The interval at which an [`ActorTask`] that is being dropped checks whether the turn was given
/// back.
const LOOK: Duration = Duration::from_micros(50);

/// The lock on polling an actor. It knows the address of the actor's task, and whether a thread
/// polls the life. `W` is the native atomic, or loom's in a model.
pub(crate) struct TurnLock<W = AtomicUsize> {
    word: W,
    /// The life, while it waits for messages (TN-3). Used only by the thread that has the turn.
    resting: UnsafeCell<Option<NonNull<dyn IdleLife>>>,
}

/// A life that waits for messages and for nothing else.
pub(crate) trait IdleLife: Send {
    /// Handles an ask, if its handler answers at once. Returns true if the life must be polled
    /// afterwards.
    fn run_ask(&mut self, ask: &mut AskInPlace<'_>) -> bool;

    /// Begins to handle `letter`, a `LocalMessage` of the actor, and empties it. Returns true if
    /// the life must be polled afterwards.
    fn handle(&mut self, letter: &mut dyn Any) -> bool;
}

// SAFETY: only one thread has the turn (TN-1) and uses the pointer to the life, which is `Send`.
unsafe impl<W: Send> Send for TurnLock<W> {}
// SAFETY: as above.
unsafe impl<W: Sync> Sync for TurnLock<W> {}

/// An atomic word.
pub(crate) trait Word {
    fn load(&self, order: Ordering) -> usize;
    /// Changes the value from `old` to `new`, by a compare-and-exchange. Returns false if the value
    /// was not `old`.
    fn replace(&self, old: usize, new: usize) -> bool;
    fn swap(&self, new: usize) -> usize;
}

macro_rules! word {
    ($atomic:ty) => {
        impl Word for $atomic {
            #[inline]
            fn load(&self, order: Ordering) -> usize {
                self.load(order)
            }

            #[inline]
            fn replace(&self, old: usize, new: usize) -> bool {
                self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            }

            #[inline]
            fn swap(&self, new: usize) -> usize {
                self.swap(new, Ordering::AcqRel)
            }
        }
    };
}

word!(AtomicUsize);

#[cfg(test)]
mod model;

impl<W: Word> TurnLock<W> {
    /// Takes the turn if it is free. Returns the word without the bit [`TAKEN`]: the address of the
    /// [`ActorTask`], and the bits of its kind of life.
    #[inline]
    fn take(&self) -> Option<usize> {
        let seat = self.word.load(Ordering::Relaxed);
        let is_free = seat != 0 && seat & (TAKEN | WANTED) == 0;
        (is_free && self.word.replace(seat, seat | TAKEN)).then_some(seat)
    }

    /// Takes the turn for the actor's task; `seat` is the address of the [`ActorTask`] with the
    /// bits of its kind of life. Returns false if the turn is taken: its holder wakes the task when
    /// it gives the turn back.
    fn take_or_want(&self, seat: usize) -> bool {
        loop {
            let now = self.word.load(Ordering::Relaxed);
            if now & WANTED != 0 {
                return false;
            }
            // (Before the first poll the word is zero, and only the task comes here.)
            let (next, is_mine) =
                if now & TAKEN == 0 { (seat | TAKEN, true) } else { (now | WANTED, false) };
            if self.word.replace(now, next) {
                return is_mine;
            }
        }
    }

    /// Gives the turn back. Returns true if the caller must wake the task.
    #[inline]
    fn give_back(&self, seat: usize) -> bool {
        self.word.swap(seat) & WANTED != 0
    }

    /// Closes the turn unless it is taken, so that nobody can take it any more. Returns true if it
    /// is closed.
    fn close(&self) -> bool {
        let now = self.word.load(Ordering::Acquire);
        now == 0 || now & TAKEN == 0 && self.word.replace(now, 0)
    }
}

impl TurnLock {
    pub(crate) const fn new() -> Self {
        TurnLock { word: AtomicUsize::new(0), resting: UnsafeCell::new(None) }
    }

    /// Stores the address of the life, which waits for messages (TN-3).
    ///
    /// # Safety
    /// The caller has the turn. The life stays at this address until it is polled again, and until
    /// then only pointers taken from this turn refer to it.
    #[inline]
    pub(crate) unsafe fn rest(&self, life: NonNull<dyn IdleLife>) {
        // SAFETY: the caller has the turn (TN-1).
        unsafe { *self.resting.get() = Some(life) };
    }

    /// Takes the turn for an asker. Returns `None` if a thread polls the life, or if the life is
    /// not waiting for messages with an open and empty mailbox for which no sender waits.
    #[inline]
    pub(crate) fn visit<'a>(&'a self, mailbox: &'a dyn ErasedMailbox) -> Option<IdleTurn<'a>> {
        let taken = TurnGuard { turn: self, seat: self.take()?, wakes: TurnWaker::TaskOf(mailbox) };
        // SAFETY: the turn is taken (TN-1).
        let life = unsafe { *self.resting.get() }?;
        mailbox.waits_alone().then_some(IdleTurn { life, mailbox, taken })
    }

    /// Returns true if there is a life, and no thread polls it now.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        let now = self.word.load(Ordering::Relaxed);
        now != 0 && now & TAKEN == 0
    }

    /// Polls the life on this thread, as its task would; `task` is that task's waker. Returns false
    /// and does nothing if another thread polls the life or it has ended.
    pub(crate) fn run(&self, task: &Waker) -> bool {
        let Some(seat) = self.take() else { return false };
        TurnGuard { turn: self, seat, wakes: TurnWaker::Task(task) }.poll(task);
        true
    }
}

/// The turn of an idle actor, taken by an asker: the life waits for messages.
pub(crate) struct IdleTurn<'a> {
    life: NonNull<dyn IdleLife>,
    mailbox: &'a dyn ErasedMailbox,
    taken: TurnGuard<'a>,
}

impl IdleTurn<'_> {
    /// Calls `act` with the life, and polls the life if `act` returns true.
    #[inline]
    pub(crate) fn act(mut self, act: impl FnOnce(&mut dyn IdleLife) -> bool) {
        // SAFETY: the life stays there until it is polled (TN-3), and only this turn polls it
        // (TN-1).
        if act(unsafe { self.life.as_mut() })
            && let Some(task) = self.mailbox.busy_task()
        {
            // The mailbox forgets the task if the life ends.
            self.taken.wakes = TurnWaker::Own(task.clone());
            self.taken.poll(&task);
        }
    }
}

/// A turn that is taken. Dropping it gives the turn back.
struct TurnGuard<'a> {
    turn: &'a TurnLock,
    seat: usize,
    wakes: TurnWaker<'a>,
}

/// The task to wake at the end of a turn, if it wants the turn.
enum TurnWaker<'a> {
    /// The task has the turn itself.
    Nothing,
    Task(&'a Waker),
    Own(Waker),
    TaskOf(&'a dyn ErasedMailbox),
}

impl TurnGuard<'_> {
    /// Polls the life on this thread, as its task would; `task` is that task's waker.
    fn poll(&self, task: &Waker) {
        let at = ptr::with_exposed_provenance::<()>(self.seat & !BITS);
        // (Within the asker's coop budget: a life that uses the budget up yields.)
        let cx = &mut Context::from_waker(task);
        let polled = if self.seat & LARGE == 0 {
            // SAFETY: the `ActorTask` is there (TN-3) and holds a small life, and the turn is taken
            // (TN-1).
            unsafe { poll_life(at.cast::<ActorTask<InlineActorFuture>>(), cx) }
        } else {
            // SAFETY: as above, with a large life.
            unsafe { poll_life(at.cast::<ActorTask<BoxedActorFuture>>(), cx) }
        };
        if polled.is_ready() {
            // The task must see that the life has ended.
            task.wake_by_ref();
        }
    }
}

impl Drop for TurnGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.turn.give_back(self.seat) {
            match self.wakes {
                TurnWaker::Nothing => {}
                TurnWaker::Task(task) => task.wake_by_ref(),
                TurnWaker::Own(ref task) => task.wake_by_ref(),
                TurnWaker::TaskOf(mailbox) => mailbox.wake(),
            }
        }
    }
}

/// An actor that has a turn, as its [`ActorTask`] sees it.
pub(crate) trait HasTurn: Send + Sync {
    fn turn(&self) -> &TurnLock;
}

/// The future of an actor's task. It holds the life, which only the holder of the turn polls.
pub(crate) struct ActorTask<F> {
    /// `None` once the life has ended.
    life: UnsafeCell<Option<F>>,
    whose: Arc<dyn HasTurn>,
    _pinned: PhantomPinned,
}

/// The future of a life, small or large.
pub(crate) trait LifeFuture: Future<Output = ()> {
    /// The bits in a turn's word that mark this kind of life.
    const BITS: usize;
}

impl LifeFuture for InlineActorFuture {
    const BITS: usize = 0;
}

impl LifeFuture for BoxedActorFuture {
    const BITS: usize = LARGE;
}

impl<F: LifeFuture> ActorTask<F> {
    pub(crate) fn new(whose: Arc<dyn HasTurn>, life: F) -> Self {
        ActorTask { life: UnsafeCell::new(Some(life)), whose, _pinned: PhantomPinned }
    }
}

/// Polls the life in an [`ActorTask`].
///
/// # Safety
/// `seat` points to a task that is alive and pinned, and the caller has the turn of its actor.
unsafe fn poll_life<F: LifeFuture>(seat: *const ActorTask<F>, cx: &mut Context<'_>) -> Poll<()> {
    // SAFETY: the caller guarantees that the seat is alive.
    let seat = unsafe { &*seat };
    // SAFETY: the caller has the turn (TN-1).
    unsafe { *seat.whose.turn().resting.get() = None };
    let life = seat.life.get();
    // SAFETY: the caller has the turn, so there is no other reference to the life (TN-1).
    let life = unsafe { &mut *life };
    let Some(running) = life else { return Poll::Ready(()) };
    // SAFETY: the seat is pinned, and the life is never moved out of it.
    let ended = unsafe { Pin::new_unchecked(running) }.poll(cx);
    if ended.is_ready() {
        *life = None;
    }
    ended
}

impl<F: LifeFuture> Future for ActorTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let at = ptr::from_ref(self.as_ref().get_ref());
        let (turn, seat) = (self.whose.turn(), at.expose_provenance() | F::BITS);
        if !turn.take_or_want(seat) {
            return Poll::Pending;
        }
        let _taken = TurnGuard { turn, seat, wakes: TurnWaker::Nothing };
        // SAFETY: the `ActorTask` is pinned here, and `_taken` holds the turn.
        unsafe { poll_life(at, cx) }
    }
}

impl<F> Drop for ActorTask<F> {
    fn drop(&mut self) {
        // TN-3. The turn is usually free here: the task or its runtime has ended.
        while !self.whose.turn().close() {
            thread::sleep(LOOK);
        }
    }
}
