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

    /// A table as a user of some system reported it: its entries with the bits of their subnets,
    /// and the entry that reaches other hosts.
    struct Reported {
        entries: &'static [(u32, &'static str, &'static str, u8)],
        right: u8,
    }

    /// The tables of reports to other systems, which chose a wrong entry: Mooncake 946, 2729 and
    /// 2747, ATOM 1748, uccl 803, monarch 4304 (there without the addresses), NCCL 769.
    const REPORTED: &[Reported] = &[
        // The address of another network namespace comes first.
        Reported {
            entries: &[
                (2, "::ffff:26.208.8.250", "IB/RoCE v1", 0),
                (3, "::ffff:26.208.8.250", "RoCE v2", 0),
                (6, "::ffff:26.208.8.252", "IB/RoCE v1", 120),
                (7, "::ffff:26.208.8.252", "RoCE v2", 120),
            ],
            right: 7,
        },
        Reported {
            entries: &[
                (0, "fe80::5e25:73ff:fe0f:9a64", "IB/RoCE v1", 64),
                (1, "fe80::5e25:73ff:fe0f:9a64", "RoCE v2", 64),
                (2, "::ffff:10.14.2.72", "IB/RoCE v1", 122),
                (3, "::ffff:10.14.2.72", "RoCE v2", 122),
            ],
            right: 3,
        },
        Reported {
            entries: &[
                (0, "fe80::690:81ff:fe37:a9e8", "RoCE v2", 64),
                (1, "::ffff:10.102.9.101", "RoCE v2", 120),
            ],
            right: 1,
        },
        Reported {
            entries: &[
                (0, "fe80::690:81ff:fe37:a9e8", "RoCE v2", 64),
                (1, "fc00:7:3::1", "RoCE v2", 64),
            ],
            right: 1,
        },
        Reported {
            entries: &[
                (0, "fe80::be97:e1ff:fe2b:10", "IB/RoCE v1", 64),
                (1, "fe80::be97:e1ff:fe2b:10", "RoCE v2", 64),
                (2, "fd93:16d3:59b6:12::1", "IB/RoCE v1", 64),
                (3, "fd93:16d3:59b6:12::1", "RoCE v2", 64),
            ],
            right: 3,
        },
        Reported {
            entries: &[
                (0, "fe80::1", "IB/RoCE v1", 64),
                (1, "fe80::1", "RoCE v2", 64),
                (2, "fe80::2", "IB/RoCE v1", 64),
                (3, "fe80::2", "RoCE v2", 64),
                (4, "::ffff:169.254.7.1", "IB/RoCE v1", 112),
                (5, "::ffff:169.254.7.1", "RoCE v2", 112),
                (6, "2001:db8::7", "IB/RoCE v1", 64),
                (7, "2001:db8::7", "RoCE v2", 64),
            ],
            right: 7,
        },
        Reported {
            entries: &[
                (0, "fe80::ac0:ebff:feda:1cfb", "IB/RoCE v1", 64),
                (1, "fe80::ac0:ebff:feda:1cfb", "RoCE v2", 64),
                (2, "::ffff:200.0.209.6", "IB/RoCE v1", 120),
                (3, "::ffff:200.0.209.6", "RoCE v2", 120),
            ],
            right: 3,
        },
    ];

    const ROCE: GidPort = GidPort { ethernet: true, lid: 0, wanted: None };

    impl Reported {
        fn used(&self, port: GidPort) -> Vec<LocalAddress> {
            let mut used: Vec<LocalAddress> = Vec::new();
            for &(index, gid, kind, prefix) in self.entries {
                let gid: Ipv6Addr = gid.parse().unwrap();
                let entry = GidEntry { index, gid: gid.octets(), kind: kind.into(), prefix };
                used.extend(entry.judge(port, used.is_empty()));
            }
            used
        }
    }

    #[test]
    fn the_entry_that_reaches_other_hosts_comes_first() {
        for table in REPORTED {
            let used = table.used(ROCE);
            let offered = ranked(&[&used], 0, None, 6);
            assert_eq!(offered[0].1.index, table.right, "{:?}", table.entries);
            // A link probes the other addresses that have a subnet; here there are none.
            let has_other_subnets = offered.iter().skip(1).any(|(_, other)| other.prefix > 0);
            assert!(!has_other_subnets, "{:?}", table.entries);
        }
    }

    #[test]
    fn a_named_entry_is_used_alone_and_a_link_local_one_never() {
        let table = &REPORTED[5];
        let used = |wanted| table.used(GidPort { wanted: Some(wanted), ..ROCE });
        assert_eq!(used(7).iter().map(|address| address.index).collect::<Vec<_>>(), [7]);
        assert!(used(1).is_empty() && used(5).is_empty() && used(6).is_empty());
    }

    #[test]
    fn infiniband_uses_the_first_entry_of_a_port_that_has_a_lid() {
        let table = &REPORTED[1];
        let indexes = |lid, wanted| {
            let used = table.used(GidPort { ethernet: false, lid, wanted });
            used.iter().map(|address| address.index).collect::<Vec<_>>()
        };
        assert_eq!(indexes(4, None), [0]);
        assert_eq!(indexes(4, Some(2)), [2]);
        assert!(indexes(0, None).is_empty());
    }
}
