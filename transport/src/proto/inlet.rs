//! The receiver's end of opened mailboxes: a table by index, each place with a generation.
//!
//! - **IN-1 no confusion**: a message names index and generation; it reaches the mailbox that was
//!   opened under both, or none. A generation never comes back on one link.
//!
//! A message for a mailbox that has closed is refused; a message for a place that was never given
//! out breaks the protocol.

use crate::mutants::planted;
use crate::proto::error::Violation;

/// Opened mailboxes of one link.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Inlets<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place<T> {
    generation: u32,
    mailbox: Option<T>,
}

impl<T> Inlets<T> {
    pub(crate) fn new() -> Self {
        Inlets { places: Vec::new(), free: Vec::new() }
    }

    /// Opens a mailbox, which is created for its index. Returns index and generation.
    pub(crate) fn open_with(&mut self, mailbox: impl FnOnce(u32) -> T) -> (u32, u32) {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.generation += 1;
            place.mailbox = Some(mailbox(index));
            return (index, place.generation);
        }
        let index = self.places.len() as u32;
        self.places.push(Place { generation: 1, mailbox: Some(mailbox(index)) });
        (index, 1)
    }

    /// Returns the mailbox of a message; `None` when it has closed since.
    pub(crate) fn find(&self, index: u32, generation: u32) -> Result<Option<&T>, Violation> {
        let place = self.places.get(index as usize).ok_or(Violation::Unknown)?;
        let meant = place.is_meant(generation)?;
        Ok(place.mailbox.as_ref().filter(|_| meant))
    }

    /// Returns the mailbox that [`find`](Self::find) does, to be changed.
    pub(crate) fn find_mut(
        &mut self,
        index: u32,
        generation: u32,
    ) -> Result<Option<&mut T>, Violation> {
        let place = self.places.get_mut(index as usize).ok_or(Violation::Unknown)?;
        let meant = place.is_meant(generation)?;
        Ok(place.mailbox.as_mut().filter(|_| meant))
    }

    /// Returns the mailbox at this index, if there is one.
    #[cfg(test)]
    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.mailbox.as_ref()
    }

    /// Returns the mailbox at this index, if there is one.
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.mailbox.as_mut()
    }

    /// Frees a place; gives its mailbox and generation, unless it was free. A place whose
    /// generations are used up is not given out again.
    pub(crate) fn close(&mut self, index: u32) -> Option<(T, u32)> {
        let place = self.places.get_mut(index as usize)?;
        let mailbox = place.mailbox.take()?;
        if place.generation < u32::MAX {
            self.free.push(index);
        }
        Some((mailbox, place.generation))
    }

    /// Returns all open mailboxes, by index.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.places
            .iter_mut()
            .enumerate()
            .filter_map(|(i, place)| Some((i as u32, place.mailbox.as_mut()?)))
    }

    /// Returns all open mailboxes, by index.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.places
            .iter()
            .enumerate()
            .filter_map(|(i, place)| Some((i as u32, place.mailbox.as_ref()?)))
    }

    /// Returns the generation of an open mailbox.
    pub(crate) fn generation(&self, index: u32) -> u32 {
        self.places.get(index as usize).map_or(0, |place| place.generation)
    }
}

impl<T> Place<T> {
    /// Returns true if a message of this generation is for the mailbox that is open here now.
    fn is_meant(&self, generation: u32) -> Result<bool, Violation> {
        if generation == self.generation || planted!(StaleGeneration) {
            return Ok(true);
        }
        if generation == 0 || generation > self.generation {
            return Err(Violation::Unknown);
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IN-1.
    // Promised in docs/SEMANTICS.md.
    #[test]
    fn a_reused_place_refuses_the_messages_of_its_last_mailbox() {
        let mut inlets = Inlets::new();
        let (index, first) = inlets.open_with(|_| "a");
        assert_eq!(inlets.find(index, first), Ok(Some(&"a")));
        assert_eq!(inlets.close(index), Some(("a", first)));
        assert_eq!(inlets.close(index), None);
        assert_eq!(inlets.find(index, first), Ok(None));
        let (again, second) = inlets.open_with(|_| "b");
        assert_eq!((again, second), (index, first + 1));
        assert_eq!(inlets.find(index, first), Ok(None), "late, not wrong");
        assert_eq!(inlets.find(index, second), Ok(Some(&"b")));
        assert_eq!(inlets.find(index, second + 1), Err(Violation::Unknown));
        assert_eq!(inlets.find(index, 0), Err(Violation::Unknown));
        assert_eq!(inlets.find(7, 1), Err(Violation::Unknown));
    }
}
