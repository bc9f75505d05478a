//! Rails: the ports that links can use, and what each can do.

use std::sync::Arc;

use tokio::time::Instant;

use super::device::{DeviceLimits, PortAttributes, Reads};
use super::offer::Kind;
use super::queue_pair::{Port, QueuePair};
use super::registration::Domain;
use crate::fabric::{FabricError, Limits, QueuePairConfig, Side};
use crate::limits::{INLINE_BYTES, RING_SLOTS_MAX, RING_SLOTS_MIN, VERBS_FRAME_BYTES_MAX};
use crate::log;
use crate::log_limiter::LogLimiter;

/// A port that is used, with its addresses.
#[derive(Clone)]
pub(super) struct Rail {
    pub(super) domain: Arc<Domain>,
    pub(super) port: Port,
    pub(super) attributes: PortAttributes,
    pub(super) addresses: Vec<LocalAddress>,
    /// Work requests that each queue of a queue pair can hold.
    pub(super) requests: u32,
    pub(super) inline_bytes: u32,
    /// The reads that its queue pairs can do; `None` if they are not used for one-sided access.
    pub(super) reads: Option<Reads>,
}

/// An address that is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LocalAddress {
    pub(super) index: u8,
    pub(super) kind: Kind,
    pub(super) gid: [u8; 16],
    pub(super) prefix: u8,
}

/// The same port of the same device as it was opened, with the same addresses and abilities.
impl PartialEq for Rail {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.domain, &other.domain)
            && self.port == other.port
            && self.attributes == other.attributes
            && self.addresses == other.addresses
            && (self.requests, self.inline_bytes) == (other.requests, other.inline_bytes)
    }
}

impl Rail {
    /// Returns a port with addresses, after trying what its queue pairs can do, unless it is
    /// `known`: how much they send inline is known from none of the device's attributes, and its
    /// count of work requests is one of the smallest that there are.
    ///
    /// # Errors
    /// [`FabricError`]: the device refuses any queue pair on that port.
    pub(super) fn new(
        domain: Arc<Domain>,
        limits: DeviceLimits,
        port: Port,
        (attributes, addresses): (PortAttributes, Vec<LocalAddress>),
        known: &[Rail],
    ) -> Result<Self, FabricError> {
        let is_same = |rail: &&Rail| Arc::ptr_eq(&rail.domain, &domain) && rail.port == port;
        if let Some(rail) = known.iter().find(is_same) {
            return Ok(Rail { attributes, addresses, ..rail.clone() });
        }
        let queue_pair =
            |requests, inline| QueuePair::new(domain.clone(), port, &config(requests, inline));
        let inline_bytes = first(&[INLINE_BYTES, 128, 64, 0], |inline| {
            queue_pair(1, inline).map(|granted| granted.inline_bytes())
        })?;
        let most = limits.work_requests.min(limits.completions / 2).min(RING_SLOTS_MAX);
        let halves = std::iter::successors(Some(most), |requests| Some(requests / 2));
        let halves: Vec<_> = halves.take_while(|requests| *requests >= RING_SLOTS_MIN).collect();
        if halves.is_empty() {
            let (what, limit) = ("a send queue", u64::from(most));
            return Err(FabricError::Limit { what, asked: RING_SLOTS_MIN.into(), limit });
        }
        let requests =
            first(&halves, |requests| queue_pair(requests, inline_bytes).map(|_| requests))?;
        let reads = limits.reads;
        Ok(Rail { domain, port, attributes, addresses, requests, inline_bytes, reads })
    }

    /// Returns the names of device and port.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.domain.device.name(), self.port.number)
    }
}

/// Returns the demands on a queue pair that is only tried.
fn config(requests: u32, inline_bytes: u32) -> QueuePairConfig {
    QueuePairConfig {
        send_queue: requests,
        recv_queue: requests,
        inline_bytes,
        rnr_retry: 0,
        side: Side::Acceptor,
        binding: Vec::new(),
        avoid: Vec::new(),
    }
}

/// Returns the first answer that is no error, or the last error.
fn first<T: Copy, R>(
    tries: &[T],
    mut attempt: impl FnMut(T) -> Result<R, FabricError>,
) -> Result<R, FabricError> {
    let (last, before) = tries.split_last().ok_or(FabricError::Offer("nothing was tried"))?;
    match before.iter().find_map(|it| attempt(*it).ok()) {
        Some(answer) => Ok(answer),
        None => attempt(*last),
    }
}

/// Returns what all of the rails can do.
pub(super) fn limits(rails: &[Rail]) -> Limits {
    let least = |of: fn(&Rail) -> u32| rails.iter().map(of).min().unwrap_or(0);
    let requests = least(|rail| rail.requests);
    Limits {
        send_queue_max: requests,
        recv_queue_max: requests,
        frame_bytes_max: least(|rail| rail.attributes.frame_bytes_max).min(VERBS_FRAME_BYTES_MAX),
        inline_bytes_max: least(|rail| rail.inline_bytes),
        // A device sends from memory that is registered for it.
        tail_bytes_max: 0,
        acknowledges: true,
        lends: true,
    }
}

/// Returns the addresses to offer, each with the index of its rail: one of each rail in turn,
/// beginning with another rail for each `turn`, and so on. Within a rail the address of the
/// bootstrap connection (`local`) comes first, then addresses whose subnet is known. If there are
/// more than `kept`, `local` is moved up to be among the first `kept`.
pub(super) fn ranked(
    rails: &[&[LocalAddress]],
    turn: usize,
    local: Option<[u8; 16]>,
    kept: usize,
) -> Vec<(usize, LocalAddress)> {
    let count = rails.len().max(1);
    let mut ranked = Vec::new();
    for (rail, addresses) in rails.iter().enumerate() {
        let mut own = addresses.to_vec();
        own.sort_by_key(|address| (Some(address.gid) != local, address.prefix == 0));
        let turned = (rail + count - turn % count) % count;
        let placed = own.into_iter().enumerate();
        ranked.extend(placed.map(|(nth, address)| ((nth, turned), (rail, address))));
    }
    ranked.sort_by_key(|(place, _)| *place);
    let mut ranked: Vec<_> = ranked.into_iter().map(|(_, address)| address).collect();
    let place = ranked.iter().position(|(_, address)| Some(address.gid) == local);
    if let Some(place) = place.filter(|place| *place >= kept.max(1)) {
        ranked[kept.max(1) - 1..=place].rotate_right(1);
    }
    ranked
}

/// Logs that a link goes without this rail.
pub(super) fn report_left_out(log: &LogLimiter, rail: &str, error: &FabricError) {
    if let Some(suppressed) = log.admit("left out", Instant::now()) {
        log::warn!(rail, %error, suppressed, "an RDMA port is left out");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port with many addresses keeps no other port from the offer, however it is cut; and each
    /// link begins with another port.
    #[test]
    fn addresses_are_ranked_over_all_rails() {
        let address = |number: u8, prefix: u8| LocalAddress {
            index: number,
            kind: Kind::RoceV4,
            gid: [number; 16],
            prefix,
        };
        let many: Vec<_> = (0..9).map(|number| address(number, 0)).collect();
        let [one, two] = [[address(20, 0), address(21, 120)], [address(30, 0), address(31, 0)]];
        let rails: [&[LocalAddress]; 3] = [&many, &one, &two];
        let order = |turn, local| {
            let ranked = ranked(&rails, turn, local, 6).into_iter().take(6);
            ranked.map(|(_, address)| address.index).collect::<Vec<_>>()
        };
        assert_eq!(order(0, None), [0, 21, 30, 1, 20, 31]);
        assert_eq!(order(1, None), [21, 30, 0, 20, 31, 1]);
        assert_eq!(order(5, None), [30, 0, 21, 31, 1, 20]);
        assert_eq!(order(0, Some([7; 16])), [7, 21, 30, 0, 20, 31]);
        assert_eq!(order(1, Some([7; 16])), [21, 30, 7, 20, 31, 0], "the way is none of all links");
        assert!(ranked(&[], 4, None, 6).is_empty());
        // As many ports as are offered, and more: the way to the peer stays among them.
        let ports: Vec<_> = (40..49).map(|number| [address(number, 0)]).collect();
        let ports: Vec<&[LocalAddress]> = ports.iter().map(|port| &port[..]).collect();
        for turn in 0..9 {
            for local in 40..49 {
                let offered = ranked(&ports, turn, Some([local; 16]), 6);
                let places = |all: &[(usize, LocalAddress)]| {
                    all.iter().map(|(rail, _)| *rail).collect::<Vec<_>>()
                };
                let [offered, all] = [places(&offered[..6]), places(&offered)];
                assert!(offered.contains(&usize::from(local - 40)), "{turn} {local}");
                assert_eq!(offered[..5], (0..5).map(|nth| (turn + nth) % 9).collect::<Vec<_>>());
                assert_eq!(all.len(), 9);
            }
        }
    }

    #[test]
    fn the_first_that_works_is_taken_and_else_the_last_error() {
        let attempt = |works: u32| {
            move |it: u32| {
                let refused = FabricError::Limit { what: "it", asked: it.into(), limit: 0 };
                if it <= works { Ok(it) } else { Err(refused) }
            }
        };
        assert_eq!(first(&[8, 4, 2], attempt(5)).ok(), Some(4));
        assert_eq!(first(&[8, 4, 2], attempt(2)).ok(), Some(2));
        let error = first(&[8, 4, 2], attempt(1)).unwrap_err();
        assert!(matches!(error, FabricError::Limit { asked: 2, .. }), "{error}");
    }
}
