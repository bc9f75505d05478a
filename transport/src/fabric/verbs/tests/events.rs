//! The events that devices tell without being asked (VB-5), brought about for real.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::laboratory::{Laboratory, ip, run};
use super::raw::RawPair;
use super::{Devices, conformance};
use crate::driver::Prepared;
use crate::fabric::conformance::{End, OneSidedPair, Pair, Plan, bounded};
use crate::fabric::one_sided::{Access, OneSidedConfig};
use crate::fabric::verbs::VerbsFabric;
use crate::fabric::verbs::device::Altered;
use crate::fabric::verbs::events::Event;
use crate::fabric::verbs::offer::Offer;
use crate::fabric::{Fabric, Side, Status};
use crate::limits::VERBS_PORT_GRACE;
use crate::profile::Profile;

/// Takes an interface up again, whatever becomes of the test.
struct Up(String);

impl Drop for Up {
    fn drop(&mut self) {
        ip(&["link", "set", &self.0, "up"]);
    }
}

/// The end's receives ended, the oldest with a cause.
async fn ended(end: &mut End, cause: Status) {
    end.until(|end| end.got.len() == 4).await;
    let [flushed @ .., _] = [Status::Flushed; 4];
    assert_eq!(end.received(), [&[cause][..], &flushed].concat());
}

async fn still_works(pair: &mut Pair) {
    let [a, b] = [pair.a.got.len(), pair.b.got.len()];
    pair.a.send_numbers(1);
    pair.b.send_numbers(1);
    pair.until(|at_a, at_b| at_a.got.len() == a + 2 && at_b.got.len() == b + 2).await;
    for end in [&pair.a, &pair.b] {
        assert!(end.got.iter().all(|done| done.status == Status::Success));
    }
}

/// VB-5, PV-7: the cable is pulled. Every queue pair of that port ends with the cause, whichever
/// task reads the event; queue pairs of the other device live on, and a peer over there finds out
/// by sending. When the cable is back, links can be made again.
#[tokio::test]
async fn a_port_that_is_down_ends_its_own_queue_pairs() {
    let case = "a_port_that_is_down_ends_its_own_queue_pairs";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let both = laboratory.devices(0, 0);
    let mut lost = Pair::new(&both, Plan::new(4, 4)).await;
    let mut lost_too = Pair::new(&both, Plan::new(4, 4)).await;
    let mut across = Pair::new(&laboratory.devices(0, 1), Plan::new(4, 4)).await;
    let mut kept = Pair::new(&laboratory.devices(1, 1), Plan::new(4, 4)).await;
    let up = Up(laboratory.interface(0));
    ip(&["link", "set", &up.0, "down"]);
    bounded(case, async {
        for pair in [&mut lost, &mut lost_too] {
            ended(&mut pair.a, Status::PortDown).await;
            ended(&mut pair.b, Status::PortDown).await;
        }
        ended(&mut across.a, Status::PortDown).await;
        still_works(&mut kept).await;
        across.b.send_numbers(1);
        across.b.until(|b| b.got.len() == 5).await;
        assert_eq!(across.b.sent(), [Status::RetryExceeded]);
    })
    .await;
    drop(up);
    let again = async {
        // A port that is down has no fabric.
        while let Err(why) = laboratory.fabric(0) {
            assert!(why.contains("the port is not active"), "{why}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let mut back = Pair::new(&laboratory.devices(0, 1), Plan::new(4, 4)).await;
        still_works(&mut back).await;
        still_works(&mut kept).await;
    };
    bounded(case, again).await;
}

/// VB-5: a port that is down for a moment ends nothing, and frames sent later arrive.
#[tokio::test]
async fn a_port_that_flaps_ends_no_queue_pair() {
    let case = "a_port_that_flaps_ends_no_queue_pair";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let mut pair = Pair::new(&laboratory.devices(0, 0), Plan::new(8, 8)).await;
    let up = Up(laboratory.interface(0));
    for _ in 0..2 {
        ip(&["link", "set", &up.0, "down"]);
        ip(&["link", "set", &up.0, "up"]);
        let active = async {
            while laboratory.fabric(0).is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        bounded(case, active).await;
        // It has read both events before it sends.
        pair.until(|_, _| true).await;
        tokio::time::sleep(VERBS_PORT_GRACE + Duration::from_millis(100)).await;
        bounded(case, still_works(&mut pair)).await;
    }
}

/// VB-5: an address that comes while the fabric is open is offered by the next queue pair.
#[tokio::test]
async fn an_address_that_comes_later_is_used() {
    let case = "an_address_that_comes_later_is_used";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let (fabric, interface) = (laboratory.fabric(0).unwrap(), laboratory.interface(0));
    let count = || fabric.rails.now().iter().map(|rail| rail.addresses.len()).sum::<usize>();
    let (before, looks) = (count(), fabric.rails.changes());
    let address = ["10.98.0.1/24", "dev", &interface];
    for (what, expected) in [("add", before + 1), ("del", before)] {
        ip(&[&["address", what][..], &address].concat());
        let told = async {
            while count() != expected {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        bounded(case, told).await;
    }
    assert!(fabric.rails.changes() > looks);
}

/// VB-5: a port goes down while no queue pair is there to hear of it. A later one is not told.
#[tokio::test]
async fn what_happened_before_a_queue_pair_does_not_end_it() {
    let case = "what_happened_before_a_queue_pair_does_not_end_it";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let devices = laboratory.devices(0, 0);
    let interface = laboratory.interface(0);
    for _ in 0..3 {
        let up = Up(interface.clone());
        ip(&["link", "set", &up.0, "down"]);
        drop(up);
        let again = async {
            while laboratory.fabric(0).is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        bounded(case, again).await;
        // These fabrics have had the device open since before the events.
        let mut pair = Pair::new(&devices, Plan::new(4, 4)).await;
        bounded(case, still_works(&mut pair)).await;
    }
}

/// VB-5, PV-7: an event of the port ends its queue pairs, and the completion names the cause.
#[tokio::test]
async fn a_port_that_goes_down_ends_its_queue_pairs() {
    let case = "a_port_that_goes_down_ends_its_queue_pairs";
    let Some(devices) = Devices::new(case) else { return };
    let mut pair = Pair::new(&devices, Plan::new(4, 4)).await;
    for rail in devices.0[0].rails.now() {
        let event = crate::fabric::verbs::events::Event::PortDown(rail.port.number);
        rail.domain.device.listeners.tell(event);
    }
    bounded(case, ended(&mut pair.a, Status::PortDown)).await;
}

/// VB-5: a completion queue overruns, which only a caller that does not count can bring about
/// (PV-9). The device tells, and just its queue pair ends.
#[tokio::test]
async fn a_completion_queue_that_overruns_ends_its_queue_pair() {
    let case = "a_completion_queue_that_overruns_ends_its_queue_pair";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let fabric = laboratory.fabric(0).unwrap();
    // Queues of 1 and 7 in a completion queue of 7, as rxe rounds 1, 5 and 6.
    let RawPair { queue_pairs: [mut a, mut b], memory } = RawPair::new(&fabric, [1, 5], [7, 1], 0);
    let other = RawPair::new(&fabric, [1, 1], [1, 1], 0);
    let mut slots = memory.into_slots(64);
    let mut receives = slots.split_off(slots.len() - 7);
    a.post_recvs(&mut receives, 7).unwrap();
    b.post_recvs(&mut slots.split_off(slots.len() - 1), 1).unwrap();
    let mut requests = (0..7).map(|_| super::request(slots.pop().unwrap())).collect();
    b.post_sends(&mut requests, 7).unwrap();
    RawPair::completed(&mut b, 7).await;
    a.post_sends(&mut vec![super::request(slots.pop().unwrap())], 1).unwrap();
    let told = async {
        while a.end.check(Waker::noop()).is_ok() {
            a.domain().device.spread_events();
            tokio::task::yield_now().await;
        }
    };
    bounded(case, told).await;
    assert_eq!(a.end.check(Waker::noop()), Err(Status::Fatal));
    for unconcerned in [&b, &other.queue_pairs[0], &other.queue_pairs[1]] {
        assert_eq!(unconcerned.end.check(Waker::noop()), Ok(None));
    }
}

/// VB-1, VB-5: a device is taken away. rxe tells no user and waits until the last one lets go:
/// links carry on, and when the fabrics are dropped nothing of theirs is left that would hold it.
/// Where the system tells, links end with the cause.
#[tokio::test]
async fn a_device_that_is_removed_is_let_go() {
    let case = "a_device_that_is_removed_is_let_go";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let (device, interface) = (laboratory.0[0].clone(), laboratory.interface(0));
    let devices = laboratory.devices(0, 0);
    let mut pair = Pair::new(&devices, Plan::new(4, 4)).await;
    let one_sided = OneSidedPair::granted(&devices, Access::ALL).await;
    let mut kept = Pair::new(&laboratory.devices(1, 1), Plan::new(4, 4)).await;
    let name = device.clone();
    let removal = std::thread::spawn(move || run("rdma", &["link", "delete", &name]));
    let begun = async {
        // From then on no fabric can open it any more.
        while laboratory.fabric(0).is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        pair.until(|_, _| true).await;
        if pair.a.got.is_empty() {
            assert!(!removal.is_finished(), "it waits");
            still_works(&mut pair).await;
        } else {
            pair.a.until(|a| a.got.len() == 4).await;
            assert_eq!(pair.a.received()[0], Status::Fatal);
        }
    };
    bounded(case, begun).await;
    drop((pair, one_sided, devices));
    let gone = async {
        while !removal.is_finished() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    bounded(case, gone).await;
    removal.join().unwrap();
    bounded(case, still_works(&mut kept)).await;
    run("rdma", &["link", "add", &device, "type", "rxe", "netdev", &interface]);
    bounded(case, conformance::basic_send(&laboratory.devices(0, 1))).await;
    bounded(case, conformance::basic_read(&laboratory.devices(0, 1))).await;
}

/// VB-5: a device that failed is opened again by a thread of its own. The task that finds it failed
/// is told at once that there is no rail; then the device is there again.
#[tokio::test]
async fn a_failed_device_is_opened_again_and_nobody_waits_for_that() {
    let case = "a_failed_device_is_opened_again_and_nobody_waits_for_that";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let fabric = laboratory.fabric(0).unwrap();
    let failed = fabric.rails.domains()[0].clone();
    failed.device.listeners.tell(Event::DeviceFatal);
    assert!(fabric.rails.now().is_empty(), "it is not waited for");
    bounded(case, async {
        while fabric.rails.now().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(!Arc::ptr_eq(&failed, &fabric.rails.domains()[0]));
    let again: Arc<dyn Fabric> = fabric;
    let demands = (Side::Acceptor, Vec::new(), Vec::new());
    assert!(Prepared::new(&again, &Profile::default(), demands).is_ok());
}

/// VB-5: the next offers, of both kinds of queue pairs, carry the changed LID, MTU and partition
/// key of a port. A port is not asked until its device reports a change.
#[tokio::test]
async fn what_changes_about_a_port_is_in_the_next_offer() {
    let case = "what_changes_about_a_port_is_in_the_next_offer";
    let Some(Devices([fabric, _])) = Devices::new(case) else { return };
    let offered = || {
        let [mut frames, mut one_sided] = offers(&fabric);
        for offer in [&mut frames, &mut one_sided] {
            offer.sort();
            offer.dedup();
        }
        assert_eq!(frames, one_sided);
        frames
    };
    let (before, looks) = (offered(), fabric.rails.changes());
    assert!(before.iter().all(|(lid, mtu, _)| *lid != 77 && *mtu > 1), "{before:?}");
    let steps = [
        (Altered { lid: Some(77), ..Altered::default() }, Some((77, before[0].1, before[0].2))),
        (Altered { mtu: Some(1), ..Altered::default() }, Some((before[0].0, 1, before[0].2))),
        (
            Altered { pkeys: Some(vec![0x8007]), ..Altered::default() },
            Some((before[0].0, before[0].1, 0x8007)),
        ),
        (Altered { lid: Some(5), mtu: Some(2), pkeys: Some(vec![0x9]) }, Some((5, 2, 0x9))),
        (Altered::default(), None),
    ];
    let mut last = before.clone();
    for (altered, expected) in steps {
        let domains = fabric.rails.domains();
        for domain in &*domains {
            let Altered { mtu, lid, ref pkeys } = altered;
            *domain.device.altered.lock() = Altered { mtu, lid, pkeys: pkeys.clone() };
        }
        assert_eq!(offered(), last, "no device has told of it");
        domains.iter().for_each(|domain| domain.device.listeners.tell(Event::PortChanged));
        last = offered();
        assert_eq!(last, expected.map_or(before.clone(), |one| vec![one]));
    }
    assert!(fabric.rails.changes() >= looks + 5, "each was a change to those who wait for one");
}

/// Returns the LID, the MTU and the partition of each address in the offers of a new queue pair for
/// frames and of a new one for one-sided access.
fn offers(fabric: &VerbsFabric) -> [Vec<(u16, u8, u16)>; 2] {
    let Plan { config, .. } = Plan::new(4, 4);
    let (side, binding) = (Side::Acceptor, Vec::new());
    let one_sided = OneSidedConfig { operations: 4, notices: 1, side, binding };
    let frames = Offer::decode(&fabric.open(config).unwrap().offer()).unwrap();
    let one_sided = fabric.open_one_sided(one_sided).unwrap().offer();
    // It begins with four bytes of its own.
    let one_sided = Offer::decode(&one_sided[4..]).unwrap();
    [frames, one_sided].map(|offer| {
        offer.addresses.iter().map(|address| (address.lid, address.mtu, address.pkey)).collect()
    })
}
