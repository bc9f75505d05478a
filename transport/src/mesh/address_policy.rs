//! Which addresses that peers name are dialled. Pure: [`join`](super::join) asks about what a HELLO
//! says, [`session`](super::session) about answers to WHO_IS.
//!
//! - **MS-16 no errands**: of the addresses that a peer names this node dials none at which no node
//!   can be, none that is nearer to itself than that peer is, and none that its user refuses. So a
//!   peer cannot have it connect to what listens on its own loopback, or to what answers on its
//!   link alone, as the metadata of many clouds do. Seeds are the user's own: they are not asked
//!   about.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::bootstrap::ADDRESS_BYTES_MAX;
use crate::ip_network::IpNetwork;
use crate::wire::UNKNOWN_ADDRESS;

/// The addresses that a node does not dial for a peer.
#[derive(Debug, Default)]
pub(super) struct AddressPolicy {
    refused: Vec<IpNetwork>,
}

/// The cause for which an address that a peer names is not dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotDialled {
    #[error("it is not of the form host:port")]
    Form,
    #[error("no host has it")]
    NoHost,
    #[error("it stands for many hosts")]
    ManyHosts,
    #[error("it is nearer to this node than the peer that names it is: what does it advertise?")]
    Nearer,
    #[error("it is in {0}, which is refused")]
    Refused(IpNetwork),
}

/// How far an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Machine,
    Link,
    Network,
}

impl AddressPolicy {
    pub(super) fn new(refused: &[IpNetwork]) -> Self {
        AddressPolicy { refused: refused.to_vec() }
    }

    /// Checks an address as a peer names it, by whose connection from `peer_address` this node
    /// heard it. A name is taken: where it leads is checked when it is dialled.
    ///
    /// # Errors
    /// [`NotDialled`]
    pub(super) fn check(&self, address: &str, peer_address: &str) -> Result<(), NotDialled> {
        // The address of a peer that is gone is not known any more: it counts as far away.
        let far = (peer_address == UNKNOWN_ADDRESS).then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let peer = peer_address.parse::<SocketAddr>().ok().map(|peer| peer.ip()).or(far);
        match address.parse() {
            Ok(address) => self.check_resolved(address, peer),
            Err(_) if is_host_and_port(address, true) => Ok(()),
            Err(_) => Err(NotDialled::Form),
        }
    }

    /// Checks an address that a peer at `peer` names; `None` where the network is simulated.
    ///
    /// # Errors
    /// [`NotDialled`]
    fn check_resolved(&self, address: SocketAddr, peer: Option<IpAddr>) -> Result<(), NotDialled> {
        let ip = address.ip().to_canonical();
        let is_this_network = matches!(ip, IpAddr::V4(ip) if ip.octets()[0] == 0);
        let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        if address.port() == 0 {
            return Err(NotDialled::Form);
        }
        if ip.is_unspecified() || is_this_network {
            return Err(NotDialled::NoHost);
        }
        if ip.is_multicast() || is_broadcast {
            return Err(NotDialled::ManyHosts);
        }
        if peer.is_some_and(|peer| reach(ip) < reach(peer)) {
            return Err(NotDialled::Nearer);
        }
        match self.refused.iter().find(|network| network.contains(ip)) {
            Some(network) => Err(NotDialled::Refused(*network)),
            None => Ok(()),
        }
    }
}

fn reach(ip: IpAddr) -> Reach {
    let ip = ip.to_canonical();
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    if ip.is_loopback() {
        Reach::Machine
    } else if is_link_local {
        Reach::Link
    } else {
        Reach::Network
    }
}

/// Returns true if an address is one of a host and a port, which may be 0 unless it is needed. A
/// host is a name of ASCII letters, digits, `-`, `_` and `.`, or an IP address, whose scope may be
/// an interface: `[fe80::1%eth0]`. So a variable that nothing has filled in, as `$(POD_IP)`, is no
/// host.
pub fn is_host_and_port(address: &str, port_needed: bool) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    // With brackets it is known which colon is the last of an IPv6 address.
    let scoped = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')?.split_once('%'));
    let is_scoped =
        scoped.is_some_and(|(ip, scope)| ip.parse::<Ipv6Addr>().is_ok() && is_name(scope));
    let is_host = is_name(host) || is_scoped || address.parse::<SocketAddr>().is_ok();
    let is_number = port.bytes().all(|b| b.is_ascii_digit());
    let is_port = is_number && port.parse::<u16>().is_ok_and(|port| port != 0 || !port_needed);
    is_host && is_port && address.len() <= ADDRESS_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, peer: &str) -> Result<(), NotDialled> {
        AddressPolicy::default().check(address, peer)
    }

    /// MS-16
    // Promised in docs/SEMANTICS.md.
    #[test]
    fn addresses_that_lead_nowhere_or_nearer_than_the_peer_are_not_dialled() {
        let (machine, link, network) = ("127.0.0.1:9", "169.254.3.3:9", "192.0.2.1:9");
        for (address, refused) in [
            ("192.0.2.7:0", NotDialled::Form),
            ("[2001:db8::1]:0", NotDialled::Form),
            ("name:0", NotDialled::Form),
            ("name", NotDialled::Form),
            ("::1:7700", NotDialled::Form),
            ("0.0.0.0:7700", NotDialled::NoHost),
            ("0.1.2.3:7700", NotDialled::NoHost),
            ("[::]:7700", NotDialled::NoHost),
            ("[::ffff:0.0.0.0]:7700", NotDialled::NoHost),
            ("224.0.0.1:7700", NotDialled::ManyHosts),
            ("[ff02::1]:7700", NotDialled::ManyHosts),
            ("255.255.255.255:7700", NotDialled::ManyHosts),
        ] {
            for peer in [machine, link, network, "alpha"] {
                assert_eq!(check(address, peer), Err(refused), "{address} of {peer}");
            }
        }
        let of_machine = ["127.0.0.1:7700", "127.9.9.9:7700", "[::1]:7700", "[::ffff:127.0.0.1]:1"];
        let of_link = ["169.254.169.254:80", "[fe80::1]:7700"];
        let of_network = ["10.0.0.1:7700", "192.0.2.7:7700", "[fd00::1]:7700", "name:7700"];
        for (addresses, from) in [
            (&of_machine[..], Reach::Machine),
            (&of_link, Reach::Link),
            (&of_network, Reach::Network),
        ] {
            let peers = [(machine, Reach::Machine), (link, Reach::Link), (network, Reach::Network)];
            for (address, (peer, at)) in
                addresses.iter().flat_map(|address| peers.map(|peer| (address, peer)))
            {
                let expected = if from < at { Err(NotDialled::Nearer) } else { Ok(()) };
                assert_eq!(check(address, peer), expected, "{address} of {peer}");
            }
            assert!(addresses.iter().all(|address| check(address, "alpha").is_ok()), "simulated");
        }
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn a_host_has_the_characters_of_a_name_or_is_an_address() {
        for address in [
            "alpha:7700",
            "alpha_1.bank-2.example.:7700",
            "10.0.0.1:1",
            "[::1]:7700",
            "[fe80::1%2]:7700",
            "[fe80::1%eth0.7]:7700",
        ] {
            assert!(is_host_and_port(address, true), "{address}");
        }
        for address in [
            "$(POD_IP):7700",
            "${POD_IP}:7700",
            "<pod>:7700",
            "a,b:7700",
            "http://alpha:7700",
            "user@alpha:7700",
            "two words:7700",
            "alpha\n:7700",
            "caf\u{e9}:7700",
            "::1:7700",
            "[alpha]:7700",
            "[alpha%eth0]:7700",
            "[fe80::1%]:7700",
            "fe80::1%eth0:7700",
            "alpha:+1",
            "[fe80::1%eth0]:+1",
            ":7700",
            "alpha:77000",
            "alpha:0",
        ] {
            assert!(!is_host_and_port(address, true), "{address}");
        }
    }

    /// A peer that resets its connection has no address any more.
    #[test]
    fn a_peer_that_is_gone_names_nothing_near() {
        for near in ["127.0.0.1:7700", "169.254.169.254:80", "[::1]:7700"] {
            assert_eq!(check(near, UNKNOWN_ADDRESS), Err(NotDialled::Nearer), "{near}");
        }
        assert_eq!(check("192.0.2.7:7700", UNKNOWN_ADDRESS), Ok(()));
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn networks_that_the_user_refuses_are_not_dialled() {
        let refused = ["10.0.0.0/8", "fd00::/8", "192.0.2.7"].map(|text| text.parse().unwrap());
        let policy = AddressPolicy::new(&refused);
        for (address, network) in [
            ("10.255.0.1:7700", Some(0)),
            ("[::ffff:10.0.0.1]:7700", Some(0)),
            ("11.0.0.1:7700", None),
            ("[fd12::1]:7700", Some(1)),
            ("[fe00::1]:7700", None),
            ("192.0.2.7:7700", Some(2)),
            ("192.0.2.6:7700", None),
        ] {
            let expected = network.map_or(Ok(()), |at| Err(NotDialled::Refused(refused[at])));
            assert_eq!(policy.check(address, "192.0.2.1:9"), expected, "{address}");
        }
    }
}
