//! The ends of actors and nodes: stop, drain, kill, panics, hooks, shutdown, dead letters.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ringpost::observe::DeadLetterCause;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart, SpawnError, Supervisor};
use ringpost::{Message, NotBegun, StartError};
use tokio::sync::{Semaphore, mpsc};

use crate::actors::{Note, Notebook, Notes, held, node};
use crate::cause;
use crate::log::Log;

/// Reports its hooks.
struct Reporter {
    start: Result<(), &'static str>,
    log: mpsc::UnboundedSender<&'static str>,
    dropped: Dropped,
}

struct Dropped(mpsc::UnboundedSender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        // The test may be over.
        self.0.send("dropped").ok();
    }
}

impl Reporter {
    fn new(start: Result<(), &'static str>) -> (Self, mpsc::UnboundedReceiver<&'static str>) {
        let (log, reports) = mpsc::unbounded_channel();
        (Reporter { start, log: log.clone(), dropped: Dropped(log) }, reports)
    }
}

#[actor]
impl Actor for Reporter {
    async fn on_start(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.send("start")?;
        if self.start == Err("panic") {
            panic!("in on_start");
        }
        self.start.map_err(Into::into)
    }

    async fn on_stop(&mut self, cx: &mut Context<Self>) {
        let _ = &self.dropped;
        assert!(cx.actor().is_local());
        self.log.send("stop").unwrap();
    }
}

#[handlers]
impl Reporter {
    #[handler]
    async fn forever(&mut self) {
        self.log.send("forever").unwrap();
        std::future::pending().await
    }

    #[handler]
    async fn kill_yourself(&mut self, cx: &mut Context<Self>) {
        cx.actor().kill().await.unwrap();
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn hooks_run_around_the_messages_and_the_state_is_dropped_before_the_end_is_told() {
    let node = node().await;
    let (reporter, mut reports) = Reporter::new(Ok(()));
    let actor = node.spawn("reporter", reporter).await.unwrap();
    actor.stop().await.unwrap();
    assert_eq!(actor.wait_stopped().await, ActorExit::Stopped);
    let all: Vec<_> = std::iter::from_fn(|| reports.try_recv().ok()).collect();
    assert_eq!(all, ["start", "stop", "dropped"]);
    actor.stop().await.unwrap();
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_failed_start_reaches_the_spawner_and_frees_the_name() {
    let node = node().await;
    let (reporter, mut reports) = Reporter::new(Err("no disk"));
    let error = node.spawn("reporter", reporter).await.unwrap_err();
    assert_eq!(error.to_string(), "the actor could not start: no disk");
    assert_eq!((reports.recv().await, reports.recv().await), (Some("start"), Some("dropped")));
    let (reporter, _reports) = Reporter::new(Err("panic"));
    let error = node.spawn("reporter", reporter).await.unwrap_err();
    assert!(matches!(&error, SpawnError::Panicked(text) if &**text == "in on_start"), "{error}");
    let (reporter, _reports) = Reporter::new(Ok(()));
    node.spawn("reporter", reporter).await.unwrap();
}

/// Starts when it may, and counts.
struct Late {
    may: Arc<Semaphore>,
    told: u64,
}

#[actor]
impl Actor for Late {
    async fn on_start(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.may.acquire().await?.forget();
        Ok(())
    }
}

#[handlers]
impl Late {
    #[handler]
    fn told_again(&mut self) -> u64 {
        self.told += 1;
        self.told
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn what_an_actor_is_sent_while_it_starts_waits() {
    let node = node().await;
    let may = Arc::new(Semaphore::new(0));
    let late = Late { may: may.clone(), told: 0 };
    let spawned = tokio::spawn({
        let node = node.clone();
        async move { node.spawn("late", late).await.unwrap() }
    });
    let found = loop {
        match node.actor::<Late>("late").await {
            Ok(found) => break found,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    found.tell(ToldAgain).await.unwrap();
    let answer = tokio::spawn(async move { found.told_again().await });
    tokio::task::yield_now().await;
    assert!(!spawned.is_finished() && !answer.is_finished());
    may.add_permits(1);
    assert_eq!(answer.await.unwrap(), Ok(2));
    spawned.await.unwrap();
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_lives_on_without_its_spawner_and_without_references() {
    let node = node().await;
    let (reporter, mut reports) = Reporter::new(Ok(()));
    {
        let mut spawn = Box::pin(node.spawn("reporter", reporter));
        assert!(futures::poll!(&mut spawn).is_pending());
    }
    assert_eq!(reports.recv().await, Some("start"));
    let (anonymous, mut others) = Reporter::new(Ok(()));
    drop(node.spawn_anonymous(anonymous).await.unwrap());
    let named = node.actor::<Reporter>("reporter").await.unwrap();
    named.stop().await.unwrap();
    assert_eq!(named.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(others.try_recv(), Ok("start"));
    assert!(others.is_empty(), "nothing but a stop ends it");
    assert_eq!(node.shutdown(Duration::from_secs(5)).await, []);
    assert_eq!((others.recv().await, others.recv().await), (Some("stop"), Some("dropped")));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_stop_ends_after_the_running_message_and_the_rest_are_dead_letters() {
    let node = node().await;
    let mut letters = node.dead_letters().subscribe();
    let held = held(&node, 8).await;
    held.actor.tell(Note { number: 1 }).await.unwrap();
    let asked = {
        let actor = held.actor.clone();
        tokio::spawn(async move { actor.notes().await })
    };
    tokio::task::yield_now().await;
    held.actor.stop().await.unwrap();
    let refused = held.actor.tell(Note { number: 2 }).await.unwrap_err();
    assert_eq!((refused.message.number, refused.cause), (2, Cause::Stopped));
    held.gate.add_permits(1);
    assert_eq!(held.actor.wait_stopped().await, ActorExit::Stopped);
    let letter = letters.recv().await.unwrap();
    assert_eq!((letter.message, letter.cause), (Note::ID, DeadLetterCause::Stopped));
    assert_eq!(&letter.to, held.actor.address());
    let never = AskCause::NotBegun(NotBegun::Stopped);
    assert!(never.is_retryable());
    assert_eq!(cause(asked.await.unwrap()), Err(never));
    assert_eq!(node.dead_letters().total(), 1, "an ask is none: its asker is told");
    assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), 1);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_drain_handles_what_was_accepted_and_refuses_the_rest() {
    let node = node().await;
    let held = held(&node, 8).await;
    let answer = {
        let actor = held.actor.clone();
        tokio::spawn(async move { actor.notes().await })
    };
    tokio::task::yield_now().await;
    held.actor.tell(Note { number: 1 }).await.unwrap();
    held.actor.drain().await.unwrap();
    assert_eq!(held.actor.tell(Note { number: 2 }).await.unwrap_err().cause, Cause::Stopped);
    held.gate.add_permits(1);
    assert_eq!(answer.await.unwrap(), Ok(vec![]));
    assert_eq!(held.actor.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(node.dead_letters().total(), 0);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_kill_drops_the_running_handler_and_its_asker_is_told() {
    let node = node().await;
    let (reporter, mut reports) = Reporter::new(Ok(()));
    let actor = node.spawn("reporter", reporter).await.unwrap();
    let answer = {
        let actor = actor.clone();
        tokio::spawn(async move { actor.forever().await })
    };
    assert_eq!((reports.recv().await, reports.recv().await), (Some("start"), Some("forever")));
    actor.kill().await.unwrap();
    assert_eq!(actor.wait_stopped().await, ActorExit::Killed);
    assert_eq!(cause(answer.await.unwrap()), Err(AskCause::NoReply));
    assert_eq!(reports.recv().await, Some("dropped"), "on_stop did not run");
    assert!(node.actor::<Reporter>("reporter").await.is_err(), "the name is free");
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_that_kills_itself_is_killed_and_runs_no_hook() {
    let node = node().await;
    let (reporter, mut reports) = Reporter::new(Ok(()));
    let actor = node.spawn("reporter", reporter).await.unwrap();
    actor.tell(KillYourself).await.unwrap();
    assert_eq!(actor.wait_stopped().await, ActorExit::Killed);
    let all: Vec<_> = std::iter::from_fn(|| reports.try_recv().ok()).collect();
    assert_eq!(all, ["start", "dropped"]);
}

#[test]
fn a_spawn_on_a_runtime_that_is_gone_fails_and_leaves_the_name_free() {
    let gone = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = gone.block_on(node());
    drop(gone);
    futures::executor::block_on(async {
        for _ in 0..2 {
            let spawned = node.spawn("notebook", Notebook::new()).await;
            assert!(matches!(spawned, Err(SpawnError::Killed)), "{spawned:?}");
        }
        assert!(node.shutdown(Duration::ZERO).await.is_empty());
    });
}

#[tokio::test]
async fn a_shutdown_is_in_the_log_with_its_beginning_and_its_end() {
    let log = Log::default();
    let _here = log.listen();
    let node = node().await;
    let stays = held(&node, 4).await;
    assert_eq!(node.shutdown(Duration::ZERO).await.len(), 1);
    node.shutdown(Duration::ZERO).await;
    let begin = ["this node shuts down", "node=\"alpha\"", "actors=1", "deadline=0ns"];
    assert_eq!(log.count_all(&begin), 1);
    let end = ["this node has shut down", "node=\"alpha\"", "killed=1", "lasted="];
    assert_eq!(log.count_all(&end), 1);
    drop(stays);
}

#[tokio::test]
async fn a_node_that_does_not_listen_advertises_nothing() {
    let seeds: [&[&str]; 2] = [&[], &["127.0.0.1:1"]];
    for seeds in seeds {
        let builder = Node::builder("alpha").seeds(seeds.iter().copied());
        let error = builder.advertise(["10.0.0.1:7700"]).start().await.unwrap_err();
        let StartError::NotListening { address } = &error else { panic!("{error}") };
        assert_eq!(address, "10.0.0.1:7700");
        let text = format!("{error:?}");
        assert!(text.contains("10.0.0.1:7700 is advertised, but the node does not"), "{text}");
        assert!(text.contains("give it an address with `listen`"), "{text}");
    }
}

#[test]
#[should_panic(expected = "timers are disabled")]
fn a_node_starts_only_where_there_are_timers() {
    let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
    bare.block_on(node());
}

#[tokio::test]
async fn an_actor_can_stop_itself() {
    let node = node().await;
    let notebook = node.spawn("notebook", Notebook::new()).await.unwrap();
    assert_eq!(notebook.stop_yourself().await, Ok(()));
    assert_eq!(notebook.wait_stopped().await, ActorExit::Stopped);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_panic_ends_only_its_actor_and_frees_the_name() {
    let node = node().await;
    let first = node.spawn("notebook", Notebook::new()).await.unwrap();
    let other = node.spawn("other", Notebook::new()).await.unwrap();
    first.tell(crate::actors::Fail).await.unwrap();
    assert!(matches!(first.wait_stopped().await, ActorExit::Panicked(_)));
    let second = node.spawn("notebook", Notebook::new()).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(other.notes().await, Ok(vec![]));
    assert_eq!(second.notes().await, Ok(vec![]));
}

/// A tree of supervisors that gives up ends itself, and nothing beside it.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_tree_that_fails_leaves_the_other_actors_of_its_node_alone() {
    let node = node().await;
    let tree = |name: &str| {
        let child = Child::new(Notebook::new).named(format!("{name}'s child"));
        let root = Supervisor::new(ringpost::spawn::Strategy::OneForAll)
            .child(child.restart(Restart::on_failure().at_most(0, Duration::from_secs(60))));
        let root = Child::new(move || root.clone()).named(name).restart(Restart::never());
        node.supervise(root)
    };
    let (first, second) = (tree("first").await.unwrap(), tree("second").await.unwrap());
    let failing = node.actor::<Notebook>("first's child").await.unwrap();
    assert_eq!(cause(failing.ask(crate::actors::Fail).await), Err(AskCause::Panicked));
    assert!(matches!(first.wait_stopped().await, ActorExit::Failed(_)));
    let other = node.actor::<Notebook>("second's child").await.unwrap();
    assert_eq!(other.notes().await, Ok(vec![]));
    assert!(node.actor::<Supervisor>("second").await.is_ok_and(|found| found == second));
    assert!(tree("first").await.is_ok(), "its names are free");
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_shutdown_drains_and_kills_what_is_late() {
    let node = node().await;
    let held = held(&node, 8).await;
    let quick = node.spawn("quick", Notebook::new()).await.unwrap();
    for number in 0..100 {
        quick.tell(Note { number }).await.unwrap();
    }
    let killed = node.shutdown(Duration::from_millis(50)).await;
    assert_eq!(killed, [held.actor.address().clone()]);
    assert_eq!(quick.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(held.actor.wait_stopped().await, ActorExit::Killed);
    assert_eq!(node.dead_letters().total(), 0);
    assert!(matches!(node.spawn("late", Notebook::new()).await, Err(SpawnError::Shutdown)));
    assert!(node.shutdown(Duration::ZERO).await.is_empty(), "a second one finds nothing to do");
}

#[tokio::test]
async fn a_node_and_its_actors_hold_nothing_of_each_other_after_the_end() {
    let node = node().await;
    let witness = Arc::new(());
    let (reporter, mut reports) = Reporter::new(Ok(()));
    let actor = node.spawn_anonymous(reporter).await.unwrap();
    drop(witness);
    node.shutdown(Duration::from_secs(1)).await;
    assert_eq!(actor.wait_stopped().await, ActorExit::Stopped);
    drop((actor, node));
    let mut last = None;
    while let Some(report) = reports.recv().await {
        last = Some(report);
    }
    assert_eq!(last, Some("dropped"));
}

/// Fails once, and then rests for a second.
async fn resting(node: &Node, restart: Restart) -> ActorRef<Notebook> {
    let second = Duration::from_secs(1);
    let child = Child::new(Notebook::new).restart(restart.backoff(second, second));
    let actor = node.supervise(child).await.unwrap();
    actor.fail().await.unwrap_err();
    actor
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_rests_is_stopped_at_once_and_drained_when_it_has_handled_what_waits() {
    let (node, start) = (node().await, tokio::time::Instant::now());
    let stopped = resting(&node, Restart::on_failure()).await;
    stopped.tell(Note { number: 1 }).await.unwrap();
    stopped.stop().await.unwrap();
    assert_eq!(stopped.wait_stopped().await, ActorExit::Stopped);
    assert_eq!((start.elapsed(), node.dead_letters().total()), (Duration::ZERO, 1));
    let drained = resting(&node, Restart::on_failure()).await;
    let notes = drained.ask(Notes);
    let mut notes = Box::pin(notes);
    assert!(futures::poll!(&mut notes).is_pending());
    drained.drain().await.unwrap();
    assert_eq!(notes.await, Ok(vec![]), "what was accepted before is handled");
    assert_eq!(drained.wait_stopped().await, ActorExit::Stopped);
    let always = resting(&node, Restart::always()).await;
    always.stop().await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(always.notes().await, Ok(vec![]), "it is restarted however it ends");
}

/// An error whose text panics.
#[derive(Debug)]
struct Mute;

impl fmt::Display for Mute {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("in the text")
    }
}

impl std::error::Error for Mute {}

struct Muted;

#[actor]
impl Actor for Muted {
    async fn on_start(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Err(Mute.into())
    }
}

#[handlers]
impl Muted {}

#[tokio::test]
async fn an_error_of_a_start_whose_text_panics_is_a_panic_of_the_start() {
    let error = node().await.spawn("muted", Muted).await.unwrap_err();
    assert!(matches!(&error, SpawnError::Panicked(text) if &**text == "in the text"), "{error}");
}
