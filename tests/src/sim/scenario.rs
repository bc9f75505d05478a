//! One scenario from start to verdict.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use ringpost_transport::endpoint::LinkStats;
use ringpost_transport::fabric::sim::{self, World};

use super::diary::{self, Diary};
use super::faults;
use super::life::{Life, Setting};
use super::message::Run;
use super::plan::Plan;

/// SC-3: virtual time a scenario may take: several times what the longest takes that does not
/// stall.
const LIMIT: Duration = Duration::from_secs(60);

/// How often the states that are hard to reach were reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// Messages that arrived.
    pub messages: u64,
    /// A fragmented message was cut by the loss of its link.
    pub fragments_cut: u64,
    /// A frame that only returned credits.
    pub credit_frames: u64,
    /// A sender waited for a window.
    pub window_stalls: u64,
    /// Messages waited for credits.
    pub credit_stalls: u64,
    /// A message was refused.
    pub refusals: u64,
    /// A link's count of frames wrapped around.
    pub count_wraps: u64,
    /// A link was replaced by another.
    pub redials: u64,
    /// A payload was copied out, because less than a quarter of the pool was spare.
    pub pool_low: u64,
    /// A node was killed and started again.
    pub kills: u64,
    /// Frames that found no posted receive.
    pub rnr: u64,
}

impl Reached {
    /// The counters with their names.
    pub fn rows(&self) -> [(&'static str, u64); 10] {
        [
            ("messages", self.messages),
            ("fragment cut by link loss", self.fragments_cut),
            ("credit-only frame", self.credit_frames),
            ("sender blocked on window", self.window_stalls),
            ("sender blocked on credits", self.credit_stalls),
            ("refusal", self.refusals),
            ("counter wrap", self.count_wraps),
            ("redial", self.redials),
            ("pool under a quarter", self.pool_low),
            ("node killed", self.kills),
        ]
    }

    /// Adds another scenario's.
    pub fn add(&mut self, other: &Reached) {
        self.messages += other.messages;
        self.fragments_cut += other.fragments_cut;
        self.credit_frames += other.credit_frames;
        self.window_stalls += other.window_stalls;
        self.credit_stalls += other.credit_stalls;
        self.refusals += other.refusals;
        self.count_wraps += other.count_wraps;
        self.redials += other.redials;
        self.pool_low += other.pool_low;
        self.kills += other.kills;
        self.rnr += other.rnr;
    }

    fn count(&mut self, stats: &LinkStats) {
        self.fragments_cut += stats.fragments_cut;
        self.credit_frames += stats.credit_frames_sent;
        self.window_stalls += stats.window_stalls;
        self.credit_stalls += stats.credit_stalls;
        self.refusals += stats.refusals;
        self.count_wraps += stats.count_wraps;
        self.pool_low += stats.copied_out;
    }
}

/// How a scenario went.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was broken; empty when all was well.
    pub faults: Vec<String>,
    /// What it reached.
    pub reached: Reached,
    /// The event log.
    pub log: String,
    /// What the nodes wrote down, one log after the other.
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
    let setting = Setting { seed, plan: Arc::new(plan), world };
    let mut lives = Vec::new();
    for node in 0..setting.plan.nodes.len() {
        lives.push(Life::start(&setting, Run { node, number: 1 }).await);
    }
    lives.iter_mut().for_each(|life| life.send(&setting));
    let mut rng = Rng::with_seed(seed ^ 0xfa17);
    let killed = faults::inflict(&setting, &mut lives, &mut rng).await;
    for life in &mut lives {
        life.fall_quiet().await;
    }
    for life in &lives {
        life.end().await;
    }
    let mut reached = Reached { kills: killed.len() as u64, ..Reached::default() };
    lives.extend(killed);
    conclude(&setting.world, &lives, &mut reached)
}

fn conclude(world: &World, lives: &[Life], reached: &mut Reached) -> Outcome {
    let diaries: Vec<Diary> = lives.iter().map(|life| life.diary.clone()).collect();
    let (mut faults, verdict, history) = diary::conclude(&diaries);
    reached.messages = verdict.handled;
    for life in lives {
        let (stats, redials) = life.links();
        stats.iter().for_each(|stats| reached.count(stats));
        reached.redials += redials;
    }
    reached.rnr = world.counters().rnr;
    if reached.rnr != 0 {
        faults.push(format!("SC-4: {} frames found no posted receive", reached.rnr));
    }
    Outcome { faults, reached: *reached, log: world.log_text(), history }
}
