//! Processes that are started while links carry (VB-8).
#![allow(unsafe_code, reason = "keeps a forked child waiting before it executes (VB-8)")]

use std::io::{Read, Write, pipe};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::Devices;
use crate::fabric::Status;
use crate::fabric::conformance::{OneSidedPair, Pair, Plan, bounded, contents};
use crate::fabric::one_sided::{Access, Grant, Kind};
use crate::memory::Words;

/// VB-8: a child is forked while receives are posted, and lives on with a copy of all memory. Both
/// sides still see the bytes that this process and devices write meanwhile, also after the child
/// has executed another program.
#[tokio::test]
async fn a_forked_child_disturbs_no_link() {
    let case = "a_forked_child_disturbs_no_link";
    let Some(devices) = Devices::new(case) else { return };
    let mut pair = Pair::new(&devices, Plan::new(8, 16)).await;
    let (mut one_sided, memory, grant) = OneSidedPair::granted(&devices, Access::ALL).await;
    let (mut ready, ready_here) = pipe().unwrap();
    let (go, mut go_here) = pipe().unwrap();
    let mut command = Command::new("true");
    // SAFETY: between fork and exec the closure makes two system calls and touches nothing else;
    // both pipes are open in the child, which has copies of this process's descriptors.
    unsafe {
        command.pre_exec(move || {
            rustix::io::write(&ready_here, b"r")?;
            rustix::io::read(&go, &mut [0; 1])?;
            Ok(())
        });
    }
    let child = std::thread::spawn(move || command.status());
    ready.read_exact(&mut [0; 1]).unwrap();
    bounded(case, exchange(&mut pair, 4)).await;
    bounded(case, reach(&mut one_sided, &memory, &grant, 1)).await;
    // Memory that is registered and posted while the child is there.
    let mut later = Pair::new(&devices, Plan::new(8, 16)).await;
    bounded(case, exchange(&mut later, 4)).await;
    go_here.write_all(b"g").unwrap();
    assert!(child.join().unwrap().unwrap().success());
    bounded(case, exchange(&mut pair, 8)).await;
    bounded(case, reach(&mut one_sided, &memory, &grant, 2)).await;
    bounded(case, exchange(&mut later, 8)).await;
}

/// The peer writes bytes that are read here, and reads bytes that are written here.
async fn reach(pair: &mut OneSidedPair, memory: &Words, grant: &Grant, number: u8) {
    let (status, _) = pair.run(Kind::Write, grant.key(), 0, &[number; 64]).await;
    assert_eq!(status, Status::Success);
    assert_eq!(contents(memory)[..64], [number; 64]);
    memory.write(64, &[!number; 64]).unwrap();
    let (status, slot) = pair.run(Kind::Read, grant.key(), 64, &[0; 64]).await;
    assert_eq!((status, &slot[..64]), (Status::Success, &[!number; 64][..]));
}

/// Sends four frames each way; `until` is their number each way so far, with these.
async fn exchange(pair: &mut Pair, until: usize) {
    pair.a.send_numbers(4);
    pair.b.send_numbers(4);
    pair.until(|a, b| [a, b].iter().all(|end| end.got.len() == 2 * until)).await;
    for end in [&pair.a, &pair.b] {
        assert!(end.got.iter().all(|done| done.status == Status::Success));
        assert_eq!(end.frames()[until - 4..], [[0], [1], [2], [3]]);
    }
}
