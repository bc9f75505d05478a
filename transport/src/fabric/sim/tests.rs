//! The simulator's own tests: SI-1 to SI-4, the fabric contract, the wire, each fault.

use std::time::Duration;

use tokio::time::sleep;

use super::*;

mod fabric;

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

#[test]
fn many_events_are_cheap() {
    let real = std::time::Instant::now();
    run(1, |world| async move {
        for _ in 0..200_000 {
            world.sleep(Duration::from_nanos(2_500)).await;
        }
        assert_eq!(world.now(), 500_000_000);
    });
    eprintln!("200,000 events: {:?}", real.elapsed());
    let real = std::time::Instant::now();
    run_for(1, Duration::from_secs(86_400 * 2), |_| sleep(Duration::from_secs(86_400)));
    eprintln!("a day: {:?}", real.elapsed());
}
