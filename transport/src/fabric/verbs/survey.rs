//! A report of the devices of this machine: which ones would be used, and why not the rest.

use std::fmt;
use std::io;
use std::net::Ipv6Addr;
use std::sync::Arc;

use super::VerbsConfig;
use super::device::{Device, DeviceLimits, PortAttributes};
use super::gid_table::{GidEntry, GidPort};
use super::machine;
use super::offer::Kind;
use super::partition::Partition;
use super::queue_pair::Port;
use super::rail::{LocalAddress, Rail};
use super::registration::Domain;

/// The findings on this machine. Displayed, they are the report.
#[derive(Debug)]
pub struct Survey {
    devices: Vec<Found>,
    addresses: Vec<VerbsAddress>,
    /// Why there are no devices, where the library says so.
    trouble: Option<String>,
}

/// An address of this machine that links over RDMA can use. A [`VerbsConfig`] with its device, port
/// and entry of the GID table uses no other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerbsAddress {
    /// The device, like `mlx5_0`.
    pub device: String,
    /// The port of the device, from 1.
    pub port: u8,
    /// The entry of the port's GID table.
    pub gid_index: u32,
    /// The GID; on RoCE the IP address, one of IPv4 mapped.
    pub gid: Ipv6Addr,
    /// The kind, in words; only addresses of the same kind reach each other.
    pub kind: &'static str,
}

/// A device, port or address, with its parts.
#[derive(Debug)]
struct Found {
    /// Like `device mlx5_0`, `port 1`, `GID 3`.
    name: String,
    about: String,
    /// Why it is not used.
    refused: Option<String>,
    parts: Vec<Found>,
}

impl Rail {
    fn shown(&self) -> impl Iterator<Item = VerbsAddress> {
        self.addresses.iter().map(|address| VerbsAddress {
            device: self.domain.device.name().to_owned(),
            port: self.port.number,
            gid_index: address.index.into(),
            gid: address.gid.into(),
            kind: match address.kind {
                Kind::InfiniBand => "InfiniBand",
                Kind::RoceV4 => "RoCE v2 on IPv4",
                Kind::RoceV6 => "RoCE v2 on IPv6",
            },
        })
    }
}

impl Found {
    fn new(name: String) -> Self {
        Found { name, about: String::new(), refused: None, parts: Vec::new() }
    }

    fn refused(name: String, why: impl Into<String>) -> Self {
        Found { refused: Some(why.into()), ..Found::new(name) }
    }

    fn is_used(&self) -> bool {
        self.refused.is_none() && (self.parts.is_empty() || self.parts.iter().any(Found::is_used))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let about = if self.about.is_empty() { "" } else { ": " };
        write!(f, "{:depth$}{}{about}{}", "", self.name, self.about)?;
        match &self.refused {
            Some(why) => writeln!(f, "; not used: {why}")?,
            None if self.parts.is_empty() => writeln!(f, "; used")?,
            None => writeln!(f)?,
        }
        self.parts.iter().try_for_each(|part| part.write(f, depth + 2))
    }
}

impl Survey {
    /// Looks at all devices. Opens them, and leaves nothing behind.
    pub fn new(config: &VerbsConfig) -> Self {
        Survey::with_rails(config).0
    }

    /// Returns true if verbs links are possible.
    pub fn is_usable(&self) -> bool {
        self.devices.iter().any(Found::is_used)
    }

    /// Why there is nothing to use, in one line.
    pub fn why_not(&self) -> String {
        if let Some(trouble) = &self.trouble {
            return trouble.clone();
        }
        let mut reasons = Vec::new();
        fn gather(found: &Found, path: &str, reasons: &mut Vec<String>) {
            let path = format!("{path}{}", found.name);
            reasons.extend(found.refused.iter().map(|why| format!("{path}: {why}")));
            found.parts.iter().for_each(|part| gather(part, &format!("{path} "), reasons));
        }
        self.devices.iter().for_each(|device| gather(device, "", &mut reasons));
        reasons.join("; ")
    }

    /// Returns the addresses that would be used.
    pub fn addresses(&self) -> &[VerbsAddress] {
        &self.addresses
    }

    /// Opens the devices that are here and may be used. Returns their domains, those included of
    /// which no port is used now, and the ports that are.
    pub(super) fn with_rails(config: &VerbsConfig) -> (Self, Vec<Arc<Domain>>, Vec<Rail>) {
        let (mut domains, mut rails) = (Vec::new(), Vec::new());
        let (devices, trouble) = match Device::all() {
            Err(error) => (Vec::new(), Some(format!("this kernel has no RDMA devices: {error}"))),
            Ok(none) if none.is_empty() => {
                let trouble = "no RDMA device (or no library for it: see ibv_devices)";
                (Vec::new(), Some(trouble.to_owned()))
            }
            Ok(devices) => {
                let look = |(name, opened): (String, io::Result<Device>)| {
                    let opened = look_at_device(config, &name, opened);
                    opened.map_or_else(
                        |refused| refused,
                        |domain| {
                            let found = look_at_ports(config, &domain, &[], &mut rails);
                            domains.push(domain);
                            found
                        },
                    )
                };
                (devices.into_iter().map(look).collect(), None)
            }
        };
        let addresses = rails.iter().flat_map(Rail::shown).collect();
        (Survey { devices, addresses, trouble }, domains, rails)
    }

    /// Looks once more at devices that are open, of which these rails are `known`.
    pub(super) fn again(
        config: &VerbsConfig,
        domains: &[Arc<Domain>],
        known: &[Rail],
    ) -> (Self, Vec<Rail>) {
        let mut rails = Vec::new();
        let working = domains.iter().filter(|domain| !domain.device.listeners.has_failed());
        let look = |domain| look_at_ports(config, domain, known, &mut rails);
        let devices = working.map(look).collect();
        let addresses = rails.iter().flat_map(Rail::shown).collect();
        (Survey { devices, addresses, trouble: None }, rails)
    }
}

/// Returns the protection domain of a device, or why it is not used.
fn look_at_device(
    config: &VerbsConfig,
    name: &str,
    opened: io::Result<Device>,
) -> Result<Arc<Domain>, Found> {
    let title = format!("device {name}");
    if config.device.as_ref().is_some_and(|wanted| wanted != name) {
        return Err(Found::refused(title, "another device was asked for"));
    }
    let looked = opened
        .and_then(|device| Domain::new(Arc::new(device)).map(Arc::new).map_err(io::Error::other));
    looked.map_err(|error| Found::refused(title, error.to_string()))
}

fn look_at_ports(
    config: &VerbsConfig,
    domain: &Arc<Domain>,
    known: &[Rail],
    rails: &mut Vec<Rail>,
) -> Found {
    let title = format!("device {}", domain.device.name());
    match domain.device.limits() {
        Ok(limits) => {
            let look = |port| look_at_port(config, (domain, limits), port, known, rails);
            let parts = (1..=limits.ports).map(look).collect();
            Found { parts, ..Found::new(title) }
        }
        Err(error) => Found::refused(title, error.to_string()),
    }
}

fn look_at_port(
    config: &VerbsConfig,
    (domain, limits): (&Arc<Domain>, DeviceLimits),
    port: u8,
    known: &[Rail],
    rails: &mut Vec<Rail>,
) -> Found {
    let title = format!("port {port}");
    if config.port.is_some_and(|wanted| wanted != port) {
        return Found::refused(title, "another port was asked for");
    }
    let attributes = match domain.device.port(port) {
        Ok(attributes) => attributes,
        Err(error) => return Found::refused(title, error.to_string()),
    };
    let layer = if attributes.ethernet { "Ethernet" } else { "InfiniBand" };
    let mtu = 128u32 << attributes.mtu;
    let mut found = Found::new(title);
    found.about = format!("{layer}, {}, MTU {mtu}", state_name(attributes.state));
    if !attributes.is_active() {
        found.refused = Some("the port is not active: cable, switch or subnet manager".into());
        return found;
    }
    let mut addresses = Vec::new();
    for index in 0..attributes.gids {
        let Some(part) = look_at_gid(config, domain, port, &attributes, index, &mut addresses)
        else {
            continue;
        };
        found.parts.push(part);
    }
    if addresses.is_empty() && found.parts.is_empty() {
        found.refused = Some("it has no address".into());
    }
    if addresses.is_empty() {
        return found;
    }
    let keys = domain.device.pkeys(port, attributes.pkeys).map_err(|error| error.to_string());
    let partition = keys.and_then(|keys| Partition::choose(&keys, config.pkey_index, config.pkey));
    let rail = partition.and_then(|partition| {
        let port = Port { number: port, partition };
        let rail = Rail::new(domain.clone(), limits, port, (attributes, addresses), known);
        rail.map_err(|error| error.to_string())
    });
    match rail {
        Ok(rail) => {
            let key = rail.port.partition.key;
            found.about = format!("{}, partition {key:#06x}", found.about);
            rails.push(rail);
        }
        Err(why) => found.refused = Some(why),
    }
    found
}

/// Returns `None` for an entry that is empty.
fn look_at_gid(
    config: &VerbsConfig,
    domain: &Domain,
    port: u8,
    attributes: &PortAttributes,
    index: u32,
    addresses: &mut Vec<LocalAddress>,
) -> Option<Found> {
    let gid = domain.device.gid(port, index).ok().filter(|gid| *gid != [0; 16])?;
    let (kind, interface) = machine::gid_entry(domain.device.name(), port, index);
    let address = Ipv6Addr::from(gid);
    let shown = address.to_ipv4_mapped().map_or_else(|| address.to_string(), |v4| v4.to_string());
    let mut found = Found::new(format!("GID {index}"));
    found.about = format!("{shown}, {kind}, {interface}").trim_end_matches([',', ' ']).to_owned();
    let prefix = machine::subnet_bits(gid, &interface);
    let &PortAttributes { ethernet, lid, .. } = attributes;
    let port = GidPort { ethernet, lid, wanted: config.gid_index };
    match (GidEntry { index, gid, kind, prefix }).judge(port, addresses.is_empty()) {
        Ok(address) => addresses.push(address),
        Err(why) => found.refused = Some(why.to_owned()),
    }
    Some(found)
}

fn state_name(state: u32) -> String {
    match state {
        1 => "down".into(),
        2 => "initialising".into(),
        3 => "armed".into(),
        4 => "active".into(),
        5 => "active, deferred".into(),
        other => format!("state {other}"),
    }
}

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(trouble) = &self.trouble {
            writeln!(f, "{trouble}")?;
        }
        self.devices.iter().try_for_each(|device| device.write(f, 0))?;
        writeln!(f, "memory that may be locked: {} bytes", machine::locked_memory_limit())?;
        let size = machine::huge_page_bytes().unwrap_or(0);
        writeln!(f, "huge pages: {} free of {size} bytes each", machine::huge_pages_free())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::verbs::device::check_transport;

    /// A device that is not used is named with the reason, and is none that links are possible by.
    #[test]
    fn a_device_of_another_transport_is_named_and_not_used() {
        const UNSPECIFIED: i32 = 4;
        let opened = check_transport(UNSPECIFIED).map(|()| unreachable!("it is refused"));
        let refused = look_at_device(&VerbsConfig::default(), "efa_0", opened).err().unwrap();
        let survey = Survey { devices: vec![refused], addresses: Vec::new(), trouble: None };
        let why = "only devices of InfiniBand and RoCE are used";
        assert!(!survey.is_usable());
        assert_eq!(survey.why_not(), format!("device efa_0: {why}"));
        assert!(survey.to_string().starts_with(&format!("device efa_0; not used: {why}\n")));
    }
}
