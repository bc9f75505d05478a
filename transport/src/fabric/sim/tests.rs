//! The simulator's own tests: SI-1 to SI-4, the fabric contract, the wire, each fault.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::*;

mod conform;
mod fabric;
mod faults;
mod one_sided;
mod path_faults;
mod wire;

/// SI-1.
#[test]
fn a_tokio_timer_fires_between_the_events_around_it() {
    for seed in 0..20 {
        let seen = run(seed, |world| async move {
            let mut tasks = Vec::new();
            let (instants, mut seen) = tokio::sync::mpsc::unbounded_channel();
            for ns in [9_999_999, 10_000_001, 10_000_000 - 700, 10_400_000, 3, 123_456_789] {
                let (world, instants) = (world.clone(), instants.clone());
                tasks.push(tokio::spawn(async move {
                    world.sleep(Duration::from_nanos(ns)).await;
                    instants.send(("event", world.now())).unwrap();
                }));
            }
            sleep(Duration::from_millis(10)).await;
            instants.send(("timer", world.now())).unwrap();
            sleep(Duration::from_secs(7200 - 3601)).await;
            instants.send(("timer", world.now())).unwrap();
            drop(instants);
            let mut all = Vec::new();
            while let Some(one) = seen.recv().await {
                all.push(one);
            }
            all
        });
        let expected = [
            ("event", 3),
            ("event", 9_999_300),
            ("event", 9_999_999),
            ("timer", 10_000_000),
            ("event", 10_000_001),
            ("event", 10_400_000),
            ("event", 123_456_789),
            ("timer", 3_599_010_000_000),
        ];
        assert_eq!(seen, expected);
    }
}

/// Else a campaign of many seeds runs out of memory: tasks that still wait keep nothing.
#[test]
fn a_world_is_freed_when_its_run_ends() {
    let world = run(7, |world| async move {
        for _ in 0..3 {
            let waits = world.clone();
            tokio::spawn(async move { waits.sleep(Duration::from_secs(60)).await });
        }
        world.sleep(Duration::from_millis(3)).await;
        std::sync::Arc::downgrade(&world.0)
    });
    assert_eq!(world.strong_count(), 0);
}

/// SI-4.
#[test]
#[should_panic = "seed 7: a deadlock"]
fn a_deadlock_is_found() {
    run(7, |world| async move {
        world.sleep(Duration::from_millis(3)).await;
        std::future::pending::<()>().await;
    });
}

/// SI-4.
#[test]
#[should_panic = "seed 8: over its limit of 5000000000 ns"]
fn endless_chatter_of_timers_is_found() {
    run_for(8, Duration::from_secs(5), |_world| async move {
        loop {
            sleep(Duration::from_millis(100)).await;
        }
    });
}

/// SI-4.
#[test]
#[should_panic = "over its limit of 5000000 ns"]
fn endless_chatter_of_events_is_found() {
    run_for(9, Duration::from_millis(5), |world| async move {
        loop {
            world.sleep(Duration::from_nanos(300)).await;
        }
    });
}

/// SI-4.
#[test]
#[should_panic = "seed 10: a task spins"]
fn a_task_that_waits_for_time_by_spinning_is_found() {
    run(10, |world| async move {
        while (0..100).all(|_| world.now() < 1_000_000) {
            tokio::task::yield_now().await;
        }
    });
}

/// SI-1: virtual time costs nothing but its events.
#[test]
fn a_day_without_events_takes_no_time() {
    let real = std::time::Instant::now();
    run_for(1, Duration::from_secs(100_000), |world| async move {
        sleep(Duration::from_secs(86_400)).await;
        assert_eq!(world.now(), 86_400_000_000_000);
        for _ in 0..200_000 {
            world.sleep(Duration::from_nanos(2_500)).await;
        }
        assert_eq!(world.now(), 86_400_500_000_000);
    });
    println!("a day and 200,000 events: {:?}", real.elapsed());
    assert!(real.elapsed() < Duration::from_secs(10), "took {:?}", real.elapsed());
}

/// SI-2.
#[test]
fn a_seed_is_a_run() {
    let log = |seed| run(seed, busy_world);
    for seed in 0..10 {
        let once = log(seed);
        assert!(once.lines().count() > 100, "the scenario is not idle");
        assert!(once == log(seed), "seed {seed} gave two runs");
    }
    assert_ne!(log(1), log(2));
}

/// SI-2: tasks that are left when a scenario ends say nothing any more, in whatever order they end.
#[test]
fn a_log_ends_with_its_scenario() {
    struct Last(World, u32);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.log(&format!("{} is dropped", self.1));
        }
    }
    let log = |seed| {
        let world = run(seed, |world| async move {
            let lasts = (0..20).map(|number| (number, Last(world.clone(), number)));
            // It drops them in another order each time.
            let lasts: std::collections::HashMap<u32, Last> = lasts.collect();
            tokio::spawn(async move {
                let _lasts = lasts;
                std::future::pending::<()>().await
            });
            world.sleep(Duration::from_millis(1)).await;
            world.log("the end");
            world
        });
        world.log("too late");
        world.log_text()
    };
    for seed in 0..10 {
        assert_eq!(log(seed), "1000000 the end\n");
        assert_eq!(log(seed), log(seed), "seed {seed}");
    }
}

/// Queue pairs, streams, timers and faults all at once; the log of it.
async fn busy_world(world: World) -> String {
    world.add_rule(Rule::new(Verdict::Delay(Duration::from_micros(30))).one_in(5));
    world.add_rule(Rule::new(Verdict::Drop).one_in(40));
    let mut tasks = Vec::new();
    for task in 0..5u8 {
        let (mut a, mut b) = fabric::connected(&world).await;
        let (mut near, mut far) = wire::streams(&world).await;
        let log = world.clone();
        tasks.push(tokio::spawn(async move {
            for round in 0..6 {
                a.send(round);
                b.send(task);
                let next = async { futures::join!(a.take(2), b.take(2)) };
                let next = tokio::time::timeout(Duration::from_secs(3), next).await;
                log.log(&format!("task {task} round {round}: {next:?}"));
                sleep(Duration::from_millis(u64::from(task))).await;
            }
        }));
        let log = world.clone();
        tasks.push(tokio::spawn(async move {
            for round in 0..6 {
                near.write_all(&[round; 3000]).await.unwrap();
                let mut read = [0; 2000];
                let count = far.read(&mut read).await.unwrap();
                log.log(&format!("task {task} round {round}: read {count}"));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    world.log_text()
}
