//! Nodes that all have the same one seed, a name that leads to all of them, their own addresses
//! among them: each in a network namespace of its own, and in another one, with another address,
//! when it starts again. So an orchestrator runs them.

use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::correspondent::SECRET;
use crate::hosts::{Hosts, NAME};
use crate::rolling::{Cluster, End, Home, NAMES};
use crate::wire::{PREFIX, ip, sweep};

/// The address that all nodes listen on: it leads to no node.
const LISTEN: &str = "0.0.0.0:7700";

/// A network of namespaces around a switch; all are deleted when it is dropped.
struct Network {
    hosts: Hosts,
    switch: String,
    made: AtomicU8,
}

/// A namespace with one address.
struct Pod {
    namespace: String,
    address: String,
    home: Home,
}

impl Network {
    /// Makes the switch.
    ///
    /// # Errors
    /// The part that is missing on this machine.
    fn new() -> Result<Self, String> {
        sweep();
        let switch = format!("{PREFIX}{}-pods-switch", std::process::id());
        let network = Network { hosts: Hosts::new()?, switch, made: AtomicU8::new(0) };
        ip(&["netns", "add", &network.switch])?;
        ip(&["-n", &network.switch, "link", "add", "bridge", "type", "bridge"])?;
        ip(&["-n", &network.switch, "link", "set", "bridge", "up"])?;
        Ok(network)
    }

    fn namespace(number: u8) -> String {
        format!("{PREFIX}{}-pods-{number}", std::process::id())
    }

    /// Makes a pod, with an address that none had before.
    ///
    /// # Errors
    /// The part that is missing on this machine.
    fn pod(&self) -> Result<Pod, String> {
        let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        let (namespace, port) = (Network::namespace(number), format!("pod{number}"));
        let address = format!("10.118.0.{number}");
        ip(&["netns", "add", &namespace])?;
        let peer = ["peer", "name", &port, "netns", &self.switch];
        ip(&[&["link", "add", "eth0", "netns", &namespace, "type", "veth"], &peer[..]].concat())?;
        ip(&["-n", &self.switch, "link", "set", &port, "master", "bridge", "up"])?;
        ip(&["-n", &namespace, "address", "add", &format!("{address}/24"), "dev", "eth0"])?;
        ip(&["-n", &namespace, "link", "set", "eth0", "up"])?;
        ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
        let options =
            ["--seed", &format!("{NAME}:7700"), "--advertise", &format!("{address}:7700")]
                .map(str::to_owned)
                .to_vec();
        let within = ["ip", "netns", "exec", &namespace];
        let through = [&within[..], &self.hosts.shell()].concat();
        let through = through.into_iter().map(str::to_owned).collect();
        Ok(Pod { namespace, address, home: Home { listen: LISTEN.into(), options, through } })
    }

    /// Gives the name the addresses of these pods.
    fn publish(&self, addresses: &[String; 3]) {
        self.hosts.say(&addresses.each_ref().map(String::as_str));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for number in 1..=self.made.load(Ordering::Relaxed) {
            // Fails for a namespace that was never made.
            drop(ip(&["netns", "del", &Network::namespace(number)]));
        }
        drop(ip(&["netns", "del", &self.switch]));
    }
}

/// Two of the restarts are in order, one is a kill; after each the old address answers nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_behind_one_name_find_each_other_also_when_each_starts_again_elsewhere() {
    let started = Network::new().and_then(|network| {
        let pods = [network.pod()?, network.pod()?, network.pod()?];
        Ok((network, pods))
    });
    let (network, pods) = match started {
        Ok(started) => started,
        Err(missing) => {
            // Past the capture of the test's output: nobody shall take this for a pass.
            let line = format!("SKIPPED the pods: no network namespaces here: {missing}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            return;
        }
    };
    let mut addresses = pods.each_ref().map(|pod| pod.address.clone());
    let mut namespaces = pods.each_ref().map(|pod| pod.namespace.clone());
    network.publish(&addresses);
    let homes = pods.map(|pod| pod.home);
    let mut cluster = Cluster::start_at("pods", homes, (SECRET, None)).await;
    cluster.all_hear_each_other().await;
    for (number, end) in (0..NAMES.len()).zip([End::InOrder, End::Killed, End::InOrder]) {
        let elsewhere = || {
            let pod = network.pod().unwrap();
            ip(&["netns", "del", &namespaces[number]]).unwrap();
            namespaces[number] = pod.namespace;
            addresses[number] = pod.address;
            network.publish(&addresses);
            Some(pod.home)
        };
        cluster.restart(number, end, (SECRET, None), elsewhere).await;
    }
    cluster.judge(1).await;
}
