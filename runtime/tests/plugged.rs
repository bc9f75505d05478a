//! Nodes whose log, metrics and values of their programs fail wherever they are used.

use std::fmt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use ringpost::observe::{DeadLetterCause, NodeEvent};
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart, Supervisor};
use tokio::time::timeout;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Subscriber};

use crate::remote::{PATIENCE, listening};

/// A value that panics when it is dropped: as the payload of a panic, or the state of an actor.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        std::panic::panic_any(Mine);
    }
}

/// Ends in the way that it is asked for, or answers how often it was made.
struct Fragile {
    made: u64,
    _mine: Option<Mine>,
}

#[actor]
impl Actor for Fragile {}

#[handlers]
impl Fragile {
    #[handler]
    fn made(&mut self) -> u64 {
        self.made
    }

    #[handler]
    fn speak(&mut self, text: String) {
        panic!("{text}");
    }

    #[handler]
    async fn blow(&mut self) {
        tokio::task::yield_now().await;
        std::panic::panic_any(Mine);
    }
}

fn fragile(made: &Arc<AtomicU64>) -> impl Fn() -> Fragile + Send + Sync + use<> {
    let made = made.clone();
    move || Fragile { made: made.fetch_add(1, Ordering::SeqCst) + 1, _mine: Some(Mine) }
}

/// Two nodes link, work and shut down; their actors panic, are restarted, and end.
async fn scene() {
    let alpha = listening("alpha", &[]).await;
    let beta = listening("beta", &[&alpha]).await;
    alpha.ready(1).await.unwrap();
    beta.ready(1).await.unwrap();
    let mut events = alpha.events();

    // A panic is one, whatever its payload does, and restarts the actor.
    let made = Arc::default();
    let child = Child::new(fragile(&made)).named("child");
    let child = child.restart(Restart::on_failure().at_most(100, Duration::from_secs(60)));
    let supervisor = Supervisor::new(ringpost::spawn::Strategy::OneForOne).child(child);
    alpha.spawn("supervisor", supervisor).await.unwrap();
    let far: ActorRef<Fragile> = beta.actor("alpha/child").await.unwrap();
    assert_eq!(far.made().await.unwrap(), 1);
    assert_eq!(far.speak("a word".into()).await.unwrap_err().cause, AskCause::Panicked);
    assert_eq!(far.made().await.unwrap(), 2);
    let near: ActorRef<Fragile> = alpha.actor("alpha/child").await.unwrap();
    assert_eq!(near.blow().await.unwrap_err().cause, AskCause::Panicked);
    assert_eq!(near.made().await.unwrap(), 3);
    assert_eq!(far.blow().await.unwrap_err().cause, AskCause::Panicked);
    assert_eq!(far.made().await.unwrap(), 4);

    // The end of one without a supervisor is told, near and far.
    let made = Arc::default();
    for name in ["spoken", "blown"] {
        let lonely = alpha.spawn(name, fragile(&made)()).await.unwrap();
        let far: ActorRef<Fragile> = beta.actor(&format!("alpha/{name}")).await.unwrap();
        let mut told = Box::pin(far.wait_stopped());
        assert!(futures::poll!(&mut told).is_pending());
        // It comes after the wait.
        far.made().await.unwrap();
        let text = match name {
            "spoken" => {
                lonely.speak("the last one".into()).await.unwrap_err();
                "the last one"
            }
            _ => {
                lonely.blow().await.unwrap_err();
                "a panic without a message"
            }
        };
        let ended = ActorExit::Panicked(text.into());
        assert_eq!((lonely.wait_stopped().await, told.await), (ended.clone(), ended));
        assert!(lonely.speak("too late".into()).tell().await.is_err());
    }

    // Unhandled messages are counted.
    let dead = alpha.dead_letters().count(DeadLetterCause::Stopped);
    let quiet = alpha.spawn_anonymous(fragile(&made)()).await.unwrap();
    let mut left = 0;
    quiet.speak("one panic, and those that it left".into()).tell().await.unwrap();
    for _ in 0..2 {
        // It may have ended already: then that comes back, and is left by nobody.
        left += u64::from(quiet.speak("never said".into()).tell().await.is_ok());
    }
    quiet.wait_stopped().await;
    assert_eq!(alpha.dead_letters().count(DeadLetterCause::Stopped), dead + left);

    // A link that ends is told, and comes again with the next node.
    beta.shutdown(PATIENCE).await;
    while !matches!(events.recv().await.unwrap(), NodeEvent::NodeDown { .. }) {}
    let beta = listening("beta", &[&alpha]).await;
    beta.ready(1).await.unwrap();
    let far: ActorRef<Fragile> = beta.actor("alpha/child").await.unwrap();
    assert_eq!(far.made().await.unwrap(), 4);
    beta.shutdown(PATIENCE).await;
    alpha.shutdown(PATIENCE).await;
}

/// A subscriber, and also metrics, that panic when they are used.
struct Failing;

#[rustfmt::skip]
impl Subscriber for Failing {
    fn register_callsite(&self, _: &'static tracing::Metadata<'static>) -> Interest { panic!("x") }
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool { true }
    fn max_level_hint(&self) -> Option<LevelFilter> { Some(LevelFilter::TRACE) }
    fn new_span(&self, _: &Attributes<'_>) -> Id { panic!("new_span") }
    fn record(&self, _: &Id, _: &Record<'_>) { panic!("record") }
    fn record_follows_from(&self, _: &Id, _: &Id) { panic!("record_follows_from") }
    fn event(&self, _: &Event<'_>) { panic!("event") }
    fn enter(&self, _: &Id) { panic!("enter") }
    fn exit(&self, _: &Id) { panic!("exit") }
    fn clone_span(&self, _: &Id) -> Id { panic!("clone_span") }
    fn try_close(&self, _: Id) -> bool { panic!("try_close") }
}

/// As [`Failing`], but spans can be made.
struct FailingSpans;

#[rustfmt::skip]
impl Subscriber for FailingSpans {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool { true }
    fn new_span(&self, _: &Attributes<'_>) -> Id { Id::from_u64(1) }
    fn record(&self, _: &Id, _: &Record<'_>) { panic!("record") }
    fn record_follows_from(&self, _: &Id, _: &Id) { panic!("record_follows_from") }
    fn event(&self, _: &Event<'_>) { panic!("event") }
    fn enter(&self, _: &Id) { panic!("enter") }
    fn exit(&self, _: &Id) { panic!("exit") }
    fn clone_span(&self, id: &Id) -> Id { id.clone() }
    fn try_close(&self, _: Id) -> bool { panic!("try_close") }
}

#[rustfmt::skip]
impl CounterFn for Failing {
    fn increment(&self, _: u64) { panic!("increment") }
    fn absolute(&self, _: u64) { panic!("absolute") }
}

#[rustfmt::skip]
impl GaugeFn for Failing {
    fn increment(&self, _: f64) { panic!("increment") }
    fn decrement(&self, _: f64) { panic!("decrement") }
    fn set(&self, _: f64) { panic!("set") }
}

#[rustfmt::skip]
impl HistogramFn for Failing {
    fn record(&self, _: f64) { panic!("record") }
}

/// A recorder that panics when a metric is looked up, or whose metrics do.
#[derive(Debug)]
struct FailingRecorder {
    looks_up: bool,
}

impl FailingRecorder {
    fn look_up(&self) -> Arc<Failing> {
        assert!(self.looks_up, "no metric is found");
        Arc::new(Failing)
    }
}

#[rustfmt::skip]
impl Recorder for FailingRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter { self.look_up().into() }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge { self.look_up().into() }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram { self.look_up().into() }
}

/// The part of a process that fails.
#[derive(Debug, Clone, Copy)]
enum Plugged {
    Nothing,
    Subscriber,
    Spans,
    Recorder,
    Metrics,
    /// The guide's subscriber, but without `log_internal_errors(false)`: it writes to standard
    /// error, and panics where that fails.
    Writer,
}

const ALL: [Plugged; 6] = [
    Plugged::Nothing,
    Plugged::Subscriber,
    Plugged::Spans,
    Plugged::Recorder,
    Plugged::Metrics,
    Plugged::Writer,
];

impl fmt::Display for Plugged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Plugged {
    fn install(self) {
        match self {
            Plugged::Nothing => {}
            Plugged::Subscriber => tracing::subscriber::set_global_default(Failing).unwrap(),
            Plugged::Spans => tracing::subscriber::set_global_default(FailingSpans).unwrap(),
            Plugged::Recorder => {
                metrics::set_global_recorder(FailingRecorder { looks_up: false }).unwrap();
            }
            Plugged::Metrics => {
                metrics::set_global_recorder(FailingRecorder { looks_up: true }).unwrap();
            }
            Plugged::Writer => tracing_subscriber::fmt()
                .with_max_level(LevelFilter::TRACE)
                .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
                .with_writer(std::io::stderr)
                .init(),
        }
    }
}

const PLUGGED: &str = "RINGPOST_TEST_PLUGGED";

/// Runs the scene in a process of its own, with this standard error, until it has ended.
fn outlives(plugged: Plugged, stderr: Stdio) {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "plugged::inside", "--nocapture"]);
    let process = process.env(PLUGGED, plugged.to_string()).stderr(stderr);
    let ended = process.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let why = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("it went on"), "{plugged}: {said}{why}");
}

/// The inside of such a process; without the variable it is no test.
#[test]
fn inside() {
    let Ok(name) = std::env::var(PLUGGED) else { return };
    ALL.into_iter().find(|plugged| plugged.to_string() == name).unwrap().install();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let scene = async { timeout(Duration::from_secs(60), scene()).await };
    runtime.block_on(scene).expect("nothing hangs");
    println!("it went on");
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_subscriber_and_a_recorder_that_panic_at_every_call_end_nothing() {
    for plugged in ALL {
        outlives(plugged, Stdio::piped());
    }
}

#[test]
fn a_standard_error_that_takes_nothing_ends_nothing() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    outlives(Plugged::Writer, full.into());
    // Its reader is gone.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    outlives(Plugged::Writer, writer.into());
}
