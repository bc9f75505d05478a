//! The judge: what was committed, what arrived, what was reported lost. It knows nothing of the
//! library's own books.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// From a node, to a mailbox of a node: (`a`, `b`, mailbox).
pub(super) type Lane = (usize, usize, usize);

/// What is known of one lane.
#[derive(Debug, Default, Clone)]
struct Account {
    committed: u64,
    arrived: u64,
    last: Option<u64>,
    /// Reported as certainly not delivered.
    lost: u64,
    /// Reported as unknown.
    unknown: u64,
}

/// All lanes of a scenario. Clones are the same ledger.
#[derive(Debug, Default, Clone)]
pub(super) struct Ledger(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    lanes: BTreeMap<Lane, Account>,
    asks: u64,
    asks_ended: u64,
    faults: Vec<String>,
}

impl Ledger {
    /// The number the next message of this lane has.
    pub(super) fn next(&self, lane: Lane) -> u64 {
        self.0.lock().lanes.entry(lane).or_default().committed
    }

    /// The message with the next number was committed.
    pub(super) fn committed(&self, lane: Lane) {
        self.0.lock().lanes.entry(lane).or_default().committed += 1;
    }

    /// SC-1 and SC-2: a message arrived with this number; `whole` says whether its bytes are right.
    pub(super) fn arrived(&self, lane: Lane, number: u64, whole: bool) {
        let mut books = self.0.lock();
        let account = books.lanes.entry(lane).or_default();
        let mut faults = Vec::new();
        if !whole {
            faults.push(format!("SC-2: message {number} of {lane:?} has wrong bytes"));
        }
        if account.last.is_some_and(|last| number <= last) {
            let last = account.last;
            faults.push(format!("SC-1: message {number} of {lane:?} came after {last:?}"));
        }
        if number >= account.committed {
            faults.push(format!("SC-1: message {number} of {lane:?} was never committed"));
        }
        account.last = Some(number);
        account.arrived += 1;
        books.faults.extend(faults);
    }

    /// Something arrived that cannot be a message of the scenario.
    pub(super) fn garbage(&self, what: &str) {
        self.0.lock().faults.push(format!("SC-2: {what}"));
    }

    /// A committed tell, or an ask, certainly did not arrive.
    pub(super) fn lost(&self, lane: Lane) {
        self.0.lock().lanes.entry(lane).or_default().lost += 1;
    }

    /// A committed tell, or an ask, may have arrived or not.
    pub(super) fn unknown(&self, lane: Lane) {
        self.0.lock().lanes.entry(lane).or_default().unknown += 1;
    }

    pub(super) fn asked(&self) {
        self.0.lock().asks += 1;
    }

    pub(super) fn ask_ended(&self) {
        self.0.lock().asks_ended += 1;
    }

    /// What was broken, in the end. Lanes from `gone` nodes are not accounted: they were killed
    /// with their books open.
    pub(super) fn verdict(&self, gone: &[usize]) -> Vec<String> {
        let books = self.0.lock();
        let mut faults = books.faults.clone();
        for (lane, account) in &books.lanes {
            let Account { committed, arrived, lost, unknown, .. } = *account;
            let at_most = arrived + lost <= committed;
            let at_least = committed <= arrived + lost + unknown;
            if !at_most && !gone.contains(&lane.0) {
                faults.push(format!("SC-3: {lane:?} reports more lost than missing: {account:?}"));
            }
            if !at_least && !gone.contains(&lane.0) {
                faults.push(format!("SC-3: {lane:?} lost messages without a word: {account:?}"));
            }
        }
        if gone.is_empty() && books.asks != books.asks_ended {
            faults.push(format!("SC-5: {} asks, {} ended", books.asks, books.asks_ended));
        }
        faults
    }

    /// Messages that arrived.
    pub(super) fn total(&self) -> u64 {
        self.0.lock().lanes.values().map(|account| account.arrived).sum()
    }
}

/// Bytes of a message before its filling.
pub(super) const HEAD: usize = 16;

/// A message of `bytes` bytes: lane's sender and number first, then bytes that follow from them.
pub(super) fn write(from: usize, number: u64, bytes: usize, out: &mut impl Extend<u8>) {
    out.extend((from as u32).to_le_bytes());
    out.extend((bytes as u32).to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend((HEAD..bytes).map(|at| filling(number, at)));
}

/// Sender and number of a message, and whether every byte is right.
pub(super) fn read(message: &[u8]) -> Option<(usize, u64, bool)> {
    let from = u32::from_le_bytes(message.get(..4)?.try_into().ok()?) as usize;
    let bytes = u32::from_le_bytes(message.get(4..8)?.try_into().ok()?) as usize;
    let number = u64::from_le_bytes(message.get(8..HEAD)?.try_into().ok()?);
    let filled = message[HEAD..].iter().enumerate().all(|(i, b)| *b == filling(number, HEAD + i));
    Some((from, number, bytes == message.len() && filled))
}

fn filling(number: u64, at: usize) -> u8 {
    (number.wrapping_mul(31).wrapping_add(at as u64 ^ (at as u64 >> 8))) as u8
}
