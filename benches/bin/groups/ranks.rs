//! Collective operations of four ranks, each a process, timed as the OSU micro-benchmarks do it:
//! the mean time of a call, with a barrier before each, and of that the mean over the ranks.

use std::io;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ringpost_benches::Failure;
use ringpost_benches::figure::{Collective, Measurement, Work, find};
use ringpost_benches::program::in_a_task;
use ringpost_ranks::{Sum, World, WorldError};

use super::outside::{RANKS, number, timed};

/// Calls of the warm-up, here and in `benches/c/ranks.c`.
const WARM_UP_CALLS: u64 = 100;

/// Starts the ranks and returns what the first one of them measures, in microseconds.
pub(crate) fn measure(measurement: &Measurement, time: Duration) -> Result<Vec<f64>, Failure> {
    let free = |_| TcpListener::bind("127.0.0.1:0");
    let free = (0..RANKS).map(free).collect::<io::Result<Vec<_>>>()?;
    let hosts = free.iter().map(|host| Ok(host.local_addr()?.to_string()));
    let hosts = hosts.collect::<io::Result<Vec<_>>>()?.join(",");
    drop(free);
    let mut ranks = Vec::new();
    for rank in 0..RANKS {
        let mut command = timed(&std::env::current_exe()?, measurement.patience(time));
        command.args(["rank", &measurement.name, "--seconds", &time.as_secs_f64().to_string()]);
        command.env("RINGPOST_RANK", rank.to_string()).env("RINGPOST_SIZE", RANKS.to_string());
        command.env("RINGPOST_HOSTS", &hosts);
        command.stdout(if rank == 0 { Stdio::piped() } else { Stdio::null() });
        ranks.push(command.spawn()?);
    }
    let ended = ranks.into_iter().map(Child::wait_with_output).collect::<io::Result<Vec<_>>>()?;
    if let Some(rank) = ended.iter().position(|rank| !rank.status.success()) {
        let status = ended[rank].status;
        return Err(Failure::Failed(format!("rank {rank} has failed: {status}")));
    }
    Ok(vec![number(&ended[0].stdout)?])
}

/// Is one rank, which the environment describes. The first one prints the time in microseconds.
pub(crate) fn be(measurement: &str, seconds: f64) -> Result<(), Failure> {
    let time = Duration::try_from_secs_f64(seconds).map_err(Failure::of)?;
    let Some(Measurement { work: Work::Ranks(of), workers, .. }) = find(measurement) else {
        return Err(Failure::Failed(format!("`{measurement}` is not of ranks")));
    };
    in_a_task(workers, async move {
        let world = World::from_env().await.map_err(Failure::of)?;
        let mean = mean(&world, of, time).await.map_err(Failure::of)?;
        if world.rank() == 0 {
            println!("{mean}");
        }
        world.leave().await;
        Ok(Vec::new())
    })?;
    Ok(())
}

/// Returns the mean time in microseconds of as many calls as about fit into the time.
async fn mean(world: &World, of: Collective, time: Duration) -> Result<f64, WorldError> {
    let mut data = Data::of(of, world.size());
    let start = Instant::now();
    data.calls(world, of, WARM_UP_CALLS).await?;
    let share = time.as_secs_f64() / start.elapsed().as_secs_f64();
    // The first rank says how many, as all make as many.
    let mut calls = [((WARM_UP_CALLS as f64 * share) as u64).clamp(10, 1_000_000)];
    world.broadcast(0, &mut calls).await?;
    world.barrier().await?;
    let mut sum = [data.calls(world, of, calls[0]).await?.as_secs_f64()];
    world.all_reduce(&mut sum, Sum).await?;
    Ok(sum[0] * 1e6 / calls[0] as f64 / world.size() as f64)
}

/// The data of an operation.
struct Data {
    numbers: Vec<f64>,
    bytes: Vec<u8>,
}

impl Data {
    fn of(of: Collective, ranks: usize) -> Self {
        let (numbers, bytes) = match of {
            Collective::Barrier => (0, 0),
            Collective::AllReduce(numbers) => (numbers, 0),
            Collective::Broadcast(bytes) => (0, bytes),
            Collective::AllToAll(bytes) => (0, bytes * ranks),
        };
        Data { numbers: vec![0.0; numbers], bytes: vec![7; bytes] }
    }

    /// Calls an operation `calls` times. Returns the time that this rank was in it.
    async fn calls(
        &mut self,
        world: &World,
        of: Collective,
        calls: u64,
    ) -> Result<Duration, WorldError> {
        let mut time = Duration::ZERO;
        for _ in 0..calls {
            let start = Instant::now();
            match of {
                Collective::Barrier => world.barrier().await?,
                Collective::AllReduce(_) => world.all_reduce(&mut self.numbers, Sum).await?,
                Collective::Broadcast(_) => world.broadcast(0, &mut self.bytes).await?,
                Collective::AllToAll(_) => drop(world.all_to_all(&self.bytes).await?),
            }
            time += start.elapsed();
            if of != Collective::Barrier {
                world.barrier().await?;
            }
        }
        Ok(time)
    }
}
