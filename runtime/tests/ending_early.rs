//! Ends that come early: of supervisors that wait for children, and of actors with work undone.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::Handler;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart, SpawnError, Strategy, Supervisor};

use crate::actors::{Note, node};
use crate::cause;
use crate::groups::others_run;
use crate::log::Log;
use crate::supervising::{Diary, Hang, MINUTE, MS, Worker, quick};

/// A child rests, or ends, only when an ask of its supervisor has failed, which waits behind the
/// handler that waits for the child.
#[tokio::test(start_paused = true)]
async fn a_supervisor_sees_its_stop_while_it_waits_for_a_child_to_rest_or_to_end() {
    for is_ended in [false, true] {
        let (node, diary) = (node().await, Diary::default());
        let supervisor = Supervisor::new(Strategy::OneForAll)
            .child(Worker::child("a", &diary).restart(quick()))
            .child(Worker::child("b", &diary).stop_within(60 * MINUTE));
        let supervisor = node.spawn("supervisor", supervisor).await.unwrap();
        let a = node.actor::<Worker>("a").await.unwrap();
        let b = node.actor::<Worker>("b").await.unwrap();
        let gate = b.falter().await.unwrap().0;
        b.tell(Hang).await.unwrap();
        others_run().await;
        let start = tokio::time::Instant::now();
        let (ending, last) = (supervisor.clone(), b.clone());
        let ends = tokio::spawn(async move {
            if is_ended { ending.end_child(&last).await.map_err(|e| e.cause) } else { Ok(false) }
        });
        if !is_ended {
            a.explode("boom".into()).await.unwrap_err();
        }
        others_run().await;
        let (adding, child) = (supervisor.clone(), Worker::child("c", &diary));
        let added = tokio::spawn(async move {
            let added = adding.start_child(child).await;
            gate.notify_one();
            added
        });
        others_run().await;
        supervisor.stop().await.unwrap();
        assert_eq!(supervisor.wait_stopped().await, ActorExit::Stopped);
        assert_eq!(start.elapsed(), Duration::ZERO, "ended by `end_child`: {is_ended}");
        assert!(matches!(added.await.unwrap(), Err(SpawnError::NoSupervisor(_))));
        let ended = if is_ended { Err(AskCause::NoReply) } else { Ok(false) };
        assert_eq!(ends.await.unwrap(), ended);
        assert_eq!(b.wait_stopped().await, ActorExit::Stopped);
        assert!(diary.take().contains(&"b stopped".to_owned()));
    }
}

/// Their own time to rest is shorter than the deadline of the node.
#[tokio::test(start_paused = true)]
async fn children_that_are_told_to_rest_have_the_time_of_a_shutdown() {
    let (node, diary) = (node().await, Diary::default());
    let supervisor = Supervisor::new(Strategy::OneForAll)
        .child(Worker::child("a", &diary).restart(quick()))
        .child(Worker::child("b", &diary).stop_within(1000 * MS))
        .child(Worker::child("c", &diary).stop_within(1000 * MS));
    let supervisor = node.spawn("supervisor", supervisor).await.unwrap();
    let mut gates = Vec::new();
    for name in ["b", "c"] {
        let child = node.actor::<Worker>(name).await.unwrap();
        gates.push(child.falter().await.unwrap().0);
        child.tell(Hang).await.unwrap();
    }
    let a = node.actor::<Worker>("a").await.unwrap();
    a.explode("boom".into()).await.unwrap_err();
    others_run().await;
    diary.take();
    let open = async {
        tokio::time::sleep(10_000 * MS).await;
        gates.iter().for_each(|gate| gate.notify_one());
    };
    let (late, ()) = tokio::join!(node.shutdown(MINUTE), open);
    assert_eq!(late, []);
    assert_eq!(supervisor.wait_stopped().await, ActorExit::Stopped);
    let mut ends = diary.take();
    ends.sort();
    assert_eq!(ends, ["b dropped", "b stopped", "c dropped", "c stopped"]);
}

/// Blocks its thread.
#[actor]
struct Blocker(Option<std::sync::mpsc::Receiver<()>>);

#[handlers]
impl Blocker {
    #[handler]
    async fn block(&mut self, msg: Block) {
        msg.0.send(()).unwrap();
        if let Some(released) = self.0.take() {
            tokio::task::block_in_place(|| released.recv().unwrap_err());
        }
    }
}

#[message(local)]
struct Block(tokio::sync::mpsc::UnboundedSender<()>);

/// The first of them is left behind after a second, and the others together after another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_supervisor_does_not_wait_for_each_child_that_never_waits() {
    let node = node().await;
    let supervisor = Supervisor::new(Strategy::OneForOne);
    let supervisor = node.spawn("supervisor", supervisor).await.unwrap();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let mut release = Vec::new();
    for _ in 0..5 {
        let (released, blocked) = std::sync::mpsc::channel();
        let blocked = Arc::new(Mutex::new(Some(blocked)));
        let child = Child::new(move || Blocker(blocked.lock().take()));
        let child = supervisor.start_child(child.restart(Restart::never())).await.unwrap();
        child.tell(Block(begun.clone())).await.unwrap();
        begins.recv().await.unwrap();
        release.push(released);
    }
    let start = std::time::Instant::now();
    supervisor.kill().await.unwrap();
    assert_eq!(supervisor.wait_stopped().await, ActorExit::Killed);
    let took = start.elapsed();
    drop(release);
    assert!(took < Duration::from_millis(4500), "{took:?}");
}

/// Begins work that its handlers do not wait for.
#[actor]
#[derive(Default)]
struct Keeper {
    kept: Vec<ReplyTo<u64>>,
}

#[handlers(Note)]
impl Keeper {
    #[handler]
    fn keep(&mut self, reply: ReplyTo<u64>) {
        self.kept.push(reply);
    }

    #[handler]
    fn put_aside(&mut self, number: u64, reply: ReplyTo<u64>, cx: &mut Context<Self>) {
        cx.stash_ask(PutAside { number }, reply).unwrap();
    }

    /// Hands the answer to a task, which never gives it.
    #[handler]
    fn hand_on(&mut self, reply: ReplyTo<u64>, cx: &mut Context<Self>) {
        cx.spawn_task(async move {
            std::future::pending::<()>().await;
            reply.send(1);
        });
    }

    #[handler]
    fn begin(&mut self, cx: &mut Context<Self>) {
        cx.pipe(std::future::pending::<()>(), |_, (), _| ());
        cx.tell_after("once", Duration::from_secs(3600), Note { number: 1 });
        cx.tell_every("again", Duration::from_secs(3600), Note { number: 2 });
    }

    #[handler]
    fn answer(&mut self) -> u64 {
        self.kept.drain(..).map(|reply| reply.send(1)).count() as u64
    }
}

impl Handler<Note> for Keeper {
    type Reply = ();

    async fn handle(&mut self, _: Note, _cx: &mut Context<Self>) {}
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_that_is_drained_with_work_undone_is_in_the_log_once() {
    const LINE: &str = "an actor ended with work undone";
    let log = Log::default();
    let _listening = log.listen();
    let node = node().await;
    let spawn = async || node.spawn_anonymous(Keeper::default()).await.unwrap();
    let (keeper, stopped, answered) = (spawn().await, spawn().await, spawn().await);
    let kept: Vec<_> =
        [&keeper, &keeper, &answered].map(|keeper| tokio::spawn(keeper.keep().into_ask())).into();
    let aside = tokio::spawn(keeper.put_aside(7).into_ask());
    tokio::task::yield_now().await;
    for keeper in [&keeper, &stopped] {
        keeper.begin().await.unwrap();
    }
    assert_eq!(answered.answer().await, Ok(1));
    // A stop is no drain: nothing was to be waited for.
    stopped.stop().await.unwrap();
    assert_eq!(stopped.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(log.count(LINE), 0);
    assert!(node.shutdown(Duration::from_secs(60)).await.is_empty());
    let mut answers = Vec::new();
    for asked in kept.into_iter().chain([aside]) {
        answers.push(cause(asked.await.unwrap()));
    }
    let lost = Err(AskCause::NoReply);
    assert_eq!(answers, [lost.clone(), lost.clone(), Ok(1), lost]);
    let name = keeper.address().to_string();
    let line = [LINE, &format!("actor={name}"), "asks=3", "pipes=1", "timers=1"];
    assert_eq!((log.count(LINE), log.count_all(&line)), (1, 1));
}

/// The way back to the asker is with a task of the actor, and ends with it.
#[tokio::test]
async fn an_ask_that_a_task_was_to_answer_is_in_the_log_when_its_actor_ends() {
    const LINE: &str = "an actor ended with work undone";
    for is_drained in [false, true] {
        let log = Log::default();
        let _listening = log.listen();
        let node = node().await;
        let keeper = node.spawn_anonymous(Keeper::default()).await.unwrap();
        let by_task = keeper.hand_on().try_send().unwrap();
        let by_actor = keeper.keep().try_send().unwrap();
        let given_up = keeper.hand_on().try_send().unwrap();
        // All three are handled before this one.
        keeper.ask(Note { number: 0 }).await.unwrap();
        drop(given_up);
        assert_eq!(log.count(LINE), 0);
        if is_drained {
            keeper.drain().await.unwrap();
        } else {
            keeper.stop().await.unwrap();
        }
        assert_eq!(keeper.wait_stopped().await, ActorExit::Stopped);
        let asked = [cause(by_task.await), cause(by_actor.await)];
        assert_eq!(asked, [Err(AskCause::NoReply), Err(AskCause::NoReply)]);
        let name = keeper.address().to_string();
        let line = [LINE, &format!("actor={name}"), "asks=2", "pipes=0", "timers=0"];
        assert_eq!((log.count(LINE), log.count_all(&line)), (1, 1), "drained: {is_drained}");
    }
}
