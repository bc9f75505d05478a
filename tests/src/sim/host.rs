//! The layer above the transport, as the scenarios need it: mailboxes that are found by name and by
//! identity, and what the links report (SC-5, SC-6, SC-9, SC-11).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use ringpost_transport::fabric::sim::World;
use ringpost_transport::host::{
    Fate, Host, Inbox, LinkCause, Lost, NodeDownCause, OpenRefusal, OpenRequest, PeerEvent, Target,
};
use ringpost_transport::id::{Incarnation, NodeId};
use tokio::sync::Notify;

use super::diary::{Diary, Lane, is_confirmed, told};
use super::inbox::{TestInbox, Waiting};
use super::shared::{Setting, State};

/// The mailboxes of one node.
pub(super) struct TestHost {
    setting: Setting,
    diary: Diary,
    boxes: Mutex<BTreeMap<usize, Arc<TestInbox>>>,
    waiting: Waiting,
    /// The incarnation of the run, once the network has it.
    incarnation: OnceLock<Incarnation>,
    pub(super) link_ups: AtomicU64,
    pub(super) downs: Downs,
}

/// The nodes that were reported down to a node and not linked since, for its senders (SC-11),
/// except nodes of which another run has answered.
pub(super) type Downs = Arc<Mutex<BTreeSet<usize>>>;

impl TestHost {
    pub(super) fn new(setting: Setting, diary: Diary) -> Arc<Self> {
        let (boxes, waiting, incarnation, link_ups, downs) = Default::default();
        Arc::new(TestHost { setting, diary, boxes, waiting, incarnation, link_ups, downs })
    }

    /// Sets the identity of its run, by which its mailboxes can be found from then on.
    pub(super) fn born(&self, incarnation: Incarnation) {
        let _ = self.incarnation.set(incarnation);
        self.boxes.lock().values().for_each(|inbox| self.publish(inbox));
    }

    /// Opens a mailbox of this name.
    pub(super) fn open_mailbox(&self, number: usize) -> Arc<TestInbox> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let inbox = Arc::new(TestInbox {
            // The low half is its number.
            id: IDS.fetch_add(1, Ordering::Relaxed) << 32 | number as u64,
            number,
            setting: self.setting.clone(),
            diary: self.diary.clone(),
            waiting: self.waiting.clone(),
            state: Mutex::default(),
            news: Notify::new(),
        });
        self.boxes.lock().insert(number, inbox.clone());
        self.publish(&inbox);
        inbox
    }

    /// Closes a mailbox: its messages are dropped, and links are told.
    pub(super) fn close_mailbox(&self, number: usize) {
        self.setting.shared.identify((self.diary.run().node, number), None);
        let inbox = self.boxes.lock().remove(&number);
        if let Some(inbox) = inbox {
            inbox.close();
        }
    }

    fn publish(&self, inbox: &TestInbox) {
        if let Some(incarnation) = self.incarnation.get() {
            let lane = (self.diary.run().node, inbox.number);
            let target = Target::Identity { incarnation: *incarnation, id: inbox.id };
            self.setting.shared.identify(lane, Some(target));
        }
    }

    fn me(&self) -> &str {
        &self.setting.plan.nodes[self.diary.run().node]
    }

    fn world(&self) -> &World {
        &self.setting.world
    }

    fn lane_of(&self, lost: &Lost) -> Option<Lane> {
        let names = &self.setting.plan.nodes;
        let to = names.iter().position(|name| *name == lost.peer.as_str())?;
        match &lost.target {
            Target::Name(name) => Some((to, name.strip_prefix('m')?.parse().ok()?)),
            Target::Identity { id, .. } => Some((to, *id as u32 as usize)),
        }
    }

    /// Notes whether a peer is down.
    fn set_down(&self, peer: &NodeId, is_down: bool) {
        let names = &self.setting.plan.nodes;
        let Some(node) = names.iter().position(|name| name == peer.name.as_str()) else { return };
        if is_down {
            self.downs.lock().insert(node);
        } else {
            self.downs.lock().remove(&node);
        }
    }

    /// Returns true if messages of some run of this node wait here.
    fn has_waiting(&self, peer: &NodeId) -> bool {
        let names = &self.setting.plan.nodes;
        let waiting = self.waiting.lock();
        waiting.iter().any(|(run, bytes)| *bytes > 0 && names[run.node] == peer.name.as_str())
    }

    /// Returns true if a run of this node has filled a mailbox here.
    fn is_filled_by(&self, peer: &NodeId) -> bool {
        let plan = &self.setting.plan;
        let window = plan.profiles[self.diary.run().node].mailbox_window_messages as usize;
        let Some(node) = plan.nodes.iter().position(|name| name == peer.name.as_str()) else {
            return false;
        };
        self.boxes.lock().values().any(|inbox| inbox.waiting_of_a_run(node) >= window)
    }

    /// Judges SC-5 and SC-6.
    fn judge_loss(&self, peer: &NodeId, cause: &LinkCause) {
        let what = format!("{} lost its link to {}: {cause}", self.me(), peer.name);
        let shared = &self.setting.shared;
        if matches!(cause, LinkCause::Violation(_)) {
            shared.fault(format!("SC-6: {what}"));
        } else if shared.is_calm() {
            shared.fault(format!("SC-5: {what}"));
        }
    }
}

impl Host for TestHost {
    fn open(&self, _peer: &NodeId, request: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        let boxes = self.boxes.lock();
        let inbox = match &request.target {
            Target::Name(name) => {
                let number = name.strip_prefix('m').and_then(|n| n.parse::<usize>().ok());
                number.and_then(|number| boxes.get(&number))
            }
            Target::Identity { incarnation, id } => {
                let own = self.incarnation.get() == Some(incarnation);
                let inbox = boxes.get(&(*id as u32 as usize)).filter(|_| own);
                inbox.filter(|inbox| inbox.id == *id)
            }
        };
        Ok(inbox.ok_or(OpenRefusal::NoSuchMailbox)?.clone())
    }

    fn lost(&self, lost: Lost) {
        let Some(lane) = self.lane_of(&lost) else {
            return self.diary.garbage("a message to nobody was reported lost");
        };
        if !is_confirmed(lane.1) {
            self.diary.told(lane, None, told(lost.fate));
        }
        self.world().log(&format!("{} lost {lane:?} {:?}", self.me(), lost.fate));
        if self.setting.shared.is_parting() && !matches!(lost.fate, Fate::Refused(_)) {
            let fate = lost.fate;
            self.setting.shared.fault(format!("SC-9: a message to {lane:?} was lost: {fate:?}"));
        }
    }

    fn event(&self, event: PeerEvent) {
        let text = match event {
            PeerEvent::LinkUp { peer, fabric } => {
                self.set_down(&peer, false);
                let earlier = self.link_ups.fetch_add(1, Ordering::Relaxed);
                if earlier > 0 && self.has_waiting(&peer) {
                    self.setting.shared.reach(State::RelinkBesideWaiting);
                }
                if earlier > 0 && self.is_filled_by(&peer) {
                    self.setting.shared.reach(State::RelinkBesideFull);
                }
                format!("up {} {fabric}", peer.name)
            }
            PeerEvent::LinkDown { peer, cause } => {
                self.judge_loss(&peer, &cause);
                format!("link down {} {cause}", peer.name)
            }
            PeerEvent::NodeDown { peer, cause } => {
                self.set_down(&peer, cause != NodeDownCause::Restarted);
                format!("node down {} {cause}", peer.name)
            }
            _ => "something else".to_owned(),
        };
        self.world().log(&format!("{} {text}", self.me()));
    }
}
