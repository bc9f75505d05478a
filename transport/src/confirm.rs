//! Confirmations: the fates of tells, on their way to the senders that wait for them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::cause::Fate;

/// The way of one tell's fate to its sender. Dropping it says that the fate is unknown.
#[derive(Debug)]
pub(crate) struct Confirm(oneshot::Sender<Result<(), Fate>>);

impl Confirm {
    /// Tells the sender, if it still waits.
    pub(crate) fn tell(self, fate: Result<(), Fate>) {
        // An error says that the sender does not wait any more.
        let _ = self.0.send(fate);
    }
}

/// The waiting senders of one link, by the number in the entry of their message. Under the
/// link's lock.
#[derive(Default)]
pub(crate) struct Confirms(slab::Slab<Confirm>);

impl Confirms {
    /// Adds one. Returns its number, which is not 0, and the confirmation at which the fate
    /// arrives.
    pub(crate) fn insert(&mut self) -> (u64, Confirmation) {
        let (sender, fate) = oneshot::channel();
        (self.0.insert(Confirm(sender)) as u64 + 1, Confirmation(fate))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes one out; 0 is none.
    pub(crate) fn take(&mut self, number: u64) -> Option<Confirm> {
        self.0.try_remove(usize::try_from(number).ok()?.checked_sub(1)?)
    }
}

/// The fate of a committed tell, when it is known: `Ok` when it was delivered, which means that it
/// was queued in its mailbox. Dropping it changes nothing for the message.
///
/// # Errors
/// [`Fate`]: it was not delivered, or that is not known.
pub struct Confirmation(oneshot::Receiver<Result<(), Fate>>);

impl Future for Confirmation {
    type Output = Result<(), Fate>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|fate| fate.unwrap_or(Err(Fate::Unknown)))
    }
}

impl fmt::Debug for Confirmation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Confirmation")
    }
}
