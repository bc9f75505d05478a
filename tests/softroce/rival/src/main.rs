//! How long async-rdma takes to read and write memory of another process, for comparison with
//! regions, which `pace access` measures in the same way.
//!
//! ```text
//! rival serve ADDRESS            gives one client the memory that it asks for; ends when killed
//! rival read|write|write-read BYTES ADDRESS
//!                                prints `read_us` or `write_us` and its value, the median
//! ```
//!
//! `write-read` reads eight bytes after each write: when the read is done, the peer's threads see
//! the written bytes. A write of a region promises that, a write of async-rdma does not.

use std::alloc::Layout;
use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use async_rdma::{
    LocalMr, LocalMrReadAccess, LocalMrWriteAccess, MTU, Rdma, RdmaBuilder, RemoteMr,
};

type Failure = Box<dyn Error + Send + Sync>;

const USAGE: &str = "usage: rival serve ADDRESS | rival read|write|write-read BYTES ADDRESS";

/// The device that the tools of perftest use, too, and its address for RoCE v2.
const DEVICE: &str = "rxe0";
const GID_INDEX: usize = 1;

/// Bytes up to which an operation is small; operations before the clock counts and operations that
/// count, of small ones and of larger ones: all as `pace` has it.
const SMALL_BYTES_MAX: usize = 4096;
const SMALL: (usize, usize) = (50, 1000);
const LARGE: (usize, usize) = (10, 100);

/// A crowded guest is slow: an operation that takes longer than this counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

// One thread, as many as `pace` has; with two the figures were the same.
#[tokio::main(worker_threads = 1)]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["serve", address] => serve(address).await,
        [what @ ("read" | "write" | "write-read"), bytes, address] => {
            measure(what, bytes, address).await
        }
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rival: {error}");
            ExitCode::FAILURE
        }
    }
}

/// With packets as large as the device sends them, as ours are. By default they have 512 bytes: a
/// mebibyte took two to three times as long.
fn builder() -> RdmaBuilder {
    RdmaBuilder::default()
        .set_dev(DEVICE)
        .set_port_num(1)
        .set_gid_index(GID_INDEX)
        .set_mtu(MTU::MTU4096)
}

async fn serve(address: &str) -> Result<(), Failure> {
    let _connected = builder().listen(address).await?;
    std::future::pending().await
}

/// Connects to a server, which may not listen yet.
async fn connect(address: &str) -> io::Result<Rdma> {
    loop {
        match builder().connect(address).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            connected => return connected,
        }
    }
}

async fn measure(what: &str, bytes: &str, address: &str) -> Result<(), Failure> {
    let (bytes, address) = (bytes.parse()?, address.to_owned());
    let (write, then_read) = (what != "read", what == "write-read");
    // In a task of the runtime, like the task that waits for completions.
    let median = tokio::spawn(async move {
        tokio::time::timeout(PATIENCE, median(&address, bytes, (write, then_read))).await
    });
    let median = median.await???;
    let what = if write { "write" } else { "read" };
    println!("{what}_us {:.2}", median.as_nanos() as f64 / 1000.0);
    Ok(())
}

/// Returns how long an operation takes, one after the other.
async fn median(
    address: &str,
    bytes: usize,
    (write, then_read): (bool, bool),
) -> Result<Duration, Failure> {
    let rdma = connect(address).await?;
    let layout = Layout::array::<u8>(bytes)?;
    let mut local = rdma.alloc_local_mr(layout)?;
    let mut remote = rdma.request_remote_mr(layout).await?;
    check(&rdma, &mut local, &mut remote).await?;
    let word = Layout::new::<u64>();
    let (mut fence, fence_there) =
        (rdma.alloc_local_mr(word)?, rdma.request_remote_mr(word).await?);
    let (warm, counted) = if bytes <= SMALL_BYTES_MAX { SMALL } else { LARGE };
    let mut times = Vec::with_capacity(counted);
    for nth in 0..warm + counted {
        let start = Instant::now();
        if write {
            rdma.write(&local, &mut remote).await?;
            if then_read {
                rdma.read(&mut fence, &fence_there).await?;
            }
        } else {
            rdma.read(&mut local, &remote).await?;
        }
        if nth >= warm {
            times.push(start.elapsed());
        }
    }
    times.sort_unstable();
    Ok(times[counted / 2])
}

/// Writes, and fails unless a read finds the written bytes.
async fn check(rdma: &Rdma, local: &mut LocalMr, remote: &mut RemoteMr) -> Result<(), Failure> {
    local.as_mut_slice().fill(7);
    rdma.write(local, remote).await?;
    local.as_mut_slice().fill(0);
    rdma.read(local, remote).await?;
    let found = local.as_slice().iter().all(|byte| *byte == 7);
    found.then_some(()).ok_or_else(|| "a read did not find what was written".into())
}
