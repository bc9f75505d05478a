//! One-sided access on devices: what their queue pairs, domains and registrations make of it,
//! beyond what every fabric promises.

use std::future::poll_fn;
use std::sync::{Arc, mpsc};
use std::task::Poll;

use super::laboratory::{Laboratory, run};
use super::raw::RawPair;
use super::{Devices, skip};
use crate::entropy::Entropy;
use crate::fabric::conformance::{self, OneSidedEnd, OneSidedPair, Pairs, Plan, bounded, contents};
use crate::fabric::one_sided::{Access, Key, Kind, OneSidedConfig, Operation, Outcome};
use crate::fabric::verbs::one_sided::FuzzedOffer;
use crate::fabric::verbs::queue_pair::QueuePair;
use crate::fabric::verbs::registration::{Domain, Granted};
use crate::fabric::verbs::{VerbsConfig, VerbsFabric, memory};
use crate::fabric::{Fabric, FabricError, QueuePairConfig, SendRequest, Side, Status};
use crate::limits::VERBS_READS_MAX;
use crate::memory::Words;

/// VB-9, PV-13: a peer that knows a key and an address of memory that is registered for frames, or
/// for the slots of this very queue pair, reaches neither.
#[tokio::test]
async fn memory_that_was_not_granted_is_not_reached_by_its_keys() {
    let case = "memory_that_was_not_granted_is_not_reached_by_its_keys";
    let Some(devices) = Devices::new(case) else { return };
    let fabric = devices.0[1].clone();
    for kind in [Kind::Read, Kind::Write, Kind::FetchAdd(1)] {
        for domain in fabric.rails.now().into_iter().map(|rail| rail.domain) {
            let (pair, granted, _grant) = OneSidedPair::granted(&devices, Access::ALL).await;
            let slots = fabric.alloc(4096).unwrap().into_slots(64);
            let number = memory::local_key(&domain, &slots[0]).unwrap().unwrap();
            let key = Key { number, base: slots[0].as_ptr() as u64 };
            bounded(case, pair.expect_refusal(kind, key, 0, &granted, 8)).await;
            assert!(slots.iter().all(|slot| **slot == [0; 64]), "{kind:?}");
        }
        for rail in fabric.rails.now() {
            let [mut a, mut b] = RawPair::one_sided(&rail, rail.reads.unwrap());
            let mut slots = fabric.alloc(4096).unwrap().into_slots(64);
            let key = Key { number: b.local_key(&slots[0]), base: slots[0].as_ptr() as u64 };
            let slot = slots.pop().unwrap();
            let mut batch = vec![Operation { slot, bytes: 8, key, at: 0, kind }];
            a.post_operations(&mut batch, 1).unwrap();
            let mut ended = Vec::new();
            bounded(case, async { ended = RawPair::completed(&mut a, 1).await }).await;
            assert_eq!(ended[0].status, Status::RemoteAccess, "{kind:?}");
            assert!(slots.iter().all(|slot| **slot == [0; 64]), "{kind:?}");
        }
    }
}

/// VB-9, PV-13: the keys of two queue pairs on one device, each with memory granted over it:
/// neither peer reaches the other's.
#[tokio::test]
async fn a_key_of_another_queue_pair_of_the_device_is_refused() {
    let case = "a_key_of_another_queue_pair_of_the_device_is_refused";
    let Some(laboratory) = Laboratory::new(case) else { return };
    for (a, b) in [(0, 0), (1, 0)] {
        bounded(case, conformance::invalid_key(&laboratory.devices(a, b))).await;
    }
    let devices = laboratory.devices(0, 0);
    let (pair, memory, grant) = OneSidedPair::granted(&devices, Access::ALL).await;
    let (mut other, _, others) = OneSidedPair::granted(&devices, Access::ALL).await;
    let key = grant.key();
    let (status, _) = other.run(Kind::Write, key, 0, &[7; 8]).await;
    assert_eq!(status, Status::RemoteAccess);
    bounded(case, pair.expect_refusal(Kind::Read, others.key(), 0, &memory, 8)).await;
}

/// VB-10, PV-13: a grant ends while the peer writes to it. The memory stays as it was when the drop
/// returned, though the writes go on until they are refused.
#[tokio::test]
async fn a_grant_that_ends_under_way_ends_at_once() {
    let case = "a_grant_that_ends_under_way_ends_at_once";
    let Some(devices) = Devices::new(case) else { return };
    const BYTES: usize = 64 * 1024;
    for rounds in 1..=8 {
        let mut pair = OneSidedPair::of(&devices, 8, 1, BYTES).await;
        let memory = Arc::new(Words::zeroed(BYTES).unwrap());
        let grant =
            pair.b.one_sided.grant(&memory, 0, BYTES as u64, Access::WRITE).finish().unwrap();
        let key = grant.key();
        let (tell, told) = mpsc::channel();
        let ending = std::thread::spawn({
            let memory = memory.clone();
            move || {
                told.recv().unwrap();
                drop(grant);
                contents(&memory)
            }
        });
        // The peer writes something else each time, until it is refused.
        let mut written = 0u8;
        let writes = async {
            while pair.a.ended().is_none() {
                while let Some(mut slot) = pair.a.slots.pop() {
                    written = written.wrapping_add(1);
                    slot.fill(written);
                    let bytes = BYTES as u32;
                    let operation = Operation { slot, bytes, key, at: 0, kind: Kind::Write };
                    pair.a.one_sided.post(&mut vec![operation]).unwrap();
                }
                pair.until(|a, _| a.done() > 0).await;
                while pair.a.done() > 0 && pair.a.statuses()[0] == Status::Success {
                    let (_, slot) = pair.a.take_done();
                    pair.a.slots.push(slot);
                }
                if written > rounds {
                    let _ = tell.send(());
                }
            }
        };
        bounded(case, writes).await;
        let then = ending.join().unwrap();
        assert!(contents(&memory) == then, "the memory is written after its grant has ended");
        bounded(case, pair.until(|_, b| b.ended().is_some())).await;
        let statuses = pair.a.statuses();
        assert_eq!(statuses[0], Status::RemoteAccess, "{statuses:?}");
        assert!(statuses[1..].iter().all(|status| *status == Status::Flushed), "{statuses:?}");
    }
}

/// VB-7, PV-18: rxe flushes receives when it refuses an operation, and nothing where there are
/// none; then the owner learns it when it polls its notices.
#[tokio::test]
async fn a_refusal_while_notices_wait_is_told_after_them() {
    let case = "a_refusal_while_notices_wait_is_told_after_them";
    let Some(devices) = Devices::new(case) else { return };
    let (mut pair, _memory, grant) = OneSidedPair::granted(&devices, Access::WRITE).await;
    (0..4).for_each(|number| pair.a.post(Kind::WriteAndNotify(number), grant.key(), 0, &[1]));
    pair.a.post(Kind::Read, grant.key(), 0, &[0; 8]);
    let OneSidedPair { a, b } = &mut pair;
    let refused = poll_fn(|cx| {
        if a.turn(cx) {
            cx.waker().wake_by_ref();
        }
        if a.ended().is_some() { Poll::Ready(()) } else { Poll::Pending }
    });
    bounded(case, refused).await;
    assert_eq!(a.statuses()[3..], [Status::Success, Status::RemoteAccess]);
    assert_eq!(b.notices().len(), 0);
    bounded(case, pair.until(|_, b| b.ended().is_some())).await;
    assert_eq!((pair.b.notices(), pair.b.ended()), (vec![0, 1, 2, 3], Some(Status::Flushed)));
}

/// VB-2: as many regions are registered with a queue pair's own domain as there are slots of, and
/// one more; and none is left when it ends.
#[tokio::test]
async fn registrations_of_a_queue_pair_follow_its_slots() {
    let case = "registrations_of_a_queue_pair_follow_its_slots";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let devices = laboratory.devices(0, 0);
    let registrations = || {
        let shown = run("rdma", &["resource", "show"]);
        let line = shown.lines().find(|line| line.contains(&laboratory.0[0])).unwrap();
        let (_, rest) = line.split_once(" mr ").expect("the count of registrations is shown");
        rest.split_whitespace().next().unwrap().parse::<u32>().unwrap()
    };
    let before = registrations();
    let (mut pair, memory, grant) = OneSidedPair::granted(&devices, Access::ALL).await;
    let mut counts = Vec::new();
    for _ in 0..6 {
        pair.a.slots = devices.0[0].alloc(4096).unwrap().into_slots(64);
        let (status, slot) = pair.run(Kind::Read, grant.key(), 0, &[0; 8]).await;
        assert_eq!(status, Status::Success);
        drop(slot);
        counts.push(registrations());
    }
    assert_eq!(counts[1..], [counts[1]; 5], "{before} before");
    drop((pair, memory, grant, devices));
    assert_eq!(registrations(), before);
}

/// VB-9: a queue pair for one-sided access lets peers in, as far as its domain goes, and has as
/// many reads under way as both sides can do.
#[tokio::test]
async fn the_device_is_set_for_one_sided_access() {
    let case = "the_device_is_set_for_one_sided_access";
    let Some(devices) = Devices::new(case) else { return };
    for rail in devices.0[0].rails.now() {
        let reads = rail.reads.expect("devices of the laboratory have all");
        assert!(!Laboratory::is_here() || reads.own == VERBS_READS_MAX, "{reads:?}");
        let pair = RawPair::one_sided(&rail, reads);
        for queue_pair in &pair {
            let set = queue_pair.settings();
            // Local writing is no matter of the queue pair, but some devices show it.
            assert_eq!(set.qp_access_flags & !1, 2 | 4 | 8);
            assert_eq!((set.max_rd_atomic, set.max_dest_rd_atomic), (reads.own, reads.peers));
        }
        let domains = pair.each_ref().map(|queue_pair| queue_pair.domain().clone());
        assert!(!Arc::ptr_eq(&domains[0], &domains[1]) && !Arc::ptr_eq(&domains[0], &rail.domain));
    }
}

/// VB-9: where no device can do it, that is said, and not tried.
#[test]
fn devices_without_atomic_operations_are_named() {
    let case = "devices_without_atomic_operations_are_named";
    let Some(Devices([mut fabric, _])) = Devices::new(case) else { return };
    Arc::get_mut(&mut fabric).unwrap().rails.without_reads();
    let config =
        || OneSidedConfig { operations: 1, notices: 0, side: Side::Acceptor, binding: Vec::new() };
    let refused = fabric.open_one_sided(config()).err().unwrap().to_string();
    let names = fabric.devices().join(", ");
    assert!(refused.contains(&names) && refused.contains("atomic operations"), "{refused}");
    let limit = fabric.limits().send_queue_max;
    let many = OneSidedConfig { operations: limit + 1, ..config() };
    let refused = fabric.open_one_sided(many).err().unwrap();
    assert!(matches!(refused, FabricError::Limit { what: "operations", .. }), "{refused}");
}

/// PV-10: offers of queue pairs for frames and of others are not mixed up.
#[tokio::test]
async fn an_offer_for_frames_connects_no_one_sided_access() {
    let case = "an_offer_for_frames_connects_no_one_sided_access";
    let Some(devices) = Devices::new(case) else { return };
    let [(a, side), (b, _)] = devices.ends();
    let config =
        || OneSidedConfig { operations: 1, notices: 0, side: side.clone(), binding: Vec::new() };
    let frames = b.open(Plan::new(1, 1).config).unwrap().offer();
    let opening = a.open_one_sided(config()).unwrap();
    assert!(opening.ways(&frames).is_empty());
    let refused = opening.connect(frames, 0).await.err().unwrap();
    assert!(matches!(refused, FabricError::Offer(_)), "{refused}");
    if devices.0[0].rails.now().is_empty() {
        skip(case, "there is no port");
    }
}

/// VB-5: the port of a queue pair for one-sided access goes down: it ends, with the cause.
#[tokio::test]
async fn a_port_that_goes_down_ends_one_sided_access() {
    let case = "a_port_that_goes_down_ends_one_sided_access";
    let Some(devices) = Devices::new(case) else { return };
    let (mut pair, _memory, grant) = OneSidedPair::granted(&devices, Access::ALL).await;
    for rail in devices.0[0].rails.now() {
        let event = crate::fabric::verbs::events::Event::PortDown(rail.port.number);
        rail.domain.device.listeners.tell(event);
    }
    let OneSidedPair { a, .. } = &mut pair;
    let ended = poll_fn(|cx| {
        if a.turn(cx) {
            cx.waker().wake_by_ref();
        }
        if a.ended().is_some() { Poll::Ready(()) } else { Poll::Pending }
    });
    bounded(case, ended).await;
    assert_eq!(a.ended(), Some(Status::PortDown));
    a.post(Kind::Read, grant.key(), 0, &[0; 8]);
    bounded(case, pair.until(|a, _| a.done() == 1)).await;
    assert_eq!(pair.a.statuses(), [Status::Flushed]);
}

/// VB-1, VB-10: whatever is dropped first or last, with operations under way, everything is given
/// back, and the memory is let go of.
#[tokio::test]
async fn every_order_of_drops_ends_grants() {
    let case = "every_order_of_drops_ends_grants";
    let resources = || run("rdma", &["resource", "show"]);
    let before = Laboratory::is_here().then(resources);
    let errors = crate::recorder::Recorder::new(tracing::Level::ERROR);
    let _guard = tracing::subscriber::set_default(errors.clone());
    for first in 0..6 {
        for last in (0..6).filter(|last| *last != first) {
            let Some(devices) = Devices::new(case) else { return };
            let (mut pair, memory, grant) = OneSidedPair::granted(&devices, Access::ALL).await;
            (0..3).for_each(|_| pair.a.post(Kind::FetchAdd(1), grant.key(), 0, &[0; 8]));
            bounded(case, pair.until(|a, _| a.done() > 0)).await;
            let Devices([ours, theirs]) = devices;
            let OneSidedPair { a: OneSidedEnd { one_sided, slots, got }, b } = pair;
            let mut parts: [Option<Box<dyn Send>>; 6] = [
                Some(Box::new((ours, theirs))),
                Some(Box::new(one_sided)),
                Some(Box::new(slots)),
                Some(Box::new(got)),
                Some(Box::new(b)),
                Some(Box::new(grant)),
            ];
            parts[first] = None;
            (0..6).filter(|part| *part != last).for_each(|part| parts[part] = None);
            assert_eq!(Arc::strong_count(&memory), if last == 5 { 2 } else { 1 });
            drop(parts);
            assert_eq!(Arc::strong_count(&memory), 1);
        }
    }
    assert_eq!(errors.take(), Vec::<String>::new());
    if let Some(before) = before {
        assert_eq!(resources(), before);
    }
}

/// PV-13: a grant is made and ends when its queue pair has; and nothing is granted of no bytes.
#[tokio::test]
async fn grants_outlive_their_queue_pair() {
    let case = "grants_outlive_their_queue_pair";
    let Some(devices) = Devices::new(case) else { return };
    let (mut pair, memory, grant) = OneSidedPair::granted(&devices, Access::ALL).await;
    let nothing = pair.b.one_sided.grant(&memory, 8, 0, Access::ALL).finish().unwrap();
    pair.b.one_sided.close();
    let late = pair.b.one_sided.grant(&memory, 0, 8, Access::ALL).finish().unwrap();
    bounded(case, pair.until(|_, b| b.ended().is_some())).await;
    assert!(matches!(pair.b.got[..], [Outcome::Ended(Status::Flushed)]));
    drop((pair, devices));
    assert_eq!(Arc::strong_count(&memory), 4);
    drop((late, grant, nothing));
    assert_eq!(Arc::strong_count(&memory), 1);
}

/// VB-10: a device that does not take a registration back may still write there, so the memory is
/// never freed; the log says so.
#[tokio::test]
async fn memory_of_a_grant_that_does_not_end_is_kept() {
    let case = "memory_of_a_grant_that_does_not_end_is_kept";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let rail = laboratory.fabric(0).unwrap().rails.now().remove(0);
    let domain = Arc::new(Domain::new(rail.domain.device.clone()).unwrap());
    let memory = Arc::new(Words::zeroed(64).unwrap());
    let (granted, key) = Granted::new(&domain, &memory, (8, 8), Access::ALL).unwrap();
    assert_eq!(key.base, 8, "no address of this process");
    let errors = crate::recorder::Recorder::new(tracing::Level::ERROR);
    let guard = tracing::subscriber::set_default(errors.clone());
    rail.domain.device.cut_off(|| drop(granted));
    let lines = errors.take();
    for part in ["ibv_dereg_mr", "kept for good"] {
        assert!(lines.iter().any(|line| line.contains(part)), "{lines:?}");
    }
    assert_eq!(Arc::strong_count(&memory), 2);
    drop(domain);
    drop(guard);
}

/// PV-18: a hostile peer that sends frames, where there are only places for notices, ends just this
/// queue pair; no byte of them lies anywhere.
#[tokio::test]
async fn frames_end_one_sided_access() {
    let case = "frames_end_one_sided_access";
    let Some(devices) = Devices::new(case) else { return };
    let fabric = &devices.0[0];
    let rail = fabric.rails.now().remove(0);
    for (bytes, ends) in [(0, Status::Corrupt), (8, Status::LocalLength)] {
        let plan = QueuePairConfig { recv_queue: 1, ..Plan::new(1, 1).config };
        let mut hostile = QueuePair::new(rail.domain.clone(), rail.port, &plan).unwrap();
        let config = VerbsConfig {
            device: Some(rail.domain.device.name().into()),
            port: Some(rail.port.number),
            gid_index: Some(rail.addresses[0].index.into()),
            ..VerbsConfig::default()
        };
        let honest = VerbsFabric::new(config, Entropy::os()).unwrap();
        let opening = honest
            .open_one_sided(OneSidedConfig {
                operations: 1,
                notices: 2,
                side: Side::Acceptor,
                binding: Vec::new(),
            })
            .unwrap();
        let mut offer = FuzzedOffer::decode(&opening.offer()).unwrap();
        let mut path = RawPair::path(&rail, offer.address().queue_pair);
        path.peer_first_packet = offer.address().first_packet;
        offer.address().queue_pair = hostile.number();
        offer.address().first_packet = path.first_packet;
        let mut one_sided = opening.connect(offer.encode().into(), 0).await.unwrap();
        hostile.connect(&path).unwrap();
        let mut slot = fabric.alloc(64).unwrap().into_slots(64).remove(0);
        slot.fill(0xee);
        let request = SendRequest { bytes, ..super::request(slot) };
        hostile.post_sends(&mut vec![request], 1).unwrap();
        let mut got = Vec::new();
        let ended = poll_fn(|cx| {
            one_sided.arm();
            while one_sided.poll(&mut got, 4) > 0 {}
            let more = one_sided.poll_ready(cx).is_ready();
            if !got.is_empty() {
                return Poll::Ready(());
            }
            if more {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        });
        bounded(case, ended).await;
        assert!(matches!(got[..], [Outcome::Ended(status)] if status == ends), "{got:?}");
    }
}
