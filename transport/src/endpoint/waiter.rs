//! The state that a send that waits keeps between its polls.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use rkyv::util::AlignedVec;

use super::archive::{Archive, ArchiveFailed};
use crate::link::{LinkHandle, Unsent};
use crate::memory::buffer;
use crate::mesh::Peer;
use crate::note::Note;

/// A send's place in the wait queues, and the archive of its message. Give the same one to every
/// poll of the same send; when the send is ready, it is as good as new. Dropping it gives the place
/// up.
#[derive(Default)]
pub struct Waiter(Option<Box<WaitState>>);

/// State of a send that waits. Most sends do not: they have none.
#[derive(Default)]
pub(super) struct WaitState {
    pub(super) place: Place,
    /// The message's archive, written once in each form, whatever the send has to wait for; and a
    /// flag that it was.
    pub(super) archive: AlignedVec<16>,
    pub(super) archived: bool,
    /// The form that it has, or is to have.
    pub(super) form: u8,
    /// The note that goes with it.
    pub(super) note: Option<Note>,
    /// It waits for a link while the node is down, too.
    patient: bool,
}

/// The place at which a send waits.
#[derive(Default)]
pub(super) enum Place {
    #[default]
    Nowhere,
    /// In a line of a link.
    InLine(Arc<LinkHandle>, usize),
    /// At a peer, for a link.
    AtPeer(Arc<Peer>, u64),
}

thread_local! {
    /// States of sends that have waited, for the next ones.
    static SPARE: RefCell<Spare> = const { RefCell::new(Vec::new()) };
}

type Spare = Vec<Box<WaitState>>;

/// Ended waits whose memory a thread keeps, and how much of each archive: a task that waited once
/// is likely to wait again.
const SPARE_MAX: usize = 32;
const SPARE_ARCHIVE_BYTES_MAX: usize = 1024;

/// Returns how much of each archive the thread keeps.
#[cfg(test)]
pub(super) fn spare_bytes() -> Vec<usize> {
    SPARE.with_borrow(|spare| spare.iter().map(|waiting| waiting.archive.capacity()).collect())
}

impl Waiter {
    /// Returns true until a step was taken of a send that has to wait.
    #[inline]
    pub(super) fn is_new(&self) -> bool {
        self.0.is_none()
    }

    /// Makes the send wait for a link as long as it takes, even while the node is down.
    pub fn wait_for_link(&mut self) {
        self.state().patient = true;
    }

    /// Returns a new waiter, without a place, that waits for links as this one does.
    pub fn renewed(&self) -> Self {
        let mut waiter = Waiter::default();
        if self.is_patient() {
            waiter.wait_for_link();
        }
        waiter
    }

    /// Returns true if the send waits for a link also while the node is down.
    pub(super) fn is_patient(&self) -> bool {
        self.0.as_ref().is_some_and(|waiting| waiting.patient)
    }

    /// Returns the link in whose line it has a place.
    pub(super) fn link(&self) -> Option<&Arc<LinkHandle>> {
        match &self.0.as_ref()?.place {
            Place::InLine(link, _) => Some(link),
            Place::Nowhere | Place::AtPeer(..) => None,
        }
    }

    /// Returns the note that travels with the message, once its archive was written, for an archive
    /// in another form.
    #[inline]
    pub fn note(&self) -> Option<Note> {
        self.0.as_ref()?.note.clone()
    }

    /// Returns its place in the line of a link.
    pub(super) fn place_in_line(&self) -> Option<usize> {
        match &self.0.as_ref()?.place {
            Place::InLine(_, place) => Some(*place),
            Place::Nowhere | Place::AtPeer(..) => None,
        }
    }

    /// Takes the place; the send has none until it is put back.
    pub(super) fn take_place(&mut self) -> Place {
        self.0.as_mut().map(|waiting| std::mem::take(&mut waiting.place)).unwrap_or_default()
    }

    /// Puts back the place that was taken.
    pub(super) fn put_place(&mut self, place: Place) {
        if let Some(waiting) = self.0.as_mut() {
            waiting.place = place;
        }
    }

    /// Gives up its place, if it has one.
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.0.is_some() {
            drop(std::mem::take(self));
        }
    }

    /// Returns its state; creates it if there is none.
    pub(super) fn state(&mut self) -> &mut WaitState {
        self.0.get_or_insert_with(|| SPARE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }
}

impl Drop for Waiter {
    #[inline]
    fn drop(&mut self) {
        if let Some(waiting) = self.0.take() {
            waiting.end();
        }
    }
}

impl WaitState {
    /// Archives the message in a form. Its place, if it has one, is kept here meanwhile: the user's
    /// code may panic.
    pub(super) fn archive_as(&mut self, form: u8, archive: Archive<'_>) -> Result<(), Unsent> {
        (self.form, self.archived) = (form, false);
        self.archive.clear();
        let note = archive(form, &mut self.archive).map_err(|ArchiveFailed| Unsent::Archive)?;
        (self.note, self.archived) = (note, true);
        Ok(())
    }

    /// Gives up the place, and keeps the memory for the next send that waits.
    #[cold]
    fn end(self: Box<Self>) {
        let mut waiting = self;
        match std::mem::take(&mut waiting.place) {
            Place::Nowhere => {}
            Place::InLine(link, place) => link.forget(place),
            Place::AtPeer(peer, ticket) => peer.forget(ticket),
        }
        // For the next one, unless the thread ends.
        (waiting.archived, waiting.form, waiting.patient) = (false, 0, false);
        waiting.note = None;
        if waiting.archive.capacity() > SPARE_ARCHIVE_BYTES_MAX {
            buffer::give(std::mem::take(&mut waiting.archive));
        }
        waiting.archive.clear();
        let _ = SPARE.try_with(|spare| {
            let spare = &mut *spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(waiting);
            }
        });
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.0.as_deref().map(|waiting| &waiting.place) {
            Some(Place::InLine(..)) => "in line",
            Some(Place::AtPeer(..)) => "for a link",
            Some(Place::Nowhere) | None => "nowhere",
        };
        write!(f, "Waiter({place})")
    }
}
