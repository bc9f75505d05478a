//! The file descriptor on which a program waits for several things at a time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io;

use crate::failure::Failure;

/// A descriptor that can be read from while there are tokens of it: one for each thing that the
/// program can take.
pub(crate) struct Ready {
    tokens: Mutex<usize>,
    fd: OwnedFd,
}

/// Keeps the descriptor ready.
pub(crate) struct Token(Arc<Ready>);

impl Ready {
    /// # Errors
    /// The process has no descriptor left.
    pub(crate) fn new() -> Result<Arc<Self>, Failure> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let fd = made.map_err(|error| Failure::failed(format!("no descriptor: {error}")))?;
        Ok(Arc::new(Ready { tokens: Mutex::new(0), fd }))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn token(self: &Arc<Self>) -> Token {
        let mut tokens = self.tokens.lock();
        if *tokens == 0 {
            // It fails only where the program has written a number near the limit to it.
            io::write(&self.fd, &1_u64.to_ne_bytes()).ok();
        }
        *tokens += 1;
        Token(self.clone())
    }

    /// Returns true if it can be read from now.
    #[cfg(test)]
    pub(crate) fn is_readable(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)).is_ok_and(|ready| ready == 1)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let mut tokens = self.0.tokens.lock();
        *tokens -= 1;
        if *tokens == 0 {
            // It fails only where the program has read from it.
            io::read(&self.0.fd, &mut [0; 8]).ok();
        }
    }
}
