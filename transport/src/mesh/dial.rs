//! Dialling: reaches peers that are wanted or were lost, and the nodes at seeds.
//!
//! - **MS-4 down**: a node that was linked is reported down when it left, when another run of it
//!   answered, or when it was silent for `down_after` (this node's, or the peer's if that is
//!   longer) since its last sign of life on a link. It is reported down at once if its connection
//!   was closed without a goodbye and all its addresses then refuse connections in a round of
//!   dials, one of them at the host of that connection: its process is gone (a host refuses no
//!   connection to a suspended process, and lost packets refuse none). A node that was not linked,
//!   or is idle, is down when it was dialled for `down_after`. A connection that is being made into
//!   a link is waited for. When a node is down, all senders that wait for a link fail, and new
//!   sends fail at once until there is a link; each send has the node dialled for another
//!   `down_after`. Only patient senders wait on. Time in which this node itself stood still is not
//!   counted.
//! - **MS-15 asked for**: linked peers are asked where a node is after each round of dials that
//!   failed, and every `LINKED_ASKED_INTERVAL` during a round if a sender wants the node. All
//!   linked peers are asked while a sender wants a node that is not down, otherwise
//!   `LINKED_ASKED_MAX` of them, at random. While a sender wants the node, idle peers are linked
//!   and asked, too: at random, `IDLE_ASKED_MAX` at a time. Others replace the peers that were
//!   linked or were tried for `down_after`: every `LINKED_ASKED_INTERVAL`, or every
//!   `IDLE_ASKED_INTERVAL` once the node is down. An idle peer that was tried for so long without
//!   success may be gone: it is not tried again for `IDLE_ASKED_INTERVAL`, and then only when no
//!   others are left. Such a failure is not reported, and no peer is asked where that peer is.
//!   Addresses in an answer are dialled at once. A peer is asked for one node at most once a
//!   second, for at most `LINKED_QUESTIONS_MAX` nodes in that time, and not while it owes the
//!   answer (unless that question had to make room for others). An answer without a question on the
//!   same connection is ignored.
//!
//! A node that was linked and is silent is dialled for `RELINK_FOR`, even if no sender wants it, so
//! that links come back when a network partition heals. At most `RELINKS_MAX` nodes are dialled for
//! this cause at once.

mod attempt;
mod connect;
mod race;
mod seed;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::id::NodeName;
use crate::limits;
use crate::log;
use crate::mutants::planted;

use super::peer::{Peer, Plan, Target};
use super::table::{Table, Urgency};
use attempt::{DialFailure, Outcome};
use race::{Address, Race, Step};
use seed::Seed;

pub(super) use connect::connect;

/// Starts a task for each peer that is to be reached.
pub(super) async fn serve_wants(table: Arc<Table>, mut wants: mpsc::UnboundedReceiver<NodeName>) {
    loop {
        let name = tokio::select! {
            biased;
            () = table.events.closing() => return,
            name = wants.recv() => name,
        };
        let Some(name) = name else { return };
        let want = Want::Peer(table.peer(&name));
        let dialler = Dialler::new(table.clone(), want);
        table.spawn_vital("dialler", dialler.run());
    }
}

/// Keeps the nodes that are at `seed`, whichever they are, linked until this node closes.
pub(super) fn keep(table: Arc<Table>, seed: String) -> impl Future<Output = ()> + Send {
    // Made now: the entry of the seed may be another one when the task runs.
    let want = Want::Seed(Seed::new(table.clone(), seed));
    async { Dialler::new(table, want).run().await }
}

/// The goal of a dialler.
enum Want {
    /// A node, until there is a link, or no sender wants one and the node is not missed.
    Peer(Arc<Peer>),
    /// The nodes at an address of the user's, for as long as this node lives.
    Seed(Seed),
}

/// The task that reaches for one want: in rounds, with pauses between them.
struct Dialler {
    table: Arc<Table>,
    want: Want,
    race: Race,
    /// This round began before its time, to try addresses learned since the last one.
    extra: bool,
    /// There was no address to be tried in this round.
    unknown: bool,
    /// Failures of this round, by address.
    failures: BTreeMap<String, String>,
    /// Each address of this round was refused by its host.
    all_refused: bool,
    /// An address at the host of the last link, which was closed, was refused.
    is_gone: bool,
    /// Time at which the next round begins.
    next: Instant,
    /// That time was drawn while there was no haste.
    is_far: bool,
    /// Time at which this round began, or peers were asked last.
    asked: Instant,
}

impl Dialler {
    fn new(table: Arc<Table>, want: Want) -> Self {
        let race = Race::new(table.clone());
        let (extra, unknown, failures, is_far) = Default::default();
        let (all_refused, is_gone) = (false, false);
        let next = Instant::now();
        let asked = next;
        let mut dialler = Dialler {
            table,
            want,
            race,
            extra,
            unknown,
            failures,
            all_refused,
            is_gone,
            next,
            is_far,
            asked,
        };
        if let Want::Peer(peer) = &dialler.want
            && !peer.is_new()
        {
            dialler.pause();
        }
        dialler
    }

    /// Puts the next round off.
    fn pause(&mut self) {
        let (entropy, haste) = (&self.table.identity.entropy, self.has_haste());
        let pause = match &mut self.want {
            Want::Peer(peer) => peer.pause(entropy, haste),
            Want::Seed(seed) => seed.pause(entropy, haste),
        };
        (self.next, self.is_far) = (Instant::now() + pause, !haste);
    }

    /// Returns true if a sender wants the peer, if the peer is to be asked for another node, or if
    /// this node is alone: it has no link and no idle peer.
    fn has_haste(&self) -> bool {
        let is_wanted = |peer: &Peer| peer.has_sender() || peer.has_questions();
        let wanted = matches!(&self.want, Want::Peer(peer) if is_wanted(peer));
        wanted || self.table.is_alone()
    }

    /// Returns the urgency of its dials. A peer that is only to be asked for another node may be
    /// gone itself, so its dials are not urgent.
    fn urgency(&self) -> Urgency {
        match &self.want {
            Want::Peer(peer) if peer.has_sender() => Urgency::Wanted,
            Want::Peer(peer) if peer.is_missed() => Urgency::Missed,
            Want::Peer(_) => Urgency::Low,
            Want::Seed(_) => Urgency::Wanted,
        }
    }

    /// Cuts short a pause drawn before there was haste, and makes a running round more urgent.
    fn hasten(&mut self, now: Instant) {
        self.race.hasten(self.urgency());
        if self.is_far && self.has_haste() {
            let most = limits::WANTED_BACKOFF_MAX.as_micros() as u64;
            let pause = Duration::from_micros(self.table.identity.entropy.below(most + 1));
            (self.next, self.is_far) = (self.next.min(now + pause), false);
        }
    }

    async fn run(mut self) {
        loop {
            let now = Instant::now();
            self.hasten(now);
            let until = match self.plan(now) {
                Plan::Stop => return,
                Plan::Wait(until) => until,
                Plan::Dial { targets, news, until } => {
                    if self.race.is_over() && (news || now >= self.next) {
                        self.begin(targets, now < self.next);
                    } else if news {
                        // The running round tries the new addresses, too, by their rank.
                        self.race.add_targets(targets);
                    }
                    if self.asks_at().is_some_and(|at| now >= at) {
                        self.ask();
                    }
                    // While a round runs, its outcome decides when the next one begins.
                    let next = self.race.is_over().then_some(self.next);
                    // Nothing tells of it when this node has become alone.
                    let look = self.is_far.then(|| now + limits::WANTED_BACKOFF_MAX);
                    [until, next, look, self.asks_at()].into_iter().flatten().min()
                }
            };
            let (table, want) = (self.table.clone(), &self.want);
            tokio::select! {
                biased;
                // The plan is to stop then.
                () = table.events.closing() => {}
                step = self.race.step() => self.handle_step(step),
                () = want.changed() => {}
                () = sleep_until(until.unwrap_or(now)), if until.is_some() => {}
            }
        }
    }

    fn plan(&mut self, now: Instant) -> Plan {
        if self.table.events.is_closing() && matches!(self.want, Want::Seed(_)) {
            return Plan::Stop;
        }
        match &mut self.want {
            Want::Peer(peer) => peer.plan(),
            Want::Seed(seed) => seed.plan(now),
        }
    }

    fn begin(&mut self, targets: Vec<Target>, extra: bool) {
        (self.extra, self.asked) = (extra, Instant::now());
        self.unknown = targets.is_empty();
        (self.all_refused, self.is_gone) = (true, false);
        self.race.begin(targets, self.urgency());
        self.end_round();
    }

    fn handle_step(&mut self, step: Step) {
        match step {
            Step::Found(rank, target, found) => {
                if let Err(error) = &found {
                    self.all_refused = false;
                    self.note(target.name.clone(), format!("cannot connect: {error}"));
                }
                let addresses = match &mut self.want {
                    Want::Peer(peer) => {
                        let found = found.unwrap_or_default();
                        // A name that no peer tells any more is not dialled: of the seeds where the
                        // node was met only addresses are kept.
                        let (teller, count) = (peer.teller(&target.name), found.len());
                        let allowed =
                            |teller: String| self.table.allowed(found, peer.name(), &teller);
                        let allowed = teller.map(allowed).unwrap_or_default();
                        // The node may listen at an address that is not tried.
                        self.all_refused &= !allowed.is_empty() && allowed.len() == count;
                        allowed
                    }
                    Want::Seed(seed) => seed.found(found.ok()),
                };
                self.race.add(rank, &target, addresses);
            }
            Step::Over(address, Some(outcome)) => self.handle_outcome(&address, outcome),
            Step::Over(_, None) => self.all_refused = false,
        }
        self.end_round();
    }

    fn handle_outcome(&mut self, address: &Address, outcome: Outcome) {
        let is_refused = outcome.result.as_ref().is_err_and(DialFailure::is_refused);
        self.all_refused &= is_refused;
        let failure = match &mut self.want {
            Want::Peer(peer) => {
                self.is_gone |= is_refused && peer.was_closed_at(&address.address);
                met(peer, address, outcome)
            }
            Want::Seed(seed) => seed.met(&address.address, outcome),
        };
        if let Some(failure) = failure {
            self.note(address.address.clone(), failure);
        }
    }

    fn note(&mut self, address: String, failure: String) {
        self.failures.insert(address, failure);
        if let Want::Peer(peer) = &self.want {
            let each = self.failures.iter().map(|(at, failure)| format!("{at}: {failure}"));
            peer.note(each.collect::<Vec<_>>().join("; "));
        }
    }

    /// Draws the conclusions of a round, if it is over.
    fn end_round(&mut self) {
        if !self.race.is_over() {
            return;
        }
        let failures = std::mem::take(&mut self.failures);
        match &mut self.want {
            Want::Peer(peer) => {
                if self.unknown {
                    peer.note(self.table.why_unknown());
                }
                if peer.is_only_to_be_asked() {
                    log::debug!(peer = %peer.name(), ?failures, "an idle node is not reached");
                } else if !(self.unknown && peer.is_wanted_lately()) {
                    // Otherwise seeds may be about to lead to it.
                    peer.log_failures();
                }
                if self.extra {
                    return;
                }
                if self.all_refused && self.is_gone && self.table.profile.down_when_refused {
                    peer.note_gone();
                }
                self.ask();
            }
            Want::Seed(seed) => seed.end_round(&failures),
        }
        self.pause();
    }

    /// Returns when peers are asked beside a round: it may last longer than its senders wait.
    fn asks_at(&self) -> Option<Instant> {
        let waits = matches!(&self.want, Want::Peer(peer) if peer.has_sender());
        let lasts = waits && !self.race.is_over();
        lasts.then(|| self.asked + limits::LINKED_ASKED_INTERVAL)
    }

    /// Has peers asked where the node is, unless there is a connection by now (MS-15).
    fn ask(&mut self) {
        let Want::Peer(peer) = &self.want else { return };
        self.asked = Instant::now();
        if !self.unknown && planted!(NeverAsks) {
            return;
        }
        let Some(search) = peer.search() else { return };
        self.table.ask_linked_for(peer.name(), search);
        if peer.is_to_ask_idle(search, self.asked) {
            self.table.ask_idle_for(peer.name());
        }
    }
}

impl Want {
    /// Waits until something changed that a plan depends on.
    async fn changed(&self) {
        match self {
            Want::Peer(peer) => peer.changed().await,
            Want::Seed(seed) => seed.changed().await,
        }
    }
}

/// Records what a dial of `peer` met. Returns why there is no link.
fn met(peer: &Peer, at: &Address, outcome: Outcome) -> Option<String> {
    let Address { target, address, .. } = at;
    match (outcome.node, outcome.result) {
        (Some(node), _) if node.name != *peer.name() => {
            // A name may lead to several nodes, of which this one is another.
            peer.not_reached_at(&target.name, target.name == *address);
            Some(format!("there is another node, `{}`", node.name))
        }
        (Some(_), Ok(())) => {
            peer.reached_at(&target.name);
            None
        }
        (Some(_), Err(failure)) => {
            peer.reached_at(&target.name);
            // A dial race is no failure: the other connection becomes the link.
            let failed = !failure.is_dial_race();
            if failed && !failure.is_goodbye() {
                peer.note_answered();
            }
            failed.then(|| failure.to_string())
        }
        (None, result) => {
            peer.not_reached_at(&target.name, false);
            result
                .err()
                .filter(|failure| !failure.is_dial_race())
                .map(|failure| failure.to_string())
        }
    }
}
