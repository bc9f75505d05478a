//! Counts the words of a text by four ranks: scatter, count, reduce. Compares the result with the
//! count of one thread.
//!
//! ```text
//! cargo run --example word_count_ranks -- FILE
//! ringpost run -n 8 target/debug/examples/word_count_ranks FILE
//! ```
//!
//! Without a file it counts words that it makes, and prints:
//!
//! ```text
//! 4 ranks have counted 100000 words; the most frequent one: the
//! ```
#![deny(warnings)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Parser;
use futures::future::{join_all, try_join_all};
use ringpost::prelude::*;
use ringpost_ranks::{LocalHosts, Sum, World};

const RANKS: usize = 4;

/// Counts the words of a text by four ranks, or by the ranks that `ringpost run` starts.
#[derive(Parser)]
struct Args {
    /// The text. Without it, words that this program makes.
    file: Option<PathBuf>,
}

type Counts = BTreeMap<String, u64>;

fn count(text: &str) -> Counts {
    let mut counts = Counts::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    counts
}

fn merge(mut one: Counts, other: Counts) -> Counts {
    other.into_iter().for_each(|(word, count)| *one.entry(word).or_default() += count);
    one
}

fn read(file: Option<PathBuf>) -> std::io::Result<String> {
    let made = || ["the ", "cat ", "the ", "mat\n", "sat "].repeat(20_000).concat();
    file.map_or_else(|| Ok(made()), std::fs::read_to_string)
}

/// Cuts a text into pieces of about the same length, between two words.
fn cut(mut text: &str, pieces: usize) -> Vec<Vec<u8>> {
    let cut = (0..pieces).rev().map(|left| {
        let about = text.floor_char_boundary(text.len() / (left + 1));
        let rest = &text[about..];
        let end = if left == 0 { rest.len() } else { rest.find(' ').unwrap_or(rest.len()) };
        let (piece, after) = text.split_at(about + end);
        text = after;
        piece.as_bytes().to_vec()
    });
    cut.collect()
}

async fn rank(world: &World, file: Option<PathBuf>) -> Result<(), BoxError> {
    let text = if world.rank() == 0 { Some(read(file)?) } else { None };
    let pieces = text.as_deref().map(|text| cut(text, world.size()));
    let mine = String::from_utf8(world.scatterv(0, pieces.as_deref()).await?)?;
    let counts = count(&mine);
    let mut words = [counts.values().sum::<u64>()];
    world.reduce(0, &mut words, Sum).await?;
    let counts = world.all_reduce_value(&counts, merge).await?;
    let Some(text) = text else { return Ok(()) };
    if counts != count(&text) {
        return Err("the ranks have counted other words than one thread".into());
    }
    let most = counts.iter().max_by_key(|(_, count)| **count).map_or("", |(word, _)| word);
    let (ranks, words) = (world.size(), words[0]);
    println!("{ranks} ranks have counted {words} words; the most frequent one: {most}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let Args { file } = Args::parse();
    let worlds = if std::env::var_os("RINGPOST_RANK").is_some() {
        vec![World::from_env().await?]
    } else {
        let hosts = LocalHosts::reserve(RANKS)?;
        let join = |rank| World::builder("words").rank(rank).hosts(hosts.addresses()).join();
        try_join_all((0..RANKS).map(join)).await?
    };
    let outcome = try_join_all(worlds.iter().map(|world| rank(world, file.clone()))).await;
    join_all(worlds.into_iter().map(World::leave)).await;
    outcome.map(drop)
}
