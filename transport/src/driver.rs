//! One task per link: the only place that knows both `proto` and `fabric`.
//!
//! A turn (`driver/turn.rs`) takes completions, has the protocol read arrived frames, dispatches
//! their events, has the protocol write frames, and posts them. If none of this found work, the
//! driver sleeps, or spins for a while first (`driver/spin.rs`).
//!
//! - **DR-3 no lost wake-up**: the waker is registered before a turn looks for work, and the
//!   completion queue is polled again after it was armed.
//! - **DR-5 nothing new**: a look that finds no completion and no wake-up since the last turn began
//!   goes no further, except the first look after a sleep: other tasks wake the driver for all work
//!   they give it, and the driver notes the work that it left undone itself.
//!
//! Dispatch waits for nothing, because the window of a mailbox bounds the messages that come for
//! it. A link's end is reported when its queue pair has given back every slot (or has had the time
//! to), arrived frames were dispatched, and each committed message has its fate.

mod dispatch;
mod drain;
mod growth;
mod mailboxes;
mod pipe;
mod prepared;
mod reports;
mod slots;
mod spin;
mod turn;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::cause::LinkCause;
use crate::close_reason::CloseReason;
use crate::link::LinkHandle;
use crate::proto::send_queue::Fence;
use crate::shield;

use dispatch::Run;
use growth::Growth;
use mailboxes::Mailboxes;
use pipe::Pipe;
use spin::Spin;
use turn::{News, Scratch, Turn};

pub(crate) use prepared::{Connected, Offer, Prepared};
pub(crate) use reports::{Reports, settle};

/// The phase of a link, as its driver tells its session.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Opening,
    Confirmed,
    Ended(LinkCause),
}

/// One link's driver.
struct Driver {
    link: Arc<LinkHandle>,
    pipe: Arc<Mutex<Pipe>>,
    mailboxes: Mailboxes,
    growth: Growth,
    reports: Reports,
    /// Mailboxes that closed and are not reported yet, each with the fence that has to pass first.
    closing: VecDeque<(u64, CloseReason, Fence)>,
    phase: watch::Sender<Phase>,
    scratch: Scratch,
    run: Run,
    spin: Spin,
    news: News,
}

impl Driver {
    async fn run(mut self) {
        let pipe = self.pipe.clone();
        let mut cause = loop {
            match std::future::poll_fn(|cx| self.turn(&pipe, cx)).await {
                Turn::End(cause) => break cause,
                // Other tasks, sockets and timers have their turn.
                Turn::Yield => tokio::task::yield_now().await,
            }
        };
        self.drain(&mut cause).await;
        self.finish(cause);
    }
}

/// A driver that is dropped before its end (its runtime shut down, or the host panicked in one of
/// its calls) still ends its link, so that no sender waits for ever.
impl Drop for Driver {
    fn drop(&mut self) {
        if !self.link.has_ended() {
            let cause = LinkCause::of_drop();
            if cause == LinkCause::Failed {
                // A frame of which only a part was dispatched must not count as consumed.
                self.pipe.lock().proto.distrust();
            }
            // A host that panics again must not end the process.
            shield::run(|| self.finish(cause));
        }
    }
}

/// A link whose driver runs.
pub(crate) struct Running {
    /// The handle that its senders share. Not to be used before it is confirmed.
    pub(crate) link: Arc<LinkHandle>,
    phase: watch::Receiver<Phase>,
}

impl Running {
    /// Waits until a full-sized CONFIRM frame went through in both directions.
    ///
    /// # Errors
    /// [`LinkCause`]: the link ended before that.
    ///
    /// # Cancel safety
    /// May be called again.
    pub(crate) async fn confirmed(&mut self) -> Result<(), LinkCause> {
        match self.phase.wait_for(|phase| *phase != Phase::Opening).await.as_deref() {
            Ok(Phase::Confirmed) => Ok(()),
            Ok(Phase::Ended(cause)) => Err(cause.clone()),
            Ok(Phase::Opening) | Err(_) => Err(LinkCause::Closed),
        }
    }

    /// Waits for the end of the link: its queue pair is drained, and each message has its fate.
    ///
    /// # Cancel safety
    /// May be called again.
    pub(crate) async fn ended(&mut self) -> LinkCause {
        match self.phase.wait_for(|phase| matches!(phase, Phase::Ended(_))).await.as_deref() {
            Ok(Phase::Ended(cause)) => cause.clone(),
            // The driver's task is gone without a word: its runtime is shutting down.
            Ok(_) | Err(_) => LinkCause::Shutdown,
        }
    }
}
