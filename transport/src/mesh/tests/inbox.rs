//! A mailbox of a layer above that a test stands in for.

use super::*;
use crate::cause::Refusal;
use crate::endpoint::CloseNotice;
use crate::host::{Deliveries, Delivery};
use crate::open_request::{Accepted, MessageForms};

/// The message that it accepts.
pub(super) const MESSAGE: MessageForms = MessageForms { id: 1, layouts: &[2], replies: &[] };

/// A mailbox that hands deliveries to the test, which keeps them, and their room, or drops them.
pub(super) struct TestInbox<F> {
    pub(super) id: u64,
    pub(super) take: F,
    /// Kept for as long as the mailbox is open.
    pub(super) notices: Arc<Mutex<Vec<CloseNotice>>>,
}

impl<F: Fn(Vec<Delivery>) + Send + Sync + 'static> Inbox for TestInbox<F> {
    fn id(&self) -> u64 {
        self.id
    }

    fn accepted(&self) -> Vec<Accepted> {
        vec![MESSAGE.newest()]
    }

    fn deliver(&self, run: &mut Vec<Deliveries>) -> Result<(), Refusal> {
        (self.take)(run.drain(..).flatten().collect());
        Ok(())
    }

    fn signal(&self, _: u16) {}

    fn on_close(&self, notice: CloseNotice) {
        self.notices.lock().push(notice);
    }
}
