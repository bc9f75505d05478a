//! The listener: accepts connections; bad input closes only the connection it came on.
//!
//! - **MS-6 bounded**: at most `UNPROVEN_CONNECTIONS_MAX` connections are between their first byte
//!   and their proof (or token); the oldest gives way. Each has `HANDSHAKE_TIMEOUT`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use crate::limits;
use crate::steps::step;
use crate::wire::{Listener, PREFACE_BYTES, Preface, Stream};

use super::connection;
use super::refusals::RefusalLog;
use super::table::Table;

/// Accepts until the node closes.
pub(super) async fn accept(table: Arc<Table>, mut listener: Box<dyn Listener>) {
    let unproven = Arc::new(Unproven::default());
    let refusals = Arc::new(RefusalLog::default());
    loop {
        let accepted = tokio::select! {
            biased;
            () = table.events.closing() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(stream) => {
                let (place, give_way) = unproven.clone().admit();
                let refusals = refusals.clone();
                table.tasks.spawn(serve(table.clone(), stream, place, give_way, refusals));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(limits::ACCEPT_BACKOFF).await;
            }
        }
    }
}

async fn serve(
    table: Arc<Table>,
    mut stream: Box<dyn Stream>,
    place: Place,
    mut give_way: oneshot::Receiver<()>,
    refusals: Arc<RefusalLog>,
) {
    step!(Accepted);
    let from = stream.peer_address();
    let deadline = Instant::now() + limits::HANDSHAKE_TIMEOUT;
    let first = tokio::select! {
        biased;
        () = table.events.closing() => return,
        // The sender is dropped to say it.
        _ = &mut give_way => return,
        first = timeout_at(deadline, first_bytes(&mut stream)) => first,
    };
    let first = match first {
        Ok(Ok(first)) => first,
        Ok(Err(error)) => return tracing::debug!(from, %error, "a connection that said nothing"),
        Err(_) => return tracing::debug!(from, "a connection that was too slow"),
    };
    let give_way = async {
        let _ = give_way.await;
    };
    match first {
        First::Data(token) => {
            step!(TokenReceived);
            match stream.into_tcp() {
                Some(stream) => table.network.doors.admit(token, stream),
                None => tracing::debug!(from, "a data connection where there are none"),
            }
        }
        First::Other(bytes) => {
            let carried =
                connection::accepted(table, stream, &bytes, deadline, give_way, place).await;
            if let Err(failure) = carried {
                refusals.report(&from, &failure);
            }
        }
    }
}

/// The beginning of an accepted connection.
enum First {
    /// The token of a queue pair of the tcp fabric.
    Data(u128),
    /// Bytes of anything else, which the handshake has to judge.
    Other([u8; PREFACE_BYTES]),
}

async fn first_bytes(stream: &mut Box<dyn Stream>) -> std::io::Result<First> {
    let mut preface = [0; PREFACE_BYTES];
    stream.read_exact(&mut preface).await?;
    if Preface::decode(&preface) == Ok(Preface::Data) {
        return Ok(First::Data(stream.read_u128_le().await?));
    }
    Ok(First::Other(preface))
}

/// The connections that have not proven themselves yet, by age (MS-6).
#[derive(Default)]
struct Unproven(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    next: u64,
    /// Dropping one tells its connection to give way.
    connections: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A place among them, given up by dropping it.
struct Place {
    unproven: Arc<Unproven>,
    number: u64,
}

impl Unproven {
    fn admit(self: Arc<Self>) -> (Place, oneshot::Receiver<()>) {
        let (stay, give_way) = oneshot::channel();
        let oldest = {
            let mut pending = self.0.lock();
            pending.next += 1;
            let number = pending.next;
            pending.connections.insert(number, stay);
            let full = pending.connections.len() > limits::UNPROVEN_CONNECTIONS_MAX;
            (number, if full { pending.connections.pop_first() } else { None })
        };
        (Place { unproven: self, number: oldest.0 }, give_way)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let stay = self.unproven.0.lock().connections.remove(&self.number);
        drop(stay);
    }
}
