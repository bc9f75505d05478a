//! A private /etc/hosts for the processes of a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::atomic::{AtomicU32, Ordering};

/// The one name that it knows: no server does.
pub(crate) const NAME: &str = "beta.ringpost.invalid";

/// A file that stands in for /etc/hosts in mount namespaces of their own; deleted when dropped.
pub(crate) struct Hosts {
    file: PathBuf,
    script: String,
}

impl Hosts {
    /// Makes the file.
    ///
    /// # Errors
    /// The part that is missing on this machine.
    pub(crate) fn new() -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hosts-{}-{count}", id()));
        let script = format!("mount --bind '{}' /etc/hosts && exec \"$0\" \"$@\"", file.display());
        let hosts = Hosts { file, script };
        hosts.say(&["127.0.0.5"]);
        let [first, rest @ ..] = hosts.through();
        let found = Command::new(first).args(rest).args(["getent", "hosts", NAME]).output();
        let found = found.map_err(|error| error.to_string())?;
        let (said, why) = (found.stdout, String::from_utf8_lossy(&found.stderr).into_owned());
        String::from_utf8_lossy(&said).starts_with("127.0.0.5 ").then_some(hosts).ok_or(why)
    }

    /// Gives the name these addresses, and no others, from now on.
    pub(crate) fn say(&self, addresses: &[&str]) {
        let lines: String = addresses.iter().map(|ip| format!("{ip} {NAME}\n")).collect();
        fs::write(&self.file, lines).unwrap();
    }

    /// Returns a command that becomes another one, for which the name is known.
    pub(crate) fn through(&self) -> [&str; 5] {
        let [shell, option, script] = self.shell();
        ["unshare", "--mount", shell, option, script]
    }

    /// Returns the same for a mount namespace that was made already.
    pub(crate) fn shell(&self) -> [&str; 3] {
        ["sh", "-c", &self.script]
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // Nothing depends on it.
        drop(fs::remove_file(&self.file));
    }
}
