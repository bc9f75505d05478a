//! The addresses of one node that are known, besides the seeds where it was met. Part of the state
//! of its [`Peer`](super::Peer).
//!
//! - **AB-1 order**: where it was reached last comes first, then the newest before the oldest, and
//!   those that failed since they were told come last. Where there are more than
//!   `ADDRESSES_KNOWN_MAX` the last ones are dropped, so that addresses that fail make way for
//!   others, and what one peer tells cannot crowd out where the node was reached.

use crate::limits;

/// A name or address that is to be dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::mesh) struct Target {
    pub(in crate::mesh) name: String,
    /// A peer named it, not the user.
    pub(in crate::mesh) told: bool,
}

/// The addresses of one node, best first.
#[derive(Debug, Default)]
pub(in crate::mesh) struct Addresses(Vec<Known>);

#[derive(Debug)]
struct Known {
    address: String,
    /// Where the node is that told it: what a name may lead to depends on it (MS-16).
    teller: String,
    /// It failed since it was told, or since it was of use.
    failed: bool,
}

impl Addresses {
    /// Returns them, best first.
    pub(in crate::mesh) fn list(&self) -> impl Iterator<Item = &String> {
        self.0.iter().map(|known| &known.address)
    }

    /// Returns them as what is to be dialled.
    pub(in crate::mesh) fn targets(&self) -> Vec<Target> {
        self.list().map(|name| Target { name: name.clone(), told: true }).collect()
    }

    /// Records what the node itself says: these and no others. Returns true if one of them is news.
    pub(in crate::mesh) fn say(&mut self, addresses: &[String], teller: &str) -> bool {
        if addresses.is_empty() {
            return false;
        }
        let news = addresses.iter().any(|address| self.at(address).is_none());
        let first = self.0.first().filter(|known| !known.failed && !news);
        let first = first.map(|known| known.address.clone());
        self.0 = addresses.iter().map(|address| Known::new(address, teller)).collect();
        if let Some(first) = first {
            self.good(&first);
        }
        news
    }

    /// Records what another node says, besides what is known. Returns true if one of them is news.
    pub(in crate::mesh) fn tell(&mut self, addresses: &[String], teller: &str) -> bool {
        let mut news = false;
        let first = usize::from(self.0.first().is_some_and(|known| !known.failed));
        for address in addresses.iter().rev() {
            match self.at(address) {
                // Told again: the node may have come back there.
                Some(at) => self.0[at].failed = false,
                None => {
                    self.0.insert(first.min(self.0.len()), Known::new(address, teller));
                    news = true;
                }
            }
        }
        self.0.sort_by_key(|known| known.failed);
        self.0.truncate(limits::ADDRESSES_KNOWN_MAX);
        news
    }

    /// Records that the node was reached there.
    pub(in crate::mesh) fn good(&mut self, address: &str) {
        if let Some(at) = self.at(address) {
            self.0[at].failed = false;
            self.0[..=at].rotate_right(1);
        }
    }

    /// Records that a dial of it failed.
    pub(in crate::mesh) fn failed(&mut self, address: &str) {
        if let Some(at) = self.at(address) {
            self.0[at].failed = true;
            self.0[at..].rotate_left(1);
        }
    }

    /// Records that another node is there: what is known is stale.
    pub(in crate::mesh) fn forget(&mut self, address: &str) {
        self.0.retain(|known| known.address != address);
    }

    /// Returns where the node is that told this one.
    pub(in crate::mesh) fn teller(&self, address: &str) -> Option<String> {
        self.at(address).map(|at| self.0[at].teller.clone())
    }

    fn at(&self, address: &str) -> Option<usize> {
        self.0.iter().position(|known| known.address == address)
    }
}

impl Known {
    fn new(address: &str, teller: &str) -> Self {
        Known { address: address.into(), teller: teller.into(), failed: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(addresses: &Addresses) -> Vec<&str> {
        addresses.list().map(String::as_str).collect()
    }

    fn strings(addresses: &[&str]) -> Vec<String> {
        addresses.iter().map(|&address| address.to_owned()).collect()
    }

    /// AB-1
    #[test]
    fn the_last_good_is_first_then_the_newest_and_failures_last() {
        let mut known = Addresses::default();
        assert!(known.say(&strings(&["a", "b"]), ""));
        assert!(!known.say(&strings(&["a", "b"]), ""));
        known.good("b");
        assert_eq!(list(&known), ["b", "a"]);
        assert!(
            !known.say(&strings(&["a", "b"]), ""),
            "it says the same: the good one stays first"
        );
        assert_eq!(list(&known), ["b", "a"]);
        assert!(known.tell(&strings(&["c", "d"]), ""));
        assert_eq!(list(&known), ["b", "c", "d", "a"]);
        known.failed("b");
        known.failed("c");
        assert_eq!(list(&known), ["d", "a", "b", "c"]);
        assert!(!known.tell(&strings(&["b"]), ""), "nothing new");
        assert_eq!(list(&known), ["d", "a", "b", "c"]);
        known.forget("d");
        assert!(known.say(&strings(&["e"]), ""), "the node moved");
        assert_eq!(list(&known), ["e"]);
        assert!(!known.say(&[], ""), "a node that only dials");
        assert_eq!(list(&known), ["e"]);
    }

    /// AB-1: what fails makes way, and no one crowds out what is good.
    #[test]
    fn addresses_are_bounded_and_those_that_fail_go_first() {
        let mut known = Addresses::default();
        known.say(&strings(&["good"]), "");
        for number in 0..100 {
            let address = format!("{number}");
            assert!(known.tell(std::slice::from_ref(&address), ""));
            assert_eq!(list(&known)[..2], ["good", &address]);
            assert!(list(&known).len() <= limits::ADDRESSES_KNOWN_MAX);
            if number % 2 == 0 {
                known.failed(&address);
            }
        }
        let list = list(&known);
        let even = list[1..].iter().filter(|address| address.ends_with(['0', '2', '4', '6', '8']));
        assert!(even.count() <= 1, "{list:?}");
    }
}
