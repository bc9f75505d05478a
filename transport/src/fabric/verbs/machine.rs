//! The facts that the system tells in files: limits of this process, pages, network interfaces.

use std::fs::read_to_string;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns how much memory this process may lock for devices, in the system's words.
pub(super) fn locked_memory_limit() -> String {
    let limits = read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let limit = line.and_then(|line| line.split_whitespace().next());
    limit.unwrap_or("an unknown number of").to_owned()
}

/// Returns true if `need` more bytes are over what this process may lock for devices, by the
/// system's own count.
pub(super) fn may_not_lock(need: usize) -> bool {
    let read = |name| read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    is_over_limit(need as u64, &locked_memory_limit(), &read("status"), &read("uid_map"))
}

/// Returns true if locking `need` more bytes would exceed `limit`. CAP_IPC_LOCK lifts the limit,
/// except in a user namespace, as in a container. An unknown limit counts as exceeded.
fn is_over_limit(need: u64, limit: &str, status: &str, users: &str) -> bool {
    const IPC_LOCK: u64 = 1 << 14;
    let field = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.split_whitespace().next())
    };
    if limit == "unlimited" {
        return false;
    }
    let rights = field("CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
    let is_system = users.split_whitespace().eq(["0", "0", "4294967295"]);
    if is_system && rights & IPC_LOCK != 0 {
        return false;
    }
    let kilobytes = |key| field(key).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
    let locked = kilobytes("VmPin:").max(kilobytes("VmLck:")) * 1024;
    limit.parse::<u64>().map_or(true, |limit| locked.saturating_add(need) > limit)
}

/// Size of a huge page, in bytes.
pub(super) fn huge_page_bytes() -> Option<usize> {
    memory("Hugepagesize:").map(|kilobytes| kilobytes * 1024)
}

/// Huge pages that are free.
pub(super) fn huge_pages_free() -> usize {
    memory("HugePages_Free:").unwrap_or(0)
}

fn memory(key: &str) -> Option<usize> {
    let info = read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the type of a GID table entry, and the network interface it belongs to.
pub(super) fn gid_entry(device: &str, port: u8, index: u32) -> (String, String) {
    let read = |what: &str| {
        let base = format!("/sys/class/infiniband/{device}/ports/{port}/gid_attrs");
        read_to_string(format!("{base}/{what}/{index}")).unwrap_or_default().trim().to_owned()
    };
    (read("types"), read("ndevs"))
}

/// Leading bits of `gid` that its subnet shares, by the interface's own routes; 0: not known.
pub(super) fn subnet_bits(gid: [u8; 16], interface: &str) -> u8 {
    match Ipv6Addr::from(gid).to_ipv4_mapped() {
        Some(address) => {
            let routes = read_to_string("/proc/net/route").unwrap_or_default();
            v4_bits(&routes, address, interface)
        }
        None => {
            let addresses = read_to_string("/proc/net/if_inet6").unwrap_or_default();
            v6_bits(&addresses, gid, interface)
        }
    }
}

/// Returns the longest route without a gateway that `address` lies in.
fn v4_bits(routes: &str, address: Ipv4Addr, interface: &str) -> u8 {
    let bits = routes.lines().filter_map(|line| {
        let columns = line.split_whitespace().collect::<Vec<_>>();
        let [name, destination, gateway, _, _, _, _, mask, ..] = columns[..] else { return None };
        // The kernel prints the bytes as one number of this machine.
        let number = |text| Some(u32::from_str_radix(text, 16).ok()?.to_ne_bytes());
        let [destination, gateway, mask] = [number(destination)?, number(gateway)?, number(mask)?];
        let [destination, mask] = [destination, mask].map(u32::from_be_bytes);
        let inside = address.to_bits() & mask == destination;
        (name == interface && gateway == [0; 4] && inside).then_some(mask.leading_ones())
    });
    bits.max().filter(|bits| *bits > 0).map_or(0, |bits| 96 + bits as u8)
}

fn v6_bits(addresses: &str, gid: [u8; 16], interface: &str) -> u8 {
    let wanted = gid.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let bits = addresses.lines().find_map(|line| {
        let columns = line.split_whitespace().collect::<Vec<_>>();
        let [address, _, bits, _, _, name] = columns[..] else { return None };
        let bits = u8::from_str_radix(bits, 16).ok()?;
        (address == wanted && name == interface).then_some(bits)
    });
    bits.unwrap_or(0).min(128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn the_subnet_is_found_in_the_routes() {
        let routes = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0
";
        let bits = |address, interface| v4_bits(routes, address, interface);
        assert_eq!(bits(Ipv4Addr::new(172, 17, 3, 4), "eth0"), 96 + 16);
        assert_eq!(bits(Ipv4Addr::new(10, 1, 2, 3), "eth1"), 96 + 8);
        assert_eq!(bits(Ipv4Addr::new(10, 1, 2, 3), "eth0"), 0, "behind a gateway");
    }

    #[test]
    fn the_subnet_is_found_among_the_addresses() {
        let addresses = "\
fe80000000000000042e1bfffe000001 02 40 20 80     eth0
fd000000000000000000000000000005 02 30 00 80     eth0
";
        let gid = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 5).octets();
        assert_eq!(v6_bits(addresses, gid, "eth0"), 48);
        assert_eq!(v6_bits(addresses, gid, "eth1"), 0);
    }

    /// A device that has no room says ENOMEM, too: the limit is blamed where it was met only.
    #[test]
    fn the_limit_is_blamed_where_it_is_met() {
        let status = |pinned: u64, rights: &str| {
            format!("VmLck:\t       0 kB\nVmPin:\t    {pinned} kB\nCapEff:\t{rights}\n")
        };
        let (user, root, all) = ("0000000000000000", "000001ffffffffff", "0 0 4294967295");
        let over = |need, limit: &str, pinned, rights, users| {
            is_over_limit(need, limit, &status(pinned, rights), users)
        };
        assert!(over(4097, "65536", 60, user, all));
        assert!(!over(4096, "65536", 60, user, all));
        assert!(!over(1 << 40, "unlimited", 60, user, all));
        assert!(!over(1 << 40, "65536", 60, root, all));
        assert!(over(1 << 40, "65536", 60, root, "0 100000 65536"), "root of a container");
        assert!(is_over_limit(1, "an unknown number of", "", ""));
    }

    #[test]
    fn the_limits_of_this_process_are_known() {
        let limit = locked_memory_limit();
        assert!(limit == "unlimited" || limit.parse::<u64>().is_ok(), "{limit}");
    }
}
