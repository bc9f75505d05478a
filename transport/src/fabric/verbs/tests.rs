//! The verbs fabric under the conformance cases, on the RDMA devices of this machine: the
//! laboratory has some. Without a device each case says loudly that it proves nothing.

mod doubt;
mod ends;
mod events;
mod forks;
mod laboratory;
mod limits;
mod one_sided;
mod raw;
mod settings;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use super::{NoVerbs, Survey, VerbsConfig, VerbsFabric};
use crate::entropy::Entropy;
use crate::fabric::conformance::{self, Pairs};
use crate::fabric::{
    Fabric, FabricError, Notify, Opening, QueuePair, QueuePairConfig, SendRequest, Side, Status,
    Work,
};
use crate::memory::Slot;
use crate::recorder::Recorder;

/// Two fabrics on this machine.
struct Devices([Arc<VerbsFabric>; 2]);

impl Devices {
    /// `None`, said loudly, where there is no device.
    fn new(case: &str) -> Option<Self> {
        let fabric = || VerbsFabric::new(VerbsConfig::default(), Entropy::os()).map(Arc::new);
        match (fabric(), fabric()) {
            (Ok(a), Ok(b)) => Some(Devices([a, b])),
            (Err(error), _) | (_, Err(error)) => {
                skip(case, &error.to_string());
                None
            }
        }
    }
}

/// Says it past the test harness, which hides what passing tests print. Where verbs are required,
/// as in the laboratory, nothing is skipped.
fn skip(case: &str, why: &str) {
    assert!(std::env::var_os("RINGPOST_REQUIRE_VERBS").is_none(), "{case}: {why}");
    say_skipped(case, why);
}

fn say_skipped(case: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {case}: {why}");
}

impl Pairs for Devices {
    fn ends(&self) -> [(Arc<dyn Fabric>, Side); 2] {
        let [a, b] = self.0.clone();
        [(a, Side::Dialer { address: "127.0.0.1:7700".into() }), (b, Side::Acceptor)]
    }
}

macro_rules! conform {
    ($($case:ident)*) => { $(
        #[tokio::test]
        async fn $case() {
            if let Some(devices) = Devices::new(stringify!($case)) {
                let case = conformance::$case(&devices);
                conformance::bounded(stringify!($case), case).await;
            }
        }
    )* };
}

conformance::for_each_case!(conform);
conformance::for_each_acknowledged_case!(conform);

fn request(slot: Slot) -> SendRequest {
    SendRequest { slot, bytes: 1, tail: None, signaled: true, solicited: true, inline: false }
}

/// Connects both sides; what the first one says of it.
async fn connect(
    a: Box<dyn Opening>,
    b: Box<dyn Opening>,
) -> Result<Box<dyn QueuePair>, FabricError> {
    let (for_b, for_a) = (a.offer(), b.offer());
    futures::join!(a.connect(for_a, 0), b.connect(for_b, 0)).0
}

/// VB-2: fabrics on different devices reach each other, and memory is registered where it is used.
#[tokio::test]
async fn different_devices_reach_each_other() {
    let case = "different_devices_reach_each_other";
    let Some(Devices([all, _])) = Devices::new(case) else { return };
    let names = all.rails.now().into_iter().map(|rail| rail.domain.device.name().to_owned());
    let names = names.collect::<std::collections::BTreeSet<_>>();
    if names.len() < 2 {
        return skip(case, "there is one device");
    }
    let mut fabrics = names.into_iter().map(|device| {
        let config = VerbsConfig { device: Some(device), ..VerbsConfig::default() };
        Arc::new(VerbsFabric::new(config, Entropy::os()).unwrap())
    });
    let pairs = Devices([fabrics.next().unwrap(), fabrics.next().unwrap()]);
    conformance::bounded(case, conformance::basic_send(&pairs)).await;
    conformance::bounded(case, conformance::order_and_batches_larger_than_queue(&pairs)).await;
    let to_any = Devices([pairs.0[0].clone(), all]);
    conformance::bounded(case, conformance::basic_send(&to_any)).await;
}

/// A port on which nothing can be made is left out, and the other one carries the link.
#[tokio::test]
async fn a_port_that_fails_does_not_keep_the_others_from_links() {
    let case = "a_port_that_fails_does_not_keep_the_others_from_links";
    let Some(Devices([mut all, other])) = Devices::new(case) else { return };
    if all.rails.now().len() < 2 {
        return skip(case, "there is one port");
    }
    let log = Recorder::new(tracing::Level::WARN);
    let _guard = tracing::subscriber::set_default(log.clone());
    Arc::get_mut(&mut all).unwrap().rails.break_first();
    let pairs = Devices([all, other]);
    conformance::bounded(case, conformance::basic_send(&pairs)).await;
    let lines = log.take();
    assert!(lines.iter().any(|line| line.contains("an RDMA port is left out")), "{lines:?}");
}

/// Memory on huge pages, or on ordinary ones where there are none, is memory.
#[tokio::test]
async fn huge_pages_are_optional() {
    let config = VerbsConfig { huge_pages: true, ..VerbsConfig::default() };
    let fabric = match VerbsFabric::new(config, Entropy::os()) {
        Ok(fabric) => fabric,
        Err(error) => return skip("huge_pages_are_optional", &error.to_string()),
    };
    let slots = fabric.alloc(3 * 1024 * 1024).unwrap().into_slots(1024 * 1024);
    assert!(slots.len() >= 3);
}

/// A device asked for by hand that is not there, and settings out of range, are refused by name.
#[test]
fn what_cannot_be_used_is_named() {
    let config = VerbsConfig { device: Some("none0".into()), ..VerbsConfig::default() };
    let survey = Survey::new(&config);
    assert!(!survey.is_usable(), "{survey}");
    let refused = VerbsFabric::new(config, Entropy::os()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().starts_with("no usable RDMA device: "), "{refused}");
    let config = VerbsConfig { timeout: 0, ..VerbsConfig::default() };
    let refused = VerbsFabric::new(config, Entropy::os()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, NoVerbs::Setting { what: "timeout", .. }), "{refused}");
}

/// The error of a locked-memory limit says what can be done about it.
#[test]
fn the_memory_limit_is_explained() {
    let error = FabricError::Locked { need: 1_622_016, limit: "65536".into() }.to_string();
    for part in ["1622016 bytes", "65536 bytes", "RLIMIT_MEMLOCK", "ulimit -l", "profile `small`"] {
        assert!(error.contains(part), "{error}");
    }
}

/// PV-11, and more than any fabric promises: a side may send before its peer connected. The device
/// sends again, so that the first frames of both go through, whichever side is late.
#[tokio::test]
async fn first_frames_wait_for_the_peer() {
    let case = "first_frames_wait_for_the_peer";
    let Some(Devices([fabric, other])) = Devices::new(case) else { return };
    const BYTES: u32 = 8448;
    let config = |side| QueuePairConfig {
        send_queue: 4,
        recv_queue: 4,
        inline_bytes: 0,
        rnr_retry: 0,
        side,
        binding: Vec::new(),
        avoid: Vec::new(),
    };
    let prepare = |fabric: &Arc<VerbsFabric>, side| {
        let mut opening = fabric.open(config(side)).unwrap();
        let mut slots = fabric.alloc(5 * BYTES as usize).unwrap().into_slots(BYTES as usize);
        let mut ring = slots.split_off(1);
        ring.truncate(4);
        opening.post_recv(&mut ring).unwrap();
        (opening, slots)
    };
    let speak = |queue_pair: &mut Box<dyn QueuePair>, slots: &mut Vec<Slot>| {
        let slot = slots.pop().unwrap();
        queue_pair.arm(Notify::Solicited);
        let bytes = BYTES;
        let request =
            SendRequest { slot, bytes, tail: None, signaled: true, solicited: true, inline: false };
        queue_pair.post_send(&mut vec![request]).unwrap();
    };
    let hear = async |queue_pair: &mut Box<dyn QueuePair>| {
        let mut done = Vec::new();
        loop {
            queue_pair.arm(Notify::Solicited);
            while queue_pair.poll(&mut done, 8) > 0 {}
            assert!(done.iter().all(|done| done.status == Status::Success), "{done:?}");
            if done.iter().any(|done| done.work == Work::Recv { bytes: BYTES }) {
                return;
            }
            std::future::poll_fn(|cx| queue_pair.poll_ready(cx)).await;
        }
    };
    for late in 0..40 {
        let (a, mut to_b) = prepare(&fabric, Side::Dialer { address: "127.0.0.1:1".into() });
        let (b, mut to_a) = prepare(&other, Side::Acceptor);
        let (for_b, for_a) = (a.offer(), b.offer());
        let mut a = a.connect(for_a, 0).await.unwrap();
        speak(&mut a, &mut to_b);
        tokio::time::sleep(Duration::from_millis(late * 5)).await;
        let mut b = b.connect(for_b, 0).await.unwrap();
        speak(&mut b, &mut to_a);
        let both = async { futures::join!(hear(&mut a), hear(&mut b)) };
        conformance::bounded(&format!("{case}, {late}"), async {
            both.await;
        })
        .await;
    }
}
