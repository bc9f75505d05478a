//! The place that a connection comes from: [`accept`](super::accept) counts by it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A place that connections come from: an IPv4 address; 64 bits of an IPv6 address, because a host
/// has all that begin with them; the name of a simulated host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// An address, or the first one of a network.
    Ip(IpAddr),
    /// Of the simulator.
    Host(String),
}

impl Source {
    /// Returns the source of a connection from this address.
    pub(super) fn of(address: &str) -> Self {
        match address.parse::<SocketAddr>().map(|address| address.ip().to_canonical()) {
            Ok(IpAddr::V6(ip)) => {
                let network = ip.to_bits() & !u128::from(u64::MAX);
                Source::Ip(Ipv6Addr::from_bits(network).into())
            }
            Ok(ip) => Source::Ip(ip),
            Err(_) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                Source::Host(host.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_source_whichever_of_its_addresses_it_uses() {
        let same = |one, other| Source::of(one) == Source::of(other);
        assert!(same("192.0.2.1:1", "192.0.2.1:65535"));
        assert!(same("192.0.2.1:1", "[::ffff:192.0.2.1]:2"));
        assert!(!same("192.0.2.1:1", "192.0.2.2:1"));
        assert!(same("[2001:db8:0:1::1]:1", "[2001:db8:0:1:ffff:ffff:ffff:ffff]:2"));
        assert!(!same("[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1"));
        assert!(same("alpha", "alpha:7700") && !same("alpha", "beta"));
    }
}
