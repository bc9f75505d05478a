//! Whatever is dropped first, everything is given back, in the order that VB-1 asks for.

use tracing::Level;

use super::Devices;
use super::laboratory::{Laboratory, run};
use crate::fabric::conformance::{End, Pair, Plan, bounded};
use crate::fabric::{Completion, Notify, Status};
use crate::recorder::Recorder;

/// Returns a pair with receives posted and sends on the way, in parts that can be dropped apart.
async fn parts(case: &str) -> Option<[Box<dyn Send>; 6]> {
    let devices = Devices::new(case)?;
    let mut pair = Pair::new(&devices, Plan::new(4, 4)).await;
    pair.a.send_numbers(2);
    let Devices([ours, theirs]) = devices;
    let Pair { a: End { queue_pair, slots, got }, b } = pair;
    Some([
        Box::new(ours),
        Box::new(theirs),
        Box::new(queue_pair),
        Box::new(slots),
        Box::new(got),
        Box::new(b),
    ])
}

/// VB-1, VB-3: each part is dropped first, and each last: no device refuses to take anything back,
/// and nothing is left on it.
#[tokio::test]
async fn every_order_of_drops_gives_everything_back() {
    let case = "every_order_of_drops_gives_everything_back";
    let resources = || run("rdma", &["resource", "show"]);
    // Elsewhere others use the devices, too.
    let before = Laboratory::is_here().then(resources);
    // A device that does not take something back is one.
    let errors = Recorder::new(Level::ERROR);
    let _guard = tracing::subscriber::set_default(errors.clone());
    for first in 0..6 {
        for last in (0..6).filter(|last| *last != first) {
            let Some(parts) = parts(case).await else { return };
            let mut parts = parts.map(Some);
            parts[first] = None;
            (0..6).filter(|part| *part != last).for_each(|part| parts[part] = None);
        }
    }
    assert_eq!(errors.take(), Vec::<String>::new());
    if let Some(before) = before {
        assert_eq!(resources(), before);
    }
}

/// VB-1: events that were taken and not yet acknowledged do not hold up the end, however many.
#[tokio::test]
async fn taken_events_do_not_hold_up_the_end() {
    let case = "taken_events_do_not_hold_up_the_end";
    let Some(devices) = Devices::new(case) else { return };
    for events in [1, 5, 16, 17] {
        let mut pair = Pair::new(&devices, Plan::new(20, 20)).await;
        for i in 0..events {
            pair.b.queue_pair.arm(Notify::Any);
            pair.a.send_numbers(1);
            let one = async {
                while pair.b.got.len() <= i {
                    pair.until_b_is_notified().await;
                    pair.b.queue_pair.arm(Notify::Any);
                    pair.b.collect();
                }
            };
            bounded(case, one).await;
        }
        // On a thread that the test does not wait for when it does not end.
        let (tell, dropped) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            drop(pair);
            tell.send(())
        });
        bounded(case, async { dropped.await.unwrap() }).await;
    }
}

/// VB-1, VB-3: memory outlives queue pair and fabric and can be used.
#[tokio::test]
async fn parents_outlive_children() {
    let Some(devices) = Devices::new("parents_outlive_children") else { return };
    let mut pair = Pair::new(&devices, Plan::new(2, 2)).await;
    drop(devices);
    pair.a.queue_pair.close();
    pair.a.until(|a| a.got.len() == 2).await;
    let End { got, queue_pair, slots, .. } = pair.a;
    drop((queue_pair, slots, pair.b));
    for Completion { mut slot, status, .. } in got {
        assert_eq!(status, Status::Flushed);
        slot.fill(7);
        assert!(slot.iter().all(|byte| *byte == 7));
    }
}
