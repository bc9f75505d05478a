//! Node processes under the control of a test.

use std::io::stderr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use ringpost::net::Profile;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost_tests::actors::{Counter, MUTES, Mute};
use ringpost_tests::planted::plant_named;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;

/// No wait of these tests takes this long unless something is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Where a program is: where it was built, or on another machine in a folder that is named.
pub(crate) fn program(name: &str, built: &str) -> PathBuf {
    let folder = std::env::var_os("RINGPOST_TEST_PROGRAMS");
    folder.map_or_else(|| built.into(), |folder| Path::new(&folder).join(name))
}

/// Sends a signal by name, `STOP` or `CONT`, to a child.
pub(crate) async fn send_signal(child: &Child, signal: &str) {
    let pid = child.id().unwrap().to_string();
    let status = Command::new("kill").arg(format!("-{signal}")).arg(&pid).status().await;
    assert!(status.unwrap().success());
    // The threads of a process that is to stop run on until one of them takes the signal.
    while signal == "STOP" && !has_stopped(&pid) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns true if all threads of a process have stopped.
fn has_stopped(pid: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        status.contains("State:\tT")
    })
}

/// Asks the mutes of `beta`, which never answer, and returns once all asks are on their way.
pub(crate) async fn unanswered_asks(
    alpha: &Node,
    asks: u64,
    patience: Duration,
) -> JoinSet<Result<u64, AskError>> {
    let counter = alpha.actor::<Counter>("beta/counter").await.unwrap();
    let mut waiting = JoinSet::new();
    for number in 0..asks {
        let path = format!("beta/mute{}", number % MUTES);
        let mute = alpha.actor::<Mute>(&path).await.unwrap();
        waiting.spawn(async move { mute.wait(number).timeout(patience).await });
    }
    // All are on their way once the link has carried as many.
    while alpha.links()[0].1.messages_sent < asks {
        within(async { counter.echo("on".into()).await }).await.unwrap();
    }
    waiting
}

/// A node process; killed when dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) address: String,
    /// Its warnings: far less than a pipe holds, so that a test need not read them.
    warnings: Lines<BufReader<ChildStderr>>,
}

impl Process {
    /// Starts a node and waits until it listens.
    pub(crate) async fn start(name: &str, seeds: &[String]) -> Self {
        Process::start_on("default", name, seeds).await
    }

    /// As [`start`](Self::start), on a runtime of this flavour.
    pub(crate) async fn start_on(flavour: &str, name: &str, seeds: &[String]) -> Self {
        let mut child = Command::new(program("node", env!("CARGO_BIN_EXE_node")))
            .args([flavour, name])
            .args(seeds)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = within(lines.next_line()).await.unwrap().unwrap();
        let address = line.strip_prefix("listening ").unwrap().to_owned();
        let warnings = BufReader::new(child.stderr.take().unwrap()).lines();
        Process { child, address, warnings }
    }

    /// Waits for a warning that contains `text`.
    pub(crate) async fn warned(&mut self, text: &str) -> String {
        while let Some(line) = within(self.warnings.next_line()).await.unwrap() {
            if line.contains(text) {
                return line;
            }
        }
        panic!("it ended without a warning of `{text}`");
    }

    /// Returns the lines that it logs, up to the first that contains `text`.
    pub(crate) async fn says_until(&mut self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.contains(text)) {
            let line = within(self.warnings.next_line()).await.unwrap();
            lines.push(line.unwrap_or_else(|| panic!("it ended after {lines:?}")));
        }
        lines
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Sends a signal by name, `STOP` or `CONT`.
    pub(crate) async fn signal(&self, signal: &str) {
        send_signal(&self.child, signal).await;
    }

    /// Closes its standard input and waits for its end.
    pub(crate) async fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(within(self.child.wait()).await.unwrap().success());
    }

    /// Resident memory in KiB, and open files.
    pub(crate) fn usage(&self) -> (u64, usize) {
        let pid = self.child.id().unwrap();
        (self.kib("VmRSS:"), std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count())
    }

    /// Returns the processor time of all its threads.
    pub(crate) fn processor_time(&self) -> Duration {
        Duration::from_nanos(self.scheduled(0))
    }

    /// Returns how often its threads got a processor.
    pub(crate) fn runs(&self) -> u64 {
        self.scheduled(2)
    }

    /// Returns the sum of a field of the threads' `schedstat`.
    fn scheduled(&self, field: usize) -> u64 {
        let pid = self.child.id().unwrap();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let each = threads.map(|thread| {
            let text = std::fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap();
            text.split_whitespace().nth(field).unwrap().parse::<u64>().unwrap()
        });
        each.sum()
    }

    /// The most memory that was ever resident, in KiB.
    pub(crate) fn peak(&self) -> u64 {
        self.kib("VmHWM:")
    }

    fn kib(&self, what: &str) -> u64 {
        let pid = self.child.id().unwrap();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with(what)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Waits until it has as many open files as it had before, asking `counter`, which it hosts,
    /// between two looks.
    pub(crate) async fn has_open_files(&self, before: usize, counter: &ActorRef<Counter>) {
        within(async {
            while self.usage().1 != before {
                counter.echo("on".into()).await.unwrap();
            }
        })
        .await;
    }
}

/// Logs all nodes of this process to standard error, as `RUST_LOG` says, and switches on the
/// planted bug that the environment names.
pub(crate) fn log() {
    plant_named();
    let filter = EnvFilter::from_default_env();
    // All tests of the process do this, and one is the first.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).try_init();
}

/// This test's own node, linked to the processes.
pub(crate) async fn linked(name: &str, to: &[&Process], down_after: Duration) -> Node {
    linked_with(name, to, Profile { down_after, ..Profile::default() }).await
}

/// As [`linked`], with this profile.
pub(crate) async fn linked_with(name: &str, to: &[&Process], profile: Profile) -> Node {
    log();
    let seeds = to.iter().map(|process| process.address.clone());
    let builder = Node::builder(name).listen("127.0.0.1:0").seeds(seeds).profile(profile);
    let node = builder.start().await.unwrap();
    within(node.ready(to.len())).await.unwrap();
    node
}

/// The next event that `wanted` picks.
pub(crate) async fn event<T>(
    events: &mut Receiver<NodeEvent>,
    wanted: impl Fn(&NodeEvent) -> Option<T>,
) -> T {
    loop {
        if let Some(found) = wanted(&within(events.recv()).await.unwrap()) {
            return found;
        }
    }
}

/// Waits with patience.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes far too long")
}
