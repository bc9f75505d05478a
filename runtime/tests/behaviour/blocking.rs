//! Programs that block, beside what their nodes do.

use std::sync::{Arc, Mutex, mpsc};

use super::regions::{Keeper, Shared, keeper};
use super::world::{World, end};

/// Threads that may block, of tokio's runtimes.
const THREADS: usize = 512;

/// Regions are reached even if their program has taken all threads that may block: a device has the
/// node's own threads.
// Promised in docs/SEMANTICS.md.
pub async fn a_region_is_reached_while_its_program_has_taken_all_threads(world: &World) {
    let [alpha, beta] = world.pair().await;
    let there = keeper(&beta, 100_000).await;
    let known = alpha.actor::<Keeper>("beta/keeper").await.unwrap();
    let Shared { cells, .. } = known.lend().await.unwrap().unwrap();
    let (release, taken) = mpsc::channel::<()>();
    let taken = Arc::new(Mutex::new(taken));
    // Time that is simulated stands still while one of them works; no device is there.
    let threads = if matches!(world, World::Sim(_)) { 0 } else { THREADS };
    let block = |_| {
        let taken = taken.clone();
        tokio::task::spawn_blocking(move || taken.lock().unwrap().recv().is_err())
    };
    let blocked: Vec<_> = (0..threads).map(block).collect();
    let many: Vec<u64> = (0..90_000).collect();
    cells.write(5, &many).await.unwrap();
    assert_eq!(cells.read(5..90_005).await.unwrap(), many);
    assert_eq!(cells.fetch_add(0, 3).await, Ok(0));
    drop(release);
    for thread in blocked {
        assert!(thread.await.unwrap());
    }
    drop((there, known, cells));
    end([alpha, beta]).await;
}
