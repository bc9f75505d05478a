//! One scenario from start to verdict.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use ringpost_transport::endpoint::{Config, Endpoint, LinkStats, Network, Secret};
use ringpost_transport::fabric::sim::{self, World};
use ringpost_transport::id::NodeName;

use super::faults;
use super::host::TestHost;
use super::ledger::Ledger;
use super::plan::Plan;
use super::traffic::Sender;

/// SC-4: virtual time a scenario may take: several times what the longest takes that does not
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
    /// Frames that found no posted receive.
    pub rnr: u64,
}

impl Reached {
    /// The counters with their names.
    pub fn rows(&self) -> [(&'static str, u64); 9] {
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
    let ledger = Ledger::default();
    let mut hosts = Vec::new();
    let mut endpoints = Vec::new();
    for me in 0..plan.nodes.len() {
        let host = TestHost::new(me, plan.nodes.clone(), ledger.clone(), world.clone());
        let endpoint = start(&plan, me, &world, host.clone()).await;
        for number in 0..plan.mailboxes {
            let rng = Rng::with_seed(seed ^ (me as u64) << 32 ^ (number as u64) << 40);
            tokio::spawn(keep_open(host.clone(), number, plan.clone(), world.clone(), rng));
        }
        hosts.push(host);
        endpoints.push(endpoint);
    }
    let plan = Arc::new(plan);
    let mut senders = Vec::new();
    for (me, endpoint) in endpoints.iter().enumerate() {
        for number in 0..plan.senders {
            let sender = Sender {
                me,
                endpoint: endpoint.clone(),
                ledger: ledger.clone(),
                world: world.clone(),
                rng: Rng::with_seed(seed ^ 0xabc ^ (me as u64) << 8 ^ (number as u64) << 16),
            };
            let plan = plan.clone();
            senders.push(tokio::spawn(async move { sender.send(&plan).await }));
        }
    }
    faults::inflict(&world, &plan, &mut Rng::with_seed(seed ^ 0xfa17)).await;
    for sender in senders {
        sender.await.expect("a sender does not panic");
    }
    for endpoint in &endpoints {
        endpoint.shutdown(Duration::from_secs(5)).await;
    }
    conclude(&world, &ledger, &hosts, &endpoints)
}

fn conclude(
    world: &World,
    ledger: &Ledger,
    hosts: &[Arc<TestHost>],
    endpoints: &[Endpoint],
) -> Outcome {
    let mut reached = Reached { messages: ledger.total(), ..Reached::default() };
    for (host, endpoint) in hosts.iter().zip(endpoints) {
        let stats = endpoint.stats();
        stats.iter().for_each(|(_, stats)| reached.count(stats));
        let ups = host.link_ups.load(Ordering::Relaxed);
        reached.redials += ups.saturating_sub(stats.len() as u64);
    }
    reached.rnr = world.counters().rnr;
    let mut faults = ledger.verdict(&[]);
    if reached.rnr != 0 {
        faults.push(format!("SC-6: {} frames found no posted receive", reached.rnr));
    }
    Outcome { faults, reached, log: world.log_text() }
}

async fn start(plan: &Plan, me: usize, world: &World, host: Arc<TestHost>) -> Endpoint {
    let name = &plan.nodes[me];
    let (wire, fabric) = world.network(name);
    let network = Network { wire, fabrics: vec![fabric], doors: Default::default() };
    let seeds = plan.nodes.iter().filter(|n| *n != name).map(|n| format!("{n}:7700")).collect();
    let config = Config {
        name: NodeName::new(name).expect("a good name"),
        listen: Some(format!("{name}:7700")),
        advertise: Vec::new(),
        seeds,
        secret: Some(Secret::new(&[7; 32]).expect("long enough")),
        profile: plan.profiles[me].clone(),
        entropy: world.entropy(),
        network,
    };
    Endpoint::start(config, host).await.expect("a node starts")
}

/// A mailbox that is consumed, and sometimes closed and opened again.
async fn keep_open(host: Arc<TestHost>, number: usize, plan: Plan, world: World, mut rng: Rng) {
    loop {
        let inbox = host.open_mailbox(number);
        let consumer = inbox.consume(world.clone(), plan.pause_max, rng.fork());
        if plan.close_one_in == 0 {
            consumer.await;
            return;
        }
        let lifetime = Duration::from_micros(rng.u64(1..u64::from(plan.close_one_in) * 1_000));
        tokio::select! {
            biased;
            _ = consumer => return,
            () = world.sleep(lifetime) => {}
        }
        host.close_mailbox(number);
        world.sleep(Duration::from_micros(rng.u64(1..5_000))).await;
    }
}
