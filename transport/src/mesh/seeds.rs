//! The addresses that a node dials for as long as it lives, and what each of them met last.
//!
//! The dialler of a seed writes here, and stops when its seed is taken out. Tasks that wait to be
//! connected read it, and senders whose wait for a link a refusal ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::connect_error::{ConnectCause, ConnectError};
use crate::id::{NodeId, NodeName};

/// The seeds of a node, by address.
#[derive(Default)]
pub(super) struct Seeds(Mutex<BTreeMap<String, Entry>>);

#[derive(Default)]
struct Entry {
    /// Wakes its dialler.
    wake: Arc<Notify>,
    /// A round of dials is asked for.
    asked: bool,
    /// Number of times that something was met.
    count: u64,
    met: Option<Met>,
}

/// The last outcome of a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Met {
    /// A node that is linked, or about to be.
    Node(NodeId),
    /// No link came about.
    Failed {
        /// The node that answered, when it proved itself.
        by: Option<NodeName>,
        error: ConnectError,
    },
}

impl Seeds {
    /// Adds a seed. If it is there already, asks for a round of dials. Returns how often something
    /// was met there, and true if it was added.
    pub(super) fn add(&self, address: &str) -> (u64, bool) {
        let mut seeds = self.0.lock();
        if let Some(entry) = seeds.get_mut(address) {
            entry.asked = true;
            entry.wake.notify_one();
            return (entry.count, false);
        }
        seeds.insert(address.into(), Entry::default());
        (0, true)
    }

    /// Takes a seed out: its dialler stops.
    pub(super) fn remove(&self, address: &str) {
        if let Some(entry) = self.0.lock().remove(address) {
            entry.wake.notify_one();
        }
    }

    /// Returns what wakes the dialler of a seed.
    pub(super) fn wake(&self, address: &str) -> Arc<Notify> {
        self.0.lock().get(address).map(|entry| entry.wake.clone()).unwrap_or_default()
    }

    /// Returns whether a round of dials was asked for since the last call; `None` when the seed was
    /// taken out.
    pub(super) fn take_asked(&self, address: &str, wake: &Arc<Notify>) -> Option<bool> {
        let mut seeds = self.0.lock();
        let own = seeds.get_mut(address).filter(|entry| Arc::ptr_eq(&entry.wake, wake));
        own.map(|entry| std::mem::take(&mut entry.asked))
    }

    /// Returns what the seed met last, and how often something was met there; `None` when it was
    /// taken out.
    pub(super) fn look(&self, address: &str) -> Option<(u64, Option<Met>)> {
        self.0.lock().get(address).map(|entry| (entry.count, entry.met.clone()))
    }

    /// Records what a seed met. Returns true if that is news.
    pub(super) fn note(&self, address: &str, met: Met) -> bool {
        let mut seeds = self.0.lock();
        let Some(entry) = seeds.get_mut(address) else { return false };
        entry.count += 1;
        entry.met.replace(met) != entry.met
    }

    /// Records that this node is linked: it refuses no more.
    pub(super) fn linked(&self, node: &NodeId) {
        for entry in self.0.lock().values_mut() {
            if matches!(&entry.met, Some(Met::Failed { by: Some(by), .. }) if *by == node.name) {
                entry.met = Some(Met::Node(node.clone()));
            }
        }
    }

    /// Returns the refusal that ends all waits, and the node that refuses: another live node has
    /// the name of this one.
    pub(super) fn refusal(&self) -> Option<(Option<NodeName>, ConnectError)> {
        self.0.lock().values().find_map(|entry| match &entry.met {
            Some(Met::Failed { by, error }) if error.cause == ConnectCause::NameTaken => {
                Some((by.clone(), error.clone()))
            }
            _ => None,
        })
    }

    /// Returns why no node proved itself at seeds, where that is so.
    pub(super) fn unmet(&self) -> Vec<String> {
        let seeds = self.0.lock();
        let unmet = seeds.iter().filter_map(|(address, entry)| match &entry.met {
            Some(Met::Failed { by: None, error }) if error.cause != ConnectCause::Itself => {
                Some(format!("{address}: {}", error.text()))
            }
            _ => None,
        });
        unmet.collect()
    }
}
