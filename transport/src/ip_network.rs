//! Ranges of IP addresses, as the user of a node names them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of IP addresses, as `10.0.0.0/8`, `fd00::/8` or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpNetwork {
    address: IpAddr,
    prefix: u32,
}

/// A text that is no range of IP addresses.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a range of IP addresses: write 10.0.0.0/8 or fd00::/8", .0.escape_debug())]
pub struct InvalidNetwork(pub String);

crate::debug_by_display!(InvalidNetwork);

impl IpNetwork {
    /// Returns true if `ip` is in the range. An IPv4-mapped IPv6 address counts as the IPv4
    /// address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let (one, other, bits) = match (self.address, ip.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                (one.to_bits().into(), other.to_bits().into(), Ipv4Addr::BITS)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => {
                (one.to_bits(), other.to_bits(), Ipv6Addr::BITS)
            }
            _ => return false,
        };
        // A prefix of no bits fits all: a shift by all bits is none.
        let differs: u128 = one ^ other;
        differs.checked_shr(bits - self.prefix).unwrap_or(0) == 0
    }
}

impl FromStr for IpNetwork {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let parsed = || {
            let (address, prefix) = match text.split_once('/') {
                Some((address, prefix)) => (address, Some(prefix)),
                None => (text, None),
            };
            let address: IpAddr = address.parse().ok()?;
            let bits = if address.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS };
            let prefix = prefix.map_or(Some(bits), |prefix| prefix.parse().ok())?;
            (prefix <= bits).then_some(IpNetwork { address, prefix })
        };
        parsed().ok_or_else(|| InvalidNetwork(text.chars().take(80).collect()))
    }
}

impl fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_that_begin_with_its_prefix() {
        let network = |text: &str| text.parse::<IpNetwork>().unwrap();
        let has = |text: &str, ip: &str| network(text).contains(ip.parse().unwrap());
        assert!(has("10.0.0.0/8", "10.1.2.3") && !has("10.0.0.0/8", "11.0.0.0"));
        assert!(has("10.0.0.0/8", "::ffff:10.1.2.3") && !has("10.0.0.0/8", "a00::"));
        assert!(has("0.0.0.0/0", "192.0.2.1") && !has("0.0.0.0/0", "2001:db8::1"));
        assert!(has("::/0", "2001:db8::1") && !has("::/0", "192.0.2.1"));
        assert!(has("192.0.2.1", "192.0.2.1") && !has("192.0.2.1", "192.0.2.2"));
        assert!(has("fe80::/10", "febf::1") && !has("fe80::/10", "fec0::1"));
        assert_eq!(network("192.0.2.1").to_string(), "192.0.2.1/32");
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "name/8"] {
            assert_eq!(wrong.parse::<IpNetwork>(), Err(InvalidNetwork(wrong.into())));
        }
    }
}
