//! One run of a node in a scenario: its mailboxes and its senders, until it ends or is killed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use ringpost_transport::endpoint::{Config, Endpoint, LinkStats, Network, Secret};
use ringpost_transport::id::NodeName;
use tokio::task::JoinHandle;

use super::diary::Diary;
use super::host::TestHost;
use super::message::Run;
use super::shared::Setting;
use super::traffic::{Lines, Sender};

/// Virtual time that a node may take to leave: many times what the slowest path needs for all
/// windows.
const PATIENCE: Duration = Duration::from_secs(5);

/// A run of a node.
pub(super) struct Life {
    pub(super) diary: Diary,
    host: Arc<TestHost>,
    endpoint: Endpoint,
    mailboxes: Vec<JoinHandle<()>>,
    senders: Vec<JoinHandle<()>>,
}

impl Life {
    /// Starts it: its mailboxes, then its network.
    pub(super) async fn start(setting: &Setting, run: Run) -> Self {
        let Setting { seed, plan, .. } = setting;
        let diary = Diary::start(run, &plan.nodes, plan.mailboxes);
        let host = TestHost::new(setting.clone(), diary.clone());
        // Another run of a node does other things.
        let seed = seed ^ u64::from(run.number - 1) << 48;
        let mailboxes = (0..plan.mailboxes).map(|number| {
            let rng = Rng::with_seed(seed ^ (run.node as u64) << 32 ^ (number as u64) << 40);
            tokio::spawn(keep_open(host.clone(), number, setting.clone(), rng))
        });
        let mailboxes = mailboxes.collect();
        let endpoint = connect(setting, run.node, host.clone()).await;
        host.born(endpoint.id().incarnation);
        Life { diary, host, endpoint, mailboxes, senders: Vec::new() }
    }

    /// Starts its senders.
    pub(super) fn send(&mut self, setting: &Setting) {
        let senders = self.senders(setting, 0xabc);
        self.senders.extend(senders.map(|sender| tokio::spawn(sender.send())));
    }

    /// Starts senders of its last tells.
    pub(super) fn part(&mut self, setting: &Setting) {
        let senders = self.senders(setting, 0xdef);
        self.senders.extend(senders.map(|sender| tokio::spawn(sender.part())));
    }

    fn senders(&self, setting: &Setting, salt: u64) -> impl Iterator<Item = Sender> + use<> {
        let Run { node, number: run } = self.diary.run();
        let seed = setting.seed ^ u64::from(run - 1) << 48 ^ salt ^ (node as u64) << 8;
        let (setting, lines) = (setting.clone(), Lines::default());
        let (endpoint, diary) = (self.endpoint.clone(), self.diary.clone());
        let downs = self.host.downs.clone();
        (0..setting.plan.senders).map(move |number| Sender {
            setting: setting.clone(),
            endpoint: endpoint.clone(),
            diary: diary.clone(),
            lines: lines.clone(),
            downs: downs.clone(),
            remotes: HashMap::new(),
            rng: Rng::with_seed(seed ^ (number as u64) << 16),
        })
    }

    /// Waits for the last of its senders.
    pub(super) async fn fall_quiet(&mut self) {
        for sender in self.senders.drain(..) {
            sender.await.expect("a sender does not panic");
        }
    }

    /// Ends it in order (SC-9).
    pub(super) async fn end(&self, setting: &Setting) {
        let Setting { world, shared, .. } = setting;
        let began = world.now();
        self.endpoint.shutdown(PATIENCE).await;
        let took = Duration::from_nanos(world.now() - began);
        if shared.is_parting() && took >= PATIENCE {
            shared.fault(format!("SC-9: node {} had to give up its links", self.diary.run().node));
        }
    }

    /// Ends it now. Its remaining tasks find its network gone, and write no more.
    pub(super) fn kill(&self, setting: &Setting) {
        setting.world.kill_node(&setting.plan.nodes[self.diary.run().node]);
        self.diary.kill();
        self.mailboxes.iter().chain(&self.senders).for_each(JoinHandle::abort);
    }

    /// Returns true if it has messages for another node that wait for credits.
    pub(super) fn waits_for_credits(&self, other: &Life) -> bool {
        let name = &other.endpoint.id().name;
        let view = self.endpoint.view().into_iter().find(|peer| peer.name == *name);
        view.and_then(|peer| peer.link).is_some_and(|link| link.uncredited.is_some())
    }

    /// Returns how many messages and answers are committed and not on their way.
    pub(super) fn queued(&self) -> usize {
        let links = self.endpoint.view().into_iter().filter_map(|peer| peer.link);
        links.map(|link| link.queued).sum()
    }

    /// Returns the statistics of its links, and how often one replaced another.
    pub(super) fn links(&self) -> (Vec<LinkStats>, u64) {
        let stats: Vec<LinkStats> = self.endpoint.stats().into_iter().map(|(_, s)| s).collect();
        let ups = self.host.link_ups.load(Ordering::Relaxed);
        let redials = ups.saturating_sub(stats.len() as u64);
        (stats, redials)
    }
}

async fn connect(setting: &Setting, me: usize, host: Arc<TestHost>) -> Endpoint {
    let Setting { plan, world, .. } = setting;
    let name = &plan.nodes[me];
    let (wire, fabric) = world.network(name);
    let network = Network { wire, fabrics: vec![fabric], doors: Default::default() };
    let seeds = plan.nodes.iter().filter(|n| *n != name).map(|n| format!("{n}:7700")).collect();
    let config = Config {
        name: NodeName::new(name).expect("a good name"),
        listen: Some(format!("{name}:7700")),
        advertise: Vec::new(),
        seeds,
        secret: Some(Secret::new(super::SECRET).expect("long enough")),
        encryption: Default::default(),
        also_accept: Vec::new(),
        refused_addresses: Vec::new(),
        linger: Duration::ZERO,
        metrics_by_peer: false,
        profile: plan.profiles[me].clone(),
        entropy: world.entropy(),
        network,
    };
    Endpoint::start(config, host).await.expect("a node starts")
}

/// Keeps a mailbox consumed, and sometimes closes it and opens it again.
async fn keep_open(host: Arc<TestHost>, number: usize, setting: Setting, mut rng: Rng) {
    let Setting { plan, world, .. } = setting;
    loop {
        let inbox = host.open_mailbox(number);
        let consumer = inbox.consume(rng.fork());
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
