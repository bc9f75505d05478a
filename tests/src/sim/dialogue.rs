//! Dialogues: actors of two nodes answer late, and many of their askers give up. Askers are near
//! and far, and some links are cut.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use ringpost::net::Profile;
use ringpost::prelude::*;
use ringpost::test_kit::{Cluster, LinkModel};
use ringpost_transport::limits;
use tokio::task::JoinSet;

use super::asks::Patience;
use super::diary::Lane;
use super::message::Run;
use super::reached::Reached;
use super::scenario::Outcome;
use super::shared::{AskId, Shared, State};

const NAMES: [&str; 2] = ["a", "b"];
/// Actors of each node.
const ACTORS: usize = 2;
/// Virtual time a dialogue may take.
const LIMIT: Duration = Duration::from_secs(120);
/// Longer than anything lasts here.
const LONG: Duration = Duration::from_secs(60);

/// The cluster of a dialogue and its judge's state.
#[derive(Clone)]
struct Room {
    cluster: Cluster,
    shared: Arc<Shared>,
}

/// Answers with the requested number of bytes, after a while.
#[actor]
struct Answerer {
    room: Room,
    place: Lane,
    rng: Rng,
    pause_max: Duration,
    still_max: Duration,
}

#[handlers]
impl Answerer {
    /// Notes that the ask was begun, first of all.
    #[handler(name = Question)]
    async fn answer(&mut self, asker: u64, number: u64, bytes: u64) -> Vec<u8> {
        let Room { cluster, shared } = &self.room;
        let near = asker as usize % NAMES.len() == self.place.0;
        shared.begin(id(asker, self.place, number), cluster.world().now(), near);
        if self.rng.u32(0..20) == 0 && !self.still_max.is_zero() {
            shared.reach(State::StoodStill);
            cluster.sleep(self.still_max.mul_f64(self.rng.f64())).await;
        } else if !self.pause_max.is_zero() {
            cluster.sleep(self.pause_max.mul_f64(self.rng.f64())).await;
        }
        vec![number as u8; bytes as usize]
    }
}

/// Each asker counts its own asks of each actor.
fn id(asker: u64, place: Lane, number: u64) -> AskId {
    (Run { node: asker as usize, number: 1 }, place, number)
}

/// Runs the dialogue of a seed.
///
/// # Panics
/// When it stalls or the library panics; the message names the seed.
pub fn dialogue(seed: u64) -> Outcome {
    Cluster::seeded(seed).limit(LIMIT).run(|cluster| play(seed, cluster))
}

async fn play(seed: u64, cluster: Cluster) -> Outcome {
    let mut rng = Rng::with_seed(seed ^ 0xd1a1);
    cluster.set_links(LinkModel {
        latency: Duration::from_nanos(rng.u64(500..2_000_000)),
        bytes_per_second: [2_000_000, 100_000_000, 12_500_000_000][rng.usize(0..3)],
        ..LinkModel::default()
    });
    let cuts = [0, 0, 1, 4][rng.usize(0..4)];
    let room = Room {
        cluster: cluster.clone(),
        shared: Arc::new(Shared::new(cuts == 0, State::OF_DIALOGUES)),
    };
    let profile = Profile { mailbox_window_messages: rng.u32(1..=32), ..Profile::default() };
    let mut nodes = Vec::new();
    for at in 0..NAMES.len() {
        nodes.push(start(&room, at, profile.clone(), &mut rng).await);
    }
    let mut askers = JoinSet::new();
    for asker in 0..rng.u64(2..12) {
        let node = nodes[asker as usize % NAMES.len()].clone();
        let (asks, patience_max) = (rng.u64(10..40), [5, 100, 1_000][rng.usize(0..3)]);
        let asker = Asker { node, room: room.clone(), number: asker, rng: rng.fork() };
        askers.spawn(asker.ask_all(asks, Duration::from_millis(patience_max)));
    }
    for _ in 0..cuts {
        cluster.sleep(Duration::from_micros(rng.u64(10..1_000_000))).await;
        match rng.bool() {
            true => cluster.world().sever_data(NAMES[0], NAMES[1]),
            false => cluster.world().sever_streams(NAMES[0], NAMES[1]),
        }
    }
    while let Some(ended) = askers.join_next().await {
        ended.expect("an asker does not panic");
    }
    for node in nodes {
        node.shutdown(LONG).await;
    }
    let mut reached = Reached::default();
    let faults = room.shared.conclude(&mut reached);
    Outcome { faults, reached, log: cluster.log_text(), history: String::new() }
}

/// Starts a node and its actors.
async fn start(room: &Room, at: usize, profile: Profile, rng: &mut Rng) -> Node {
    // Not linked yet: the first asks find no link.
    let node = room.cluster.builder(NAMES[at]).profile(profile).start();
    let node = node.await.expect("a node starts");
    room.cluster.adopt(&node);
    for actor in 0..ACTORS {
        let answerer = Answerer {
            room: room.clone(),
            place: (at, actor),
            rng: rng.fork(),
            pause_max: Duration::from_micros([0, 500, 20_000][rng.usize(0..3)]),
            still_max: Duration::from_millis([0, 200, 3_000][rng.usize(0..3)]),
        };
        node.spawn(&format!("m{actor}"), answerer).await.expect("the name is free");
    }
    node
}

/// One task that asks.
struct Asker {
    node: Node,
    room: Room,
    number: u64,
    rng: Rng,
}

impl Asker {
    /// Sends `asks` asks, some at the same time.
    async fn ask_all(mut self, asks: u64, patience_max: Duration) {
        let mut pending = JoinSet::new();
        for number in 0..asks {
            let place = (self.rng.usize(0..NAMES.len()), self.rng.usize(0..ACTORS));
            let limit = patience_max.mul_f64(self.rng.f64());
            let patience = match self.rng.u32(0..3) {
                0 => Patience::Endless,
                1 => Patience::Deadline(limit),
                _ => Patience::Dropped(limit),
            };
            let large = self.rng.u32(0..4) == 0;
            let bytes = self.rng.u64(0..if large { 60_000 } else { 100 });
            let question = Question { asker: self.number, number, bytes };
            let (node, room) = (self.node.clone(), self.room.clone());
            pending.spawn(ask(node, room, place, question, patience));
            while pending.len() > 8 {
                pending.join_next().await.expect("there are some").expect("no ask panics");
            }
        }
        while let Some(ended) = pending.join_next().await {
            ended.expect("no ask panics");
        }
    }
}

/// Asks, and notes how that ended.
async fn ask(node: Node, room: Room, place: Lane, question: Question, patience: Patience) {
    let Room { cluster, shared } = &room;
    let path = format!("{}/m{}", NAMES[place.0], place.1);
    let Ok(actor) = node.actor::<Answerer>(&path).await else { return };
    let Question { asker, number, bytes } = question;
    let this = id(asker, place, number);
    let timeout = if let Patience::Deadline(limit) = patience { limit } else { LONG };
    let asked = actor.ask(question).timeout(timeout);
    let dropped = async {
        match patience {
            Patience::Dropped(limit) => cluster.sleep(limit).await,
            _ => std::future::pending().await,
        }
    };
    let answer = tokio::select! {
        biased;
        answer = asked => answer,
        () = dropped => {
            shared.reach(State::AskDropped);
            return shared.give_up(this, cluster.world().now());
        }
    };
    cluster.log(&format!("{this:?} {:?}", answer.as_ref().map(Vec::len)));
    match answer {
        Ok(answer) => {
            shared.reach(State::AskAnswered);
            if answer.len() > limits::SLOT_BYTES as usize {
                shared.reach(State::LargeReply);
            }
            if answer != vec![number as u8; bytes as usize] {
                shared.fault(format!("SC-2: an answer that is not of {this:?}"));
            }
        }
        Err(error) if error.is_retryable() => {
            shared.reach(State::AskNeverBegun);
            shared.never_begun(this);
        }
        Err(error) if error.cause == AskCause::Timeout => {
            shared.reach(State::AskExpired);
            shared.give_up(this, cluster.world().now());
        }
        Err(_) => shared.reach(State::AskLost),
    }
}
