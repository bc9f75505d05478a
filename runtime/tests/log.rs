//! What the log of a test says.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;

/// What the log says.
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
    /// Listens on this thread until what it returns is dropped.
    pub fn listen(&self) -> DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || log.clone());
        tracing::subscriber::set_default(subscriber.with_ansi(false).finish())
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
