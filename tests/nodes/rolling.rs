//! A cluster of three that all send to each other, restarted one node after the other: each node
//! comes back under its name and address, and the others go on.

use futures::future::join_all;

use crate::correspondent::{Archive, Correspondent, SECRET, Start, own_address};

/// The nodes of a cluster.
pub(crate) const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];
const NEW_SECRET: &str = "another secret of the tests, as long as the first";
/// Messages that a node handles between two restarts.
const SOME: u64 = 200;

/// The secret that a node uses, and another secret that it accepts.
type Secrets = (&'static str, Option<&'static str>);

/// How a node ends before it is started again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    InOrder,
    Killed,
}

/// Where a node lives, and where it looks for the others.
#[derive(Clone)]
pub(crate) struct Home {
    /// Where it listens.
    pub(crate) listen: String,
    /// Its seeds, and other options.
    pub(crate) options: Vec<String>,
    /// The words of a command that becomes the program.
    pub(crate) through: Vec<String>,
}

/// Three nodes that all send to each other.
pub(crate) struct Cluster {
    archive: Archive,
    homes: [Home; 3],
    run: [u64; 3],
    nodes: Vec<Correspondent>,
}

impl Cluster {
    /// Starts them on loopback; the seeds of each are the others.
    async fn start(test: &str, secrets: Secrets) -> Self {
        let addresses = NAMES.map(|_| own_address());
        let homes = [0, 1, 2].map(|number| {
            let seeds = others(number).map(|other| ["--seed".into(), addresses[other].clone()]);
            let listen = addresses[number].clone();
            Home { listen, options: seeds.concat(), through: Vec::new() }
        });
        Cluster::start_at(test, homes, secrets).await
    }

    /// Starts them where they live.
    pub(crate) async fn start_at(test: &str, homes: [Home; 3], secrets: Secrets) -> Self {
        let archive = Archive::new(test);
        let mut cluster = Cluster { archive, homes, run: [0; 3], nodes: Vec::new() };
        for number in 0..NAMES.len() {
            let node = cluster.launch(number, secrets).await;
            cluster.nodes.push(node);
        }
        cluster
    }

    async fn launch(&mut self, number: usize, secrets: Secrets) -> Correspondent {
        self.run[number] += 1;
        let Home { listen, options, through } = &self.homes[number];
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        options.extend(others(number).iter().flat_map(|other| ["--to", NAMES[*other]]));
        let through: Vec<&str> = through.iter().map(String::as_str).collect();
        let start = Start {
            name: NAMES[number],
            run: self.run[number],
            listen,
            options: &options,
            through: &through,
            secrets,
        };
        Correspondent::start(&self.archive, start).await
    }

    /// Restarts one node in its next home, and waits until it and the others hear each other again.
    /// The others see it go and come once.
    pub(crate) async fn restart(
        &mut self,
        number: usize,
        end: End,
        secrets: Secrets,
        next: impl FnOnce() -> Option<Home>,
    ) {
        let name = NAMES[number];
        let seen = ["link down", "node down", "link up"].map(|what| format!("# {what} {name}"));
        let count = |nodes: &[Correspondent], other: usize| {
            seen.each_ref().map(|start| nodes[other].count(start))
        };
        let before = others(number).map(|other| count(&self.nodes, other));
        let node = self.nodes.remove(number);
        match end {
            End::InOrder => node.end().await,
            End::Killed => node.kill().await,
        }
        if let Some(home) = next() {
            self.homes[number] = home;
        }
        let again = self.launch(number, secrets).await;
        self.nodes.insert(number, again);
        self.all_hear_each_other().await;
        for (other, before) in others(number).into_iter().zip(before) {
            let once_more = before.map(|count| count + 1);
            for (what, count) in seen.iter().zip(once_more) {
                self.nodes[other].writes_often(what, count).await;
            }
            assert_eq!(count(&self.nodes, other), once_more, "{} of {name}", NAMES[other]);
        }
    }

    /// Waits until each node has handled messages of the current run of each other node, sent by
    /// the references that the senders had from the beginning.
    pub(crate) async fn all_hear_each_other(&mut self) {
        for (number, node) in self.nodes.iter().enumerate() {
            for other in others(number) {
                let (from, run) = (NAMES[other], self.run[other]);
                node.writes(&format!("handled inbox {from} {run} ")).await;
            }
        }
        let more = self.nodes.iter_mut().map(async |node| {
            let handled = node.handled();
            node.handles(handled + SOME).await;
        });
        join_all(more).await;
    }

    /// Ends all nodes, and judges their logs.
    pub(crate) async fn judge(mut self, killed: u64) {
        join_all(self.nodes.iter_mut().map(Correspondent::falls_quiet)).await;
        join_all(self.nodes.into_iter().map(Correspondent::end)).await;
        let verdict = self.archive.judge();
        assert_eq!((verdict.logs, verdict.killed), (self.run.iter().sum(), killed));
    }
}

fn others(number: usize) -> [usize; 2] {
    [(number + 1) % 3, (number + 2) % 3]
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_restarted_node_by_node_and_each_is_seen_to_go_and_come_once() {
    let mut cluster = Cluster::start("rolling", (SECRET, None)).await;
    cluster.all_hear_each_other().await;
    for end in [End::InOrder, End::Killed] {
        for number in 0..NAMES.len() {
            cluster.restart(number, end, (SECRET, None), || None).await;
        }
    }
    cluster.judge(3).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_changes_its_secret_by_three_rolling_restarts_and_accounts_for_all() {
    let mut cluster = Cluster::start("secret", (SECRET, None)).await;
    cluster.all_hear_each_other().await;
    let rounds = [(SECRET, Some(NEW_SECRET)), (NEW_SECRET, Some(SECRET)), (NEW_SECRET, None)];
    for secrets in rounds {
        for number in 0..NAMES.len() {
            cluster.restart(number, End::InOrder, secrets, || None).await;
        }
    }
    cluster.judge(0).await;
}
