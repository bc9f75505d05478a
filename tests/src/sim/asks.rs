//! How an asker waits for the answer to an ask that it sent: to the end, for a while, or until its
//! deadline.

use std::sync::Arc;
use std::time::Duration;

use ringpost_history::Fate;
use ringpost_transport::endpoint::{PendingReply, Replier, ReplyLoss};
use ringpost_transport::fabric::sim::World;
use ringpost_transport::limits;
use ringpost_transport::memory::Payload;

use super::diary::{Diary, Lane};
use super::message::read;
use super::shared::{Shared, State};

/// For how long an asker waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Until there is an answer.
    Endless,
    /// For this time, which travels with the ask.
    Deadline(Duration),
    /// For this time, which only the asker knows.
    Dropped(Duration),
}

impl Patience {
    /// Returns how long it waits, if not to the end.
    pub(super) fn limit(self) -> Option<Duration> {
        match self {
            Patience::Endless => None,
            Patience::Deadline(limit) | Patience::Dropped(limit) => Some(limit),
        }
    }
}

/// An ask that was sent.
pub(super) struct Asked {
    pub(super) lane: Lane,
    pub(super) number: u64,
    pub(super) bytes: usize,
    pub(super) pending: PendingReply,
}

/// The context of an asking task, cloned for each ask.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) diary: Diary,
    pub(super) world: World,
    pub(super) shared: Arc<Shared>,
}

impl Asker {
    /// Waits for the end of an ask, and notes it.
    pub(super) async fn wait(&self, asked: Asked) {
        let Asked { lane, number, bytes, pending } = asked;
        let answer = pending.await;
        self.note((lane, number), bytes, answer);
    }

    /// Waits for the end of an ask, and gives it up after `limit`: then `state` is reached.
    pub(super) async fn wait_for(&self, mut asked: Asked, limit: Duration, state: State) {
        let answer = tokio::select! {
            biased;
            answer = &mut asked.pending => Some(answer),
            () = self.world.sleep(limit) => None,
        };
        let Asked { lane, number, bytes, pending } = asked;
        match answer {
            Some(answer) => self.note((lane, number), bytes, answer),
            None => {
                drop(pending);
                self.shared.reach(state);
                self.shared.give_up((self.diary.run(), lane, number), self.world.now());
                self.diary.told(lane, Some(number), Fate::Unknown);
            }
        }
    }

    /// Notes how an ask ended: its answer, or its fate.
    fn note(&self, (lane, number): (Lane, u64), bytes: usize, answer: Result<Payload, ReplyLoss>) {
        let fate = match answer {
            Ok(payload) => {
                let (from, mark, whole) = read(&payload).unwrap_or((self.diary.run(), 0, false));
                let echo = from == self.diary.run() && self.shared.number(mark) == Some(number);
                if !echo || !whole || payload.len() != bytes {
                    self.diary.garbage("an answer that is not the echo of its ask");
                }
                if payload.len() > limits::SLOT_BYTES_SMALL as usize {
                    self.shared.reach(State::LargeReply);
                }
                return self.diary.answered(lane, number);
            }
            // It was refused, or queued and then skipped.
            Err(ReplyLoss::Refused(_) | ReplyLoss::Failed(Replier::NOT_BEGUN)) => {
                self.shared.never_begun((self.diary.run(), lane, number));
                Fate::Unknown
            }
            Err(ReplyLoss::Late | ReplyLoss::Unsent(_)) => {
                self.shared.never_begun((self.diary.run(), lane, number));
                Fate::NotSent
            }
            Err(ReplyLoss::LinkDown(_)) => Fate::Unknown,
            Err(ReplyLoss::Failed(_)) => Fate::Delivered,
            Err(loss) => return self.diary.garbage(&format!("an ask that ended with {loss}")),
        };
        self.diary.told(lane, Some(number), fate);
    }
}
