//! The judgement of an actor that ends or rests: made once, and by all alike.

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart, Strategy, Supervisor};
use tokio::time::{Instant, sleep, sleep_until};

use crate::actors::node;
use crate::supervising::{self, Diary, MINUTE, MS, Worker, quick};

/// Takes long to start.
struct Slow;

#[actor]
impl Actor for Slow {
    async fn on_start(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        sleep(2000 * MS).await;
        Ok(())
    }
}

#[handlers]
impl Slow {}

/// A group is restarted without a child that was ended while it rested, even if its supervisor had
/// not heard by then that it rests.
#[tokio::test(start_paused = true)]
async fn a_group_begins_anew_without_a_child_that_was_ended_before_its_supervisor_looked() {
    for is_kill in [true, false] {
        let (node, diary) = (node().await, Diary::default());
        let restart = Restart::on_failure().backoff(MINUTE, MINUTE);
        let group =
            ["a", "b"].into_iter().fold(Supervisor::new(Strategy::OneForAll), |all, name| {
                all.child(Worker::child(name, &diary).restart(restart))
            });
        let group = node.spawn("group", group).await.unwrap();
        let a = node.actor::<Worker>("a").await.unwrap();
        let b = node.actor::<Worker>("b").await.unwrap();
        assert_eq!(b.work().await, Ok(1));
        let starts = tokio::spawn({
            let group = group.clone();
            async move { group.start_child(Child::new(|| Slow).named("slow")).await.map(drop) }
        });
        sleep(MS).await;
        a.explode("boom".into()).await.unwrap_err();
        sleep(MS).await;
        let exit = if is_kill {
            a.kill().await.unwrap();
            ActorExit::Killed
        } else {
            a.request_stop().unwrap();
            ActorExit::Stopped
        };
        assert_eq!(a.wait_stopped().await, exit);
        assert!(starts.await.unwrap().is_ok(), "the supervisor was busy until now");
        sleep(2 * MINUTE).await;
        assert_eq!(b.work().await, Ok(1), "it has begun anew");
        assert!(node.actor::<Worker>("a").await.is_err());
        node.shutdown(MINUTE).await;
    }
}

/// An actor with a timer, which takes long to stop.
#[derive(Default)]
struct Clock {
    told: u64,
}

#[message]
#[derive(Clone)]
struct Tick;

#[actor]
impl Actor for Clock {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        cx.tell_every("tick", MINUTE, Tick);
        Ok(())
    }

    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        sleep(200 * MS).await;
    }
}

#[handlers]
impl Clock {
    #[handler]
    async fn hang(&mut self, millis: u64) {
        sleep(Duration::from_millis(millis)).await;
    }

    #[handler]
    fn tick(&mut self, msg: Tick) {
        let Tick = msg;
        self.told += 1;
    }

    #[handler]
    fn told(&self) -> u64 {
        self.told
    }
}

/// An actor that is stopped is restarted with all that waits, or has ended and has left it, and
/// never something between the two, whatever time its end takes.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_actor_that_stops_keeps_what_waits_or_ends_however_long_that_takes() {
    let (mut kept, mut left) = (0, 0);
    for millis in (600..1800).step_by(50) {
        let node = node().await;
        let restart = Restart::always().at_most(1, 1000 * MS).backoff(MS, MS);
        let clock = Child::new(Clock::default).named("clock").restart(restart);
        let clock = node.supervise(clock).await.unwrap();
        let begun = Instant::now();
        clock.request_stop().unwrap();
        sleep_until(begun + millis * MS).await;
        clock.tell(Hang { millis: 30 }).await.unwrap();
        for _ in 0..3 {
            clock.tell(Tick).await.unwrap();
        }
        sleep(MS).await;
        clock.request_stop().unwrap();
        // (Between the two it takes nothing.)
        sleep(1000 * MS).await;
        let told = clock.told().await;
        match node.actor::<Clock>("clock").await {
            Ok(_) => {
                assert_eq!(told, Ok(3), "{millis} ms: what waited is handled by the next one");
                kept += 1;
            }
            Err(_) => {
                assert!(told.is_err(), "{millis} ms: {told:?}");
                left += 1;
            }
        }
        node.shutdown(MINUTE).await;
    }
    println!("{kept} times kept, {left} times left");
    assert!(kept > 3 && left > 3);
}

/// Two children fail at once, and rest; one of them is told to rest with the other before that is
/// known of it, and has no time for it.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_child_that_rests_already_is_not_killed_for_resting_too_late() {
    for strategy in [Strategy::OneForAll, Strategy::RestForOne] {
        let (node, diary) = (node().await, Diary::default());
        let group = ["a", "b"].into_iter().fold(Supervisor::new(strategy), |all, name| {
            let child = Worker::child(name, &diary).restart(quick());
            all.child(child.stop_within(Duration::ZERO))
        });
        node.spawn("group", group).await.unwrap();
        let a = node.actor::<Worker>("a").await.unwrap();
        let b = node.actor::<Worker>("b").await.unwrap();
        let (first, second) = tokio::join!(a.explode("boom".into()), b.explode("boom".into()));
        assert!(first.is_err() && second.is_err());
        for worker in [&a, &b] {
            assert_eq!(worker.work().timeout(MINUTE).await, Ok(1), "{strategy:?}");
        }
    }
}

/// A child fails too often while its supervisor stops, and a younger child takes its time to end:
/// the supervisor has stopped, and has not failed.
#[tokio::test(start_paused = true)]
async fn a_supervisor_that_stops_does_not_fail_with_a_child() {
    let (node, diary) = (node().await, Diary::default());
    let never = quick().at_most(0, MINUTE);
    let slow = Worker::child("b", &diary).stop_within(MINUTE);
    let group = Supervisor::new(Strategy::OneForOne)
        .child(Worker::child("a", &diary).restart(never))
        .child(slow);
    let group = node.spawn("group", group).await.unwrap();
    let a = node.actor::<Worker>("a").await.unwrap();
    let b = node.actor::<Worker>("b").await.unwrap();
    b.tell(supervising::Hang).await.unwrap();
    sleep(MS).await;
    let begun = Instant::now();
    group.request_stop().unwrap();
    sleep(MS).await;
    a.explode("boom".into()).await.unwrap_err();
    assert_eq!(group.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(begun.elapsed().as_secs(), MINUTE.as_secs(), "the other one had its time once");
    assert_eq!(b.wait_stopped().await, ActorExit::Killed);
}
