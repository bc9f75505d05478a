//! Events of the members of all nodes, in the order in which they happened.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use ringpost::net::NodeId;
use ringpost::test_kit::Cluster;
use ringpost::{ActorExit, Address};

/// The number of a member.
pub(super) type Id = u64;
/// The number of a run of a node, among the runs of all nodes.
pub(super) type Run = usize;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Spawned(Id, Run),
    /// A member began to watch another, by this address; `near` is true if that is of its node.
    Watched {
        watcher: Id,
        actor: Id,
        address: Address,
        near: bool,
    },
    /// A member stopped watching another; `was` is the answer of `unwatch`.
    Unwatched {
        watcher: Id,
        address: Address,
        was: bool,
    },
    Told {
        watcher: Id,
        address: Address,
        exit: ActorExit,
    },
    /// A word was committed.
    Said {
        from: Id,
        to: Id,
        number: u64,
    },
    Heard {
        from: Id,
        by: Id,
        number: u64,
    },
    /// The state of a member was dropped: its incarnation has ended.
    Dropped(Id),
    /// A member has ended and is not restarted, as its own node knows.
    Ended(Id, ActorExit),
    /// A run was told that it has lost another, or the link to it.
    NodeDown(Run, Run),
    LinkDown(Run, Run),
    /// A run is over: it was killed, or it left.
    Over(Run),
}

/// The log of a world. Clones are the same log.
#[derive(Clone)]
pub(super) struct Log {
    cluster: Cluster,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    entries: Vec<(u64, Entry)>,
    runs: Vec<NodeId>,
    over: BTreeSet<Run>,
    words: u64,
}

impl Log {
    pub(super) fn new(cluster: Cluster) -> Self {
        Log { cluster, state: Arc::default() }
    }

    /// Notes an event of a run, unless the run is over.
    pub(super) fn note(&self, run: Run, entry: Entry) {
        let mut state = self.state.lock();
        if !state.over.contains(&run) {
            self.cluster.log(&format!("{entry:?}"));
            let now = self.cluster.world().now();
            state.entries.push((now, entry));
        }
    }

    /// Adds a run of a node.
    pub(super) fn add_run(&self, node: NodeId) -> Run {
        let mut state = self.state.lock();
        state.runs.push(node);
        state.runs.len() - 1
    }

    /// Returns the run of a node that has this identity.
    pub(super) fn run_of(&self, node: &NodeId) -> Option<Run> {
        self.state.lock().runs.iter().position(|known| known == node)
    }

    /// Ends a run: its remaining tasks note nothing more.
    pub(super) fn end_run(&self, run: Run) {
        self.note(run, Entry::Over(run));
        self.state.lock().over.insert(run);
    }

    /// Returns a number for a word that no other word has, nor a larger one before.
    pub(super) fn number(&self) -> u64 {
        let mut state = self.state.lock();
        state.words += 1;
        state.words
    }

    /// Takes all entries, each with its nanosecond.
    pub(super) fn take(&self) -> Vec<(u64, Entry)> {
        std::mem::take(&mut self.state.lock().entries)
    }
}
