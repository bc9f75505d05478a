//! The test kit, as tests of programs use it.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::net::LinkCause;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::test_kit::{self, Cluster, FailureCause, Faults, Probe};

const SECOND: Duration = Duration::from_secs(1);

#[message]
#[derive(Debug, PartialEq)]
struct Word {
    number: u64,
}

/// Passes words on, and counts them.
#[actor]
struct Relay {
    passed: u64,
    to: Option<Recipient<Word>>,
}

#[handlers]
impl Relay {
    #[handler]
    async fn word(&mut self, msg: Word) {
        self.passed += 1;
        if let Some(to) = &self.to {
            to.tell(msg).await.ok();
        }
    }

    #[handler]
    fn passed(&self) -> u64 {
        self.passed
    }

    #[handler]
    async fn never(&self) {
        std::future::pending().await
    }

    /// Waits for a relay that never answers.
    #[handler]
    async fn wait_for(&self, other: ActorRef<Relay>) {
        other.never().timeout(1000 * SECOND).await.ok();
    }
}

fn relay() -> Relay {
    Relay { passed: 0, to: None }
}

/// Three nodes, faults and a restart, with words between.
async fn stormy(cluster: Cluster) -> String {
    for node in cluster.nodes(3).await {
        node.spawn("relay", relay()).await.unwrap();
    }
    let sender = cluster.node("n1").await;
    let work = async {
        for number in 0..100 {
            cluster.sleep_up_to(SECOND).await;
            for to in ["n2/relay", "n3/relay"] {
                let Ok(to) = sender.actor::<Relay>(to).await else { continue };
                let fate = to.tell(Word { number }).confirmed().await;
                cluster.log(&format!("{number}: {}", fate.is_ok()));
            }
        }
    };
    tokio::join!(work, cluster.shake(Faults::harsh(), 40 * SECOND));
    cluster.restart("n2").await;
    cluster.settle().await;
    cluster.log_text()
}

/// Returns the log of a stormy cluster, and the whole one when its nodes are gone.
fn logs_of(seed: u64) -> (String, String) {
    let (log, cluster) = test_kit::run(seed, async |cluster| {
        let log = stormy(cluster.clone()).await;
        cluster.log("the end");
        (log, cluster)
    });
    (log, cluster.log_text())
}

/// The same log for the same seed, also for nodes that are being given up.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_seed_gives_the_same_log_each_time_down_to_the_byte() {
    let mut logs = BTreeSet::new();
    for seed in 0..6 {
        let (log, end) = logs_of(seed);
        assert_eq!(logs_of(seed), (log.clone(), end.clone()), "seed {seed}");
        assert!(end.starts_with(&log) && end.ends_with("the end\n"), "{end}");
        assert!(log.contains("is killed"), "{log}");
        logs.insert(log);
    }
    assert_eq!(logs.len(), 6, "each seed has a log of its own");
    // The faults that there are were met.
    for fault in ["is cut off from", "is paused: true", "longer", "is lost", "is down"] {
        assert!(logs.iter().any(|log| log.contains(fault)), "{fault}");
    }
}

/// Each of two tasks reads a value, and then writes one more.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_race_is_found_by_its_seed_and_replayed() {
    async fn race(cluster: Cluster) {
        let alpha = cluster.node("alpha").await;
        let mut value = Probe::<Word, u64>::asked(&alpha, "value").await.unwrap();
        let beta = cluster.node("beta").await;
        let mut now = 0;
        value.answer(move |word| {
            now = now.max(word.number);
            now
        });
        let add = async |node: &Node| {
            cluster.sleep_up_to(Duration::from_millis(10)).await;
            let path = value.reference().address().to_string();
            let value = node.actor::<test_kit::ProbeActor<Word, u64>>(&path).await.unwrap();
            let read = value.ask(Word { number: 0 }).await.unwrap();
            value.ask(Word { number: read + 1 }).await.unwrap();
        };
        tokio::join!(add(&alpha), add(&beta));
        value.expect_matching(|word| word.number == 2).await;
    }
    let found = test_kit::find(0..200, race).expect("some seed fails");
    let text = found.to_string();
    let passes = |seed| Cluster::seeded(seed).try_run(race).is_ok();
    assert!((0..100).any(passes), "each seed fails");
    assert!(text.contains("Word { number: 1 }"), "{text}");
    let replays = format!("RINGPOST_TEST_SEED={} cargo test test_kit::a_race", found.seed());
    assert!(text.contains(&replays), "{text}");
    assert_eq!(Cluster::seeded(found.seed()).try_run(race), Err(found));
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_body_that_does_not_end_fails_and_says_what_waits() {
    let simulation = Cluster::seeded(3).limit(60 * SECOND);
    let failure = simulation.try_run(|cluster| async move {
        let (alpha, beta) = (cluster.node("alpha").await, cluster.node("beta").await);
        beta.spawn("silent", relay()).await.unwrap();
        let waiter = alpha.spawn("waiter", relay()).await.unwrap();
        let other = alpha.actor::<Relay>("beta/silent").await.unwrap();
        waiter.tell(WaitFor { other }).await.unwrap();
        waiter.tell(Word { number: 1 }).await.unwrap();
        waiter.passed().timeout(1000 * SECOND).await.unwrap()
    });
    let failure = failure.unwrap_err();
    assert_eq!(*failure.cause(), FailureCause::OverLimit(60 * SECOND));
    let waits = failure.waits().join("\n");
    assert!(waits.contains("alpha/waiter") && waits.contains("beta/silent"), "{waits}");
    assert!(failure.log().contains("alpha: linked to beta"), "{failure}");
    let failure = Cluster::seeded(4).try_run(|_| std::future::pending::<()>()).unwrap_err();
    assert_eq!((failure.cause(), failure.seed()), (&FailureCause::Deadlock, 4));
    let failure = Cluster::seeded(5).try_run(async |_| panic!("it {}", "broke")).unwrap_err();
    assert_eq!(*failure.cause(), FailureCause::Panicked("it broke".into()));
}

/// The variable names the only seed that is run. It is set for another process, which runs this
/// test again.
#[test]
fn a_seed_of_the_environment_is_the_only_one_that_is_run() {
    let body = |cluster: Cluster| async move {
        cluster.log("a line of the log");
        println!("ran seed {}", cluster.seed());
        assert_ne!(cluster.seed(), 12, "seed 12 fails");
    };
    if std::env::var_os("RINGPOST_TEST_SEED").is_some() {
        return test_kit::check(0..9, body);
    }
    let this = "test_kit::a_seed_of_the_environment_is_the_only_one_that_is_run";
    let run = |seed: &str| {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args([this, "--exact", "--nocapture"]).env("RINGPOST_TEST_SEED", seed);
        let output = program.output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.success(), text.join("\n"))
    };
    let (passed, text) = run("31");
    assert!(passed && text.matches("ran seed").count() == 1, "{text}");
    assert!(text.contains("ran seed 31") && text.contains("0 a line of the log"), "{text}");
    let (passed, text) = run("12");
    assert!(!passed && text.contains("seed 12: the body panicked"), "{text}");
    assert!(text.contains(&format!("RINGPOST_TEST_SEED=12 cargo test {this}")), "{text}");
    let (passed, text) = run("twelve");
    assert!(
        !passed && text.contains("RINGPOST_TEST_SEED is `twelve`, which is no number"),
        "{text}"
    );
}

/// Run again with the variable, in another process.
#[test]
fn a_count_of_the_environment_says_with_how_many_seeds_a_check_runs() {
    if std::env::var_os("RINGPOST_TEST_CASES").is_some() {
        let body = |cluster: Cluster| async move { println!("ran seed {}.", cluster.seed()) };
        return Cluster::seeded(0).limit(SECOND).check(5..7, body);
    }
    let this = "test_kit::a_count_of_the_environment_says_with_how_many_seeds_a_check_runs";
    let run = |count: &str| {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args([this, "--exact", "--nocapture"]).env("RINGPOST_TEST_CASES", count);
        program.env_remove("RINGPOST_TEST_SEED");
        let output = program.output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.success(), text.join("\n"))
    };
    let ((_, fewer), (_, more), (passed, none)) = (run("1"), run("4"), run("0"));
    assert!(!passed && !none.contains("ran seed"), "{none}");
    assert!(none.contains("RINGPOST_TEST_CASES is 0, so nothing would be run"), "{none}");
    assert_eq!(fewer.matches("ran seed").count(), 1, "{fewer}");
    assert!(fewer.contains("ran seed 5."), "{fewer}");
    assert_eq!(more.matches("ran seed").count(), 4, "{more}");
    assert!((5..9).all(|seed| more.contains(&format!("ran seed {seed}."))), "{more}");
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_node_that_is_killed_says_no_goodbye_and_its_name_is_free() {
    test_kit::check(0..8, |cluster| async move {
        let (alpha, beta) = (cluster.node("alpha").await, cluster.node("beta").await);
        let mut probe = Probe::spawn(&alpha, "probe").await.unwrap();
        let to = Some(probe.recipient());
        let near = beta.spawn("relay", Relay { passed: 0, to }).await.unwrap();
        let far = alpha.actor::<Relay>("beta/relay").await.unwrap();
        far.tell(Word { number: 1 }).await.unwrap();
        assert_eq!(probe.expect().await, Word { number: 1 });
        let mut events = alpha.events();
        // These are on their way.
        near.tell(Word { number: 2 }).await.unwrap();
        far.tell(Word { number: 3 }).await.unwrap();
        cluster.kill("beta").await;
        assert_eq!(near.wait_stopped().await, ActorExit::Killed);
        assert!(near.tell(Word { number: 4 }).await.is_err());
        assert_eq!(probe.expect_down(&far).await, ActorExit::NodeDown);
        while let Ok(event) = events.try_recv() {
            let is_goodbye = matches!(
                event,
                NodeEvent::NodeLeaving { .. }
                    | NodeEvent::LinkDown { cause: LinkCause::Shutdown, .. }
            );
            assert!(!is_goodbye, "{event:?}");
        }
        probe.expect_none(60 * SECOND).await;
        let again = cluster.restart("beta").await;
        assert_ne!(again.id(), beta.id());
        assert!(alpha.actor::<Relay>("beta/relay").await.is_err(), "its actors are gone");
        again.spawn("relay", relay()).await.unwrap();
        let relay = alpha.actor::<Relay>("beta/relay").await.unwrap();
        relay.tell(Word { number: 5 }).await.unwrap();
        assert_eq!(relay.passed().await, Ok(1));
    });
}

#[test]
fn what_is_cut_is_silent_until_it_is_mended() {
    test_kit::check(0..8, |cluster| async move {
        let nodes = cluster.nodes(3).await;
        for node in &nodes {
            node.spawn("relay", relay()).await.unwrap();
        }
        let [first, second, third] = &nodes[..] else { panic!("three") };
        let there = first.actor::<Relay>("n2/relay").await.unwrap();
        let third = third.actor::<Relay>("n2/relay").await.unwrap();
        let answers = async |relay: &ActorRef<Relay>| relay.passed().await.is_ok();
        cluster.cut("n1", "n2");
        assert!(!answers(&there).await && answers(&third).await);
        cluster.mend("n1", "n2");
        cluster.settle().await;
        assert!(answers(&there).await);
        // Asks to it arrive, and nothing of it leaves.
        cluster.cut_one_way("n2", "n1");
        assert!(!answers(&there).await);
        cluster.mend_all();
        cluster.settle().await;
        cluster.isolate("n2");
        assert!(!answers(&there).await && !answers(&third).await);
        cluster.mend_all();
        cluster.settle().await;
        cluster.pause("n2");
        assert!(!answers(&there).await);
        cluster.resume("n2");
        cluster.settle().await;
        assert!(answers(&there).await && answers(&third).await);
        assert!(second.linked().len() == 2);
    });
}

#[test]
fn a_fault_of_a_node_that_is_none_is_a_mistake_of_the_test() {
    let failure = Cluster::seeded(1).try_run(async |cluster| {
        cluster.node("alpha").await;
        cluster.isolate("alpha");
        cluster.cut("alpha", "bleta");
    });
    let text = failure.unwrap_err().to_string();
    assert!(text.contains("the cluster has no node bleta; it has [\"alpha\"]"), "{text}");
}

async fn probed(alpha: &Node, beta: &Node) {
    let mut probe = Probe::<Word, u64>::asked(alpha, "probe").await.unwrap();
    let path = "alpha/probe";
    let there = beta.actor::<test_kit::ProbeActor<Word, u64>>(path).await.unwrap();
    for number in 1..=4 {
        there.tell(Word { number }).await.unwrap();
    }
    assert_eq!(probe.expect().await, Word { number: 1 });
    assert_eq!(probe.expect_matching(|word| word.number > 2).await, Word { number: 3 });
    assert_eq!(probe.received(), 3);
    assert_eq!(probe.expect().await, Word { number: 4 });
    let test = async {
        let (word, reply) = probe.expect_ask().await;
        assert!(reply.is_awaited());
        reply.send(word.number * 2);
        // Not answered.
        probe.expect().await;
        probe.answer(|word| word.number + 1);
    };
    let asks = async {
        assert_eq!(there.ask(Word { number: 21 }).await, Ok(42));
        let dropped = there.ask(Word { number: 0 }).await.unwrap_err();
        assert_eq!(dropped.cause, AskCause::NoReply);
    };
    tokio::join!(test, asks);
    assert_eq!(there.ask(Word { number: 1 }).await, Ok(2));
    assert_eq!(probe.expect().await, Word { number: 1 });
    probe.expect_none(Duration::from_millis(20)).await;
    drop(probe);
    assert_eq!(there.wait_stopped().await, ActorExit::Stopped);
}

#[test]
fn a_probe_gives_each_message_once_in_order_and_answers() {
    test_kit::check(0..8, |cluster| async move {
        let (alpha, beta) = (cluster.node("alpha").await, cluster.node("beta").await);
        probed(&alpha, &beta).await;
    });
}

#[tokio::test]
async fn a_probe_works_on_ordinary_nodes() {
    let (alpha, beta) = crate::remote::pair().await;
    probed(&alpha, &beta).await;
    crate::remote::end([alpha, beta]).await;
}

#[test]
fn an_expectation_that_is_not_met_says_what_came() {
    let fails = |body: fn(Probe<Word>) -> futures::future::BoxFuture<'static, ()>| {
        let failure = Cluster::seeded(1).try_run(|cluster| async move {
            let node = cluster.node("alpha").await;
            let probe = Probe::spawn(&node, "probe").await.unwrap();
            for number in [1, 2] {
                probe.recipient().tell(Word { number }).await.unwrap();
            }
            body(probe.patience(3 * SECOND)).await;
        });
        failure.unwrap_err().to_string()
    };
    let text = fails(|mut probe| {
        Box::pin(async move {
            for _ in 0..3 {
                probe.expect().await;
            }
        })
    });
    let seen = "It was sent 2 before, at last: Word { number: 1 }, Word { number: 2 }";
    assert!(text.contains("none came in 3s") && text.contains(seen), "{text}");
    let text = fails(|mut probe| {
        Box::pin(async move {
            probe.expect_matching(|word| word.number == 3).await;
        })
    });
    assert!(text.contains("none that matches came in 3s") && text.contains(seen), "{text}");
    let text = fails(|mut probe| Box::pin(async move { probe.expect_none(SECOND).await }));
    assert!(text.contains("Word { number: 1 } came, and none should in 1s"), "{text}");
    let text =
        fails(|probe| Box::pin(async move { drop(probe.expect_down(probe.reference()).await) }));
    assert!(text.contains("alpha/probe has not ended in 3s"), "{text}");
}

#[test]
fn a_failure_shows_the_lines_of_the_test_before_those_of_frames() {
    let failure = Cluster::seeded(1).try_run(async |cluster| {
        let [alpha, beta] = [cluster.node("alpha").await, cluster.node("beta").await];
        let mut probe = Probe::<Word>::spawn(&alpha, "probe").await.unwrap();
        let there = beta.recipient::<Word, ()>("alpha/probe").await.unwrap();
        cluster.log("the work begins");
        for number in 0..100 {
            there.tell(Word { number }).await.unwrap();
            probe.expect().await;
        }
        panic!("to be shown");
    });
    let failure = failure.map(|()| "passed").unwrap_err();
    let of_frames = |text: &str| text.lines().filter(|line| line.contains(" qp ")).count();
    assert!(of_frames(failure.log()) > 100, "{}", failure.log());
    let text = failure.to_string();
    assert!(text.contains("the work begins") && text.contains("alpha: linked to beta"), "{text}");
    assert!((1..=8).contains(&of_frames(&text)), "{text}");
}

#[test]
fn a_run_that_fails_panics_where_it_was_called() {
    const TEXT: &str = "a panic whose place is looked at";
    let places = Arc::new(Mutex::new(Vec::new()));
    let (noted, before) = (places.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(|place| (place.file().to_owned(), place.line()));
        if panic.to_string().contains(TEXT) {
            noted.lock().extend(place);
        } else {
            before(panic);
        }
    }));
    let line = line!() + 1;
    let ran = std::panic::catch_unwind(|| test_kit::run(1, async |_| panic!("{TEXT}")));
    assert!(ran.map(|()| "passed").is_err());
    let places = places.lock().clone();
    assert_eq!(places.last(), Some(&(file!().to_owned(), line)), "{places:?}");
}
