//! Faults of a scenario: when the seed wants them.

use std::time::Duration;

use fastrand::Rng;
use ringpost_transport::fabric::Status;
use ringpost_transport::fabric::sim::{Rule, Verdict};

use super::life::{Life, Setting};
use super::message::Run;
use super::plan::Plan;

/// Brings the plan's faults over the world, one after the other, and takes them all away at the
/// end. Gives the lives that were killed; others are in their place.
pub(super) async fn inflict(setting: &Setting, lives: &mut [Life], rng: &mut Rng) -> Vec<Life> {
    let Setting { plan, world, .. } = setting;
    let mut killed = Vec::new();
    for _ in 0..plan.faults {
        world.sleep(Duration::from_micros(rng.u64(10..400_000))).await;
        let (a, b) = pair(plan, rng);
        match rng.u32(0..8) {
            0 => world.sever_data(a, b),
            1 => world.sever_streams(a, b),
            2 => {
                world.partition(a, b);
                world.sleep(Duration::from_millis(rng.u64(1..6_000))).await;
                world.mend(a, b);
            }
            7 => {
                let node = rng.usize(0..lives.len());
                killed.push(replace(setting, &mut lives[node], rng).await);
            }
            kind => {
                let verdict = match kind {
                    3 => Verdict::Drop,
                    4 => Verdict::Kill,
                    5 => Verdict::Fail(Status::RetryExceeded),
                    _ => Verdict::Delay(Duration::from_micros(rng.u64(1..30_000))),
                };
                let times = if matches!(verdict, Verdict::Delay(_)) { 20 } else { 1 };
                let one_in = rng.u32(1..40);
                world.add_rule(Rule::new(verdict).from(a).to(b).one_in(one_in).times(times));
            }
        }
    }
    world.sleep(Duration::from_millis(500)).await;
    world.clear_rules();
    killed
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
