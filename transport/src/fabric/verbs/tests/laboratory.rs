//! The operations that only the laboratory's guest may be asked to do to its own devices.

use std::process::Command;
use std::sync::Arc;

use super::{Devices, say_skipped, skip};
use crate::entropy::Entropy;
use crate::fabric::verbs::{VerbsConfig, VerbsFabric, machine};

/// Two devices that may be broken, by name.
pub(super) struct Laboratory(pub(super) [String; 2]);

impl Laboratory {
    /// Returns true if this is its guest: the variable allows to take ports down and devices away,
    /// and says that devices are rxe's.
    pub(super) fn is_here() -> bool {
        std::env::var_os("RINGPOST_LABORATORY").is_some()
    }

    /// Returns `None`, and says so loudly, outside the guest, even where verbs are required. In the
    /// guest, where they are required, the case fails without two devices.
    pub(super) fn new(case: &str) -> Option<Self> {
        if !Laboratory::is_here() {
            say_skipped(case, "RINGPOST_LABORATORY is not set");
            return None;
        }
        let fabric = match VerbsFabric::new(VerbsConfig::default(), Entropy::os()) {
            Ok(fabric) => fabric,
            Err(error) => {
                skip(case, &error.to_string());
                return None;
            }
        };
        let names = fabric.rails.now().into_iter().map(|rail| rail.domain.device.name().to_owned());
        let names = names.collect::<Vec<_>>().try_into();
        if names.is_err() {
            skip(case, "there are not just two ports");
        }
        names.ok().map(Laboratory)
    }

    /// Fabrics for both sides of a link, each on one device: 0 or 1.
    pub(super) fn devices(&self, a: usize, b: usize) -> Devices {
        Devices([a, b].map(|at| self.fabric(at).unwrap_or_else(|why| panic!("{why}"))))
    }

    pub(super) fn fabric(&self, at: usize) -> Result<Arc<VerbsFabric>, String> {
        let config = VerbsConfig { device: Some(self.0[at].clone()), ..VerbsConfig::default() };
        let fabric = VerbsFabric::new(config, Entropy::os());
        fabric.map(Arc::new).map_err(|error| error.to_string())
    }

    /// Returns the network interface below a device.
    pub(super) fn interface(&self, at: usize) -> String {
        machine::gid_entry(&self.0[at], 1, 0).1
    }
}

/// Runs a program to its end and returns its output.
pub(super) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// iproute2's `ip`: a shell of the guest has one of its own, which knows less.
pub(super) fn ip(arguments: &[&str]) {
    run("/usr/bin/ip", arguments);
}
