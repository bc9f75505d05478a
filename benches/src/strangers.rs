//! Strangers at a server's port, one after the other, while it is measured.

use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Time from one stranger to the next: in eight seconds 2,000 of each kind come.
const EVERY: Duration = Duration::from_millis(1);
/// Connections that strangers hold at most, more than a node lets wait.
const HELD: usize = 100;

/// A thread that connects to a server as strangers do, until it is stopped.
#[derive(Debug)]
pub struct Strangers {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<usize, Failure>>,
}

impl Strangers {
    /// Starts it.
    pub fn start(address: &str) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (told, address) = (over.clone(), address.to_owned());
        let thread = thread::spawn(move || come(&address, &told));
        Strangers { over, thread }
    }

    /// Stops it and returns how many strangers came.
    ///
    /// # Errors
    /// When the server took no more of them.
    pub fn stop(self) -> Result<usize, Failure> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| Failure::Failed("the strangers panicked".into()))?
    }
}

/// Returns what strangers say: garbage, a valid opening, one with a first message that was made for
/// another connection, and nothing.
fn sayings() -> [Vec<u8>; 4] {
    let opening = *b"RINGPOST\x01\x01\0\0\x03\x03";
    let first_message = [&[1, 0, 64, 0][..], &[7; 64]].concat();
    let replayed = [&opening[..], &first_message].concat();
    [b"GET / HTTP/1.1\r\n\r\n".to_vec(), opening.to_vec(), replayed, Vec::new()]
}

fn come(address: &str, over: &AtomicBool) -> Result<usize, Failure> {
    let (sayings, mut held, start) = (sayings(), VecDeque::new(), Instant::now());
    for (came, says) in sayings.iter().cycle().enumerate() {
        if over.load(Ordering::Relaxed) {
            return Ok(came);
        }
        let mut stream = TcpStream::connect(address)?;
        // The server may have hung up.
        let _ = stream.write_all(says);
        held.push_back(stream);
        if held.len() > HELD {
            held.pop_front();
        }
        let due = EVERY * (came as u32 + 1);
        thread::sleep(due.saturating_sub(start.elapsed()));
    }
    unreachable!("they come again and again")
}
