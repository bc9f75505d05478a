//! The plan of a storm, which its seed decides before it begins.

use std::time::Duration;

use fastrand::Rng;
use ringpost_transport::fabric::sim::{LinkModel, Verdict};

/// A storm, as its seed wants it.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) names: Vec<String>,
    pub(super) link: LinkModel,
    /// The first cannot dial the second, and how its dials fail. The other way is open.
    pub(super) one_way: Vec<(String, String, Verdict)>,
    /// How late some dials are.
    pub(super) late: Option<Duration>,
    /// The steps, each with the pause before it.
    pub(super) steps: Vec<(Duration, Step)>,
}

/// Something that happens. Nodes are given by their names.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Start(String),
    /// Another node with a name that is in use.
    Duplicate(String),
    /// It is killed and starts again after this time.
    Restart(String, Duration),
    /// It leaves in order and starts again after this time.
    Leave(String, Duration),
    /// Nothing passes from the one to the other for this time.
    OneWay(String, String, Duration),
}

impl Plan {
    /// The plan of a seed.
    pub(super) fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x0057_0e13);
        let names: Vec<String> = ('a'..='h').map(String::from).collect();
        let link = LinkModel {
            latency: micros(&mut rng, 1..2_000),
            jitter: micros(&mut rng, 0..1_000),
            bytes_per_second: [2_000_000, 12_500_000_000][rng.usize(0..2)],
            ..LinkModel::default()
        };
        let mut order = names.clone();
        rng.shuffle(&mut order);
        // Names that are taken twice are never of nodes that cannot be dialled: the second node of
        // a name is no node's seed, and has to be able to dial.
        let (twice, once) = order.split_at(rng.usize(0..3));
        let again = &once[..rng.usize(0..3)];
        let one_way = one_way(&mut rng, once);
        let late = rng.bool().then(|| micros(&mut rng, 1..50_000));
        let spread = [0, 300, 20_000][rng.usize(0..3)];
        let mut start = names.clone();
        rng.shuffle(&mut start);
        let mut steps: Vec<_> = start
            .into_iter()
            .map(|name| (micros(&mut rng, 0..spread + 1), Step::Start(name)))
            .collect();
        let mut events: Vec<Step> = twice.iter().cloned().map(Step::Duplicate).collect();
        for name in again {
            let longest = [1_000, 4_000_000][rng.usize(0..2)];
            let wait = micros(&mut rng, 100..longest);
            let leave = rng.u32(0..3) == 0;
            events.push(if leave { Step::Leave } else { Step::Restart }(name.clone(), wait));
        }
        for _ in 0..rng.usize(0..3) {
            let (a, b) = pair(&mut rng, &names);
            events.push(Step::OneWay(a, b, micros(&mut rng, 1_000..5_000_000)));
        }
        rng.shuffle(&mut events);
        let hurry = [20, 10_000, 1_000_000][rng.usize(0..3)];
        steps.extend(events.into_iter().map(|event| (micros(&mut rng, 0..hurry), event)));
        Plan { names, link, one_way, late, steps }
    }
}

/// Pairs that can be linked in one direction only.
fn one_way(rng: &mut Rng, names: &[String]) -> Vec<(String, String, Verdict)> {
    let mut one_way = Vec::new();
    for (i, a) in names.iter().enumerate() {
        for b in &names[i + 1..] {
            let (from, to) = if rng.bool() { (a, b) } else { (b, a) };
            let verdict = if rng.bool() { Verdict::Drop } else { Verdict::Kill };
            if rng.u32(0..3) == 0 {
                one_way.push((from.clone(), to.clone(), verdict));
            }
        }
    }
    one_way
}

fn pair(rng: &mut Rng, names: &[String]) -> (String, String) {
    let a = rng.usize(0..names.len());
    let b = (a + rng.usize(1..names.len())) % names.len();
    (names[a].clone(), names[b].clone())
}

fn micros(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_micros(rng.u64(range))
}
