//! The heat equation on a square plate, whose rows are shared out among four ranks. In each step a
//! rank sends its first and last row to its neighbours, and receives theirs (the halo).
//!
//! `cargo run --example heat` prints the mean of the plate, and where its picture is:
//!
//! ```text
//! after 400 steps the plate has 7.59 degrees on average: /tmp/ringpost-heat.pgm
//! ```
#![deny(warnings)]

use std::env;

use futures::future::{join_all, try_join_all};
use ringpost::prelude::*;
use ringpost_ranks::{LocalHosts, Sum, World, WorldError};

const RANKS: usize = 4;
const SIDE: usize = 128;
const STEPS: usize = 400;
/// Tags of rows that go to the rank before, and to the rank after.
const UP: u32 = 1;
const DOWN: u32 = 2;

type Row = [f64; SIDE];

/// Exchanges the rows at the edges. Receives are in line before anything is sent.
async fn exchange(world: &World, rows: &mut [Row]) -> Result<(), WorldError> {
    let (rank, last) = (world.rank(), rows.len() - 1);
    let before = rank.checked_sub(1);
    let after = Some(rank + 1).filter(|after| *after < world.size());
    let from_before = before.map(|before| world.recv::<Row>(before, DOWN));
    let from_after = after.map(|after| world.recv::<Row>(after, UP));
    if let Some(before) = before {
        world.send(before, UP, &rows[1..2]).await?;
    }
    if let Some(after) = after {
        world.send(after, DOWN, &rows[last - 1..last]).await?;
    }
    if let Some(row) = from_before {
        rows[0] = row.await?.0[0];
    }
    if let Some(row) = from_after {
        rows[last] = row.await?.0[0];
    }
    Ok(())
}

/// Gives each point the mean of its four neighbours.
fn step(rows: &mut [Row]) {
    let old = rows.to_vec();
    for row in 1..old.len() - 1 {
        for column in 1..SIDE - 1 {
            let across = old[row][column - 1] + old[row][column + 1];
            rows[row][column] = (old[row - 1][column] + old[row + 1][column] + across) / 4.0;
        }
    }
}

async fn rank(world: &World) -> Result<(), BoxError> {
    // The rows of this rank, with a row of each neighbour. The upper edge of the plate is hot.
    let mut rows = vec![[0.0; SIDE]; SIDE / world.size() + 2];
    if world.rank() == 0 {
        rows[0] = [100.0; SIDE];
    }
    for _ in 0..STEPS {
        exchange(world, &mut rows).await?;
        step(&mut rows);
    }
    let mine = rows[1..rows.len() - 1].as_flattened();
    let mut mean = [mine.iter().sum::<f64>() / (SIDE * SIDE) as f64];
    world.all_reduce(&mut mean, Sum).await?;
    if let Some(all) = world.gather(0, mine).await? {
        let file = env::temp_dir().join("ringpost-heat.pgm");
        let mut picture = format!("P5 {SIDE} {SIDE} 255\n").into_bytes();
        picture.extend(all.iter().map(|heat| (heat * 2.55) as u8));
        std::fs::write(&file, picture)?;
        let (mean, file) = (mean[0], file.display());
        println!("after {STEPS} steps the plate has {mean:.2} degrees on average: {file}");
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // All ranks in one process. A program that is one of them begins with `World::from_env`.
    let hosts = LocalHosts::reserve(RANKS)?;
    let join = |rank| World::builder("heat").rank(rank).hosts(hosts.addresses()).join();
    let worlds = try_join_all((0..RANKS).map(join)).await?;
    try_join_all(worlds.iter().map(rank)).await?;
    join_all(worlds.into_iter().map(World::leave)).await;
    Ok(())
}
