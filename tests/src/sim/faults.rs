//! Faults of a scenario: when the seed wants them.

use std::time::Duration;

use fastrand::Rng;
use ringpost_transport::fabric::Status;
use ringpost_transport::fabric::sim::{On, Rule, Verdict, World};

use super::life::Life;
use super::message::Run;
use super::plan::Plan;
use super::reached::Reached;
use super::shared::Setting;

/// Inflicts the plan's faults on the world, one after the other, and takes them all away at the
/// end. Returns the lives that were killed; others are in their place.
pub(super) async fn inflict(
    setting: &Setting,
    lives: &mut [Life],
    reached: &mut Reached,
    rng: &mut Rng,
) -> Vec<Life> {
    let Setting { plan, world, .. } = setting;
    let mut killed = Vec::new();
    for state in LASTING {
        reached.note(state, 0);
    }
    for _ in 0..plan.faults {
        world.sleep(Duration::from_micros(rng.u64(10..400_000))).await;
        let (a, b) = pair(plan, rng);
        match rng.u32(0..20) {
            0 | 1 => world.sever_data(a, b),
            2 | 3 => world.sever_streams(a, b),
            kind @ 4..8 => last(world, kind as usize - 4, (a, b), reached, rng).await,
            8 | 9 => {
                let node = rng.usize(0..lives.len());
                killed.push(replace(setting, &mut lives[node], rng).await);
            }
            10..16 => {
                let verdict = verdict(rng);
                let times = if matches!(verdict, Verdict::Delay(_)) { 20 } else { 1 };
                let one_in = rng.u32(1..40);
                world.add_rule(Rule::new(verdict).from(a).to(b).one_in(one_in).times(times));
            }
            16 | 17 => {
                let rule = Rule::new(verdict(rng)).on(On::Dials).from(a).to(b);
                world.add_rule(rule.times(rng.u32(1..4)));
                world.sever_streams(a, b);
            }
            _ => spoil_bytes(world, (a, b), rng),
        }
    }
    world.sleep(Duration::from_millis(500)).await;
    world.clear_rules();
    reached.note("node killed", killed.len() as u64);
    killed
}

/// Faults that last for a while.
const LASTING: [&str; 4] = ["partition", "one-way partition", "node paused", "device lost"];

async fn last(
    world: &World,
    kind: usize,
    (a, b): (&str, &str),
    reached: &mut Reached,
    rng: &mut Rng,
) {
    reached.note(LASTING[kind], 1);
    match kind {
        0 => world.partition(a, b),
        1 => world.partition_one_way(a, b),
        2 => world.pause(a),
        _ => world.lose_device(a),
    }
    world.sleep(Duration::from_micros(rng.u64(1_000..6_000_000))).await;
    match kind {
        0 | 1 => world.mend(a, b),
        2 => world.resume(a),
        _ => world.return_device(a),
    }
}

/// Spoils a stream: at once, or the next one at some byte of its handshake.
fn spoil_bytes(world: &World, (a, b): (&str, &str), rng: &mut Rng) {
    let rule = Rule::new(verdict(rng)).on(On::Bytes).from(a).to(b).times(1);
    if rng.bool() {
        return world.add_rule(rule);
    }
    let byte = rng.u64(0..700);
    world.add_rule(rule.only(byte..byte + 1));
    world.sever_streams(a, b);
}

/// Returns a rule about one frame that is posted soon.
pub(super) fn one_frame(from: &str, to: &str, rng: &mut Rng) -> Rule {
    Rule::new(verdict(rng)).from(from).to(to).one_in(rng.u32(1..40)).times(1)
}

fn verdict(rng: &mut Rng) -> Verdict {
    match rng.u32(0..5) {
        0 => Verdict::Drop,
        1 => Verdict::Kill,
        2 => {
            let statuses = [Status::RetryExceeded, Status::PortDown, Status::Fatal];
            Verdict::Fail(statuses[rng.usize(0..3)])
        }
        3 => Verdict::Unanswered,
        _ => Verdict::Delay(Duration::from_micros(rng.u64(1..30_000))),
    }
}

/// Kills a node, which starts again later, sometimes when it has long been given up.
async fn replace(setting: &Setting, life: &mut Life, rng: &mut Rng) -> Life {
    life.kill(setting);
    let longest = [1_000, 100_000, 12_000_000][rng.usize(0..3)];
    setting.world.sleep(Duration::from_micros(rng.u64(1..longest))).await;
    let Run { node, number } = life.diary.run();
    let mut next = Life::start(setting, Run { node, number: number + 1 }).await;
    next.send(setting);
    std::mem::replace(life, next)
}

fn pair<'a>(plan: &'a Plan, rng: &mut Rng) -> (&'a str, &'a str) {
    let a = rng.usize(0..plan.nodes.len());
    let b = (a + rng.usize(1..plan.nodes.len())) % plan.nodes.len();
    (&plan.nodes[a], &plan.nodes[b])
}
