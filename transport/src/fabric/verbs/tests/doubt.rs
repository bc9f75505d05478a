//! A device that took the posted requests, failed, and named none (VB-3): nothing is given back
//! before the queue pair is destroyed. rxe does so when its doorbell fails; here it is made to.

use super::laboratory::Laboratory;
use super::raw::RawPair;
use super::{Devices, conformance, request};
use crate::fabric::conformance::{OneSidedPair, Pair, Plan, bounded};
use crate::fabric::one_sided::{Access, Kind, Outcome};
use crate::fabric::verbs::device::Device;
use crate::fabric::verbs::posting::in_doubt;
use crate::fabric::{PostError, Status};
use crate::recorder::Recorder;

const IO: PostError = PostError::Device(rustix::io::Errno::IO.raw_os_error());

/// Puts the only device of the first fabric in doubt about the requests that `post` posts.
fn during(devices: &Devices, post: impl FnOnce()) {
    let domains = devices.0[0].rails.domains();
    let device: &Device = &domains[0].device;
    in_doubt(device, post);
}

/// The queue pair keeps the slots of everything that it posted, earlier posts included, and gives
/// them back when it is destroyed.
#[tokio::test]
async fn slots_in_doubt_stay_with_their_queue_pair() {
    let case = "slots_in_doubt_stay_with_their_queue_pair";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let devices = laboratory.devices(0, 0);
    let RawPair { queue_pairs: [mut a, mut b], memory } =
        RawPair::new(&devices.0[0], [8, 8], [8, 8], 0);
    let mut slots = memory.into_slots(64);
    b.post_recvs(&mut slots.split_off(slots.len() - 8), 8).unwrap();
    a.post_recvs(&mut slots.split_off(slots.len() - 2), 2).unwrap();
    a.post_sends(&mut vec![request(slots.pop().unwrap())], 1).unwrap();
    assert!(!a.is_in_doubt());
    let mut batch: Vec<_> = slots.drain(..4).map(request).collect();
    let addresses: Vec<_> = batch.iter().map(|request| request.slot.as_ptr()).collect();
    during(&devices, || assert_eq!(a.post_sends(&mut batch, 4), Err(IO)));
    assert!(a.is_in_doubt() && batch.is_empty());
    // The device has them: the peer receives the frames.
    let mut received = Vec::new();
    bounded(case, async { received = RawPair::completed(&mut b, 5).await }).await;
    assert!(received.iter().all(|ended| ended.status == Status::Success));
    assert_eq!((a.sends.next(), a.recvs.next()), (5, 2));
    let [sends, recvs] = a.destroy();
    let back: Vec<_> = sends.into_slots().iter().map(|slot| slot.as_ptr()).collect();
    assert_eq!((&back[1..], recvs.into_slots().len()), (&addresses[..], 2));
}

/// The post of the fabric takes all and ends the queue pair, whose owner is told of each frame
/// once, and of the cause; another link of the device goes on.
#[tokio::test]
async fn a_queue_pair_in_doubt_has_failed() {
    let case = "a_queue_pair_in_doubt_has_failed";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let devices = laboratory.devices(0, 0);
    let log = Recorder::new(tracing::Level::ERROR);
    let _guard = tracing::subscriber::set_default(log.clone());
    let mut other = Pair::new(&devices, Plan::new(4, 4)).await;
    let mut pair = Pair::new(&devices, Plan::new(4, 4)).await;
    let left = pair.a.slots.len();
    during(&devices, || pair.a.send_numbers(3));
    bounded(case, pair.a.until(|a| a.got.len() == 3 + 4)).await;
    let [flushed @ .., _] = [Status::Flushed; 4];
    assert_eq!(pair.a.received(), [&[Status::Fatal][..], &flushed].concat());
    let is_known = |status: &Status| matches!(status, Status::Success | Status::Flushed);
    assert!(pair.a.sent().len() == 3 && pair.a.sent().iter().all(is_known));
    let told = "a device did not say which work requests it has";
    assert!(log.take().iter().any(|line| line.contains(told)));
    // Frames posted later do not reach the device, and are flushed.
    pair.a.send_numbers(1);
    bounded(case, pair.a.until(|a| a.got.len() == 3 + 4 + 1)).await;
    assert_eq!((pair.a.sent()[3], pair.a.slots.len()), (Status::Flushed, left - 4));
    other.a.send_numbers(2);
    bounded(case, other.until(|a, b| a.got.len() == 2 && b.frames().len() == 2)).await;
    drop(pair);
    bounded(case, conformance::basic_send(&devices)).await;
}

/// The same of a queue pair for one-sided access.
#[tokio::test]
async fn a_one_sided_queue_pair_in_doubt_has_failed() {
    let case = "a_one_sided_queue_pair_in_doubt_has_failed";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let devices = laboratory.devices(0, 0);
    let (mut pair, _memory, grant) = OneSidedPair::granted(&devices, Access::ALL).await;
    let key = grant.key();
    let mut batch: Vec<_> =
        (0..3).map(|at| pair.a.operation(Kind::Write, key, 8 * at, &[9; 8])).collect();
    during(&devices, || pair.a.one_sided.post(&mut batch).unwrap());
    assert!(batch.is_empty());
    bounded(case, pair.until(|a, _| a.ended().is_some())).await;
    assert_eq!(pair.a.ended(), Some(Status::Fatal));
    let statuses = pair.a.statuses();
    let done = statuses.iter().take_while(|status| **status == Status::Success).count();
    let left = [Status::Fatal, Status::Flushed, Status::Flushed];
    assert_eq!(statuses[done..], left[..3 - done], "each ended once");
    assert!(matches!(pair.a.got.last(), Some(Outcome::Ended(_))));
    bounded(case, conformance::basic_read(&devices)).await;
}
