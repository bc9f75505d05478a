//! Faults of a scenario: when the seed wants them.

use std::time::Duration;

use fastrand::Rng;
use ringpost_transport::fabric::Status;
use ringpost_transport::fabric::sim::{Rule, Verdict, World};

use super::plan::Plan;

/// Brings the plan's faults over the world, one after the other, and takes them all away at the
/// end.
pub(super) async fn inflict(world: &World, plan: &Plan, rng: &mut Rng) {
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
}

fn pair<'a>(plan: &'a Plan, rng: &mut Rng) -> (&'a str, &'a str) {
    let a = rng.usize(0..plan.nodes.len());
    let b = (a + rng.usize(1..plan.nodes.len())) % plan.nodes.len();
    (&plan.nodes[a], &plan.nodes[b])
}
