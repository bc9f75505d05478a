//! The actor through which the ranks of a world find each other, one on each node that joins.
//!
//! Lobbies of one job tell each other all ranks that they know. The lobby whose node has the first
//! name proposes the world to each rank when it knows enough ranks. A lobby promises itself to
//! one proposer at a time, so that no rank gets into two worlds; the world is formed when all have
//! promised. A lobby lives as long as its rank, and refuses ranks that come late.

use std::time::Duration;

use futures::future::join_all;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::spawn::SpawnError;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;

use crate::error::JoinError;
use crate::limits::{CANDIDATES_MAX, PROPOSE_AGAIN};
use crate::member::Member;

/// The pause before a lobby that could not be asked is asked again.
const MEET_AGAIN: Duration = Duration::from_millis(50);

/// This rank, as its lobby tells others of it.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) member: ActorRef<Member>,
    pub(crate) size: u32,
    pub(crate) number: Option<u32>,
    pub(crate) window: u64,
}

/// A rank that joins.
#[message(name = "ringpost.ranks.Candidate")]
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    lobby: ActorRef<Lobby>,
    member: ActorRef<Member>,
    size: u32,
    number: Option<u32>,
    window: u64,
}

impl Candidate {
    fn node(&self) -> &str {
        self.lobby.address().node()
    }
}

/// How a lobby answers another one.
#[message(name = "ringpost.ranks.Met")]
#[derive(Debug, Clone)]
pub(crate) enum Met {
    /// It waits, too, and knows these ranks.
    Waits(Vec<Candidate>),
    /// Its world has all its ranks, these.
    Formed(Vec<Candidate>, u64),
}

/// A world whose ranks are known.
pub(crate) struct Formed {
    pub(crate) rank: usize,
    pub(crate) members: Vec<ActorRef<Member>>,
    /// Tells worlds of one name apart.
    pub(crate) nonce: u64,
}

/// The outcome of a lobby, for the join that made it.
type Outcome = Result<Formed, JoinError>;

pub(crate) struct Lobby {
    job: String,
    entry: Entry,
    told: Option<oneshot::Sender<Outcome>>,
    /// Ranks that join, this one included, in the order in which they were heard of.
    candidates: Vec<Candidate>,
    /// Nodes that are being asked whether they have a lobby.
    looking: usize,
    /// The proposer that this rank is promised to.
    promised: Option<ActorRef<Lobby>>,
    is_proposing: bool,
    formed: Option<(Vec<Candidate>, u64)>,
}

impl Lobby {
    /// Spawns the lobby of a rank, which sends its outcome once.
    pub(crate) async fn spawn(
        node: &Node,
        job: &str,
        entry: Entry,
        told: oneshot::Sender<Outcome>,
    ) -> Result<ActorRef<Lobby>, SpawnError> {
        let lobby = Lobby {
            job: job.to_owned(),
            entry,
            told: Some(told),
            candidates: Vec::new(),
            looking: 0,
            promised: None,
            is_proposing: false,
            formed: None,
        };
        node.spawn(format!("ranks.{job}"), lobby).await
    }

    fn me(&self, cx: &Context<Self>) -> Candidate {
        let Entry { member, size, number, window } = self.entry.clone();
        Candidate { lobby: cx.actor().clone(), member, size, number, window }
    }

    /// Ends the join with an error.
    fn fail(&mut self, error: JoinError, cx: &mut Context<Self>) {
        if let Some(told) = self.told.take() {
            drop(told.send(Err(error)));
            cx.stop();
        }
    }

    /// Takes a candidate in. Returns true if it is new.
    fn learn(&mut self, candidate: Candidate, cx: &mut Context<Self>) -> bool {
        let is_known = |known: &Candidate| known.lobby == candidate.lobby;
        if self.formed.is_some() || self.candidates.iter().any(is_known) {
            return false;
        }
        let node = candidate.node().to_owned();
        if candidate.member.address().node() != node || self.candidates.len() >= CANDIDATES_MAX {
            tracing::warn!(job = self.job, node, "ignored a rank that cannot be one");
            return false;
        }
        if candidate.size != self.entry.size {
            let error = JoinError::OtherSize {
                job: self.job.clone(),
                node,
                theirs: candidate.size as usize,
                ours: self.entry.size as usize,
            };
            self.fail(error, cx);
            return false;
        }
        if candidate.window != self.entry.window {
            let error = JoinError::OtherWindow {
                node,
                theirs: candidate.window as usize,
                ours: self.entry.window as usize,
            };
            self.fail(error, cx);
            return false;
        }
        // A node that was restarted.
        self.candidates.retain(|known| known.node() != node);
        cx.watch(&candidate.lobby);
        self.candidates.push(candidate);
        true
    }

    /// Returns the candidates in the order of their ranks, if there are enough.
    fn selection(&self) -> Option<Vec<Candidate>> {
        let mut places: Vec<Option<&Candidate>> = vec![None; self.entry.size as usize];
        for candidate in &self.candidates {
            if let Some(number) = candidate.number
                && let Some(place) = places.get_mut(number as usize)
            {
                place.get_or_insert(candidate);
            }
        }
        let mut others = self.candidates.iter().filter(|candidate| candidate.number.is_none());
        places.into_iter().map(|place| place.or_else(|| others.next()).cloned()).collect()
    }

    /// Proposes the world if this lobby has the first name of all known lobbies, and has met every
    /// lobby of the nodes that were linked before it.
    fn consider(&mut self, cx: &mut Context<Self>) {
        if self.is_proposing || self.promised.is_some() || self.formed.is_some() {
            return;
        }
        let first = self.candidates.iter().map(Candidate::node).min();
        if self.looking > 0 || first != Some(cx.node().name()) {
            return;
        }
        let Some(selection) = self.selection() else { return };
        self.is_proposing = true;
        let me = cx.actor().clone();
        let others = selection.iter().filter(|candidate| candidate.lobby != me);
        let asks = others.map(|candidate| candidate.lobby.propose(me.clone()).into_ask());
        let asks = join_all(asks.collect::<Vec<_>>());
        cx.pipe(asks, |lobby, answers, cx| {
            let is_agreed = answers.iter().all(|answer| matches!(answer, Ok(true)));
            lobby.proposed(selection, is_agreed, cx);
        });
    }

    /// Forms the world that was proposed, or takes the proposal back.
    fn proposed(&mut self, selection: Vec<Candidate>, is_agreed: bool, cx: &mut Context<Self>) {
        self.is_proposing = false;
        let nonce = nonce(&self.entry, cx.node());
        let me = cx.actor().clone();
        let others = selection.iter().filter(|candidate| candidate.lobby != me);
        for lobby in others.map(|candidate| candidate.lobby.clone()) {
            let (me, members) = (me.clone(), selection.clone());
            cx.spawn_task(async move {
                if is_agreed {
                    drop(lobby.tell(Commit { members, nonce }).await);
                } else {
                    drop(lobby.tell(Release { by: me }).await);
                }
            });
        }
        if is_agreed {
            self.form(selection, nonce, cx);
        } else {
            cx.tell_after("consider", PROPOSE_AGAIN, Consider {});
        }
    }

    /// Tells the join that its world is formed.
    fn form(&mut self, members: Vec<Candidate>, nonce: u64, cx: &mut Context<Self>) {
        let rank = members.iter().position(|candidate| candidate.lobby == *cx.actor());
        match rank.filter(|_| members.len() == self.entry.size as usize) {
            Some(rank) => {
                let references = members.iter().map(|each| each.member.clone()).collect();
                if let Some(told) = self.told.take() {
                    drop(told.send(Ok(Formed { rank, members: references, nonce })));
                }
                let left = std::mem::take(&mut self.candidates);
                let me = cx.actor().clone();
                for candidate in left.into_iter().filter(|left| left.lobby != me) {
                    cx.unwatch(&candidate.lobby);
                    let is_in = members.iter().any(|member| member.lobby == candidate.lobby);
                    if !is_in {
                        let (members, lobby) = (members.clone(), candidate.lobby);
                        cx.spawn_task(async move {
                            drop(lobby.tell(Commit { members, nonce }).await);
                        });
                    }
                }
                self.formed = Some((members, nonce));
            }
            None => self.refuse(&members, cx),
        }
    }

    /// Ends the join: the world was formed by others.
    fn refuse(&mut self, members: &[Candidate], cx: &mut Context<Self>) {
        let (job, size) = (self.job.clone(), members.len());
        let error = match self.entry.number {
            _ if size != self.entry.size as usize => {
                let node = members.first().map(|first| first.node().to_owned()).unwrap_or_default();
                let (theirs, ours) = (size, self.entry.size as usize);
                JoinError::OtherSize { job, node, theirs, ours }
            }
            Some(number) if members.get(number as usize).is_some() => {
                let node = members[number as usize].node().to_owned();
                JoinError::NumberTaken { job, rank: number as usize, node }
            }
            _ => JoinError::Full { job, size },
        };
        self.fail(error, cx);
    }

    /// Meets the lobby of a node that is linked, if it has one.
    fn look(&mut self, node: String, cx: &mut Context<Self>) {
        let is_known = self.candidates.iter().any(|candidate| candidate.node() == node);
        if self.formed.is_some() || is_known {
            return;
        }
        let path = format!("{node}/ranks.{}", self.job);
        let here = cx.node().clone();
        let found = async move {
            loop {
                match here.actor::<Lobby>(&path).await {
                    Ok(lobby) => return Some(lobby),
                    Err(error) if error.cause() == Some(&Cause::NoSuchActor) => return None,
                    Err(error) if !error.is_retryable() => return None,
                    // It is asked again when it is linked again.
                    Err(_) if !here.linked().iter().any(|linked| linked.name.as_str() == node) => {
                        return None;
                    }
                    Err(_) => tokio::time::sleep(MEET_AGAIN).await,
                }
            }
        };
        self.looking += 1;
        cx.pipe(found, |lobby, found, cx| {
            lobby.looking -= 1;
            match found {
                Some(found) => lobby.meet(found, cx),
                None => lobby.consider(cx),
            }
        });
    }

    /// Tells another lobby of this rank.
    fn meet(&mut self, lobby: ActorRef<Lobby>, cx: &mut Context<Self>) {
        let me = self.me(cx);
        self.looking += 1;
        cx.pipe(async move { lobby.visit(me).await }, |lobby, met, cx| {
            lobby.looking -= 1;
            match met {
                Ok(met) => lobby.heard(met, cx),
                Err(_) => lobby.consider(cx),
            }
        });
    }

    /// Takes in the answer of another lobby.
    fn heard(&mut self, met: Met, cx: &mut Context<Self>) {
        match met {
            Met::Formed(members, nonce) if self.formed.is_none() => self.form(members, nonce, cx),
            Met::Formed(..) => {}
            Met::Waits(candidates) => {
                for candidate in candidates {
                    let lobby = candidate.lobby.clone();
                    if self.learn(candidate, cx) {
                        self.meet(lobby, cx);
                    }
                }
                self.consider(cx);
            }
        }
    }
}

#[actor(name = "ringpost.ranks.Lobby")]
impl Actor for Lobby {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.candidates = vec![self.me(cx)];
        let (node, me) = (cx.node().clone(), cx.actor().clone());
        let mut events = node.events();
        for linked in node.linked() {
            self.look(linked.name.as_str().to_owned(), cx);
        }
        cx.spawn_task(async move {
            loop {
                match events.recv().await {
                    Ok(NodeEvent::LinkUp { .. }) | Err(RecvError::Lagged(_)) => {}
                    Ok(_) => continue,
                    Err(RecvError::Closed) => return,
                }
                for linked in node.linked() {
                    let node = linked.name.as_str().to_owned();
                    drop(me.tell(Linked { node }).await);
                }
            }
        });
        self.consider(cx);
        Ok(())
    }
}

#[handlers]
impl Lobby {
    /// A node is linked.
    #[handler]
    fn linked(&mut self, node: String, cx: &mut Context<Self>) {
        self.look(node, cx);
    }

    /// Another rank joins.
    #[handler]
    fn visit(&mut self, candidate: Candidate, cx: &mut Context<Self>) -> Met {
        if let Some((members, nonce)) = &self.formed {
            return Met::Formed(members.clone(), *nonce);
        }
        let known = self.candidates.clone();
        self.learn(candidate, cx);
        self.consider(cx);
        Met::Waits(known)
    }

    /// Proposes again, after another lobby was in the way.
    #[handler(name = Consider)]
    fn consider_again(&mut self, cx: &mut Context<Self>) {
        self.consider(cx);
    }

    /// Promises this rank to the world of another lobby.
    #[handler]
    fn propose(&mut self, by: ActorRef<Lobby>, cx: &mut Context<Self>) -> bool {
        let is_free = self.promised.as_ref().is_none_or(|promised| *promised == by);
        if self.formed.is_some() || self.is_proposing || !is_free {
            return false;
        }
        cx.watch(&by);
        self.promised = Some(by);
        true
    }

    #[handler]
    fn release(&mut self, by: ActorRef<Lobby>, cx: &mut Context<Self>) {
        if self.promised.as_ref() == Some(&by) {
            self.promised = None;
            self.consider(cx);
        }
    }

    #[handler]
    fn commit(&mut self, members: Vec<Candidate>, nonce: u64, cx: &mut Context<Self>) {
        if self.formed.is_none() {
            self.form(members, nonce, cx);
        }
    }

    /// Returns the numbers of the ranks that are known, each if it has one.
    #[handler]
    pub(crate) fn missing(&self) -> Vec<Option<u32>> {
        self.candidates.iter().map(|candidate| candidate.number).collect()
    }

    #[handler]
    fn down(&mut self, msg: Down, cx: &mut Context<Self>) {
        self.candidates.retain(|candidate| *candidate.lobby.address() != msg.actor);
        if self.promised.as_ref().is_some_and(|by| *by.address() == msg.actor) {
            self.promised = None;
        }
        self.consider(cx);
    }
}

/// Returns a number that no other world of this cluster has.
fn nonce(entry: &Entry, node: &Node) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (node.id(), entry.member.address()).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
