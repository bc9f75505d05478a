//! The addresses of one node that are known, and where it was reached last. Part of the state of
//! its [`Peer`](super::Peer).
//!
//! The address or seed where it was reached last comes first; then the other addresses from newest
//! to oldest, addresses that failed since they were told, and seeds. Beyond `ADDRESSES_KNOWN_MAX`,
//! the last addresses told by other nodes are dropped. So addresses that fail make way for others,
//! and a peer cannot crowd out the address where the node was reached, or the addresses that the
//! node told itself.

use crate::limits;

/// A name or address that is to be dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::mesh) struct Target {
    pub(in crate::mesh) name: String,
    /// A peer named it, not the user.
    pub(in crate::mesh) told: bool,
}

/// The addresses of one node.
#[derive(Debug, Default)]
pub(in crate::mesh) struct Addresses {
    /// The addresses that were told, best first.
    known: Vec<Known>,
    /// Where it was reached last, unless that failed since, or the node moved.
    reached: Option<String>,
    /// Some address was known once.
    pub(in crate::mesh) ever_known: bool,
}

#[derive(Debug)]
struct Known {
    address: String,
    /// Where the node is that told it: what a name may lead to depends on it (MS-16).
    teller: String,
    /// The node itself said so when it was met.
    own: bool,
    /// It failed since it was told, or since it was of use.
    failed: bool,
}

impl Addresses {
    /// Returns them, best first.
    pub(in crate::mesh) fn list(&self) -> impl Iterator<Item = &String> {
        self.known.iter().map(|known| &known.address)
    }

    /// Returns them as dial targets, together with the `seeds` where the node was met.
    pub(in crate::mesh) fn targets<'a>(
        &self,
        seeds: impl Iterator<Item = &'a String>,
    ) -> Vec<Target> {
        let target = |name: &String| Target { name: name.clone(), told: true };
        let mut targets: Vec<Target> = self.list().map(target).collect();
        for seed in seeds {
            match targets.iter_mut().find(|target| target.name == *seed) {
                Some(target) => target.told = false,
                None => targets.push(Target { name: seed.clone(), told: false }),
            }
        }
        targets.sort_by_key(|target| Some(&target.name) != self.reached.as_ref());
        targets
    }

    /// Records what the node itself says: these and no others. Returns true if one of them is news.
    pub(in crate::mesh) fn say(&mut self, addresses: &[String], teller: &str) -> bool {
        if addresses.is_empty() {
            return false;
        }
        let news = addresses.iter().any(|address| self.at(address).is_none());
        self.ever_known = true;
        self.known = addresses.iter().map(|address| Known::new(address, teller, true)).collect();
        if let Some(reached) = self.reached.take().filter(|_| !news) {
            self.good(&reached);
        }
        news
    }

    /// Records addresses told by another node, beside the known ones. Returns true if one is news.
    pub(in crate::mesh) fn tell(&mut self, addresses: &[String], teller: &str) -> bool {
        let mut news = false;
        let first = usize::from(self.known.first().is_some_and(|known| !known.failed));
        for address in addresses.iter().rev() {
            match self.at(address) {
                // Told again: the node may have come back there.
                Some(at) => self.known[at].failed = false,
                None => {
                    self.known
                        .insert(first.min(self.known.len()), Known::new(address, teller, false));
                    (news, self.ever_known) = (true, true);
                }
            }
        }
        self.known.sort_by_key(|known| known.failed);
        while self.known.len() > limits::ADDRESSES_KNOWN_MAX
            && let Some(last) = self.known.iter().rposition(|known| !known.own)
        {
            self.known.remove(last);
        }
        news
    }

    /// Records that the node was reached there.
    pub(in crate::mesh) fn good(&mut self, address: &str) {
        self.reached = Some(address.into());
        if let Some(at) = self.at(address) {
            self.known[at].failed = false;
            self.known[..=at].rotate_right(1);
        }
    }

    /// Records that a dial of it failed.
    pub(in crate::mesh) fn failed(&mut self, address: &str) {
        self.reached.take_if(|reached| reached == address);
        if let Some(at) = self.at(address) {
            self.known[at].failed = true;
            self.known[at..].rotate_left(1);
        }
    }

    /// Records that another node is at this address, which is forgotten.
    pub(in crate::mesh) fn forget(&mut self, address: &str) {
        self.reached.take_if(|reached| reached == address);
        self.known.retain(|known| known.address != address);
    }

    /// Returns where the node is that told this one.
    pub(in crate::mesh) fn teller(&self, address: &str) -> Option<String> {
        self.at(address).map(|at| self.known[at].teller.clone())
    }

    fn at(&self, address: &str) -> Option<usize> {
        self.known.iter().position(|known| known.address == address)
    }
}

impl Known {
    fn new(address: &str, teller: &str, own: bool) -> Self {
        Known { address: address.into(), teller: teller.into(), own, failed: false }
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

    /// Where only a seed leads to it, as behind a gateway.
    #[test]
    fn a_seed_where_it_was_reached_is_first() {
        let mut known = Addresses::default();
        let seeds = strings(&["b", "seed"]);
        let names = |known: &Addresses| -> Vec<(String, bool)> {
            known.targets(seeds.iter()).into_iter().map(|to| (to.name, to.told)).collect()
        };
        let all = |order: [(&str, bool); 3]| order.map(|(name, told)| (name.to_owned(), told));
        known.say(&strings(&["a", "b"]), "");
        assert_eq!(names(&known), all([("a", true), ("b", false), ("seed", false)]));
        known.good("seed");
        known.say(&strings(&["a", "b"]), "");
        assert_eq!(names(&known), all([("seed", false), ("a", true), ("b", false)]));
        known.failed("seed");
        assert_eq!(names(&known), all([("a", true), ("b", false), ("seed", false)]));
    }

    /// Failing addresses make way, and good ones are not crowded out.
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
        known.failed("good");
        assert!(known.tell(&strings(&["100", "101"]), ""));
        let list = self::list(&known);
        assert!(list.contains(&"good") && list.len() <= limits::ADDRESSES_KNOWN_MAX, "{list:?}");
    }
}
