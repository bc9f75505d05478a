//! The log of a test.

use std::io;
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;

/// The text of the log.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Listens on this thread until the guard is dropped.
    pub fn listen(&self) -> DefaultGuard {
        // A place in the source that another test comes to for the first time, just when this one
        // begins to listen, may be switched off for all: whether anybody listens to it is decided
        // before it is entered in the list that each new listener looks through. From the first
        // call on somebody listens to all there is, and each call looks through the list again.
        static EVERYTHING: Once = Once::new();
        EVERYTHING.call_once(|| {
            let subscriber = tracing_subscriber::fmt().with_writer(io::sink);
            drop(tracing::subscriber::set_global_default(subscriber.finish()));
        });
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || log.clone());
        let listening = tracing::subscriber::set_default(subscriber.with_ansi(false).finish());
        tracing::callsite::rebuild_interest_cache();
        listening
    }

    /// Waits until a line has this text.
    pub async fn wait(&self, text: &str) {
        while self.count(text) == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// How many lines have this text.
    pub fn count(&self, text: &str) -> usize {
        self.count_all(&[text])
    }

    /// How many lines have all of these.
    pub fn count_all(&self, texts: &[&str]) -> usize {
        let log = String::from_utf8(self.0.lock().clone()).unwrap();
        log.lines().filter(|line| texts.iter().all(|text| line.contains(text))).count()
    }
}
