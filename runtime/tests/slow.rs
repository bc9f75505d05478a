//! The log lines about handlers that run, or wait, for long.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart, SpawnOptions, Strategy, Supervisor};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use crate::actors::node;
use crate::log::Log;
use crate::supervising::{Diary, MINUTE, Worker};

const HOUR: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(100);

/// Waits in its handlers on request.
#[actor]
struct Sloth {
    gate: Option<Gate>,
    /// One permit for each `ask_on` that has begun.
    begun: Gate,
}

/// Blocks its thread until the other end is dropped.
#[message(local)]
struct Block(Mutex<mpsc::Receiver<()>>);

#[message(local)]
struct BlockInTask(mpsc::Receiver<()>, Gate);

#[message]
struct AskOn {
    to: ActorRef<Sloth>,
}

#[message]
struct Fill {
    to: ActorRef<Sloth>,
}

#[message]
struct Reserve {
    to: ActorRef<Sloth>,
}

#[handlers]
impl Sloth {
    #[handler]
    async fn hold(&mut self) {
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
    }

    #[handler]
    async fn ask_on(&mut self, msg: AskOn) {
        self.begun.add_permits(1);
        self.hold().await;
        // An error says that the other node has ended.
        drop(msg.to.hold().timeout(HOUR).await);
    }

    #[handler]
    async fn fill(&mut self, msg: Fill) {
        while msg.to.tell(Hold).await.is_ok() {}
    }

    #[handler]
    async fn kill_and_wait(&mut self, cx: &mut Context<Self>) {
        cx.actor().clone().kill().await.unwrap();
        std::future::pending().await
    }

    #[handler]
    async fn reserve_room(&mut self, msg: Reserve) {
        while let Ok(permit) = msg.to.reserve().await {
            permit.tell(Hold).unwrap();
        }
    }

    #[handler]
    fn block(&mut self, msg: Block) {
        msg.0.lock().recv().unwrap_err();
    }

    #[handler]
    fn block_in_task(&mut self, msg: BlockInTask, cx: &mut Context<Self>) {
        cx.spawn_task(async move {
            msg.1.add_permits(1);
            msg.0.recv().unwrap_err();
        });
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_handler_that_waits_for_long_is_in_the_log_once_with_what_it_waits_for() {
    let log = Log::default();
    let _here = log.listen();
    let (node, shut) = (node().await, gate());
    let a = node.spawn("a", sloth()).await.unwrap();
    let b = node.spawn("b", Sloth { gate: Some(shut.clone()), begun: gate() }).await.unwrap();
    for round in 1..=2 {
        a.tell(AskOn { to: b.clone() }).await.unwrap();
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert_eq!(log.count("a handler waits for long"), 2 * (round - 1));
        tokio::time::sleep(Duration::from_secs(51)).await;
        assert_eq!(log.count("a handler waits for long"), 2 * round);
        let named = |actor: &str, waits_for: &str| {
            let line = format!("a handler waits for long actor=alpha/{actor} handler=");
            log.count_all(&[&line, &format!("waits_for=\"{waits_for}\"")])
        };
        assert_eq!(named("a", "an answer of alpha/b"), round);
        assert_eq!(named("b", "something that is no actor"), round);
        assert_eq!(log.count_all(&["Sloth handles", "AskOn seconds=1"]), round);
        shut.add_permits(1);
    }
}

/// The owner of an inbox takes the next message when it likes: no handler is slow.
#[tokio::test(start_paused = true)]
async fn an_inbox_that_is_not_read_is_no_slow_handler() {
    let log = Log::default();
    let _here = log.listen();
    let node = node().await;
    let mut inbox = node.inbox::<Hold>(4).await.unwrap();
    for _ in 0..3 {
        inbox.recipient().tell(Hold).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(log.count("waits for long"), 0);
    assert!(inbox.receive().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_mailbox_that_handlers_wait_for_is_in_the_log_with_their_names() {
    let log = Log::default();
    let _here = log.listen();
    let node = node().await;
    let full = SpawnOptions::named("full").mailbox_capacity(1);
    let shut = Sloth { gate: Some(gate()), begun: gate() };
    let full = node.spawn_with(full, shut).await.unwrap();
    for name in ["a", "b"] {
        let sender = node.spawn(name, sloth()).await.unwrap();
        sender.tell(Fill { to: full.clone() }).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let line = "senders wait for long actor=alpha/full messages=1 senders=2";
    assert_eq!(log.count_all(&[line, "who=\"alpha/a, alpha/b\""]), 1);
    let room = "waits_for=\"room in the mailbox of alpha/full\"";
    assert_eq!(log.count_all(&["a handler waits for long", room]), 2);
}

/// A handler that reserves waits for room, too, near and far.
#[tokio::test]
async fn a_handler_that_waits_to_reserve_room_is_in_the_log_with_the_mailbox() {
    let log = Log::default();
    let _here = log.listen();
    let gates = (gate(), gate());
    let (alpha, near) = listening("alpha", Vec::new(), gates.clone()).await;
    let (beta, there) = listening("beta", alpha.addresses(), gates.clone()).await;
    alpha.ready(1).await.unwrap();
    let far = alpha.actor::<Sloth>("beta/sloth").await.unwrap();
    for (number, (to, name)) in [(near, "alpha/sloth"), (far, "beta/sloth")].iter().enumerate() {
        to.tell(Hold).await.unwrap();
        let sender = alpha.spawn(&format!("sender{number}"), sloth()).await.unwrap();
        sender.tell(Reserve { to: to.clone() }).await.unwrap();
        let line = format!("a handler waits for long actor=alpha/sender{number} handler=");
        log.wait(&line).await;
        let room = format!("waits_for=\"room in the mailbox of {name}\"");
        assert_eq!(log.count_all(&[&line, &room]), 1);
        sender.kill().await.unwrap();
        to.kill().await.unwrap();
    }
    there.wait_stopped().await;
    crate::remote::end([alpha, beta]).await;
}

/// An actor without a name is called by its type and number.
#[tokio::test(start_paused = true)]
async fn actors_without_names_are_in_the_log_by_type_and_number() {
    let log = Log::default();
    let _here = log.listen();
    let node = node().await;
    let full = SpawnOptions::anonymous().mailbox_capacity(1);
    let full = node.spawn_with(full, Sloth { gate: Some(gate()), begun: gate() }).await.unwrap();
    let sender = node.spawn_anonymous(sloth()).await.unwrap();
    sender.tell(Fill { to: full }).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let [full, sender] = ["0.1", "1.1"].map(|number| format!("alpha/{}#{number}", Sloth::NAME));
    let line = format!("senders wait for long actor={full} messages=1 senders=1 waited=");
    assert_eq!(log.count_all(&[&line, &format!("who=\"{sender}\"")]), 1);
    let line = format!("a handler waits for long actor={sender} handler=");
    let room = format!("waits_for=\"room in the mailbox of {full}\"");
    assert_eq!(log.count_all(&[&line, &room]), 1);
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_whose_children_rest_is_not_in_the_log_as_slow() {
    let log = Log::default();
    let _here = log.listen();
    let (node, diary) = (node().await, Diary::default());
    let restart = Restart::on_failure().backoff(MINUTE, MINUTE);
    let group =
        Supervisor::new(Strategy::OneForAll).child(Worker::child("a", &diary).restart(restart));
    node.spawn("group", group).await.unwrap();
    let worker = node.actor::<Worker>("a").await.unwrap();
    worker.explode("boom".into()).await.unwrap_err();
    assert_eq!(worker.work().timeout(HOUR).await, Ok(1));
    assert_eq!(log.count("an actor is restarted actor=alpha/a"), 1);
    assert_eq!(log.count("a handler waits for long"), 0);
}

/// A kill of an actor that is restarted, while its handler waits, and by the handler itself. What
/// looks finds the same actor, which waits for messages.
#[tokio::test(start_paused = true)]
async fn a_handler_that_was_ended_while_it_waited_is_not_in_the_log_as_slow() {
    let log = Log::default();
    let _here = log.listen();
    let node = node().await;
    let make = || Sloth { gate: Some(gate()), begun: gate() };
    let child = Child::new(make).named("a").restart(Restart::on_failure());
    node.spawn("group", Supervisor::new(Strategy::OneForOne).child(child)).await.unwrap();
    let a = node.actor::<Sloth>("a").await.unwrap();
    for restarts in 1..=4 {
        if restarts % 2 == 0 {
            a.tell(KillAndWait).await.unwrap();
        } else {
            a.tell(Hold).await.unwrap();
            tokio::time::sleep(SOON).await;
            a.kill().await.unwrap();
        }
        tokio::time::sleep(MINUTE).await;
        assert_eq!(log.count("an actor is restarted actor=alpha/a"), restarts);
        assert_eq!(log.count("a handler waits for long"), 0);
    }
    a.tell(Hold).await.unwrap();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(log.count("a handler waits for long"), 1, "one that was not ended");
}

/// A runtime of two threads, on which this log is written.
fn runtime(log: &Log) -> Runtime {
    let log = log.clone();
    let mut builder = Builder::new_multi_thread();
    // The log listens as long as the threads live.
    let listen = move || std::mem::forget(log.listen());
    builder.worker_threads(2).enable_all().on_thread_start(listen).build().unwrap()
}

type Gate = Arc<Semaphore>;

fn gate() -> Gate {
    Arc::new(Semaphore::new(0))
}

fn sloth() -> Sloth {
    Sloth { gate: None, begun: gate() }
}

async fn listening(
    name: &'static str,
    seeds: Vec<String>,
    (gate, begun): (Gate, Gate),
) -> (Node, ActorRef<Sloth>) {
    let builder = Node::builder(name).listen("127.0.0.1:0").seeds(seeds);
    let node = builder.report_handlers_after(SOON).start().await.unwrap();
    let sloth = node.spawn("sloth", Sloth { gate: Some(gate), begun }).await.unwrap();
    (node, sloth)
}

// Promised in docs/SEMANTICS.md.
#[test]
fn handlers_of_two_nodes_that_wait_for_each_other_are_named_in_both_logs() {
    let logs = [Log::default(), Log::default()];
    let (first, second) = (runtime(&logs[0]), runtime(&logs[1]));
    let gates = (gate(), gate());
    let spawned = first.spawn(listening("alpha", Vec::new(), gates.clone()));
    let (alpha, here) = first.block_on(spawned).unwrap();
    let spawned = second.spawn(listening("beta", alpha.addresses(), gates.clone()));
    let (beta, there) = second.block_on(spawned).unwrap();
    first.block_on(async {
        beta.ready(1).await.unwrap();
        let far = alpha.actor::<Sloth>("beta/sloth").await.unwrap();
        here.tell(AskOn { to: far }).await.unwrap();
        let back = beta.actor::<Sloth>("alpha/sloth").await.unwrap();
        there.tell(AskOn { to: back }).await.unwrap();
        // Neither holds before it asks, and neither is let go after.
        gates.1.acquire_many(2).await.unwrap().forget();
        gates.0.add_permits(2);
        for (log, from, to) in [(&logs[0], "alpha", "beta"), (&logs[1], "beta", "alpha")] {
            log.wait("a handler waits for long").await;
            let line = format!("a handler waits for long actor={from}/sloth handler=");
            let waits_for = format!("waits_for=\"an answer of {to}/sloth\"");
            assert_eq!(log.count_all(&[&line, "handles", &waits_for]), 1);
        }
        here.kill().await.unwrap();
        there.kill().await.unwrap();
        crate::remote::end([alpha, beta]).await;
    });
}

// Promised in docs/SEMANTICS.md.
#[test]
fn what_holds_a_thread_is_in_the_log_while_other_threads_are_free() {
    let log = Log::default();
    let runtime = runtime(&log);
    let spawned = runtime.spawn(async {
        let builder = Node::builder("alpha").report_handlers_after(SOON);
        let node = builder.start().await.unwrap();
        (node.spawn("sloth", sloth()).await.unwrap(), node)
    });
    let (sloth, node) = runtime.block_on(spawned).unwrap();
    let (ends, end) = mpsc::channel();
    let holds = "a handler holds a thread for long actor=alpha/sloth handler=";
    runtime.block_on(async {
        sloth.tell(Block(Mutex::new(end))).await.unwrap();
        log.wait(holds).await;
        tokio::time::sleep(5 * SOON).await;
        assert_eq!(log.count_all(&[holds, "Sloth handles", "Block seconds=0."]), 1);
        drop(ends);
        // A task of it that never waits holds up its end.
        let ((ends, end), begun) = (mpsc::channel(), gate());
        sloth.tell(BlockInTask(end, begun.clone())).await.unwrap();
        begun.acquire().await.unwrap().forget();
        sloth.stop().await.unwrap();
        log.wait("an actor does not end: a task of it never waits actor=alpha/sloth").await;
        drop(ends);
        assert_eq!(sloth.wait_stopped().await, ActorExit::Stopped);
        node.shutdown(HOUR).await;
    });
    assert_eq!(log.count(holds), 1);
}
