//! The limits of devices and of the system, met on purpose: a readable error, and life goes on.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use super::laboratory::Laboratory;
use super::raw::RawPair;
use super::{Devices, connect, request};
use crate::driver::Prepared;
use crate::fabric::conformance::{OneSidedPair, Pair, Plan, bounded};
use crate::fabric::one_sided::{Access, Kind};
use crate::fabric::verbs::completions::Completions;
use crate::fabric::verbs::machine;
use crate::fabric::verbs::queue_pair::QueuePair;
use crate::fabric::{Fabric, FabricError, PostError, QueuePairConfig, Side, Status};
use crate::memory::Words;
use crate::profile::Profile;

/// PV-9: a device that is asked for more than it has says so, with its name and the call.
#[tokio::test]
async fn a_device_refuses_more_than_it_has() {
    let case = "a_device_refuses_more_than_it_has";
    let Some(Devices([fabric, _])) = Devices::new(case) else { return };
    for rail in fabric.rails.now() {
        let device = rail.domain.device.clone();
        let config = |send_queue, inline_bytes| QueuePairConfig {
            send_queue,
            recv_queue: 1,
            inline_bytes,
            rnr_retry: 0,
            side: Side::Acceptor,
            binding: Vec::new(),
            avoid: Vec::new(),
        };
        let made = |config| QueuePair::new(rail.domain.clone(), rail.port, &config).err();
        let too_many = device.limits().unwrap().completions + 1;
        let refusals = [
            ("ibv_create_cq", Completions::new(device.clone(), too_many).err()),
            ("ibv_create_cq", made(config(too_many, 0))),
            ("ibv_create_qp", made(config(1, 1 << 20))),
        ];
        for (call, refusal) in refusals {
            let refusal = refusal.expect(call).to_string();
            let named = format!("{call} failed on {}: ", device.name());
            assert!(refusal.starts_with(&named), "{refusal}");
        }
        assert!(made(config(1, 0)).is_none(), "and goes on to make what it has");
    }
}

/// PV-9: queues as large as the fabric says there can be are there, and the receive queue holds so
/// many.
#[tokio::test]
async fn queues_as_large_as_the_limits_carry() {
    let case = "queues_as_large_as_the_limits_carry";
    let Some(devices) = Devices::new(case) else { return };
    let limits = devices.0[0].limits();
    let plan = Plan { slot_bytes: 16, ..Plan::new(limits.send_queue_max, limits.recv_queue_max) };
    let mut pair = Pair::new(&devices, plan).await;
    let mut more = vec![pair.a.slots.pop().unwrap()];
    assert_eq!(pair.a.queue_pair.post_recv(&mut more), Err(PostError::Full));
    pair.a.send_numbers(200);
    bounded(case, pair.until(|a, b| a.got.len() == 200 && b.got.len() == 200)).await;
    assert!(pair.b.frames().into_iter().eq((0..200).map(|i| [i])));
    pair.a.queue_pair.close();
    bounded(case, pair.a.until(|a| a.received().len() == limits.recv_queue_max as usize)).await;
}

/// PV-9: a device is given more than its queue holds, which this fabric never does, as it counts
/// requests: rxe refuses the excess and goes on with the rest.
#[tokio::test]
async fn a_device_refuses_posts_beyond_its_queues() {
    let case = "a_device_refuses_posts_beyond_its_queues";
    let Some(laboratory) = Laboratory::new(case) else { return };
    let fabric = laboratory.fabric(0).unwrap();
    let RawPair { queue_pairs: [mut a, mut b], memory } = RawPair::new(&fabric, [3, 3], [3, 3], 0);
    let mut slots = memory.into_slots(64);
    let mut receives = slots.split_off(slots.len() - 16);
    // In one list each, so that none completes in between.
    let refusals = [b.post_recvs(&mut receives, 16), {
        let mut batch = slots.drain(..16).map(request).collect();
        let refusal = a.post_sends(&mut batch, 16);
        assert_eq!(batch.len(), receives.len());
        refusal
    }];
    assert!(receives.len() <= 16 - 3, "a device may round up: {}", receives.len());
    let out_of_memory = PostError::Device(rustix::io::Errno::NOMEM.raw_os_error());
    assert_eq!(refusals, [Err(out_of_memory); 2]);
    let posted = 16 - receives.len();
    let completed = async {
        let ended =
            [RawPair::completed(&mut a, posted).await, RawPair::completed(&mut b, posted).await];
        assert!(ended.iter().flatten().all(|ended| ended.status == Status::Success));
    };
    bounded(case, completed).await;
}

const LIMIT_KIB: u64 = 8 * 1024;
/// Set where `as_an_ordinary_user` runs as one.
const ORDINARY: &str = "RINGPOST_ORDINARY_USER";

/// 8 MiB of lockable memory, as an ordinary user: `as_an_ordinary_user` runs in a process of its
/// own.
#[test]
fn little_lockable_memory_is_enough_and_its_end_is_explained() {
    let case = "little_lockable_memory_is_enough_and_its_end_is_explained";
    if Laboratory::new(case).is_none() {
        return;
    }
    const NOBODY: u32 = 65_534;
    let script = format!("ulimit -l {LIMIT_KIB} && exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(std::env::current_exe().unwrap());
    shell.env(ORDINARY, "1").args(["--exact", "--nocapture"]);
    shell.arg("fabric::verbs::tests::limits::as_an_ordinary_user");
    // A user that is not root has no right to lock more than the limit.
    let output = shell.uid(NOBODY).gid(NOBODY).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{error}");
    println!("{printed}");
    assert!(printed.contains("links of 4352 bytes a slot"), "{printed}");
}

/// Checks that the error names the requested bytes, the limit, and both remedies.
fn explained(error: FabricError, least: u64) {
    let text = error.to_string();
    let FabricError::Locked { need, limit } = error else { panic!("{text}") };
    assert!(need >= least, "{text}");
    assert_eq!(limit, (LIMIT_KIB * 1024).to_string());
    for part in [&need.to_string(), &limit, "ulimit -l", "LimitMEMLOCK", "profile `small`"] {
        assert!(text.contains(part), "{text}");
    }
}

/// VB-2, VB-9: memory to be granted, and slots that a queue pair uses first, are locked then.
async fn grants_are_explained(laboratory: &Laboratory) {
    let devices = laboratory.devices(0, 0);
    let (mut pair, memory, grant) = OneSidedPair::granted(&devices, Access::ALL).await;
    let large = Arc::new(Words::zeroed(16 << 20).unwrap());
    let refused = pair.b.one_sided.grant(&large, 0, 16 << 20, Access::ALL).finish().unwrap_err();
    explained(refused, 16 << 20);
    assert_eq!(Arc::strong_count(&large), 1, "what is not granted is not kept");
    // Its fabric has locked half of the limit for it; the queue pair locks it once more.
    let kept = std::mem::take(&mut pair.a.slots);
    pair.a.slots = devices.0[0].alloc(5 << 20).unwrap().into_slots(1 << 20);
    let mut batch = vec![pair.a.operation(Kind::Read, grant.key(), 0, &[0; 8])];
    let out_of_memory = PostError::Device(rustix::io::Errno::NOMEM.raw_os_error());
    assert_eq!(pair.a.one_sided.post(&mut batch), Err(out_of_memory));
    assert_eq!(batch.len(), 1, "what is refused stays with the caller");
    pair.a.slots = kept;
    let (status, _) = pair.run(Kind::Read, grant.key(), 0, &[0; 8]).await;
    assert_eq!((status, memory.bytes()), (Status::Success, 256));
    let part = pair.b.one_sided.grant(&large, 0, 1 << 20, Access::ALL).finish().unwrap();
    drop(part);
}

/// Does something only where the test above has started it, as another user.
///
/// VB-2: the profile `small` has room for 8 peers, the default one for fewer; then the error says
/// what to do, nothing hangs, and memory that a link gives back another can have.
#[tokio::test]
async fn as_an_ordinary_user() {
    let case = "as_an_ordinary_user";
    if std::env::var_os(ORDINARY).is_none() {
        return;
    }
    assert_eq!(machine::locked_memory_limit(), (LIMIT_KIB * 1024).to_string());
    let laboratory = Laboratory::new(case).unwrap();
    let fabric: Arc<dyn Fabric> = laboratory.fabric(0).unwrap();
    for (profile, peers_min) in [(Profile::small(), 8), (Profile::default(), 4)] {
        let link = || Prepared::new(&fabric, &profile, (Side::Acceptor, Vec::new(), Vec::new()));
        let mut links = Vec::new();
        let refused = loop {
            match link() {
                Ok(link) => links.push(link),
                Err(error) => break error,
            }
        };
        println!("{} links of {} bytes a slot", links.len(), profile.slot_bytes);
        assert!(links.len() >= peers_min, "{}", links.len());
        explained(refused, u64::from(3 * profile.ring_slots * profile.slot_bytes));
        links.pop();
        links.push(link().expect("what was given back can be had again"));
        assert!(link().is_err());
    }
    grants_are_explained(&laboratory).await;
    // With several devices memory is locked when a link uses it: at connecting, or at a post.
    let [devices, one] = [super::Devices::new(case).unwrap(), laboratory.devices(0, 0)];
    let pair = Pair::new(&one, Plan::new(4, 4)).await;
    let config = Plan::new(4, 4).config;
    let slots = || devices.0[0].alloc(16 << 20).unwrap().into_slots(1 << 20);
    let mut opening = devices.0[0].open(config.clone()).unwrap();
    opening.post_recv(&mut slots().split_off(12)).unwrap();
    let refused = connect(opening, devices.0[1].open(config).unwrap()).await;
    explained(refused.err().unwrap(), 16 << 20);
    let mut late = Pair::new(&devices, Plan::new(4, 4).idle()).await;
    let out_of_memory = PostError::Device(rustix::io::Errno::NOMEM.raw_os_error());
    let mut more = slots().split_off(12);
    assert_eq!(late.a.queue_pair.post_recv(&mut more), Err(out_of_memory));
    assert_eq!(more.len(), 4, "what is refused stays with the caller");
    late.a.post_recvs(1);
    late.b.send_numbers(1);
    bounded(case, late.until(|a, _| a.frames() == [[0]])).await;
    drop(pair);
}
