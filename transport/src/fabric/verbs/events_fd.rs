//! A descriptor of the library's in tokio's reactor.
#![allow(unsafe_code, reason = "registers a descriptor with the reactor (VB-1)")]

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor of its own for events that somebody else reads.
pub(super) struct EventsFd(AsyncFd<OwnedFd>);

impl EventsFd {
    /// To be called on the runtime that will wait.
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        // SAFETY: the descriptor is owned, open until this is dropped (VB-1), and never exchanged.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        Ok(EventsFd(fd.map_err(|error| error.into_parts().1)?))
    }

    /// Reads by `read` when there may be something; ready when it says that there was. `read` reads
    /// to the last: readiness comes again only with the next event.
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        mut read: impl FnMut() -> io::Result<bool>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut readiness = ready!(self.0.poll_read_ready(cx))?;
            let came = read()?;
            readiness.clear_ready();
            if came {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
