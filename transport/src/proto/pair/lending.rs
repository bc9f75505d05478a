//! Loans between the two sides: what a device and its driver do for them, by chance.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::{FRAME_MAX, Pair, Side};
use crate::memory::{Buffer, Lease, Pool, Region};
use crate::proto::fetches::Lent;
use crate::proto::loans::{Held, LentAt, NotLent};

/// Bytes from which the sides lend.
const FROM: u32 = FRAME_MAX as u32 + 80;
/// The longest message that a side fetches which its peer did not lend.
const UNKNOWN_MAX: u32 = 1 << 16;

/// The device of a side: its loans, and the messages that it is about to fetch.
#[derive(Default)]
pub(super) struct Device {
    /// Chooses the loans that are refused; `None`: nothing is lent.
    chance: Option<fastrand::Rng>,
    /// Loans that it has yet to register, and which it has registered when it is asked next.
    registering: VecDeque<(u16, Arc<Buffer>)>,
    /// Loans that it did not register at once.
    pub(super) slow: usize,
    lent: Vec<Weak<Arc<Buffer>>>,
    /// The first `ended` loans belong to a queue pair that has ended.
    ended: usize,
    fetches: VecDeque<Lent>,
    /// The number of the side's last ask.
    pub(super) asked: Option<u64>,
    /// Loans that this side fetched, and loans that it refused.
    pub(super) fetched: [usize; 2],
}

impl Device {
    pub(super) fn wants(&mut self, lent: Lent) {
        self.fetches.push_back(lent);
    }
}

impl Side {
    /// Lends waiting messages, but one in five, and one in four only when it is asked again.
    pub(super) fn lend(&mut self) {
        self.end_registering();
        let device = &mut self.device;
        let Some(chance) = &mut device.chance else { return };
        self.out.retry_loans();
        while let Some((number, body)) = self.out.begin_to_lend() {
            let lent = match chance.u8(..50) {
                0..10 => Err([NotLent::NotYet, NotLent::Full][usize::from(number % 2)]),
                10..20 => {
                    device.slow += 1;
                    device.registering.push_back((number, body));
                    continue;
                }
                _ => Ok(lend_at(&mut device.lent, &body)),
            };
            self.out.lent(number, lent);
        }
    }

    /// Registers the loans that wait for it. Returns true if there was such a loan.
    pub(super) fn end_registering(&mut self) -> bool {
        let device = &mut self.device;
        let any = !device.registering.is_empty();
        for (number, body) in device.registering.drain(..) {
            self.out.lent(number, Ok(lend_at(&mut device.lent, &body)));
        }
        any
    }

    /// Gives its last ask up.
    pub(crate) fn give_up(&mut self) {
        self.device.asked.map(|ask| self.out.give_up(ask));
    }

    /// Ends its queue pair, and takes back what the peer has not answered (LO-4).
    pub(crate) fn take_back(&mut self) {
        self.device.ended = self.device.lent.len();
        self.out.take_back_loans(u32::MAX);
        drop(self.out.take_returned());
    }

    /// Reads what the peer lent, which has to be there unless its queue pair has ended (LO-1).
    fn read(&self, lent: &Lent) -> Option<Lease> {
        let LentAt { pair: 3, key: (key, 7) } = lent.at else { return None };
        let body = self.device.lent.get(key as usize)?.upgrade();
        let has_ended = (key as usize) < self.device.ended;
        assert!(has_ended || body.is_some(), "what is lent is there until it was fetched");
        body.filter(|_| !has_ended).map(|body| lease(&body))
    }
}

impl Pair {
    /// Two sides that have had each other's confirmation, and lend large messages.
    pub(crate) fn lending(seed: u64) -> Self {
        let mut pair = Pair::confirmed();
        for (side, seed) in pair.sides.iter_mut().zip([seed, !seed]) {
            let out = std::mem::replace(&mut side.out, Side::new(8).out);
            side.out = out.lending_from(Some(FROM));
            // The windows have room for no more than five.
            side.out.limit_loans_to(4);
            side.device.chance = Some(fastrand::Rng::with_seed(seed));
        }
        pair
    }

    /// A side fetches the next message that its peer lent, or does not, one in eight times.
    pub(crate) fn fetch(&mut self, side: usize) -> bool {
        let next = self.sides[side].device.fetches.pop_front();
        self.fetch_this(side, next)
    }

    /// As [`fetch`](Self::fetch), for the message that was lent last.
    pub(crate) fn fetch_last(&mut self, side: usize) -> bool {
        let next = self.sides[side].device.fetches.pop_back();
        self.fetch_this(side, next)
    }

    fn fetch_this(&mut self, side: usize, next: Option<Lent>) -> bool {
        let Some(lent) = next else { return false };
        let body = self.sides[1 - side].read(&lent);
        let device = &mut self.sides[side].device;
        let chance = device.chance.as_mut().map_or(7, |chance| chance.u8(..64));
        let unknown = || (lent.bytes <= UNKNOWN_MAX).then(|| lease(&vec![0; lent.bytes as usize]));
        let has_ended = matches!(lent.at, LentAt { pair: 3, key: (_, 7) }) && body.is_none();
        let fetched = match chance {
            0..7 => Err(NotLent::Failed),
            _ if has_ended => Err(NotLent::Failed),
            _ => body.or_else(unknown).ok_or(NotLent::Failed),
        };
        device.fetched[usize::from(fetched.is_err())] += 1;
        self.sides[side].link.fetched(lent.number, fetched);
        true
    }

    /// Returns true if the next `count` loans of either side are not refused.
    pub(crate) fn refuses_none(&self, count: usize) -> bool {
        self.sides.iter().all(|side| {
            let mut chance = side.device.chance.clone();
            let mut draws = std::iter::repeat_with(|| chance.as_mut().map_or(63, |it| it.u8(..64)));
            draws.by_ref().take(count).all(|draw| draw >= 13)
        })
    }

    /// Returns how many loans were not registered at once.
    pub(crate) fn slow(&self) -> usize {
        self.sides.iter().map(|side| side.device.slow).sum()
    }

    /// Returns how many loans were fetched, and how many were refused.
    pub(crate) fn fetched(&self) -> [usize; 2] {
        let [left, right] = &self.sides;
        [0, 1].map(|which| left.device.fetched[which] + right.device.fetched[which])
    }
}

fn lend_at(lent: &mut Vec<Weak<Arc<Buffer>>>, body: &Arc<Buffer>) -> (LentAt, Held) {
    let held = Arc::new(body.clone());
    let key = (lent.len() as u32, 7);
    lent.push(Arc::downgrade(&held));
    (LentAt { pair: 3, key }, held as _)
}

fn lease(bytes: &[u8]) -> Lease {
    let mut slots = Region::heap(bytes.len().max(1)).into_slots(bytes.len().next_multiple_of(16));
    let mut slot = slots.swap_remove(0);
    slot[..bytes.len()].copy_from_slice(bytes);
    Pool::new(Vec::new()).lease(slot, bytes.len())
}
