//! The offer of each side to the other, and the ways that both then try.
//!
//! Each side offers its best addresses, with a queue pair for each port. A way is a pair of
//! addresses and a path MTU. The order of the ways follows from the two offers alone, so both sides
//! have the same. Only addresses of the same kind are paired. Pairs in one subnet come first, and
//! among them ports with the same index on both machines, which most likely hang on the same
//! switches. Across subnets come first the dialler's address on the way of the bootstrap connection
//! and the acceptor's address that was dialled. Then the order of the offers decides, the dialler's
//! first. The second best pair comes before the best one with a smaller MTU, which is for networks
//! that carry less than the ports. Ways that either side names as failed lately come last. They are
//! tried in turn, each with queue pairs and offers of its own, until frames go through.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::fabric::{FabricError, Side};
use crate::limits::{VERBS_ADDRESSES_MAX, WAYS_AVOIDED_MAX};

use super::partition::may_talk;

/// The first bytes of every offer.
const MAGIC: [u8; 3] = *b"RV\x02";
const HEADER_BYTES: usize = 21;
const ADDRESS_BYTES: usize = 33;
const WAY_BYTES: usize = 4;

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
    /// Index of its port among the ports that the side uses.
    pub(super) rail: u8,
    /// Key of the partition that its queue pair is in.
    pub(super) pkey: u16,
    pub(super) queue_pair: u32,
    pub(super) first_packet: u32,
}

/// The offer of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    /// The address that was dialled, as a GID; zero from an acceptor, or where it is not known.
    pub(super) dialled: [u8; 16],
    /// Best first.
    pub(super) addresses: Vec<Address>,
    /// Ways that failed lately, by their numbers.
    pub(super) avoid: Vec<u32>,
}

impl Offer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let count = self.addresses.len().min(VERBS_ADDRESSES_MAX);
        let avoided = self.avoid.len().min(WAYS_AVOIDED_MAX);
        let mut bytes = [&MAGIC[..], &[count as u8, avoided as u8], &self.dialled].concat();
        for address in &self.addresses[..count] {
            bytes.extend([address.kind as u8, address.prefix, address.mtu]);
            bytes.push(u8::from(address.on_the_way));
            bytes.extend(address.lid.to_le_bytes());
            bytes.extend(address.queue_pair.to_le_bytes());
            bytes.extend(address.first_packet.to_le_bytes());
            bytes.extend(address.gid);
            bytes.push(address.rail);
            bytes.extend(address.pkey.to_le_bytes());
        }
        bytes.extend(self.avoid[..avoided].iter().flat_map(|way| way.to_le_bytes()));
        bytes
    }

    /// # Errors
    /// [`FabricError::Offer`] when the bytes are not an offer, with all of its numbers in range.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FabricError> {
        let (header, rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .filter(|(header, _)| header[..3] == MAGIC)
            .ok_or(FabricError::Offer("it is not one of verbs"))?;
        let (count, avoided) = (usize::from(header[3]), usize::from(header[4]));
        let whole = rest.len() == count * ADDRESS_BYTES + avoided * WAY_BYTES;
        if count > VERBS_ADDRESSES_MAX || avoided > WAYS_AVOIDED_MAX || !whole {
            return Err(FabricError::Offer("its length is wrong"));
        }
        let (addresses, avoid) = rest.split_at(count * ADDRESS_BYTES);
        let addresses = addresses.chunks_exact(ADDRESS_BYTES).map(decode_address);
        let addresses = addresses
            .collect::<Option<_>>()
            .ok_or(FabricError::Offer("an address in it is out of range"))?;
        let avoid = avoid.chunks_exact(WAY_BYTES).filter_map(|way| way.first_chunk());
        let avoid = avoid.map(|way| u32::from_le_bytes(*way)).collect();
        let mut dialled = [0; 16];
        dialled.copy_from_slice(&header[5..]);
        Ok(Offer { dialled, addresses, avoid })
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
        rail: bytes[30],
        pkey: u16::from_le_bytes([bytes[31], bytes[32]]),
    };
    ((1..=5).contains(&address.mtu) && address.prefix <= 128 && bytes[3] <= 1).then_some(address)
}

/// A pair of addresses, by their places in the two offers, and the path MTU to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) dialler: usize,
    pub(super) acceptor: usize,
    /// 1 for 256 bytes, 5 for 4096.
    pub(super) mtu: u8,
}

impl Way {
    /// Returns the number by which both sides know it, whichever of them dials.
    pub(super) fn number(&self, dialler: &Offer, acceptor: &Offer) -> u32 {
        let mut gids = [dialler.addresses[self.dialler].gid, acceptor.addresses[self.acceptor].gid];
        gids.sort_unstable();
        let bytes = gids.iter().flatten().chain([&self.mtu]);
        // FNV-1a.
        bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    }
}

/// Returns all ways from the dialler to the acceptor, best first.
pub(super) fn ways(dialler: &Offer, acceptor: &Offer) -> Vec<Way> {
    let mut ways = Vec::new();
    for (place, (i, j)) in pairs(dialler, acceptor).into_iter().enumerate() {
        let full = dialler.addresses[i].mtu.min(acceptor.addresses[j].mtu);
        let way = |mtu| Way { dialler: i, acceptor: j, mtu };
        ways.push((2 * place, way(full)));
        ways.extend(smaller(full).map(|mtu| (2 * place + 3, way(mtu))));
    }
    let avoided = |way: &Way| {
        let number = way.number(dialler, acceptor);
        dialler.avoid.contains(&number) || acceptor.avoid.contains(&number)
    };
    ways.sort_by_key(|(place, way)| (avoided(way), *place));
    ways.into_iter().map(|(_, way)| way).collect()
}

/// Returns the MTU to try where a network carries less than `mtu`: 1024 bytes, which any Ethernet
/// carries, or 512 if `mtu` is 1024.
fn smaller(mtu: u8) -> Option<u8> {
    match mtu {
        4.. => Some(3),
        3 => Some(2),
        _ => None,
    }
}

/// Returns the places of all pairs in the dialler's and in the acceptor's offer, best first.
fn pairs(dialler: &Offer, acceptor: &Offer) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (i, ours) in dialler.addresses.iter().enumerate() {
        for (j, theirs) in acceptor.addresses.iter().enumerate() {
            let Some(near) = reaches(ours, theirs) else { continue };
            let met = (ours.on_the_way, theirs.gid == dialler.dialled);
            // All addresses of a subnet are equally good: links are shared out over their ports.
            let met = if near { (false, false) } else { met };
            pairs.push(((near, met, ours.rail == theirs.rail), (i, j)));
        }
    }
    // Stable: pairs of equal merit stay in the order of the offers.
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
        (Kind::InfiniBand, Kind::InfiniBand) => {
            (same(64) && may_talk(a.pkey, b.pkey)).then_some(true)
        }
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
            rail: 0,
            pkey: 0xffff,
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
        Offer { dialled: [0; 16], addresses, avoid: Vec::new() }
    }

    #[test]
    fn the_fullest_offer_fits_and_comes_back() {
        let mut all = offer(vec![v4([10, 0, 0, 1], 24); VERBS_ADDRESSES_MAX]);
        all.addresses[1] = ib(3, 9);
        all.addresses[2].on_the_way = true;
        (all.addresses[3].rail, all.addresses[3].pkey) = (255, 0x1234);
        all.avoid = (0..WAYS_AVOIDED_MAX as u32).map(|way| u32::MAX - way).collect();
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
    fn of_other_subnets_the_bootstrap_connections_addresses_come_first() {
        let theirs = offer(vec![v4([10, 1, 0, 3], 24), v4([10, 1, 0, 4], 24)]);
        let mut ours = offer(vec![v4([10, 0, 0, 1], 24), v4([10, 0, 0, 2], 24)]);
        assert_eq!(pairs(&ours, &theirs), [(0, 0), (0, 1), (1, 0), (1, 1)]);
        ours.addresses[1].on_the_way = true;
        assert_eq!(pairs(&ours, &theirs), [(1, 0), (1, 1), (0, 0), (0, 1)]);
        ours.dialled = theirs.addresses[1].gid;
        assert_eq!(pairs(&ours, &theirs), [(1, 1), (1, 0), (0, 1), (0, 0)]);
    }

    /// Two ports on one subnet, or on fabrics that both have the default prefix: ports with the
    /// same index are paired, and the dialler's order says which pair goes first.
    #[test]
    fn in_a_subnet_links_are_shared_out_over_ports_of_the_same_place() {
        let on = |rail, address: Address| Address { rail, ..address };
        for address in [v4([10, 0, 0, 1], 24), ib(1, 4)] {
            let mut ours = offer(vec![on(0, address), on(1, address)]);
            let theirs = ours.clone();
            // The address of the bootstrap connection would take them all.
            ours.addresses[0].on_the_way = true;
            assert_eq!(pairs(&ours, &theirs), [(0, 0), (1, 1), (0, 1), (1, 0)]);
            ours.addresses.reverse();
            assert_eq!(pairs(&ours, &theirs), [(0, 1), (1, 0), (0, 0), (1, 1)]);
        }
    }

    #[test]
    fn members_of_different_partitions_are_not_paired() {
        let one = offer(vec![Address { pkey: 0x8007, ..ib(1, 4) }]);
        let other = offer(vec![Address { pkey: 0x8008, ..ib(1, 5) }]);
        assert_eq!((pairs(&one, &other), pairs(&one, &one)), (vec![], vec![(0, 0)]));
    }

    fn places(ways: &[Way]) -> Vec<(usize, usize, u8)> {
        ways.iter().map(|way| (way.dialler, way.acceptor, way.mtu)).collect()
    }

    /// A network that carries less than the ports is used with a smaller MTU.
    #[test]
    fn a_smaller_mtu_is_tried_after_another_pair() {
        let with = |mtu| offer(vec![Address { mtu, ..v4([10, 0, 0, 1], 24) }]);
        for (ours, theirs, mtus) in
            [(5, 5, &[5, 3][..]), (5, 4, &[4, 3]), (3, 5, &[3, 2]), (2, 2, &[2]), (1, 5, &[1])]
        {
            let tried = ways(&with(ours), &with(theirs));
            let tried: Vec<u8> = tried.iter().map(|way| way.mtu).collect();
            assert_eq!(tried, mtus);
        }
        let mut two = with(5);
        two.addresses.push(Address { mtu: 3, ..v4([10, 0, 0, 2], 24) });
        let expected = [(0, 0, 5), (1, 0, 3), (0, 0, 3), (1, 0, 2)];
        assert_eq!(places(&ways(&two, &with(5))), expected);
    }

    /// Ways that either side remembers as failed come last for both, whichever side dials.
    #[test]
    fn ways_that_failed_come_last() {
        let [a, b] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(|it| offer(vec![v4(it, 24)]));
        let both = ways(&a, &b);
        assert_eq!(places(&both), [(0, 0, 3), (0, 0, 2)]);
        let failed = both[0].number(&a, &b);
        let turned = ways(&b, &a)[0].number(&b, &a);
        assert_eq!(failed, turned);
        assert_ne!(failed, both[1].number(&a, &b));
        let avoiding = |offer: &Offer| Offer { avoid: vec![failed], ..offer.clone() };
        for tried in [ways(&avoiding(&a), &b), ways(&a, &avoiding(&b)), ways(&avoiding(&b), &a)] {
            assert_eq!(places(&tried), [(0, 0, 2), (0, 0, 3)]);
        }
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
        /// VB-4: hostile offers are refused, and accepted ones have their numbers in range.
        #[test]
        fn any_bytes_are_refused_or_in_range(
            tail in proptest::collection::vec(any::<u8>(), 0..260),
            count in 0..9u8,
            avoided in 0..10u8,
        ) {
            let bytes = [&MAGIC[..], &[count, avoided], &tail].concat();
            let whole = 21 + 33 * usize::from(count) + 4 * usize::from(avoided);
            let whole = bytes.len().min(whole);
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
