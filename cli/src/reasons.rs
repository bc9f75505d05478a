//! The reasons for which links do not come up, as the log of this program's node tells them.
//!
//! `docs/OPERATING.md` lists the lines. The nodes of this program dial one after the other, so the
//! last line is about the current dial.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The lines of the log after which a dial has failed; the field says why.
const FAILED: [(&str, &str); 3] = [
    ("a seed refuses this node", "failure"),
    ("a seed is not reached: it is dialled again", "failure"),
    ("a node is not reached: it is dialled again", "last"),
];
/// The lines that say which fabrics were tried before and failed.
const PASSED_OVER: [&str; 2] = ["no fabric could be connected", "a better fabric did not come up"];

/// The line of the log about a variable of the environment that no node knows.
const UNKNOWN: &str = "an environment variable is unknown: it says nothing";

/// The reasons of the dial that is under way. Clones are the same; one of them listens to the log.
#[derive(Clone, Default)]
pub(crate) struct Reasons(Arc<Shared>);

#[derive(Default)]
struct Shared {
    heard: Mutex<Heard>,
    news: Notify,
}

#[derive(Default)]
struct Heard {
    failure: Option<String>,
    passed_over: Vec<String>,
    unknown: Vec<(String, Option<String>)>,
}

impl Reasons {
    /// Forgets the reasons of an earlier dial.
    pub(crate) fn forget(&self) {
        *self.heard() = Heard::default();
    }

    /// Returns the variables that the last node did not know, and the names that may be meant.
    pub(crate) fn unknown(&self) -> Vec<(String, Option<String>)> {
        self.heard().unknown.clone()
    }

    /// Returns the name of each fabric that failed before, and why.
    pub(crate) fn passed_over(&self) -> Vec<String> {
        self.heard().passed_over.clone()
    }

    /// Waits until the dial has failed, and returns why.
    pub(crate) async fn failure(&self) -> String {
        loop {
            let news = self.0.news.notified();
            {
                let heard = self.heard();
                match (&heard.failure, &*heard.passed_over) {
                    (Some(failure), []) => return failure.clone(),
                    (Some(_), passed_over) => return passed_over.join("; "),
                    (None, _) => {}
                }
            }
            news.await;
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Subscriber> Layer<S> for Reasons {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let mut heard = self.heard();
        if PASSED_OVER.contains(&line.text.as_str()) {
            // It is a list as `Debug` writes it, which JSON reads where no character is special.
            let list = line.field("passed_over");
            heard.passed_over = serde_json::from_str(&list).unwrap_or_else(|_| vec![list]);
            // Each pair of addresses may have had the same one.
            heard.passed_over.dedup();
        } else if line.text == UNKNOWN {
            let meant = Some(line.field("meant")).filter(|meant| !meant.is_empty());
            heard.unknown.push((line.field("variable"), meant));
        } else if let Some((_, field)) = FAILED.iter().find(|(text, _)| *text == line.text) {
            heard.failure = Some(line.field(field));
            // One waits at most, and may not have begun to.
            self.0.news.notify_one();
        }
    }
}

/// A line of the log.
#[derive(Default)]
struct Line {
    text: String,
    fields: Vec<(&'static str, String)>,
}

impl Line {
    fn field(&self, name: &str) -> String {
        let found = self.fields.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        match field.name() {
            "message" => self.text = value,
            name => self.fields.push((name, value)),
        }
    }
}
