//! How fast a device reaches granted memory of another queue pair on the same device, waiting by
//! events, for comparison with the tools of perftest.
//!
//! ```text
//! reach read       prints `read_us` and its value, the median of reads of 8 bytes
//! reach write      prints `write_us` and its value, the median of writes of 8 bytes
//! reach fetch_add  prints `fetch_add_us` and its value, the median of additions to a word
//! ```

use std::error::Error;
use std::future::poll_fn;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use ringpost_transport::entropy::Entropy;
use ringpost_transport::fabric::one_sided::{
    Access, Grant, Key, Kind, OneSided, OneSidedConfig, Operation, Outcome,
};
use ringpost_transport::fabric::verbs::{VerbsConfig, VerbsFabric};
use ringpost_transport::fabric::{Fabric, Side, Status};
use ringpost_transport::memory::{Slot, Words};

type Failure = Box<dyn Error + Send + Sync>;

/// The size that the reference measurement uses.
const BYTES: u32 = 8;
/// Operations before the clock counts, and operations that count.
const WARM: usize = 50;
const COUNTED: usize = 1000;
/// A crowded guest is slow: an operation that takes longer than this counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let kind = match arguments.as_slice() {
        [what] if what == "read" => Kind::Read,
        [what] if what == "write" => Kind::Write,
        [what] if what == "fetch_add" => Kind::FetchAdd(3),
        _ => {
            eprintln!("usage: reach read|write|fetch_add");
            return ExitCode::from(2);
        }
    };
    match tokio::time::timeout(PATIENCE, median(kind)).await {
        Ok(Ok(median)) => {
            println!("{}_us {:.2}", arguments[0], median.as_secs_f64() * 1e6);
            ExitCode::SUCCESS
        }
        Ok(Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(_) => {
            eprintln!("an operation did not end within {PATIENCE:?}");
            ExitCode::FAILURE
        }
    }
}

/// Both sides of a connection. The memory's owner does nothing: the device does it all.
struct Pair {
    one_sided: Box<dyn OneSided>,
    _owner: Box<dyn OneSided>,
    grant: Grant,
}

async fn connect(fabric: &VerbsFabric) -> Result<Pair, Failure> {
    let open = |side| {
        let config = OneSidedConfig { operations: 1, notices: 1, side, binding: Vec::new() };
        fabric.open_one_sided(config)
    };
    let address = "127.0.0.1:1".into();
    let [a, b] = [open(Side::Dialer { address })?, open(Side::Acceptor)?];
    let [for_a, for_b] = [b.offer(), a.offer()];
    let (a, b) = tokio::join!(a.connect(for_a, 0), b.connect(for_b, 0));
    let (one_sided, mut owner) = (a?, b?);
    let memory = Arc::new(Words::zeroed(BYTES as usize).expect("memory for a measurement"));
    let grant = owner.grant(&memory, 0, BYTES.into(), Access::ALL).finish()?;
    Ok(Pair { one_sided, _owner: owner, grant })
}

/// Returns how long an operation takes, one after the other.
async fn median(kind: Kind) -> Result<Duration, Failure> {
    let config = VerbsConfig { device: Some("rxe0".into()), ..VerbsConfig::default() };
    let fabric = VerbsFabric::new(config, Entropy::os())?;
    let Pair { mut one_sided, _owner, grant } = connect(&fabric).await?;
    let slots = fabric.alloc(4096)?.into_slots(64);
    let mut slot = slots.into_iter().next().ok_or("there is no slot")?;
    let mut times = Vec::with_capacity(COUNTED);
    for nth in 0..WARM + COUNTED {
        let start = Instant::now();
        slot = run(one_sided.as_mut(), slot, grant.key(), kind).await?;
        if nth >= WARM {
            times.push(start.elapsed());
        }
    }
    times.sort_unstable();
    Ok(times[COUNTED / 2])
}

/// Runs one operation to its end, and returns its slot.
async fn run(
    one_sided: &mut dyn OneSided,
    slot: Slot,
    key: Key,
    kind: Kind,
) -> Result<Slot, Failure> {
    one_sided.arm();
    one_sided.post(&mut vec![Operation { slot, bytes: BYTES, key, at: 0, kind }])?;
    let mut outcomes = Vec::with_capacity(1);
    poll_fn(|cx| {
        while one_sided.poll(&mut outcomes, 1) == 0 {
            if one_sided.poll_ready(cx).is_pending() {
                return Poll::Pending;
            }
            one_sided.arm();
        }
        Poll::Ready(())
    })
    .await;
    match outcomes.pop() {
        Some(Outcome::Done { slot, status: Status::Success }) => Ok(slot),
        other => Err(format!("the operation ended as {other:?}").into()),
    }
}
