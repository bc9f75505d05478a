//! The mailboxes of a scenario's node: messages wait in them, are counted (SC-8), and are begun
//! after a while.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use ringpost_transport::endpoint::{CloseNotice, Profile, Replier};
use ringpost_transport::host::{Accepted, Deliveries, Delivery, Inbox, Refusal};
use ringpost_transport::limits;
use rkyv::util::AlignedVec;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::diary::Diary;
use super::message::{MESSAGE, Run, read};
use super::shared::{Setting, State};

/// A receiver that stands still does so before one of its first messages.
const STILL_BEFORE: usize = 20;

/// Bytes that wait in all mailboxes of a node, by the run that sent them. The node's mailboxes
/// share it.
pub(super) type Waiting = Arc<Mutex<BTreeMap<Run, u64>>>;

/// One mailbox.
pub(super) struct TestInbox {
    pub(super) id: u64,
    pub(super) number: usize,
    pub(super) setting: Setting,
    pub(super) diary: Diary,
    pub(super) waiting: Waiting,
    pub(super) state: Mutex<InboxState>,
    pub(super) news: Notify,
}

#[derive(Default)]
pub(super) struct InboxState {
    queue: VecDeque<Letter>,
    notices: Vec<CloseNotice>,
    closed: bool,
}

/// A message that waits.
struct Letter {
    delivery: Delivery,
    from: Run,
    number: u64,
    /// When its asker gives up.
    deadline: Option<Instant>,
    bytes: u64,
    /// Where its bytes are counted until it is dropped or taken.
    waiting: Waiting,
}

impl Letter {
    fn taken(self) -> Delivery {
        let mut waiting = self.waiting.lock();
        if let Some(bytes) = waiting.get_mut(&self.from) {
            *bytes -= self.bytes;
        }
        drop(waiting);
        self.delivery
    }
}

impl TestInbox {
    pub(super) fn close(&self) {
        let (queue, notices) = {
            let mut state = self.state.lock();
            state.closed = true;
            (std::mem::take(&mut state.queue), std::mem::take(&mut state.notices))
        };
        queue.into_iter().for_each(|letter| drop(letter.taken()));
        drop(notices);
        self.news.notify_one();
    }

    /// Returns the most messages of one run of a node that wait.
    pub(super) fn waiting_of_a_run(&self, node: usize) -> usize {
        let mut of_runs = BTreeMap::new();
        for letter in self.state.lock().queue.iter().filter(|letter| letter.from.node == node) {
            *of_runs.entry(letter.from).or_insert(0) += 1;
        }
        of_runs.into_values().max().unwrap_or(0)
    }

    async fn take(&self) -> Option<Letter> {
        loop {
            {
                let mut state = self.state.lock();
                if let Some(letter) = state.queue.pop_front() {
                    return Some(letter);
                }
                if state.closed {
                    return None;
                }
            }
            self.news.notified().await;
        }
    }

    /// Consumes messages, with pauses, until the mailbox closes; stands still once if the plan says
    /// so. Keeps some payloads, as some actors do.
    pub(super) async fn consume(self: Arc<Self>, mut rng: Rng) -> Option<()> {
        let Setting { plan, world, shared, .. } = &self.setting;
        let mut kept = VecDeque::new();
        let keep = rng.usize(0..40);
        let still_before = rng.usize(0..STILL_BEFORE);
        for count in 0.. {
            if count == still_before && !plan.still_max.is_zero() {
                shared.reach(State::StoodStill);
                world.sleep(plan.still_max.mul_f64(rng.f64())).await;
            }
            let letter = self.take().await?;
            kept.extend(self.begin(letter, &mut rng));
            if kept.len() > keep {
                kept.pop_front();
            }
            pause(&self.setting, plan.pause_max, &mut rng).await;
        }
        None
    }

    /// Handles a message; returns its payload. An ask whose deadline has passed is skipped.
    fn begin(&self, letter: Letter, rng: &mut Rng) -> Option<ringpost_transport::memory::Payload> {
        let Setting { world, shared, .. } = &self.setting;
        let ask = (letter.from, (self.diary.run().node, self.number), letter.number);
        let late = letter.deadline.is_some_and(|deadline| deadline <= Instant::now());
        let Delivery { payload, replier, receipt, .. } = letter.taken();
        drop(receipt);
        if let Some(mut replier) = replier {
            if late || !replier.begin(Instant::now()) {
                shared.reach(State::AskSkipped);
                return None;
            }
            shared.begin(ask, world.now(), false);
            answer(replier, &payload, rng);
        }
        Some(payload)
    }

    /// Judges SC-8: the messages of one run that wait once this message of it has come.
    fn judge_waiting(&self, state: &InboxState, from: Run, bytes: u64) {
        let Setting { plan, shared, .. } = &self.setting;
        let me = self.diary.run().node;
        let Profile { mailbox_window_messages, mailbox_window_bytes, link_window_bytes, .. } =
            plan.profiles[me];
        let own = state.queue.iter().filter(|letter| letter.from == from);
        let (messages, here) = own.fold((0, 0), |(n, sum), letter| (n + 1, sum + letter.bytes));
        let everywhere = self.waiting.lock().get(&from).copied().unwrap_or_default();
        // Beyond the window of the link, each mailbox may have one message.
        let one_each = (plan.mailboxes * plan.bytes_max) as u64;
        // A window may have been doubled while nothing waited.
        let times = 1 << limits::WINDOW_DOUBLINGS_MAX;
        let what = if messages > times * mailbox_window_messages + 1 {
            format!("{messages} messages, of a window of {mailbox_window_messages}")
        } else if here > u64::from(times * mailbox_window_bytes) + bytes {
            format!("{here} bytes, of a window of {mailbox_window_bytes}")
        } else if everywhere > u64::from(link_window_bytes) + one_each {
            format!("{everywhere} bytes in all mailboxes, of a window of {link_window_bytes}")
        } else {
            return;
        };
        let number = self.number;
        shared.fault(format!("SC-8: in mailbox {number} of node {me} wait, of {from:?}, {what}"));
    }
}

async fn pause(setting: &Setting, longest: Duration, rng: &mut Rng) {
    if !longest.is_zero() && rng.bool() {
        setting.world.sleep(longest.mul_f64(rng.f64())).await;
    }
}

/// Echoes an ask, mostly.
fn answer(replier: Replier, asked: &[u8], rng: &mut Rng) {
    match rng.u32(0..10) {
        0 => drop(replier),
        1 => replier.fail(5),
        _ => {
            let mut bytes = AlignedVec::new();
            bytes.extend_from_slice(asked);
            replier.send(&mut bytes);
        }
    }
}

impl Inbox for TestInbox {
    fn id(&self) -> u64 {
        self.id
    }

    fn accepted(&self) -> Vec<Accepted> {
        vec![Accepted { id: 5, layout: 5, reply: 5 }, MESSAGE.newest()]
    }

    fn deliver(&self, run: &mut Vec<Deliveries>) -> Result<(), Refusal> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Refusal::Closed);
        }
        run.drain(..).flatten().for_each(|delivery| self.queue(&mut state, delivery));
        drop(state);
        self.news.notify_one();
        Ok(())
    }

    fn signal(&self, _signal: u16) {
        self.diary.garbage("a signal that nobody sent");
    }

    fn on_close(&self, notice: CloseNotice) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        // Drops notices of links that ended, as a runtime does.
        let stale: Vec<_> = state.notices.extract_if(.., |notice| notice.is_stale()).collect();
        state.notices.push(notice);
        drop(state);
        drop(stale);
    }
}

impl TestInbox {
    /// Queues a message that arrived, and judges the waiting messages.
    fn queue(&self, state: &mut InboxState, delivery: Delivery) {
        let head = read(&delivery.payload);
        let known = |mark| self.setting.shared.number(mark);
        let Some((from, number, whole)) = head.and_then(|(f, mark, w)| Some((f, known(mark)?, w)))
        else {
            self.diary.garbage("a message without a head, or that was never committed");
            return;
        };
        self.diary.arrived(self.number, from, number, whole);
        let bytes = delivery.payload.len() as u64;
        let deadline = delivery.deadline;
        *self.waiting.lock().entry(from).or_default() += bytes;
        let waiting = self.waiting.clone();
        state.queue.push_back(Letter { delivery, from, number, deadline, bytes, waiting });
        self.judge_waiting(state, from, bytes);
    }
}
