//! Reads the input and hands it to the mappers, no faster than they take it.
//!
//! Backpressure: a thread reads, a short queue holds pieces, one feeder for each mapper
//! takes the next piece and waits until its `tell` is accepted. A slow mapper slows only its
//! feeder.

use std::fs::File;
use std::sync::Arc;

use ringpost::prelude::*;
use tokio::sync::{Mutex, mpsc};
use tokio::task::{self, JoinSet};

use crate::desk::Member;
use crate::files::{Listing, Skipped, Source, Why};
use crate::mapper::{Chunk, Mapper};
use crate::progress::Progress;
use crate::text::{Pieces, ReadError};

/// Pieces that wait for a feeder, for each feeder.
const QUEUED_PER_MAPPER: usize = 2;

/// The input that was read and handed on.
#[derive(Debug, Default)]
pub(crate) struct Fed {
    /// The files whose text was handed on.
    pub(crate) sources: Vec<Source>,
    /// The bytes of it, also of pieces that did not reach a mapper.
    pub(crate) bytes: u64,
    /// The input that could not be read.
    pub(crate) skipped: Vec<Skipped>,
    /// Files that were not read, because no mapper was left.
    pub(crate) unread: usize,
    /// The nodes whose mappers went out of reach, and why.
    pub(crate) lost: Vec<(String, Cause)>,
}

/// Hands the text of all files to the mappers of `members`.
///
/// # Cancel safety
/// When the future is dropped, reading stops; pieces that were sent stay sent.
pub(crate) async fn feed(listing: Listing, members: Vec<&Member>) -> Fed {
    let (queue, pieces) = mpsc::channel(QUEUED_PER_MAPPER * members.len().max(1));
    let reader = task::spawn_blocking(move || read(listing, &queue));
    let pieces = Arc::new(Mutex::new(pieces));
    let mut feeders = JoinSet::new();
    for member in members {
        let (name, mapper, pieces) =
            (member.name.clone(), member.mapper.clone(), Arc::clone(&pieces));
        feeders.spawn(async move { hand_on(mapper, pieces).await.map_err(|cause| (name, cause)) });
    }
    drop(pieces);
    let lost = feeders.join_all().await.into_iter().filter_map(Result::err).collect();
    Fed { lost, ..reader.await.unwrap_or_default() }
}

/// Ends with the input, or when the mapper is out of reach: the others go on.
async fn hand_on(
    mapper: ActorRef<Mapper>,
    pieces: Arc<Mutex<mpsc::Receiver<String>>>,
) -> Result<(), Cause> {
    loop {
        let next = pieces.lock().await.recv().await;
        let Some(text) = next else { return Ok(()) };
        mapper.tell(Chunk { text }).await.map_err(|error| error.cause)?;
    }
}

fn read(listing: Listing, queue: &mpsc::Sender<String>) -> Fed {
    let mut progress = Progress::new(listing.bytes());
    let mut fed = Fed { skipped: listing.skipped, ..Fed::default() };
    for source in listing.sources {
        if queue.is_closed() {
            fed.unread += 1;
            continue;
        }
        match source.open() {
            Err(error) => fed.skipped.push(Skipped::new(&source, error)),
            Ok(mut pieces) => {
                let read = hand_over(&mut pieces, queue, &mut fed.bytes, &mut progress);
                if let Err(error) = read {
                    let path = source.path.clone();
                    fed.skipped.push(Skipped { path, why: Why::Changed(error) });
                }
                fed.sources.push(source);
            }
        }
    }
    progress.finish();
    fed
}

fn hand_over(
    pieces: &mut Pieces<File>,
    queue: &mpsc::Sender<String>,
    sent: &mut u64,
    progress: &mut Progress,
) -> Result<(), ReadError> {
    while let Some(piece) = pieces.next_piece()? {
        let bytes = piece.len() as u64;
        *sent += bytes;
        if queue.blocking_send(piece).is_err() {
            break;
        }
        progress.advance(bytes);
    }
    Ok(())
}
