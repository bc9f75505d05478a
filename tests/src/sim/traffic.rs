//! Senders: tells and asks of random sizes to random mailboxes, waiting where they have to.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use ringpost_history::Fate;
use ringpost_transport::endpoint::{
    Awaited, Confirmation, Endpoint, RemoteSender, SendKind, Unsent, Waiter,
};
use ringpost_transport::host::{OpenRequest, Target};
use ringpost_transport::id::NodeName;
use rkyv::util::AlignedVec;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::asks::{Asked, Asker, Patience};
use super::diary::{Diary, Lane, is_confirmed, told};
use super::host::Downs;
use super::message::{HEAD, MESSAGE, write};
use super::plan::Plan;
use super::shared::{Setting, Shared, State};

/// Asks of one sender that wait for their answers to the end.
const ASKS_MAX: usize = 20;
/// Senders that wait for one mailbox and count as a crowd.
const CROWD: usize = 10;
/// Messages of more bytes are larger than a slot in all profiles.
const LARGE: usize = 4352;

/// One sending task of a node.
pub(super) struct Sender {
    pub(super) setting: Setting,
    pub(super) endpoint: Endpoint,
    pub(super) diary: Diary,
    pub(super) lines: Lines,
    /// The nodes to which sends fail at once (SC-11).
    pub(super) downs: Downs,
    /// References that it uses again: each knows where it found its mailbox.
    pub(super) remotes: HashMap<(usize, OpenRequest), RemoteSender>,
    pub(super) rng: Rng,
}

/// The senders of a node that wait, by where and whether they go by identity. They share it.
pub(super) type Lines = Arc<Mutex<BTreeMap<(Lane, bool), usize>>>;

/// A message that is to be sent.
struct Parcel {
    lane: Lane,
    bytes: usize,
    /// The identity of the mailbox, where that is known and used.
    identity: Option<Target>,
    /// How long its asker waits, if it is an ask.
    patience: Option<Patience>,
    /// How long a tell waits before it is given up.
    tell_within: Option<Duration>,
}

impl Sender {
    /// Sends what the plan says, then ends.
    pub(super) async fn send(mut self) {
        let plan = self.setting.plan.clone();
        let asker = Asker {
            diary: self.diary.clone(),
            world: self.setting.world.clone(),
            shared: self.setting.shared.clone(),
        };
        let (mut asks, mut tells, mut brief) = (Vec::new(), Vec::new(), JoinSet::new());
        for _ in 0..plan.messages {
            let parcel = self.draw();
            let Parcel { lane, bytes, patience, .. } = parcel;
            match self.commit(parcel).await {
                Ok((number, Awaited::Reply(pending))) => {
                    let (asked, asker) = (Asked { lane, number, bytes, pending }, asker.clone());
                    match patience {
                        None | Some(Patience::Endless) => asks.push(asked),
                        Some(Patience::Deadline(limit)) => drop(brief.spawn(async move {
                            asker.wait_for(asked, limit, State::AskExpired).await;
                        })),
                        Some(Patience::Dropped(limit)) => drop(brief.spawn(async move {
                            asker.wait_for(asked, limit, State::AskDropped).await;
                        })),
                    }
                }
                Ok((number, Awaited::Fate(fate))) => tells.push((lane, number, fate)),
                Ok((_, Awaited::Nothing | Awaited::Found(..))) => {}
                Err(unsent) => self.note_unsent(lane, unsent).await,
            }
            if asks.len() > ASKS_MAX {
                asker.wait(asks.swap_remove(self.rng.usize(0..asks.len()))).await;
            }
            if self.rng.u32(0..16) == 0 {
                let pause = Duration::from_nanos(self.rng.u64(0..3_000_000));
                self.setting.world.sleep(pause).await;
            }
        }
        for asked in asks {
            asker.wait(asked).await;
        }
        while let Some(ended) = brief.join_next().await {
            ended.expect("an asker does not panic");
        }
        for (lane, number, fate) in tells {
            self.await_fate(lane, number, fate).await;
        }
    }

    /// Sends the plan's last tells, and does not wait until they are there.
    pub(super) async fn part(mut self) {
        for _ in 0..self.setting.plan.farewell.tells {
            let parcel = Parcel { patience: None, tell_within: None, ..self.draw() };
            let lane = parcel.lane;
            if is_confirmed(lane.1) {
                continue;
            }
            if let Err(unsent) = self.commit(parcel).await {
                self.note_unsent(lane, unsent).await;
            }
        }
    }

    /// Draws the next message.
    fn draw(&mut self) -> Parcel {
        let Setting { plan, shared, .. } = &self.setting;
        let (rng, me) = (&mut self.rng, self.diary.run().node);
        let to = (me + rng.usize(1..plan.nodes.len())) % plan.nodes.len();
        let crowded = plan.crowd && rng.u32(0..4) != 0;
        let crowd = plan.messages as usize % plan.mailboxes;
        let lane = (to, if crowded { crowd } else { rng.usize(0..plan.mailboxes) });
        let small = rng.u32(0..4) != 0;
        let bytes = HEAD + rng.usize(0..if small { 200 } else { plan.bytes_max - HEAD });
        let limit = Duration::from_nanos(rng.u64(1_000..plan.patience_max.as_nanos() as u64));
        let patience = (rng.u32(0..4) == 0).then(|| match rng.u32(0..8) {
            0 => Patience::Deadline(limit),
            1 => Patience::Dropped(limit),
            _ => Patience::Endless,
        });
        let by_identity = plan.identities && rng.u32(0..3) == 0;
        let identity = by_identity.then(|| shared.identity(lane)).flatten();
        let is_brief = patience.is_none() && rng.u32(0..8) == 0;
        Parcel { lane, bytes, identity, patience, tell_within: is_brief.then_some(limit) }
    }

    /// Sends one message; returns its number. A sender that gives up before that has sent nothing.
    async fn commit(&mut self, parcel: Parcel) -> Result<(u64, Awaited), Option<Unsent>> {
        let Setting { plan, world, shared, .. } = &self.setting;
        let Parcel { lane, bytes, identity, patience, tell_within } = parcel;
        let by_identity = identity.is_some();
        let limit = patience.and_then(Patience::limit).or(tell_within);
        let (mut attempt, mut waiter) = Attempt::begin(self, lane.0, bytes % 5 == 1);
        let (name, request) = way_to(plan, lane, identity);
        let remote = self.remotes.entry((lane.0, request.clone()));
        let remote = remote.or_insert_with(|| self.endpoint.remote_sender(&name, request));
        let found;
        let remote = if bytes % 7 == 3 {
            found = found_by(remote, shared).await?;
            &found
        } else {
            &*remote
        };
        let (diary, ask) = (&self.diary, patience.is_some());
        let mut in_line = None;
        let mark = shared.mark();
        let deadline = limit.map(|limit| Instant::now() + limit);
        let sent = poll_fn(|cx| {
            let kind = kind_of(patience, deadline, lane.1);
            let mut archive = |_: u8, out: &mut AlignedVec<16>| {
                let mut message = Vec::with_capacity(bytes);
                write(diary.run(), mark, bytes, &mut message);
                out.extend_from_slice(&message);
                Ok(None)
            };
            // Plain tells have a way of their own; half of them take it.
            let polled = if kind == SendKind::Tell && bytes % 2 == 0 {
                let told = remote.poll_tell(&MESSAGE, &mut archive, &mut waiter, cx);
                told.map_ok(|()| Awaited::Nothing)
            } else {
                remote.poll_send(&MESSAGE, kind, &mut archive, &mut waiter, cx)
            };
            attempt.judge(&polled);
            if polled.is_pending() && in_line.is_none() {
                in_line = Some(Standing::begin(&self.setting, &self.lines, (lane, by_identity)));
            }
            polled.map(|sent| match sent {
                Ok(awaited) => {
                    let number = diary.committed(lane, ask);
                    shared.committed(mark, number);
                    Ok((number, awaited))
                }
                Err(unsent) => {
                    diary.refused(lane, ask, &unsent.to_string());
                    Err(Some(unsent))
                }
            })
        });
        let sent = match limit {
            None => sent.await,
            Some(limit) => tokio::select! {
                biased;
                sent = sent => sent,
                () = world.sleep(limit) => {
                    diary.refused(lane, ask, "the sender gave up");
                    if !ask {
                        shared.reach(State::TellDropped);
                    }
                    Err(None)
                }
            },
        };
        sent.inspect(|_| {
            shared.reach_if(by_identity, State::ByIdentity);
            shared.reach_if(bytes > LARGE, State::LargeBesideSmall);
        })
    }

    /// Waits for the fate of a confirmed tell, and notes it.
    async fn await_fate(&self, lane: Lane, number: u64, fate: Confirmation) {
        let fate = fate.await.map_or_else(told, |()| Fate::Delivered);
        self.diary.told(lane, Some(number), fate);
    }

    /// Only faults, closed mailboxes and the sender itself may keep a message from being sent.
    async fn note_unsent(&self, lane: Lane, unsent: Option<Unsent>) {
        let Some(unsent) = unsent else { return };
        let world = &self.setting.world;
        world.log(&format!("unsent {lane:?} {unsent}"));
        match unsent {
            Unsent::NoSuchMailbox | Unsent::Closed(_) => {
                world.sleep(Duration::from_millis(3)).await;
            }
            Unsent::NodeDown(_) | Unsent::Leaving => {
                world.sleep(Duration::from_millis(200)).await;
            }
            other => self.diary.garbage(&format!("unsent: {other}")),
        }
    }
}

/// Looks up which mailbox a sender leads to.
async fn found_by(remote: &RemoteSender, shared: &Shared) -> Result<RemoteSender, Unsent> {
    let mut waiter = Waiter::default();
    let (found, _) = poll_fn(|cx| remote.poll_find(&mut waiter, cx)).await?;
    shared.reach(State::LookUp);
    Ok(found)
}

/// SC-11: one send, as far as it depends on whether its node is down.
struct Attempt {
    setting: Setting,
    /// The node was down when it began.
    is_down: bool,
    /// It waits for a link even while the node is down.
    patient: bool,
    is_new: bool,
}

impl Attempt {
    fn begin(sender: &Sender, to: usize, patient: bool) -> (Self, Waiter) {
        let is_down = sender.downs.lock().contains(&to);
        let mut waiter = Waiter::default();
        if patient {
            waiter.wait_for_link();
        }
        let setting = sender.setting.clone();
        (Attempt { setting, is_down, patient, is_new: true }, waiter)
    }

    /// Judges the outcome of each poll.
    fn judge<T>(&mut self, polled: &Poll<Result<T, Unsent>>) {
        let shared = &self.setting.shared;
        let is_first = std::mem::take(&mut self.is_new);
        match polled {
            Poll::Ready(Err(Unsent::NodeDown(down))) if self.patient => {
                shared.fault(format!("SC-11: a send that waits for a link failed: {down}"));
            }
            Poll::Ready(Err(Unsent::NodeDown(_))) if self.is_down && is_first => {
                shared.reach(State::DownAtOnce);
            }
            Poll::Ready(Ok(_)) if self.is_down && self.patient => {
                shared.reach(State::DownWaitedFor);
            }
            Poll::Pending | Poll::Ready(Ok(_)) if self.is_down && !self.patient => {
                shared.fault("SC-11: a send to a node that is down did not fail at once".into());
            }
            Poll::Pending | Poll::Ready(_) => {}
        }
    }
}

/// A sender that waits, until it is dropped.
struct Standing {
    lines: Lines,
    place: (Lane, bool),
}

impl Standing {
    fn begin(setting: &Setting, lines: &Lines, place: (Lane, bool)) -> Self {
        let mut all = lines.lock();
        let count = all.entry(place).or_default();
        *count += 1;
        let (lane, by_identity) = place;
        if *count == CROWD {
            setting.shared.reach(State::Crowd);
        }
        if *count == 1 && all.get(&(lane, !by_identity)).is_some_and(|others| *others > 0) {
            setting.shared.reach(State::TwoReferences);
        }
        drop(all);
        Standing { lines: lines.clone(), place }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if let Some(count) = self.lines.lock().get_mut(&self.place) {
            *count -= 1;
        }
    }
}

/// Returns the node of a mailbox, and how it is opened: by its identity, if that is given.
fn way_to(plan: &Plan, lane: Lane, identity: Option<Target>) -> (NodeName, OpenRequest) {
    let name = NodeName::new(&plan.nodes[lane.0]).expect("a good name");
    let target = identity.unwrap_or_else(|| Target::Name(format!("m{}", lane.1)));
    (name, OpenRequest::new(target, 0))
}

fn kind_of(patience: Option<Patience>, deadline: Option<Instant>, mailbox: usize) -> SendKind {
    match patience {
        Some(Patience::Deadline(_)) => SendKind::Ask { deadline: deadline.map(Instant::into_std) },
        Some(_) => SendKind::Ask { deadline: None },
        None if is_confirmed(mailbox) => SendKind::ConfirmedTell,
        None => SendKind::Tell,
    }
}
