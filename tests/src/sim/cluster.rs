//! Clusters whose nodes find each other by one name or by asking: they move, their name follows
//! late, some of their addresses are dead, partitions come and go, and links fail at once.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use ringpost_transport::endpoint::Profile;
use ringpost_transport::fabric::sim::{self, World};
use ringpost_transport::limits;

use super::node::Node;
use super::reached::Reached;
use super::scenario::Outcome;

/// Virtual time that a cluster may take.
const LIMIT: Duration = Duration::from_secs(1_000);
/// Virtual time in which all links stand once nothing is amiss: a look-up of the name, a pause
/// between dials, a dial that is not answered, and a link that is found silent.
const BOUND: Duration = Duration::from_secs(30 + 30 + 3 + 5);
/// Virtual time in which a node that is idle is used: dials of three dead addresses, and no pause.
const USED: Duration = Duration::from_millis(3 * 250 + 500);
const PAUSE: Duration = Duration::from_millis(100);
/// Links that two nodes may have in [`FLAPS`] when each of them fails at once.
const FLAPS_MAX: u64 = 60;
const FLAPS: Duration = Duration::from_secs(20);

/// Runs the cluster of a seed.
///
/// # Panics
/// When it stalls or the library panics; the message names the seed.
pub fn cluster(seed: u64) -> Outcome {
    sim::run_for(seed, LIMIT, |world| async move {
        let mut cluster = Cluster::new(world, seed);
        cluster.start_all().await;
        cluster.check_wants(true).await;
        for _ in 0..cluster.rng.usize(1..6) {
            cluster.step().await;
        }
        cluster.settle().await;
        cluster.conclude()
    })
}

struct Cluster {
    world: World,
    rng: Rng,
    /// The seed of all nodes is a name that leads to all of them, each itself first, as resolvers
    /// do; otherwise it is the first node, which does not move, and the others are found by asking.
    by_name: bool,
    /// Time after which unused links close.
    idle_close: Option<Duration>,
    /// Nodes that live.
    nodes: Vec<Node>,
    gone: Vec<Node>,
    /// Places that the name leads to although no node is there any more.
    stale: Vec<String>,
    places: usize,
    /// Places whose nodes were linked when they were cut off from each other.
    parted: BTreeSet<(String, String)>,
    /// Pairs that may have been reported down to each other: they were cut off, or their links
    /// failed one after the other.
    troubled: BTreeSet<(String, String)>,
    reached: Reached,
    faults: Vec<String>,
}

impl Cluster {
    fn new(world: World, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0xc1_05_7e);
        let by_name = rng.bool();
        let rests = rng.u32(0..3) == 0;
        let idle_close = rests.then(|| Duration::from_millis(rng.u64(1_000..4_000)));
        let mut reached = Reached::default();
        for state in [
            "cluster found by a name",
            "cluster found by asking",
            "node killed and moved",
            "node left and moved",
            "name that follows late",
            "name with dead addresses",
            "node with dead addresses",
            "pair cut off",
            "links that fail at once",
            "node reported down",
            "wanted link",
            "silence that no clock can add up",
            "idle link closed",
            "idle link used as it closed",
            "name answered in part",
            "node looked for, others idle",
            "idle node used after it was asked in vain",
        ] {
            reached.note(state, 0);
        }
        Cluster {
            world,
            rng,
            by_name,
            idle_close,
            nodes: Vec::new(),
            gone: Vec::new(),
            stale: Vec::new(),
            places: 0,
            parted: BTreeSet::new(),
            troubled: BTreeSet::new(),
            reached,
            faults: Vec::new(),
        }
    }

    async fn start_all(&mut self) {
        let count = self.rng.usize(3..7);
        self.world.silence_dead_addresses();
        self.reached.note("cluster found by a name", u64::from(self.by_name));
        self.reached.note("cluster found by asking", u64::from(!self.by_name));
        for name in ('a'..='f').take(count).map(String::from) {
            self.start(&name).await;
            self.follow();
            self.wait(0..2_000).await;
        }
        self.wait_for_links().await;
    }

    /// Starts a node at a new place; the first node keeps its place.
    async fn start(&mut self, name: &str) {
        let place = if name == "a" { "a".to_owned() } else { format!("{name}{}", self.places) };
        self.places += 1;
        self.check_silence(name, &place).await;
        let idle_close = self.idle_close;
        // Where idle nodes may be asked, a round of dials that are not answered fits in.
        let down_after = Duration::from_secs(if idle_close.is_some() { 8 } else { 3 });
        let profile = Profile { down_after, idle_close, ..Profile::small() };
        let seed = match (self.by_name, name) {
            // It has to lead somewhere before it is looked up.
            (true, _) => {
                self.name_from(name, &[&place]);
                Some(format!("cluster-{name}"))
            }
            (false, "a") => None,
            (false, _) => Some("a".to_owned()),
        };
        let dead = self.rng.usize(0..4);
        self.reached.note("node with dead addresses", u64::from(dead > 0));
        let mut advertise: Vec<String> = (0..dead).map(|at| format!("dead{at}:1")).collect();
        advertise.push(format!("{place}:7700"));
        let seed = seed.as_deref();
        let node = Node::advertising(&self.world, (name, &place), seed, profile, advertise).await;
        self.nodes.push(node);
    }

    /// CL-5: tries some nodes with a silence that would end the task that adds it to the time.
    async fn check_silence(&mut self, name: &str, place: &str) {
        if self.rng.u32(0..8) > 0 {
            return;
        }
        self.reached.note("silence that no clock can add up", 1);
        let down_after =
            [Duration::MAX, Duration::from_secs(i64::MAX as u64)][self.rng.usize(0..2)];
        let profile = Profile { down_after, ..Profile::small() };
        let elsewhere = format!("{place}x");
        if Node::starts_with(&self.world, (name, &elsewhere), profile).await {
            self.faults.push(format!("CL-5: {name} started with a silence of {down_after:?}"));
        }
    }

    /// Makes the name lead to the places of the nodes, in some order, and to a few dead places.
    fn follow(&mut self) {
        let dead = self.rng.usize(0..3).min(self.stale.len());
        self.reached.note("name with dead addresses", u64::from(dead > 0));
        let places = self.nodes.iter().map(|node| &node.place).chain(&self.stale[..dead]);
        let mut places: Vec<&str> = places.map(String::as_str).collect();
        self.rng.shuffle(&mut places);
        for node in &self.nodes {
            places.sort_by_key(|place| *place != node.place);
            self.name_from(&node.name, &places);
        }
    }

    /// Makes the name that the node `name` looks up lead to these.
    fn name_from(&self, name: &str, places: &[&str]) {
        let addresses: Vec<String> = places.iter().map(|place| format!("{place}:7700")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        self.world.set_name(&format!("cluster-{name}:7700"), &addresses);
    }

    async fn wait(&mut self, millis: std::ops::Range<u64>) {
        let wait = Duration::from_millis(self.rng.u64(millis));
        self.world.sleep(wait).await;
    }

    async fn step(&mut self) {
        self.wait(0..20_000).await;
        match self.rng.u32(0..4) {
            0 | 1 => self.move_one().await,
            2 => self.cut_off().await,
            _ => self.flap().await,
        }
    }

    /// Ends a node, in order or not, and starts it again elsewhere.
    async fn move_one(&mut self) {
        let at = self.rng.usize(0..self.nodes.len());
        let node = self.nodes.remove(at);
        let left = self.rng.bool();
        self.reached.note("node left and moved", u64::from(left));
        self.reached.note("node killed and moved", u64::from(!left));
        if left {
            node.endpoint.shutdown(Duration::from_secs(1)).await;
        } else {
            self.world.kill_node(&node.place);
            node.endpoint.abort();
        }
        let name = node.name.clone();
        if name != "a" {
            self.stale.insert(0, node.place.clone());
        }
        self.gone.push(node);
        self.wait(0..15_000).await;
        self.start(&name).await;
        if self.rng.bool() {
            self.reached.note("name that follows late", 1);
            self.wait(0..20_000).await;
        }
        self.follow();
    }

    fn pair(&mut self) -> (String, String) {
        let one = self.rng.usize(0..self.nodes.len());
        let other = (one + self.rng.usize(1..self.nodes.len())) % self.nodes.len();
        let (one, other) = (&self.nodes[one], &self.nodes[other]);
        for (a, b) in [(one, other), (other, one)] {
            self.troubled.insert((a.name.clone(), b.name.clone()));
        }
        (one.place.clone(), other.place.clone())
    }

    async fn cut_off(&mut self) {
        let (one, other) = self.pair();
        let find = |place: &str| self.nodes.iter().find(|node| node.place == place);
        if let (Some(node), Some(peer)) = (find(&one), find(&other))
            && node.linked(&peer.name).is_some()
        {
            self.reached.note("pair cut off", 1);
            self.parted.insert((one.clone(), other.clone()));
        }
        self.world.partition(&one, &other);
        self.wait(100..60_000).await;
        self.world.mend(&one, &other);
    }

    /// Severs each link of a pair within some milliseconds, for a while.
    async fn flap(&mut self) {
        let (one, other) = self.pair();
        let find = |place: &str| self.nodes.iter().find(|node| node.place == place);
        let (Some(node), Some(peer)) = (find(&one), find(&other)) else { return };
        let before = node.host.ups_of(&peer.name);
        let end = self.world.now() + FLAPS.as_nanos() as u64;
        while self.world.now() < end {
            if node.linked(&peer.name).is_some() {
                self.world.sever_streams(&one, &other);
            }
            self.world.sleep(Duration::from_millis(5)).await;
        }
        let links = node.host.ups_of(&peer.name) - before;
        self.reached.note("links that fail at once", u64::from(links > 1));
        if links > FLAPS_MAX {
            self.faults.push(format!("CL-3: {links} links that failed at once in {FLAPS:?}"));
        }
    }

    /// CL-1 and CL-2: nothing is amiss any more.
    async fn settle(&mut self) {
        self.follow();
        self.wait_for_links().await;
        self.check_wants(false).await;
        self.wait(0..10_000).await;
        if let Some(amiss) = self.amiss() {
            self.faults.push(format!("CL-1: after it was well: {amiss}"));
        }
        if let Some(idle_close) = self.idle_close {
            self.use_as_they_close(idle_close).await;
            self.let_rest(idle_close).await;
            self.look_for_one().await;
        }
    }

    /// CL-6: asks of nodes that were met are answered even as links close.
    async fn use_as_they_close(&mut self, idle_close: Duration) {
        let rng = &mut self.rng;
        let pairs = self.nodes.iter().flat_map(|one| self.nodes.iter().map(move |two| (one, two)));
        let pairs: Vec<_> = pairs
            .filter(|(one, two)| one.name != two.name && one.knows(two))
            .map(|(one, two)| (one, two, rng.fork()))
            .filter(|(_, _, rng)| rng.clone().u32(0..3) == 0)
            .collect();
        let world = &self.world;
        let beat = limits::HEARTBEAT_INTERVAL.as_micros() as u64;
        let asked = pairs.into_iter().map(|(node, other, mut rng)| async move {
            let (mut used, mut fault) = (0, None);
            for _ in 0..20 {
                if let Err(why) = node.ask(&other.name, "m").await {
                    fault = Some(format!("CL-6: {} asked {}: {why}", node.place, other.place));
                }
                // It closes at one of the next looks, a heartbeat or more from the last link's.
                let looks = idle_close.as_micros() as u64 / beat + rng.u64(0..3);
                world.sleep(Duration::from_micros(looks * beat)).await;
                // In the midst of the exchange, if there is one: the link ends within it.
                let before = node.host.is_idle(other.endpoint.id());
                world.sleep(Duration::from_micros(rng.u64(0..100))).await;
                used += u64::from(before != node.host.is_idle(other.endpoint.id()));
            }
            (used, fault)
        });
        for (used, fault) in futures::future::join_all(asked).await {
            self.reached.note("idle link used as it closed", used);
            self.faults.extend(fault);
        }
    }

    /// CL-6: unused links are closed, and not made again.
    async fn let_rest(&mut self, idle_close: Duration) {
        let beat = limits::HEARTBEAT_INTERVAL;
        // A name may still lead to a place that was not met there.
        self.world.sleep(BOUND + 2 * (idle_close + 2 * beat)).await;
        let ups = |node: &Node, other: &Node| node.host.ups_of(&other.name);
        let before: Vec<u64> = self.pairs().map(|(node, other)| ups(node, other)).collect();
        for _ in 0..3 {
            self.answer_in_part();
            self.world.sleep(Duration::from_secs(35)).await;
        }
        let faults: Vec<String> = self
            .pairs()
            .zip(before)
            // Links to seeds that lead to others only are kept.
            .filter(|((node, other), _)| self.by_name || (node.name != "a" && other.name != "a"))
            .filter(|((node, other), before)| {
                node.linked(&other.name).is_some() || ups(node, other) != *before
            })
            .map(|((node, other), _)| {
                format!("CL-6: {} is linked to {}, which it does not use", node.place, other.place)
            })
            .collect();
        self.faults.extend(faults);
    }

    /// Makes the name lead to some of the nodes only.
    fn answer_in_part(&mut self) {
        let mut places: Vec<&str> = self.nodes.iter().map(|node| node.place.as_str()).collect();
        self.rng.shuffle(&mut places);
        places.truncate(self.rng.usize(1..=places.len()));
        self.reached.note("name answered in part", u64::from(places.len() < self.nodes.len()));
        for node in &self.nodes {
            self.name_from(&node.name, &places);
        }
    }

    /// CL-4: a node that is cut off from all and looks for one of them reports no idle node down.
    async fn look_for_one(&mut self) {
        let (place, one) = self.pair();
        let others = self.nodes.iter().filter(|node| node.place != place);
        let others: Vec<String> = others.map(|node| node.place.clone()).collect();
        others.iter().for_each(|other| self.world.partition(&place, other));
        let find = |place: &str| self.nodes.iter().find(|node| node.place == place);
        let (Some(node), Some(other)) = (find(&place), find(&one)) else { return };
        // Nodes whose links are not idle are missed.
        let is_idle = |other: &&Node| node.host.is_idle(other.endpoint.id());
        let (idle, missed): (Vec<_>, Vec<_>) =
            self.nodes.iter().filter(|other| other.place != place).partition(is_idle);
        if node.ask(&other.name, "m").await.is_ok() {
            self.faults.push(format!("CL-4: {place} asked {one}, from which it is cut off"));
        }
        let asked = idle.iter().find(|asked| asked.place != one);
        if let Some(asked) = asked.filter(|_| self.rng.bool()) {
            // CL-2: at the first try, however often it was dialled to be asked.
            for number in 0..self.rng.u32(0..5) {
                let _ = node.ask(&format!("none{number}"), "m").await;
            }
            // No dial to ask it is under way any more.
            self.world.sleep(Duration::from_secs(10)).await;
            self.world.mend(&place, &asked.place);
            self.reached.note("idle node used after it was asked in vain", 1);
            let began = self.world.now();
            let told = node.ask(&asked.name, "m").await;
            let took = Duration::from_nanos(self.world.now() - began);
            if told.is_err() || took > USED {
                let asked = &asked.place;
                self.faults.push(format!("CL-2: {place} asked {asked} in {took:?}: {told:?}"));
            }
        }
        self.world.sleep(Duration::from_secs(60)).await;
        self.reached.note("node looked for, others idle", u64::from(idle.len() > 1));
        for other in missed {
            for (a, b) in [(&node.name, &other.name), (&other.name, &node.name)] {
                self.troubled.insert((a.clone(), b.clone()));
            }
        }
    }

    /// CL-1: waits until the links stand that need no sender: all links if the seed is a name,
    /// otherwise links to the seed.
    async fn wait_for_links(&mut self) {
        let end = self.world.now() + BOUND.as_nanos() as u64;
        while let Some(amiss) = self.amiss() {
            if self.world.now() > end {
                return self.faults.push(format!("CL-1: {BOUND:?} after all was well: {amiss}"));
            }
            self.world.sleep(PAUSE).await;
        }
    }

    fn amiss(&self) -> Option<String> {
        self.pairs().find_map(|(node, other)| {
            let kept = !self.by_name && (node.name == "a" || other.name == "a");
            let seeded = self.by_name || kept;
            let parted = self.parted.contains(&(node.place.clone(), other.place.clone()));
            let lacks = (seeded || parted)
                && node.linked(&other.name).as_ref() != Some(other.endpoint.id())
                && (kept || !node.host.is_idle(other.endpoint.id()));
            lacks.then(|| format!("{} is not linked to {}", node.place, other.place))
        })
    }

    fn pairs(&self) -> impl Iterator<Item = (&Node, &Node)> {
        let others = |node| self.nodes.iter().map(move |other| (node, other));
        self.nodes.iter().flat_map(others).filter(|(node, other)| node.name != other.name)
    }

    /// CL-2: each link that a sender wants comes about: at the first try where the node is met for
    /// the `first` time.
    async fn check_wants(&mut self, first: bool) {
        let rng = &mut self.rng;
        let wants = self.nodes.iter().flat_map(|one| self.nodes.iter().map(move |two| (one, two)));
        let wants: Vec<_> = wants.filter(|(one, two)| one.name < two.name && rng.bool()).collect();
        self.reached.note("wanted link", wants.len() as u64);
        let world = &self.world;
        let told = wants.into_iter().map(|(node, other)| async move {
            let began = world.now();
            loop {
                match node.tell(&other.name, "m", 64, true).await {
                    Ok(()) => return None,
                    Err(why) if first || world.now() - began > BOUND.as_nanos() as u64 => {
                        return Some(format!("CL-2: {} told {}: {why}", node.place, other.place));
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        });
        let told = futures::future::join_all(told).await;
        self.faults.extend(told.into_iter().flatten());
    }

    fn conclude(mut self) -> Outcome {
        let gone: Vec<_> = self.gone.iter().map(|node| node.endpoint.id().clone()).collect();
        for node in self.nodes.iter().chain(&self.gone) {
            let seen = node.host.seen();
            self.reached.note("node reported down", seen.downs.len() as u64);
            self.reached.note("idle link closed", seen.idle_ends);
            self.faults.extend(seen.faults);
            let refused =
                seen.refusals.iter().map(|error| format!("CL-4: {}: {error}", node.place));
            self.faults.extend(refused);
            let healthy = seen.downs.iter().filter(|down| {
                let pair = (node.name.clone(), down.name.to_string());
                !gone.contains(down) && !self.troubled.contains(&pair)
            });
            let fault = |down| format!("CL-4: {} took {down:?} for down", node.place);
            self.faults.extend(healthy.map(fault));
        }
        let (faults, reached) = (self.faults, self.reached);
        Outcome { faults, reached, log: self.world.log_text(), history: String::new() }
    }
}
