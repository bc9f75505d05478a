//! Where incoming data connections meet the queue pairs that wait for them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::wire::{Detached, Stream};

/// Where incoming data connections meet the queue pairs that wait for them, by one-use token.
/// Clones are the same doors.
#[derive(Clone, Default)]
pub struct Doors(Arc<Mutex<BTreeMap<u128, oneshot::Sender<Detached>>>>);

impl Doors {
    /// Hands an accepted data connection to the queue pair that offered `token`; drops the
    /// connection and returns false when there is none. It leaves the runtime that accepted it: the
    /// queue pair's owner may run on another.
    pub(crate) fn admit(&self, token: u128, stream: Box<dyn Stream>) -> bool {
        let waiting = self.0.lock().remove(&token);
        // A queue pair that is dropped in this moment drops the connection, too.
        let claimed = waiting.zip(stream.into_data().ok()).map(|(door, stream)| door.send(stream));
        matches!(claimed, Some(Ok(())))
    }

    /// Returns a door that opens once, for `token`.
    pub(super) fn expect(&self, token: u128) -> Door {
        let (sender, stream) = oneshot::channel();
        let _replaced = self.0.lock().insert(token, sender);
        Door { doors: self.clone(), token, stream }
    }
}

impl fmt::Debug for Doors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The tokens are secret.
        write!(f, "Doors({} waiting)", self.0.lock().len())
    }
}

/// One queue pair's door: its token is good until it is dropped.
pub(super) struct Door {
    doors: Doors,
    token: u128,
    stream: oneshot::Receiver<Detached>,
}

impl Door {
    pub(super) fn token(&self) -> u128 {
        self.token
    }

    /// Waits for the connection, which belongs to no runtime yet; `None` when another door took the
    /// token.
    pub(super) async fn admitted(mut self) -> Option<Detached> {
        (&mut self.stream).await.ok()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Dropped after the lock is released: it may wake.
        let _sender = self.doors.0.lock().remove(&self.token);
    }
}
