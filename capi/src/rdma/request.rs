//! Sends and receives that the program waits for later.

use std::sync::Arc;
use std::sync::atomic::AtomicPtr;
use std::time::Duration;

use super::context::Context;
use super::peer::Peer;
use crate::driver::Closing;
use crate::failure::Failure;
use crate::handles::Kind;
use crate::inbox::{Pending, Receive};

/// A request, made by `rdma_isend` and `rdma_irecv`.
pub(crate) struct Request {
    what: What,
    closing: Closing,
}

enum What {
    Send(Arc<Pending<usize>>),
    Receive {
        receive: Arc<Receive>,
        peer: Arc<Peer>,
        /// Where the message goes when the program asks for it.
        to: AtomicPtr<u8>,
    },
}

impl Kind for Request {
    const NAME: &'static str = "a request";
}

/// The success of a request.
pub(super) enum Done {
    Sent(usize),
    /// The message, and where it goes.
    Received(Vec<u8>, *mut u8),
}

impl Request {
    /// Begins to send bytes, of which it takes a copy.
    ///
    /// # Errors
    /// There is no such peer, or too many sends to it are under way.
    pub(super) fn send(context: &Context, peer: i32, bytes: &[u8]) -> Result<Self, Failure> {
        let peer = context.peer(peer)?;
        let sent = Arc::new(Pending::new(Some(context.ready.clone())));
        peer.line.begin_send(bytes.to_vec(), sent.clone())?;
        Ok(Request { what: What::Send(sent), closing: Closing::default() })
    }

    /// Begins to receive a message of up to `len_max` bytes.
    ///
    /// # Errors
    /// There is no such peer.
    pub(super) fn receive(
        context: &Context,
        peer: i32,
        to: *mut u8,
        len_max: usize,
    ) -> Result<Self, Failure> {
        let peer = context.peer(peer)?;
        let receive = Receive::new(len_max, Some(context.ready.clone()));
        peer.line.inbox.post(receive.clone());
        let what = What::Receive { receive, peer, to: AtomicPtr::new(to) };
        Ok(Request { what, closing: Closing::default() })
    }

    /// Returns true if it is over.
    pub(super) fn is_over(&self) -> bool {
        match &self.what {
            What::Send(sent) => sent.is_settled(),
            What::Receive { receive, .. } => receive.pending.is_settled(),
        }
    }

    /// Takes the outcome, once. For who has closed the handle: another one may have freed the
    /// memory of a receive.
    pub(super) fn take(&self) -> Option<Result<Done, Failure>> {
        match &self.what {
            What::Send(sent) => Some(sent.take()?.map(Done::Sent)),
            What::Receive { receive, to, .. } => {
                let to = to.load(std::sync::atomic::Ordering::Relaxed);
                Some(receive.pending.take()?.map(|message| Done::Received(message, to)))
            }
        }
    }

    /// Waits for the outcome, for so long at most.
    ///
    /// # Errors
    /// The time is over, or another thread cancels it.
    pub(super) fn wait(&self, time: Option<Duration>) -> Result<(), Failure> {
        self.closing.wait(time, async {
            match &self.what {
                What::Send(sent) => sent.settled().await,
                What::Receive { receive, .. } => receive.pending.settled().await,
            }
            Ok(())
        })
    }

    /// Gives it up: a message that it has received and not given to the program goes back to
    /// its place in the order of its peer, and a message that it sends is sent.
    pub(super) fn cancel(&self) {
        self.closing.close();
        if let What::Receive { receive, peer, .. } = &self.what {
            peer.line.inbox.withdraw(receive);
            peer.line.inbox.give_back(receive);
        }
    }
}
