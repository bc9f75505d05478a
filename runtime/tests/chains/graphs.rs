//! Random graphs of calls, and a model that knows from the script alone which asks close a cycle.

use ringpost::test_kit::{self, Cluster};

use super::{Call, Heard, Step, heard, meet, name_of};
use crate::random::{Dice, Reached};

/// Clusters, unless `RINGPOST_TEST_CASES` says how many; and graphs on each.
const SEEDS: u64 = 24;
const GRAPHS: usize = 60;
const STATES: [&str; 8] = [
    "an ask",
    "an ask of the asker itself",
    "a cycle on one node",
    "a cycle over nodes",
    "a cycle of four or more",
    "a cycle closed by an ask that was handed on",
    "a cycle closed by an ask that was handed on over nodes",
    "asks side by side",
];

/// Draws the steps of a graph.
struct Draw<'a> {
    dice: &'a mut Dice,
    steps: Vec<Step>,
    left: usize,
}

impl Draw<'_> {
    /// Draws a call; `free` are the actors that no other branch asks, and `waiting` the actors that
    /// wait for its answer.
    fn step(&mut self, free: &[usize], waiting: &[usize]) -> u16 {
        let closes = !waiting.is_empty() && (free.is_empty() || self.dice.below(4) == 0);
        let to = if closes { self.dice.one_of(waiting) } else { self.dice.one_of(free) };
        let at = self.steps.len();
        let forwards = self.dice.below(5) == 0 && self.left > 0;
        self.steps.push(Step { to: to as u8, forwards, joined: false, then: Vec::new() });
        self.left = self.left.saturating_sub(1);
        if closes || self.left == 0 {
            self.steps[at].forwards = false;
            return at as u16;
        }
        if forwards {
            self.steps[at].then = vec![self.step(free, waiting)];
            return at as u16;
        }
        let mut free: Vec<usize> = free.iter().copied().filter(|one| *one != to).collect();
        let waiting = [waiting, &[to]].concat();
        let count = self.dice.below(4);
        let joined = count > 1 && self.dice.below(3) == 0;
        self.steps[at].joined = joined;
        for child in 0..count {
            let mine = if joined {
                // No branch asks an actor of another one.
                free.split_off(free.len() - free.len() / (count - child))
            } else {
                free.clone()
            };
            let next = self.step(&mine, &waiting);
            self.steps[at].then.push(next);
        }
        at as u16
    }
}

/// A graph, and where its actors live.
struct Graph {
    steps: Vec<Step>,
    node_of: Vec<usize>,
}

impl Graph {
    fn draw(dice: &mut Dice, nodes: usize) -> Self {
        let actors = 2 + dice.below(11);
        let node_of: Vec<usize> = (0..actors).map(|_| dice.below(nodes)).collect();
        let left = 1 + dice.below(24);
        let mut draw = Draw { dice, steps: Vec::new(), left };
        draw.step(&(0..actors).collect::<Vec<_>>(), &[]);
        Graph { steps: draw.steps, node_of }
    }

    fn name(&self, actor: usize) -> String {
        name_of(self.node_of[actor], actor)
    }

    /// Returns the text of a cycle of these actors, of which the last one has asked.
    fn cycle(&self, names: Vec<String>) -> String {
        let asker = names.last().unwrap().clone();
        format!("cycle: {asker} waits for {}", names.join(", which waits for "))
    }

    /// Returns the outcome of the call `at`, as its asker hears it. `from` is the actor that sends
    /// it, which asks (`asks`) or hands on; `waiting` are the waiting actors, the asker last.
    fn heard(
        &self,
        (at, from, asks): (u16, usize, bool),
        waiting: &[usize],
        reached: &mut Reached,
    ) -> Result<Vec<Heard>, String> {
        let Step { to, forwards, joined, then } = &self.steps[usize::from(at)];
        let to = usize::from(*to);
        let is_far = self.node_of[from] != self.node_of[to];
        if asks && !waiting.is_empty() && from == to {
            reached.note("an ask of the asker itself");
            return Err("an ask of itself".into());
        }
        if let Some(first) = waiting.iter().position(|one| *one == to) {
            let cycle = &waiting[first..];
            let is_far = is_far || cycle.iter().any(|one| self.node_of[*one] != self.node_of[to]);
            reached.note(if is_far { "a cycle over nodes" } else { "a cycle on one node" });
            if cycle.len() >= 4 {
                reached.note("a cycle of four or more");
            }
            if !asks {
                reached.note("a cycle closed by an ask that was handed on");
            }
            return Err(self.cycle(cycle.iter().map(|one| self.name(*one)).collect()));
        }
        if *forwards {
            return self.heard((then[0], to, false), waiting, reached).map_err(|text| {
                // Names do not come back over nodes: those are named that this node knows.
                let is_renamed = is_far && text.starts_with("cycle");
                if !is_renamed {
                    return text;
                }
                reached.note("a cycle closed by an ask that was handed on over nodes");
                let known = [to].into_iter().chain(waiting.iter().copied());
                self.cycle(known.map(|one| self.name(one)).collect())
            });
        }
        reached.note(if *joined { "asks side by side" } else { "an ask" });
        let (waiting, mut all) = ([waiting, &[to]].concat(), Vec::new());
        for next in then {
            match self.heard((*next, to, true), &waiting, reached) {
                Ok(below) => all.extend(below.into_iter().chain([Heard::answer(*next)])),
                Err(told) => all.push(Heard { at: *next, told }),
            }
        }
        Ok(all)
    }
}

async fn play(cluster: Cluster, reached: std::rc::Rc<std::cell::RefCell<Reached>>) {
    let mut dice = Dice::new(cluster.seed());
    let nodes = cluster.nodes(1 + cluster.seed() as usize % 3).await;
    cluster.settle().await;
    for number in 0..GRAPHS {
        let graph = Graph::draw(&mut dice, nodes.len());
        let actors = meet(&nodes, &graph.node_of).await;
        let root = usize::from(graph.steps[0].to);
        let (start, calls) = (cluster.now(), graph.steps.clone());
        let told = heard(0, actors[root].ask(Call { calls, at: 0 }).await);
        let expected = graph.heard((0, root, true), &[], &mut reached.borrow_mut());
        let expected = match expected {
            Ok(below) => below.into_iter().chain([Heard::answer(0)]).collect(),
            Err(told) => vec![Heard { at: 0, told }],
        };
        let what = || format!("graph {number}: {:?} on {:?}", graph.steps, graph.node_of);
        assert_eq!(told, expected, "{}", what());
        let lasted = cluster.now() - start;
        assert!(lasted < ringpost::limits::ASK_TIMEOUT / 5, "{lasted:?}, {}", what());
        for actor in actors {
            actor.stop().await.unwrap();
            actor.wait_stopped().await;
        }
    }
}

// Promised in docs/SEMANTICS.md.
#[test]
fn asks_of_random_graphs_close_the_cycles_that_the_script_says() {
    let reached = std::rc::Rc::new(std::cell::RefCell::new(Reached::new(&STATES)));
    test_kit::check(0..SEEDS, |cluster| play(cluster, reached.clone()));
    println!("{}", reached.borrow());
    let is_usual = ["RINGPOST_TEST_CASES", "RINGPOST_TEST_SEED"]
        .iter()
        .all(|variable| std::env::var_os(variable).is_none());
    let missing = reached.borrow().missing();
    assert!(!is_usual || missing.is_empty(), "not reached: {missing:?}");
}
