//! The GID table of a port: which of its entries links can use.

use std::net::Ipv6Addr;

use super::offer::Kind;
use super::rail::LocalAddress;

/// An entry of the table that is not empty.
pub(super) struct GidEntry {
    pub(super) index: u32,
    pub(super) gid: [u8; 16],
    /// The kind of the address, in the kernel's words.
    pub(super) kind: String,
    /// Leading bits that its subnet shares; 0 if this network namespace has no such subnet.
    pub(super) prefix: u8,
}

/// The port of a table, as far as its entries depend on it.
#[derive(Clone, Copy)]
pub(super) struct GidPort {
    pub(super) ethernet: bool,
    /// On InfiniBand, the number that the subnet manager gave it; 0 if none did.
    pub(super) lid: u16,
    /// The only entry that the user wants, if one was named.
    pub(super) wanted: Option<u32>,
}

impl GidEntry {
    /// Returns the address for links, or why the entry is not used. `is_first`: no entry before it
    /// is used.
    pub(super) fn judge(
        &self,
        port: GidPort,
        is_first: bool,
    ) -> Result<LocalAddress, &'static str> {
        if port.wanted.is_some_and(|wanted| wanted != self.index) {
            return Err("another GID was asked for");
        }
        let Ok(index) = u8::try_from(self.index) else {
            return Err("its index is too large for a queue pair");
        };
        let address = |kind, prefix| LocalAddress { index, kind, gid: self.gid, prefix };
        if !port.ethernet {
            return match port.wanted.is_some() || is_first {
                false => Err("the first is enough"),
                true if port.lid == 0 => Err("the port has no LID: no subnet manager has seen it"),
                true => Ok(address(Kind::InfiniBand, 64)),
            };
        }
        if self.kind != "RoCE v2" {
            return Err("only RoCE v2 is used on Ethernet");
        }
        let ip = Ipv6Addr::from(self.gid);
        match ip.to_ipv4_mapped() {
            Some(v4) if v4.is_link_local() => Err("link-local"),
            Some(_) => Ok(address(Kind::RoceV4, self.prefix)),
            None if ip.is_unicast_link_local() => Err("link-local"),
            None => Ok(address(Kind::RoceV6, self.prefix)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rail::ranked;
    use super::*;

    /// A table as a user of some system reported it: the entry that reaches other hosts, then all
    /// entries, each with its index, address, bits of its subnet, and version of RoCE.
    type Reported = (u8, &'static str);

    /// The tables of reports to other systems, which chose a wrong entry: Mooncake 946, 2729 and
    /// 2747, ATOM 1748, uccl 803, monarch 4304 and NCCL 769. (ATOM's and monarch's addresses are
    /// made up: the reports have only their kinds.)
    const REPORTED: &[Reported] = &[
        // The address of another network namespace comes first.
        (
            7,
            "2 ::ffff:26.208.8.250 0 v1, 3 ::ffff:26.208.8.250 0 v2, \
             6 ::ffff:26.208.8.252 120 v1, 7 ::ffff:26.208.8.252 120 v2",
        ),
        (
            3,
            "0 fe80::5e25:73ff:fe0f:9a64 64 v1, 1 fe80::5e25:73ff:fe0f:9a64 64 v2, \
             2 ::ffff:10.14.2.72 122 v1, 3 ::ffff:10.14.2.72 122 v2",
        ),
        (1, "0 fe80::690:81ff:fe37:a9e8 64 v2, 1 ::ffff:10.102.9.101 120 v2"),
        (1, "0 fe80::690:81ff:fe37:a9e8 64 v2, 1 fc00:7:3::1 64 v2"),
        (
            3,
            "0 fe80::be97:e1ff:fe2b:10 64 v1, 1 fe80::be97:e1ff:fe2b:10 64 v2, \
             2 fd93:16d3:59b6:12::1 64 v1, 3 fd93:16d3:59b6:12::1 64 v2",
        ),
        (
            7,
            "0 fe80::1 64 v1, 1 fe80::1 64 v2, 2 fe80::2 64 v1, 3 fe80::2 64 v2, \
             4 ::ffff:169.254.7.1 112 v1, 5 ::ffff:169.254.7.1 112 v2, \
             6 2001:db8::7 64 v1, 7 2001:db8::7 64 v2",
        ),
        (
            3,
            "0 fe80::ac0:ebff:feda:1cfb 64 v1, 1 fe80::ac0:ebff:feda:1cfb 64 v2, \
             2 ::ffff:200.0.209.6 120 v1, 3 ::ffff:200.0.209.6 120 v2",
        ),
    ];

    const ROCE: GidPort = GidPort { ethernet: true, lid: 0, wanted: None };

    /// Returns the addresses of the table that links use.
    fn used((_, entries): Reported, port: GidPort) -> Vec<LocalAddress> {
        let mut used: Vec<LocalAddress> = Vec::new();
        for entry in entries.split(", ") {
            let words: Vec<_> = entry.split(' ').collect();
            let [index, gid, prefix, version] = words[..] else { panic!("{entry}") };
            let gid: Ipv6Addr = gid.parse().unwrap();
            let kind = if version == "v2" { "RoCE v2" } else { "IB/RoCE v1" }.to_owned();
            let [index, prefix] = [index, prefix].map(|number| number.parse().unwrap());
            let entry = GidEntry { index, gid: gid.octets(), kind, prefix: prefix as u8 };
            used.extend(entry.judge(port, used.is_empty()));
        }
        used
    }

    #[test]
    fn the_entry_that_reaches_other_hosts_comes_first() {
        for &table in REPORTED {
            let offered = ranked(&[&used(table, ROCE)], 0, None, 6);
            assert_eq!(offered[0].1.index, table.0, "{table:?}");
            // A link probes the other addresses that have a subnet; here there are none.
            let has_other_subnets = offered.iter().skip(1).any(|(_, other)| other.prefix > 0);
            assert!(!has_other_subnets, "{table:?}");
        }
    }

    #[test]
    fn a_named_entry_is_used_alone_and_a_link_local_one_never() {
        let used = |wanted| used(REPORTED[5], GidPort { wanted: Some(wanted), ..ROCE });
        assert_eq!(used(7).iter().map(|address| address.index).collect::<Vec<_>>(), [7]);
        assert!(used(1).is_empty() && used(5).is_empty() && used(6).is_empty());
    }

    #[test]
    fn infiniband_uses_the_first_entry_of_a_port_that_has_a_lid() {
        let indexes = |lid, wanted| {
            let used = used(REPORTED[1], GidPort { ethernet: false, lid, wanted });
            used.iter().map(|address| address.index).collect::<Vec<_>>()
        };
        assert_eq!(indexes(4, None), [0]);
        assert_eq!(indexes(4, Some(2)), [2]);
        assert!(indexes(0, None).is_empty());
    }
}
