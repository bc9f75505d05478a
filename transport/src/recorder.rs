//! The lines that are logged while a test runs, on its thread.

use std::sync::Arc;

use parking_lot::Mutex;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps the events of one level and the graver ones.
#[derive(Clone)]
pub(crate) struct Recorder {
    level: Level,
    events: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    pub(crate) fn new(level: Level) -> Self {
        Recorder { level, events: Arc::default() }
    }

    /// Returns the lines recorded since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.events.lock())
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.events.lock().push(format!("{event:?}"));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
