//! One scenario from start to verdict.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures::future::join_all;
use ringpost_transport::endpoint::LinkStats;
use ringpost_transport::fabric::sim::{self, World};

use super::diary::{self, Diary};
use super::faults;
use super::life::Life;
use super::message::Run;
use super::plan::Plan;
use super::reached::Reached;
use super::shared::{Setting, Shared, State};

/// Virtual time a scenario may take: several times what the longest takes that does not
/// stall.
const LIMIT: Duration = Duration::from_secs(60);

/// Longer than any scenario.
const NEVER: Duration = Duration::from_secs(60 * 60);

/// Virtual time in which each message that is committed is on its way, unless a wake-up was lost:
/// much more than the slowest path takes for all windows.
const SENT_AFTER: Duration = Duration::from_secs(1);

/// How a scenario went.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The broken rules; empty when all was well.
    pub faults: Vec<String>,
    /// The states that it reached.
    pub reached: Reached,
    /// The event log.
    pub log: String,
    /// The logs of the nodes, one after the other.
    pub history: String,
}

/// Runs the scenario of a seed.
///
/// # Panics
/// When it stalls or the library panics; the message names the seed.
pub fn run(seed: u64) -> Outcome {
    let plan = Plan::of(seed);
    sim::run_for(seed, LIMIT, |world| async move { play(seed, plan, world).await })
}

async fn play(seed: u64, plan: Plan, world: World) -> Outcome {
    world.set_links(plan.link);
    if !plan.wakes.heartbeats {
        world.set_heartbeat_interval(NEVER);
    }
    if plan.wakes.idle {
        world.wake_when_idle();
    }
    let shared = Arc::new(Shared::new(plan.faults == 0, State::OF_TRAFFIC));
    let setting = Setting { seed, plan: Arc::new(plan), world, shared };
    let mut lives = Vec::new();
    for node in 0..setting.plan.nodes.len() {
        lives.push(Life::start(&setting, Run { node, number: 1 }).await);
    }
    lives.iter_mut().for_each(|life| life.send(&setting));
    let mut rng = Rng::with_seed(seed ^ 0xfa17);
    let mut reached = Reached::default();
    let killed = faults::inflict(&setting, &mut lives, &mut reached, &mut rng).await;
    for life in &mut lives {
        life.fall_quiet().await;
    }
    check_sent(&setting, &lives).await;
    for life in lives.iter_mut().skip(1) {
        life.part(&setting);
    }
    for life in &mut lives {
        life.fall_quiet().await;
    }
    note_goodbyes(&lives, &mut reached);
    setting.shared.end();
    if setting.plan.farewell.together {
        join_all(lives.iter().map(|life| life.end(&setting))).await;
    } else {
        for life in &lives {
            life.end(&setting).await;
        }
    }
    lives.extend(killed);
    conclude(&setting, &lives, reached)
}

fn conclude(setting: &Setting, lives: &[Life], mut reached: Reached) -> Outcome {
    let Setting { world, shared, .. } = setting;
    let diaries: Vec<Diary> = lives.iter().map(|life| life.diary.clone()).collect();
    let (mut faults, verdict, history) = diary::conclude(&diaries);
    faults.extend(shared.conclude(&mut reached));
    reached.note("message handled", verdict.handled);
    reached.note("fate unknown", verdict.unknown);
    for life in lives {
        let (stats, redials) = life.links();
        stats.iter().for_each(|stats| note_link(&mut reached, stats));
        reached.note("redial", redials);
    }
    let counters = world.counters();
    reached.note_met(&counters);
    if counters.rnr != 0 {
        faults.push(format!("SC-4: {} frames found no posted receive", counters.rnr));
    }
    if counters.overdue != 0 {
        faults.push(format!("SC-10: {} frames waited for no wake-up", counters.overdue));
    }
    Outcome { faults, reached, log: world.log_text(), history }
}

/// SC-10: even without heartbeats, no message is left behind that could be sent.
async fn check_sent(Setting { plan, world, shared, .. }: &Setting, lives: &[Life]) {
    if plan.wakes.heartbeats {
        return;
    }
    world.sleep(SENT_AFTER).await;
    for life in lives {
        let queued = life.queued();
        if queued > 0 {
            let node = life.diary.run().node;
            shared.fault(format!("SC-10: node {node} has not sent {queued} messages"));
        }
    }
}

/// Notes the nodes that have more messages for the first one, which is about to say goodbye, than
/// it has slots.
fn note_goodbyes(lives: &[Life], reached: &mut Reached) {
    let waits = lives[1..].iter().filter(|life| life.waits_for_credits(&lives[0]));
    reached.note("goodbye to a peer that waits for credits", waits.count() as u64);
}

fn note_link(reached: &mut Reached, stats: &LinkStats) {
    reached.note("fragment cut by link loss", stats.fragments_cut);
    reached.note("message fetched", stats.fetches.fetched);
    reached.note("fetch refused", stats.fetches.refused);
    reached.note("message lent", stats.fetches.loans.lent);
    reached.note("loan without room", stats.fetches.loans.no_room);
    reached.note("loan not tried after others failed", stats.fetches.loans.paused);
    reached.note("credit-only frame", stats.credit_frames_sent);
    reached.note("sender blocked on window", stats.window_stalls);
    reached.note("sender blocked on the link's window", u64::from(stats.waits.link_us > 0));
    reached.note("sender blocked on credits", stats.credit_stalls);
    reached.note("refusal", stats.refusals);
    reached.note("counter wrap", stats.count_wraps);
    reached.note("pool under a quarter", stats.copied_out);
    reached.note("ring grew", stats.rings.growths);
    reached.note("ring grew to its bound", stats.rings.at_bound);
    reached.note("ring or send slots could not grow", stats.rings.growths_refused);
}
