//! The place that a connection comes from, by which strangers are counted, and links.
//!
//! The nodes at one address have at most `Profile::links_per_source_max` links at a time that they
//! dialled. So a holder of the secret that comes under ever new names from one address takes a
//! bounded part of this node's resources. From many addresses, it gets as many links for each.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;

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

/// The number of links of each source that has one. Shared by the tasks that carry them.
#[derive(Default)]
pub(super) struct Sources(Mutex<BTreeMap<Source, u32>>);

/// A link that is counted until this is dropped.
pub(super) struct Counted {
    sources: Arc<Sources>,
    source: Source,
}

impl Sources {
    /// Counts one more link of a source, unless it has `max` of them.
    pub(super) fn admit(self: &Arc<Self>, source: Source, max: u32) -> Option<Counted> {
        let mut counts = self.0.lock();
        let count = counts.entry(source.clone()).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Counted { sources: self.clone(), source })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.sources.0.lock();
        if let Some(count) = counts.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_counted_while_they_last() {
        let sources = Arc::new(Sources::default());
        let admit = |host: &str| sources.admit(Source::of(host), 2);
        let first = admit("alpha");
        let second = admit("alpha");
        assert!(first.is_some() && second.is_some());
        assert!(admit("alpha").is_none());
        assert!(admit("beta").is_some(), "another host");
        drop(first);
        let third = admit("alpha");
        assert!(third.is_some() && admit("alpha").is_none());
        drop((second, third));
        assert!(sources.0.lock().is_empty(), "a host without links is forgotten");
    }

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
