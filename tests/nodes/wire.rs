//! Two hosts and the wire between them, as network namespaces: a router in the middle discards the
//! packets of one side, or of both, while the links of both hosts stay up.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The addresses of the two hosts.
pub(crate) const ADDRESSES: [&str; 2] = ["10.117.1.1", "10.117.2.1"];
const ROUTER: [&str; 2] = ["10.117.1.254", "10.117.2.254"];

/// The start of the names of namespaces; the id of the process that made them follows.
pub(crate) const PREFIX: &str = "ringpost-tests-";

/// Three network namespaces; deleted when dropped.
pub(crate) struct Wire {
    /// The namespaces of the hosts.
    hosts: [String; 2],
    router: String,
}

impl Wire {
    /// Makes the namespaces.
    ///
    /// # Errors
    /// The part that is missing on this machine.
    pub(crate) fn new() -> Result<Self, String> {
        sweep();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |part: &str| format!("{PREFIX}{}-{count}-{part}", std::process::id());
        let wire = Wire { hosts: [name("a"), name("b")], router: name("wire") };
        for namespace in wire.namespaces() {
            ip(&["netns", "add", namespace])?;
        }
        ip(&["netns", "exec", &wire.router, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])?;
        for (side, host) in wire.hosts.iter().enumerate() {
            wire.connect(host, side)?;
        }
        Ok(wire)
    }

    fn connect(&self, host: &str, side: usize) -> Result<(), String> {
        let router = self.router.as_str();
        let device = device(side);
        let peer = ["peer", "name", device, "netns", router];
        ip(&[&["link", "add", "wire", "netns", host, "type", "veth"], &peer[..]].concat())?;
        for (namespace, device, address) in
            [(host, "wire", ADDRESSES[side]), (router, device, ROUTER[side])]
        {
            let address = format!("{address}/24");
            ip(&["-n", namespace, "address", "add", &address, "dev", device])?;
            ip(&["-n", namespace, "link", "set", device, "up"])?;
        }
        // A host that talks to its own address talks over loopback.
        ip(&["-n", host, "link", "set", "lo", "up"])?;
        ip(&["-n", host, "route", "add", "default", "via", ROUTER[side]])
    }

    /// The namespace of a host.
    pub(crate) fn host(&self, side: usize) -> &str {
        &self.hosts[side]
    }

    /// Discards all packets of this side, silently.
    pub(crate) fn cut(&self, side: usize) {
        ip(&["-n", &self.router, "rule", "add", "iif", device(side), "blackhole"]).unwrap();
    }

    /// Carries the packets of this side again.
    pub(crate) fn mend(&self, side: usize) {
        ip(&["-n", &self.router, "rule", "del", "iif", device(side), "blackhole"]).unwrap();
    }

    fn namespaces(&self) -> [&str; 3] {
        [&self.hosts[0], &self.router, &self.hosts[1]]
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for namespace in self.namespaces() {
            // Fails for a namespace that was never made.
            drop(ip(&["netns", "del", namespace]));
        }
    }
}

/// Deletes the namespaces of test processes that were killed.
pub(crate) fn sweep() {
    let Ok(output) = Command::new("ip").args(["netns", "list"]).output() else { return };
    let list = String::from_utf8_lossy(&output.stdout);
    for namespace in list.lines().filter_map(|line| line.split(' ').next()) {
        let Some((process, _)) = namespace.strip_prefix(PREFIX).and_then(|n| n.split_once('-'))
        else {
            continue;
        };
        if !std::path::Path::new("/proc").join(process).exists() {
            // Another test process may have been faster.
            drop(ip(&["netns", "del", namespace]));
        }
    }
}

/// The router's device on this side.
fn device(side: usize) -> &'static str {
    ["side-a", "side-b"][side]
}

/// Runs `ip`.
///
/// # Errors
/// Its message, or that the program is not there.
pub(crate) fn ip(arguments: &[&str]) -> Result<(), String> {
    let what = || format!("`ip {}`", arguments.join(" "));
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|error| format!("{}: {error}", what()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("{}: {}", what(), said.trim()))
}
