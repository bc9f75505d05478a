//! The verbs fabric under the conformance body, on the RDMA devices of this machine: those of the
//! laboratory. Without one each case says so loudly and is no proof.

use std::io::Write;
use std::sync::Arc;

use super::{NoVerbs, Survey, VerbsConfig, VerbsFabric};
use crate::entropy::Entropy;
use crate::fabric::conformance::{self, Pairs};
use crate::fabric::{
    Completion, Fabric, FabricError, Halves, PostError, QueuePairConfig, SendRequest, Side, Status,
};
use crate::memory::{Region, Slot};

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

/// A queue pair that is connected to one of its own fabric, and that one.
async fn connected(fabric: &Arc<VerbsFabric>) -> [Halves; 2] {
    let config = |side| QueuePairConfig {
        send_queue: 4,
        recv_queue: 4,
        inline_bytes: 0,
        rnr_retry: 0,
        side,
    };
    let a = fabric.open(config(Side::Dialer { address: "127.0.0.1:1".into() })).unwrap();
    let b = fabric.open(config(Side::Acceptor)).unwrap();
    let (for_b, for_a) = (a.offer(), b.offer());
    [a.connect(for_a).await.unwrap(), b.connect(for_b).await.unwrap()]
}

fn request(slot: Slot) -> SendRequest {
    SendRequest { slot, bytes: 1, signaled: true, solicited: true, inline: false }
}

/// PV-1, VB-2: memory that this fabric did not hand out is refused, in both queues, whether nobody
/// registered it or another fabric did.
#[tokio::test]
async fn foreign_memory_is_refused() {
    let Some(Devices([fabric, other])) = Devices::new("foreign_memory_is_refused") else { return };
    let [mut halves, _peer] = connected(&fabric).await;
    for region in [Region::heap(4096), other.alloc(4096).unwrap()] {
        let mut slots = region.into_slots(4096);
        assert_eq!(halves.recv.post(&mut slots), Err(PostError::Foreign));
        let mut batch = vec![request(slots.pop().unwrap())];
        assert_eq!(halves.send.post(&mut batch), Err(PostError::Foreign));
        assert_eq!(batch.len(), 1);
    }
    let mut own = fabric.alloc(4096).unwrap().into_slots(4096);
    assert_eq!(halves.recv.post(&mut own), Ok(()));
}

/// VB-1, VB-3: whatever is dropped first, memory outlives queue pair and fabric and can be used.
#[tokio::test]
async fn parents_outlive_children() {
    let Some(Devices([fabric, _other])) = Devices::new("parents_outlive_children") else { return };
    let mut slots = fabric.alloc(8192).unwrap().into_slots(4096);
    let [mut halves, peer] = connected(&fabric).await;
    drop(fabric);
    halves.recv.post(&mut slots).unwrap();
    let mut done = Vec::new();
    halves.done.close();
    while halves.done.poll(&mut done, 8) > 0 {}
    drop((halves, peer));
    let statuses = done.iter().map(|Completion { status, .. }| *status).collect::<Vec<_>>();
    assert_eq!(statuses, [Status::Flushed; 2]);
    for Completion { mut slot, .. } in done {
        slot.fill(7);
        assert!(slot.iter().all(|byte| *byte == 7));
    }
}

/// VB-5, PV-7: an event of the port ends its queue pairs, and the completion names the cause.
#[tokio::test]
async fn a_port_that_goes_down_ends_its_queue_pairs() {
    let case = "a_port_that_goes_down_ends_its_queue_pairs";
    let Some(Devices([fabric, _])) = Devices::new(case) else { return };
    let [mut halves, _peer] = connected(&fabric).await;
    halves.recv.post(&mut fabric.alloc(8192).unwrap().into_slots(4096)).unwrap();
    halves.done.arm(crate::fabric::Notify::Solicited);
    for rail in &fabric.rails {
        rail.domain.device.listeners.tell(super::events::Event::PortDown(rail.port));
    }
    conformance::bounded(case, std::future::poll_fn(|cx| halves.done.poll_ready(cx))).await;
    let mut done = Vec::new();
    while halves.done.poll(&mut done, 8) > 0 {}
    let statuses = done.iter().map(|Completion { status, .. }| *status).collect::<Vec<_>>();
    assert_eq!(statuses, [Status::PortDown, Status::Flushed]);
}

/// VB-2: fabrics on different devices reach each other, and memory is registered where it is used.
#[tokio::test]
async fn different_devices_reach_each_other() {
    let case = "different_devices_reach_each_other";
    let Some(Devices([all, _])) = Devices::new(case) else { return };
    let names = all.rails.iter().map(|rail| rail.domain.device.name().to_owned());
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

/// What was asked for by hand and is not there, and settings out of range, are refused by name.
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
