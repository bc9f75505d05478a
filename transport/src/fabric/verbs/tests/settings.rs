//! The settings of a queue pair, and where its counters wrap.

use super::laboratory::Laboratory;
use super::raw::RawPair;
use super::{Devices, request};
use crate::entropy::Entropy;
use crate::fabric::Status;
use crate::fabric::conformance::{Pair, Plan, bounded};
use crate::fabric::verbs::{Survey, VerbsConfig, VerbsFabric};

/// PV-5, VB-2: the device has the intended settings: no frame without a receive is tried again, a
/// peer that tries again waits for 0.64 ms and not for the 655 ms of 0, peers reach no memory.
#[tokio::test]
async fn the_device_is_set_as_meant() {
    let Some(Devices([fabric, _])) = Devices::new("the_device_is_set_as_meant") else { return };
    let pair = RawPair::new(&fabric, [4, 4], [4, 4], 0);
    for queue_pair in &pair.queue_pairs {
        let set = queue_pair.settings();
        assert_eq!((set.rnr_retry, set.min_rnr_timer), (0, 12));
        assert_eq!((set.timeout, set.retry_cnt), (14, 6));
        assert_eq!(set.path_mtu, u32::from(fabric.rails.now()[0].attributes.mtu));
        assert_eq!(set.qp_access_flags, 0);
        // None: peers reach no memory. mlx5 counts in powers of two, and reports 1 for that.
        let none = u8::from(!Laboratory::is_here());
        assert!(set.max_rd_atomic <= none && set.max_dest_rd_atomic <= none);
        assert_eq!(set.pkey_index, fabric.rails.now()[0].port.partition.index);
    }
}

/// A fabric can be restricted to any address that a survey lists.
#[test]
fn an_address_of_a_survey_is_the_only_one_of_a_fabric_that_is_asked_for_it() {
    let case = "an_address_of_a_survey_is_the_only_one_of_a_fabric_that_is_asked_for_it";
    let Some(Devices([fabric, _])) = Devices::new(case) else { return };
    let survey = Survey::new(&VerbsConfig::default());
    let used: usize = fabric.rails.now().iter().map(|rail| rail.addresses.len()).sum();
    assert_eq!(survey.addresses().len(), used, "{survey}");
    for address in survey.addresses() {
        let config = VerbsConfig {
            device: Some(address.device.clone()),
            port: Some(address.port),
            gid_index: Some(address.gid_index),
            ..VerbsConfig::default()
        };
        let one = VerbsFabric::new(config, Entropy::os()).expect("the fabric of all has it");
        let gids = one.rails.now().into_iter().flat_map(|rail| rail.addresses).map(|it| it.gid);
        assert_eq!(gids.collect::<Vec<_>>(), [address.gid.octets()], "{address:?}");
    }
}

/// PV-3: the 24 bits in which the device counts packets wrap, and neither side notices.
#[tokio::test]
async fn packet_numbers_wrap() {
    let case = "packet_numbers_wrap";
    let Some(Devices([fabric, _])) = Devices::new(case) else { return };
    let RawPair { queue_pairs: [mut a, mut b], memory } =
        RawPair::new(&fabric, [16, 16], [16, 16], 0xff_fffc);
    let mut slots = memory.into_slots(64);
    b.post_recvs(&mut slots.split_off(slots.len() - 16), 16).unwrap();
    let mut batch = slots.drain(..16).map(request).collect();
    a.post_sends(&mut batch, 16).unwrap();
    let both =
        async { (RawPair::completed(&mut a, 16).await, RawPair::completed(&mut b, 16).await) };
    let mut all = None;
    bounded(case, async { all = Some(both.await) }).await;
    let (sent, received) = all.unwrap();
    assert!(sent.iter().chain(&received).all(|ended| ended.status == Status::Success));
    let numbers = received.iter().map(|ended| ended.id).collect::<Vec<_>>();
    assert_eq!(numbers, (0..16).collect::<Vec<_>>());
}

/// VB-3: a queue pair that took the number of an earlier one is told nothing of that one's work:
/// its completion queue is its own.
#[tokio::test]
async fn completions_of_an_earlier_queue_pair_reach_nobody() {
    let case = "completions_of_an_earlier_queue_pair_reach_nobody";
    let Some(devices) = Devices::new(case) else { return };
    for _ in 0..8 {
        let mut early = Pair::new(&devices, Plan::new(4, 4)).await;
        early.a.send_numbers(4);
        // Its completions are on their way, and no owner takes them.
        drop(early);
        let mut late = Pair::new(&devices, Plan::new(4, 4)).await;
        late.b.send_numbers(1);
        let answered = late.until(|a, b| a.got.len() == 1 && b.got.len() == 1);
        bounded(case, answered).await;
        late.a.collect();
        late.b.collect();
        assert_eq!((late.a.sent().len(), late.a.frames()), (0, vec![&[0][..]]));
        assert_eq!((late.b.sent(), late.b.received().len()), (vec![Status::Success], 0));
    }
}
