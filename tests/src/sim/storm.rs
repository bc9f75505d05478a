//! Dial storms: eight nodes that all dial each other at once, some of which cannot be reached from
//! some others, some of which start again, and some of whose names are taken twice.

use std::collections::BTreeSet;
use std::time::Duration;

use ringpost_transport::endpoint::Profile;
use ringpost_transport::fabric::sim::{self, On, Rule, Verdict, World};

use super::node::Node;
use super::reached::Reached;
use super::scenario::Outcome;
use plan::{Plan, Step};

mod plan;

/// Virtual time that a storm may take.
const LIMIT: Duration = Duration::from_secs(200);
/// Looks at the mesh, [`PAUSE`] apart, before it must have settled.
const LOOKS_MAX: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);
/// How long a settled mesh is watched.
const CALM: Duration = Duration::from_secs(4);
/// Sends of a node that has no link, until the error must be of a new dial: a short pause, and a
/// dial that is not answered.
const NEWS_LOOKS: u32 = 50;
/// The error of a node whose name is taken.
const TAKEN: &str = "another live node has the same name";

/// Runs the storm of a seed.
///
/// # Panics
/// When it stalls or the library panics; the message names the seed.
pub fn storm(seed: u64) -> Outcome {
    let plan = Plan::of(seed);
    sim::run_for(seed, LIMIT, |world| async move {
        let mut storm = Storm { world, plan, nodes: Vec::new(), gone: Vec::new() };
        let (mut reached, mut faults) = (Reached::default(), Vec::new());
        storm.rage(&mut reached).await;
        if let Err(fault) = storm.settle(&mut reached).await {
            faults.push(format!("ST-2: {fault}"));
        }
        storm.conclude(reached, faults)
    })
}

struct Storm {
    world: World,
    plan: Plan,
    /// Nodes that live.
    nodes: Vec<Node>,
    /// Nodes that were killed or left.
    gone: Vec<Node>,
}

impl Storm {
    async fn rage(&mut self, reached: &mut Reached) {
        let Plan { link, one_way, late, .. } = &self.plan;
        self.world.set_links(*link);
        for (from, to, verdict) in one_way {
            self.world.add_rule(Rule::new(*verdict).on(On::Dials).from(from).to(to));
        }
        if let Some(late) = late {
            let rule = Rule::new(Verdict::Delay(*late)).on(On::Dials);
            self.world.add_rule(rule.one_in(3));
        }
        for state in ["name taken twice", "restart", "leave", "one-way partition"] {
            reached.note(state, 0);
        }
        for (wait, step) in self.plan.steps.clone() {
            self.world.sleep(wait).await;
            self.step(step, reached).await;
        }
    }

    async fn step(&mut self, step: Step, reached: &mut Reached) {
        match step {
            Step::Start(name) => self.start(&name, &name).await,
            Step::Duplicate(name) => {
                reached.note("name taken twice", 1);
                self.start(&name, &format!("{name}2")).await;
            }
            Step::Restart(name, wait) => {
                reached.note("restart", 1);
                let node = self.take(&name);
                self.world.kill_node(&name);
                node.endpoint.abort();
                self.gone.push(node);
                self.world.sleep(wait).await;
                self.start(&name, &name).await;
            }
            Step::Leave(name, wait) => {
                reached.note("leave", 1);
                let node = self.take(&name);
                node.endpoint.shutdown(Duration::from_secs(1)).await;
                self.gone.push(node);
                self.world.sleep(wait).await;
                self.start(&name, &name).await;
            }
            Step::OneWay(from, to, time) => {
                reached.note("one-way partition", 1);
                self.world.partition_one_way(&from, &to);
                self.world.sleep(time).await;
                self.world.mend(&from, &to);
            }
        }
    }

    async fn start(&mut self, name: &str, place: &str) {
        let others = self.plan.names.iter().filter(|other| *other != name);
        let profile = Profile {
            ring_slots: 8,
            slot_bytes: 2048,
            credit_reserve: 2,
            down_after: Duration::from_secs(3),
            ..Profile::default()
        };
        let others = others.map(String::as_str);
        let node = Node::start(&self.world, (name, place), others, profile).await;
        self.nodes.push(node);
    }

    fn take(&mut self, place: &str) -> Node {
        let at = self.nodes.iter().position(|node| node.place == place);
        self.nodes.remove(at.expect("it was started"))
    }

    /// ST-2 and ST-3: waits until the mesh is whole, watches it for a while, and looks closely.
    async fn settle(&self, reached: &mut Reached) -> Result<(), String> {
        // A link whose frames were lost in a cut ends only when all retries have failed: until then
        // a mesh that is about to lose a link looks whole.
        self.world.sleep(self.plan.link.retry * 2).await;
        let mut looks = 0;
        while let Some(amiss) = self.amiss() {
            looks += 1;
            if looks > LOOKS_MAX {
                return Err(amiss);
            }
            self.world.sleep(PAUSE).await;
        }
        self.world.sleep(CALM).await;
        if let Some(amiss) = self.amiss() {
            return Err(format!("after it was well: {amiss}"));
        }
        self.check_connections()?;
        self.check_tells(reached).await?;
        self.amiss().map_or(Ok(()), |amiss| Err(format!("after all were told: {amiss}")))
    }

    /// Returns why the mesh is not whole.
    fn amiss(&self) -> Option<String> {
        self.pairs().find_map(|(node, name)| match self.partner(node, name) {
            Ok(Some(_)) => None,
            Ok(None) if self.is_shut_out(node, name) => None,
            Ok(None) => Some(format!("{} is not linked to {name}", node.place)),
            Err(why) => Some(why),
        })
    }

    /// Each live node with each name but its own.
    fn pairs(&self) -> impl Iterator<Item = (&Node, &str)> {
        self.nodes.iter().flat_map(|node| {
            let others = self.plan.names.iter().filter(|name| **name != node.name);
            others.map(move |name| (node, name.as_str()))
        })
    }

    /// The live node of this name that `node` is linked to, which has to be linked back.
    fn partner(&self, node: &Node, name: &str) -> Result<Option<&Node>, String> {
        let Some(id) = node.linked(name) else { return Ok(None) };
        let partner = self.nodes.iter().find(|other| *other.endpoint.id() == id);
        let partner =
            partner.ok_or_else(|| format!("{} is linked to a {name} that is gone", node.place))?;
        match partner.linked(&node.name) {
            Some(back) if back == *node.endpoint.id() => Ok(Some(partner)),
            _ => Err(format!("{} is linked to {}, not back", node.place, partner.place)),
        }
    }

    /// Returns true if a node called `name` is linked to another node with the name of `node`.
    fn is_shut_out(&self, node: &Node, name: &str) -> bool {
        let mut others = self.nodes.iter().filter(|other| other.name == name);
        others.any(|other| other.linked(&node.name).is_some_and(|id| id != *node.endpoint.id()))
    }

    /// ST-2: a pair that is linked has one connection, and every other none.
    fn check_connections(&self) -> Result<(), String> {
        let places: BTreeSet<(&str, &str)> = self
            .nodes
            .iter()
            .flat_map(|a| self.nodes.iter().map(|b| (&*a.place, &*b.place)))
            .filter(|(a, b)| a != b)
            .collect();
        let mut expected = BTreeSet::new();
        for (node, name) in self.pairs() {
            if let Some(partner) = self.partner(node, name)? {
                expected.insert((&*node.place, &*partner.place));
            }
        }
        for (a, b) in places {
            let count = self.world.connections(a, b);
            if count != usize::from(expected.contains(&(a, b))) {
                return Err(format!("{a} has {count} connections to {b}"));
            }
        }
        Ok(())
    }

    /// ST-3: a linked node is heard; a node without a link is told why.
    async fn check_tells(&self, reached: &mut Reached) -> Result<(), String> {
        reached.note("refused by name", 0);
        let tells = self.pairs().map(|(node, name)| async move {
            let linked = node.linked(name).is_some();
            let mut told = node.tell(name, "m", 64, true).await;
            // A send to a node that is down says what the last dial met, which may be older than
            // the node, and has it dialled again, soon.
            for _ in 0..NEWS_LOOKS {
                if linked || !told.as_ref().is_err_and(|why| !why.contains(TAKEN)) {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
                told = node.tell(name, "m", 64, true).await;
            }
            (node, name, linked, told)
        });
        for (node, name, linked, told) in futures::future::join_all(tells).await {
            // Two nodes whose names are both taken twice may have found each other only now, and
            // after the tell was refused.
            let is_linked = linked || node.linked(name).is_some();
            match told {
                Ok(()) if is_linked => reached.note("tell delivered", 1),
                Err(why) if !linked && why.contains(TAKEN) => reached.note("refused by name", 1),
                told => return Err(format!("{} told {name}: {told:?}", node.place)),
            }
        }
        Ok(())
    }

    fn conclude(&self, mut reached: Reached, mut faults: Vec<String>) -> Outcome {
        for node in self.nodes.iter().chain(&self.gone) {
            let seen = node.host.seen();
            reached.note("link", seen.ups);
            reached.note("link replaced", seen.replaced);
            reached.note("peer restarted", seen.restarted);
            faults.extend(seen.faults);
            // A seed refuses a node whose name another one has, and no other.
            let twice = Step::Duplicate(node.name.clone());
            if self.plan.steps.iter().all(|(_, step)| *step != twice) {
                let refused = seen.refusals.iter().map(|e| format!("ST-3: {}: {e}", node.place));
                faults.extend(refused);
            }
        }
        let counters = self.world.counters();
        reached.note("crossed dials", counters.crossed_dials);
        reached.note("dial without an answer", counters.on_dials.dropped);
        reached.note("dial refused on the way", counters.on_dials.killed);
        reached.note("dial late", counters.on_dials.delayed);
        if counters.rnr != 0 {
            faults.push(format!("SC-4: {} frames found no posted receive", counters.rnr));
        }
        Outcome { faults, reached, log: self.world.log_text(), history: String::new() }
    }
}
