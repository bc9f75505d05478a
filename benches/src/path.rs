//! A path that takes time: a relay in the measuring process hands each byte on 5 ms after it came.
//!
//! The delay of the kernel (`netem`) is not everywhere, and needs root. Against a cable of that
//! length the relay is kind: each half of the path is a TCP connection over loopback, so TCP itself
//! never waits 10 ms for an acknowledgement and loses nothing. What remains, and is measured, is
//! how much a contestant lets be on its way before its own side beyond the path answers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Time that a byte takes one way.
pub const ONE_WAY: Duration = Duration::from_millis(5);

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// Most pieces on their way, each way: 64 MiB if all are full, far more than 5 ms of any rate that
/// loopback reaches.
const PIECES: usize = 1024;

/// A relay to one address. It works until the process ends.
#[derive(Debug)]
pub struct Path {
    address: String,
}

/// Bytes on their way, and the time at which they arrive.
struct Piece {
    due: Instant,
    bytes: Vec<u8>,
}

impl Path {
    /// Starts a relay to `far`.
    ///
    /// # Errors
    /// When it cannot listen.
    pub fn start(far: &str) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let far = far.to_owned();
        thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                if let Err(error) = carry(&near, &far) {
                    eprintln!("bench: the path to {far} failed, its connection ends: {error}");
                    drop(near.shutdown(Shutdown::Both));
                }
            }
        });
        Ok(Path { address })
    }

    /// Returns the address at which the path begins.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// Carries a connection both ways, on four threads.
fn carry(near: &TcpStream, far: &str) -> io::Result<()> {
    let far = TcpStream::connect(far)?;
    for socket in [near, &far] {
        socket.set_nodelay(true)?;
    }
    for (from, to) in [(near, &far), (&far, near)] {
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        let (pieces, arriving) = sync_channel(PIECES);
        let (empty, emptied) = channel();
        thread::spawn(move || take(from, &pieces, &emptied));
        thread::spawn(move || hand_on(to, &arriving, &empty));
    }
    Ok(())
}

/// Reads until the sender closes the connection or the other side is gone.
fn take(mut from: TcpStream, pieces: &SyncSender<Piece>, emptied: &Receiver<Vec<u8>>) {
    loop {
        let mut bytes = emptied.try_recv().unwrap_or_default();
        bytes.resize(PIECE, 0);
        let Ok(length) = from.read(&mut bytes) else { return };
        bytes.truncate(length);
        if length == 0 || pieces.send(Piece { due: Instant::now() + ONE_WAY, bytes }).is_err() {
            return;
        }
    }
}

/// Writes each piece when it is due.
fn hand_on(mut to: TcpStream, pieces: &Receiver<Piece>, empty: &Sender<Vec<u8>>) {
    for Piece { due, bytes } in pieces {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
        // If the reader is gone, the buffer is not needed again.
        drop(empty.send(bytes));
    }
    // The socket may be closed already.
    drop(to.shutdown(Shutdown::Write));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_through_unchanged_and_late_and_so_does_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let path = Path::start(&listener.local_addr().unwrap().to_string()).unwrap();
        let mut near = TcpStream::connect(path.address()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let sent: Vec<u8> = (0..3 * PIECE + 7).map(|at| at as u8).collect();
        let (start, copy) = (Instant::now(), sent.clone());
        let writer = thread::spawn(move || {
            near.write_all(&copy).unwrap();
            near.shutdown(Shutdown::Write).unwrap();
            near
        });
        let mut arrived = Vec::new();
        far.read_to_end(&mut arrived).unwrap();
        assert!(arrived == sent && start.elapsed() >= ONE_WAY);
        drop(writer.join().unwrap());
    }
}
