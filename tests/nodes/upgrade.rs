//! A cluster of three that is upgraded node by node, from a program that was built from one source
//! to a program built from another source, in which messages gained fields.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::correspondent::own_address;
use crate::process::{program, within};

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];
/// Deposits that each node has to take from each other node between two restarts.
const SOME: u64 = 100;

/// The output of all nodes, in the order it was read, each line with the name of its node.
#[derive(Default)]
struct Said {
    lines: Mutex<Vec<(&'static str, String)>>,
    more: Notify,
}

impl Said {
    /// Returns how many deposits of the run `from` the node `by` took.
    fn taken(&self, by: &str, from: &str) -> u64 {
        let took = format!("took {from} ");
        let lines = self.lines.lock();
        lines.iter().filter(|(node, line)| *node == by && line.starts_with(&took)).count() as u64
    }

    /// Waits until each node took [`SOME`] more deposits of each other node's run.
    async fn all_took_some(&self, runs: &[String; 3]) {
        let before: Vec<u64> = pairs(runs).map(|(by, from)| self.taken(by, from)).collect();
        self.until(|| {
            let mut pairs = pairs(runs).zip(&before);
            pairs.all(|((by, from), before)| self.taken(by, from) >= before + SOME)
        })
        .await;
    }

    /// Waits until `senders` senders have ended.
    async fn ended(&self, senders: usize) {
        let has_ended = |(_, line): &&(_, String)| line.starts_with("ended ");
        self.until(|| self.lines.lock().iter().filter(has_ended).count() == senders).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        within(async {
            loop {
                let more = self.more.notified();
                if is_so() {
                    return;
                }
                more.await;
            }
        })
        .await;
    }
}

/// Returns each node with the run of each other node.
fn pairs(runs: &[String; 3]) -> impl Iterator<Item = (&'static str, &str)> {
    let others = |by: &'static str| {
        let of_others = runs.iter().filter(move |run| !run.starts_with(by));
        of_others.map(move |run| (by, run.as_str()))
    };
    NAMES.into_iter().flat_map(others)
}

struct Ledger {
    child: Child,
    reader: JoinHandle<()>,
}

impl Ledger {
    /// Starts a program as a node.
    fn start(path: &Path, number: usize, run: u64, at: &[String; 3], said: &Arc<Said>) -> Self {
        let peers = [(number + 1) % 3, (number + 2) % 3];
        let peers = peers.map(|peer| format!("{}@{}", NAMES[peer], at[peer]));
        let mut child = Command::new(path)
            .args([NAMES[number], &run.to_string(), &at[number]])
            .args(peers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = said.clone();
        let reader = tokio::spawn(async move {
            while let Some(line) = lines.next_line().await.unwrap() {
                said.lines.lock().push((NAMES[number], line));
                said.more.notify_waiters();
            }
        });
        Ledger { child, reader }
    }

    /// Stops its senders.
    async fn falls_quiet(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").await.unwrap();
    }

    /// Closes its standard input, waits for its end, and reads the rest of its output.
    async fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(within(self.child.wait()).await.unwrap().success());
        within(self.reader).await.unwrap();
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_upgraded_node_by_node_to_messages_with_more_fields_and_nothing_is_lost() {
    let old = program("ledger_v1", env!("CARGO_BIN_EXE_ledger_v1"));
    let new = program("ledger_v2", env!("CARGO_BIN_EXE_ledger_v2"));
    let (at, said) = (NAMES.map(|_| own_address()), Arc::new(Said::default()));
    let mut runs = NAMES.map(|name| format!("{name}.1"));
    let start = |path: &Path, number: usize, run| Ledger::start(path, number, run, &at, &said);
    let mut nodes: Vec<Ledger> = (0..3).map(|number| start(&old, number, 1)).collect();
    said.all_took_some(&runs).await;
    for number in 0..3 {
        let mut node = nodes.remove(number);
        node.falls_quiet().await;
        node.end().await;
        runs[number] = format!("{}.2", NAMES[number]);
        nodes.insert(number, start(&new, number, 2));
        said.all_took_some(&runs).await;
    }
    // Their last deposits wait for receipts, which the other nodes still give.
    for node in &mut nodes {
        node.falls_quiet().await;
    }
    said.ended(12).await;
    futures::future::join_all(nodes.into_iter().map(Ledger::end)).await;
    let lines = std::mem::take(&mut *said.lines.lock());
    judge(&lines);
}

/// Checks that each deposit that was sent was taken, with the fields that both builds knew, and
/// that only the restarts made any fail.
fn judge(lines: &[(&str, String)]) {
    let mut taken: BTreeMap<(&str, &str), BTreeSet<u64>> = BTreeMap::new();
    let mut forms = BTreeMap::<(&str, &str), u64>::new();
    for (node, line) in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["took", from, number, "in", build, ref rest @ ..] => {
                let number: u64 = number.parse().unwrap();
                taken.entry((node, from)).or_default().insert(number);
                let own = format!("of-{from}-{number}");
                let expected: &[&str] = match (build, &from[from.len() - 2..]) {
                    ("v1", _) => &[],
                    ("v2", ".1") => &["memo", "none"],
                    _ => &["memo", &own],
                };
                assert_eq!(rest, expected, "{node}: {line}");
                *forms.entry((&from[from.len() - 2..], build)).or_default() += 1;
            }
            ["failed", ..] => {
                let ours = ["SchemaMismatch", "NotAccepted", "InvalidArchive", "InvalidReply"];
                assert!(!ours.iter().any(|cause| line.contains(cause)), "{node}: {line}");
            }
            ["listening"] | ["sent", _, _, "receipt", ..] | ["ended", ..] => {}
            _ => panic!("{node}: {line}"),
        }
    }
    println!("deposits by the builds of sender and receiver: {forms:?}");
    for (sender, receiver) in [(".1", "v1"), (".1", "v2"), (".2", "v1"), (".2", "v2")] {
        assert!(forms[&(sender, receiver)] >= SOME, "{sender} to {receiver}");
    }
    // Each run of each node sent without a gap until it ended.
    let mut run = BTreeMap::<(&str, &str), u64>::new();
    for (node, line) in lines.iter().filter(|(_, line)| line.starts_with("ended ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let (peer, last) = (words[1], words[2].parse::<u64>().unwrap());
        let number = run.entry((node, peer)).or_insert(0);
        *number += 1;
        let from = format!("{node}.{number}");
        let of = &taken[&(peer, from.as_str())];
        assert!((1..=last).all(|number| of.contains(&number)), "{from} to {peer}: 1..={last}");
    }
    assert_eq!(run.values().sum::<u64>(), 12, "six senders, each in two runs");
}
