//! A running link that cannot be forgotten: dropping it closes it.

use crate::cause::LinkCause;
use crate::driver::Running;

/// A running link that is closed when this is dropped.
pub(super) struct Carrier {
    /// The link.
    pub(super) running: Running,
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // Of a link that ended before, this changes nothing.
        self.running.link.close(LinkCause::Shutdown);
    }
}
