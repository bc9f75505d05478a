//! The grants of an emulated queue pair to its peer, and operations on the granted memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::{Access, Grant, Key, Kind, check_grant};
use crate::fabric::FabricError;
use crate::memory::{Buffer, Words};

/// The grants to one peer. Each operation is executed under its lock, which the end of a grant
/// takes, too: so none is under way when a grant has ended (PV-13).
#[derive(Clone, Default)]
pub(super) struct Grants(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    granted: BTreeMap<u32, Granted>,
    /// The number of the last grant. Numbers come again only when they have wrapped around.
    last: u32,
}

struct Granted {
    memory: Memory,
    first: u64,
    bytes: u64,
    access: Access,
}

/// Granted memory.
enum Memory {
    Shared(Arc<Words>),
    /// Only ever read.
    Lent(Arc<Buffer>),
}

/// The peer has no grant for the operation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Forbidden;

/// An operation, or a piece of one, that a peer requests on this side's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) kind: Kind,
    pub(super) key: Key,
    pub(super) at: u64,
    pub(super) bytes: u32,
}

impl Grants {
    pub(super) fn add(
        &self,
        memory: &Arc<Words>,
        first: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Grant, FabricError> {
        check_grant(memory, first, bytes)?;
        let memory = Memory::Shared(memory.clone());
        Ok(self.insert(Granted { memory, first, bytes, access }))
    }

    pub(super) fn lend(&self, bytes: &Arc<Buffer>) -> Grant {
        let (memory, length) = (Memory::Lent(bytes.clone()), bytes.len() as u64);
        self.insert(Granted { memory, first: 0, bytes: length, access: Access::READ })
    }

    fn insert(&self, granted: Granted) -> Grant {
        let mut table = self.0.lock();
        while {
            table.last = table.last.wrapping_add(1);
            table.granted.contains_key(&table.last)
        } {}
        let number = table.last;
        table.granted.insert(number, granted);
        drop(table);
        let key = Key { number, base: 0 };
        Grant::new(key, Revoke { grants: self.clone(), number })
    }

    /// Reads for the peer.
    pub(super) fn read(&self, wanted: Wanted, into: &mut [u8]) -> Result<(), Forbidden> {
        let table = self.0.lock();
        match table.find(wanted)? {
            (Memory::Shared(words), at) => words.read(at, into).map_err(|_| Forbidden),
            (Memory::Lent(bytes), at) => {
                let bytes = bytes.get(at as usize..).ok_or(Forbidden)?;
                into.copy_from_slice(bytes.get(..into.len()).ok_or(Forbidden)?);
                Ok(())
            }
        }
    }

    /// Writes for the peer.
    pub(super) fn write(&self, wanted: Wanted, from: &[u8]) -> Result<(), Forbidden> {
        let table = self.0.lock();
        let (words, at) = table.find_shared(wanted)?;
        words.write(at, from).map_err(|_| Forbidden)
    }

    /// Does an atomic operation for the peer, and returns the old value of the word.
    pub(super) fn act(&self, wanted: Wanted) -> Result<u64, Forbidden> {
        let table = self.0.lock();
        let (words, at) = table.find_shared(wanted)?;
        let word = words.word(at).map_err(|_| Forbidden)?;
        let (done, failed) = (Ordering::AcqRel, Ordering::Acquire);
        match wanted.kind {
            Kind::FetchAdd(more) => Ok(word.fetch_add(more, done)),
            Kind::CompareAndSwap { expected, new } => {
                let (Ok(old) | Err(old)) = word.compare_exchange(expected, new, done, failed);
                Ok(old)
            }
            Kind::Read | Kind::Write | Kind::WriteAndNotify(_) => Err(Forbidden),
        }
    }

    /// Returns true if the peer may do that.
    pub(super) fn allows(&self, wanted: Wanted) -> bool {
        self.0.lock().find(wanted).is_ok()
    }
}

impl Table {
    fn find(&self, Wanted { kind, key, at, bytes }: Wanted) -> Result<(&Memory, u64), Forbidden> {
        let granted = self.granted.get(&key.number).ok_or(Forbidden)?;
        let end = at.checked_add(bytes.into()).ok_or(Forbidden)?;
        let within = key.base == 0 && end <= granted.bytes;
        if within && granted.access.allows(kind) {
            Ok((&granted.memory, granted.first + at))
        } else {
            Err(Forbidden)
        }
    }
}

impl Table {
    fn find_shared(&self, wanted: Wanted) -> Result<(&Words, u64), Forbidden> {
        match self.find(wanted)? {
            (Memory::Shared(words), at) => Ok((words, at)),
            (Memory::Lent(_), _) => Err(Forbidden),
        }
    }
}

/// Ends a grant when it is dropped.
struct Revoke {
    grants: Grants,
    number: u32,
}

impl Drop for Revoke {
    fn drop(&mut self) {
        let granted = self.grants.0.lock().granted.remove(&self.number);
        // Without the lock: this may free the memory.
        drop(granted);
    }
}
