//! The offer of each side to the other, and the pairs of addresses that both then try.
//!
//! Each side offers all its addresses, with a queue pair for each port. The order of the pairs
//! follows from the two offers alone, so both have the same: addresses of the same kind; of those
//! the same subnet first; then the dialler's address on the way of the bootstrap connection and the
//! acceptor's address that was dialled; then the order of the offers, the dialler's first. They are
//! tried in turn, each with queue pairs and offers of its own, until frames go through.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::fabric::{FabricError, Side};
use crate::limits::VERBS_ADDRESSES_MAX;

/// The first bytes of every offer.
const MAGIC: [u8; 3] = *b"RV\x01";
const HEADER_BYTES: usize = 20;
const ADDRESS_BYTES: usize = 30;

/// The kinds of address; only like ones reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    InfiniBand = 1,
    RoceV4 = 2,
    RoceV6 = 3,
}

/// One address of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) kind: Kind,
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    /// Leading bits of the GID that its subnet shares; 0: not known.
    pub(super) prefix: u8,
    /// 1 for 256 bytes, 5 for 4096.
    pub(super) mtu: u8,
    /// On the way of the bootstrap connection, as far as a dialler can tell.
    pub(super) on_the_way: bool,
    pub(super) queue_pair: u32,
    pub(super) first_packet: u32,
}

/// All that a side says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    /// The address that was dialled, as a GID; zero from an acceptor, or where it is not known.
    pub(super) dialled: [u8; 16],
    /// Best first.
    pub(super) addresses: Vec<Address>,
}

impl Offer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let count = self.addresses.len().min(VERBS_ADDRESSES_MAX);
        let mut bytes = [&MAGIC[..], &[count as u8], &self.dialled].concat();
        for address in &self.addresses[..count] {
            bytes.extend([address.kind as u8, address.prefix, address.mtu]);
            bytes.push(u8::from(address.on_the_way));
            bytes.extend(address.lid.to_le_bytes());
            bytes.extend(address.queue_pair.to_le_bytes());
            bytes.extend(address.first_packet.to_le_bytes());
            bytes.extend(address.gid);
        }
        bytes
    }

    /// # Errors
    /// [`FabricError::Offer`] when the bytes are not an offer, with all of its numbers in range.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FabricError> {
        let (header, rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .filter(|(header, _)| header[..3] == MAGIC)
            .ok_or(FabricError::Offer("it is not one of verbs"))?;
        let count = usize::from(header[3]);
        if count > VERBS_ADDRESSES_MAX || rest.len() != count * ADDRESS_BYTES {
            return Err(FabricError::Offer("its length is wrong"));
        }
        let addresses = rest.chunks_exact(ADDRESS_BYTES).map(decode_address).collect::<Option<_>>();
        let addresses = addresses.ok_or(FabricError::Offer("an address in it is out of range"))?;
        let mut dialled = [0; 16];
        dialled.copy_from_slice(&header[4..]);
        Ok(Offer { dialled, addresses })
    }
}

fn decode_address(bytes: &[u8]) -> Option<Address> {
    let kind = match bytes[0] {
        1 => Kind::InfiniBand,
        2 => Kind::RoceV4,
        3 => Kind::RoceV6,
        _ => return None,
    };
    let number = |at: usize| {
        let number = u32::from_le_bytes(bytes[at..].first_chunk().copied()?);
        (number < 1 << 24).then_some(number)
    };
    let address = Address {
        kind,
        prefix: bytes[1],
        mtu: bytes[2],
        on_the_way: bytes[3] == 1,
        lid: u16::from_le_bytes([bytes[4], bytes[5]]),
        queue_pair: number(6)?,
        first_packet: number(10)?,
        gid: bytes[14..].first_chunk().copied()?,
    };
    ((1..=5).contains(&address.mtu) && address.prefix <= 128 && bytes[3] <= 1).then_some(address)
}

/// Returns the places of all pairs in the dialler's and in the acceptor's offer, best first.
pub(super) fn pairs(dialler: &Offer, acceptor: &Offer) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (i, ours) in dialler.addresses.iter().enumerate() {
        for (j, theirs) in acceptor.addresses.iter().enumerate() {
            let Some(near) = reaches(ours, theirs) else { continue };
            let merit = (near, ours.on_the_way, theirs.gid == dialler.dialled);
            pairs.push((merit, (i, j)));
        }
    }
    // Stable: those of equal merit stay in the order of the offers.
    pairs.sort_by_key(|(merit, _)| std::cmp::Reverse(*merit));
    pairs.into_iter().map(|(_, places)| places).collect()
}

/// Returns whether the one address can reach the other, and if so, whether on the same subnet.
fn reaches(a: &Address, b: &Address) -> Option<bool> {
    let same = |bits: u8| {
        let rest = 128 - u32::from(bits);
        let [a, b] = [a.gid, b.gid].map(u128::from_be_bytes);
        (a ^ b).checked_shr(rest).unwrap_or(0) == 0
    };
    match (a.kind, b.kind) {
        (Kind::InfiniBand, Kind::InfiniBand) => same(64).then_some(true),
        (Kind::RoceV4, Kind::RoceV4) | (Kind::RoceV6, Kind::RoceV6) => {
            let known = a.prefix > 0 && b.prefix > 0;
            Some(known && same(a.prefix.max(b.prefix)))
        }
        _ => None,
    }
}

/// Returns the addresses of the bootstrap connection that a dialler knows: the one it dialled and
/// its own, as GIDs. An acceptor, or a dialler of a name, knows neither.
pub(super) fn bootstrap(side: &Side) -> Option<([u8; 16], [u8; 16])> {
    let Side::Dialer { address } = side else { return None };
    let peer: SocketAddr = address.parse().ok()?;
    let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    // Connecting a datagram socket sends nothing: it asks for the route.
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(peer).ok()?;
    Some((gid(peer.ip()), gid(socket.local_addr().ok()?.ip())))
}

fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::OFFER_BYTES_MAX;

    fn v4(a: [u8; 4], prefix: u8) -> Address {
        Address {
            kind: Kind::RoceV4,
            gid: gid(IpAddr::from(a)),
            lid: 0,
            prefix: 96 + prefix,
            mtu: 3,
            on_the_way: false,
            queue_pair: 17,
            first_packet: 0xabcdef,
        }
    }

    fn ib(subnet: u8, lid: u16) -> Address {
        let mut gid = [0; 16];
        gid[7] = subnet;
        gid[15] = lid as u8;
        Address { kind: Kind::InfiniBand, gid, lid, prefix: 64, ..v4([0; 4], 0) }
    }

    fn offer(addresses: Vec<Address>) -> Offer {
        Offer { dialled: [0; 16], addresses }
    }

    #[test]
    fn the_fullest_offer_fits_and_comes_back() {
        let mut all = offer(vec![v4([10, 0, 0, 1], 24); VERBS_ADDRESSES_MAX]);
        all.addresses[1] = ib(3, 9);
        all.addresses[2].on_the_way = true;
        let bytes = all.encode();
        assert!(bytes.len() <= OFFER_BYTES_MAX);
        assert_eq!(Offer::decode(&bytes).unwrap(), all);
    }

    #[test]
    fn only_like_addresses_are_paired_and_the_same_subnet_first() {
        let near = v4([10, 1, 0, 2], 16);
        let ours = offer(vec![ib(1, 4), v4([10, 0, 0, 1], 16), v4([10, 1, 0, 1], 16)]);
        assert_eq!(
            pairs(&ours, &offer(vec![ib(2, 4), v4([192, 168, 0, 1], 24), near])),
            [(2, 2), (1, 1), (1, 2), (2, 1)]
        );
        assert_eq!(pairs(&ours, &offer(vec![ib(2, 4)])), [], "another InfiniBand subnet");
        assert_eq!(pairs(&ours, &offer(vec![ib(1, 5)])), [(0, 0)]);
        assert_eq!(pairs(&ours, &offer(Vec::new())), []);
    }

    #[test]
    fn of_equals_the_bootstrap_connections_addresses_come_first() {
        let theirs = offer(vec![v4([10, 0, 0, 3], 24), v4([10, 0, 0, 4], 24)]);
        let mut ours = offer(vec![v4([10, 0, 0, 1], 24), v4([10, 0, 0, 2], 24)]);
        assert_eq!(pairs(&ours, &theirs), [(0, 0), (0, 1), (1, 0), (1, 1)]);
        ours.addresses[1].on_the_way = true;
        assert_eq!(pairs(&ours, &theirs), [(1, 0), (1, 1), (0, 0), (0, 1)]);
        ours.dialled = theirs.addresses[1].gid;
        assert_eq!(pairs(&ours, &theirs), [(1, 1), (1, 0), (0, 1), (0, 0)]);
    }

    #[test]
    fn a_dialler_knows_its_own_address() {
        let side = Side::Dialer { address: "127.0.0.1:7".into() };
        let local = gid(IpAddr::from([127, 0, 0, 1]));
        assert_eq!(bootstrap(&side), Some((local, local)));
        assert_eq!(bootstrap(&Side::Dialer { address: "a.name:7".into() }), None);
        assert_eq!(bootstrap(&Side::Acceptor), None);
    }

    proptest! {
        /// VB-4: hostile offers are refused, and what is taken has its numbers in range.
        #[test]
        fn any_bytes_are_refused_or_in_range(
            tail in proptest::collection::vec(any::<u8>(), 0..260),
            count in 0..9u8,
        ) {
            let bytes = [&MAGIC[..], &[count], &tail].concat();
            let whole = bytes.len().min(20 + 30 * usize::from(count));
            for bytes in [&bytes[..], &tail, &bytes[..whole]] {
                if let Ok(offer) = Offer::decode(bytes) {
                    for address in offer.addresses {
                        assert!(address.queue_pair < 1 << 24 && (1..=5).contains(&address.mtu));
                    }
                }
            }
        }
    }
}
