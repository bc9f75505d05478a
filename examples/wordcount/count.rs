//! One count with nodes that are ready: hands the text out, waits until every word has arrived in a
//! table, takes the tables, and checks that nothing is missing.
//!
//! Complete: each word that was read is in exactly one table when the last mapper has
//! answered its flush. A mapper answers after its chunks (order from one node to one mailbox), and
//! only when each reducer has answered it, which is after that mapper's counts (the same order).
//!
//! Checked: bytes are compared between the reader and the mappers, words between the mappers
//! and the tables. Any loss on the way shows in one of the two.

use std::mem;
use std::time::{Duration, Instant};

use ringpost::prelude::*;

use crate::desk::Member;
use crate::feed::feed;
use crate::files::Listing;
use crate::mapper::{Flush, Mapped, ReduceAt};
use crate::reducer::{Reducer, TakePage};
use crate::report::{Loss, Run};
use crate::tally::Tally;

/// How long a mapper may take for the text that waits in its mailbox.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(120);

/// Words asked for at once.
const PAGE_WORDS: u32 = 8192;

/// Counts the words of `listing`.
///
/// # Cancel safety
/// When the future is dropped, the count is given up; the nodes cannot be used for another one.
pub(crate) async fn count(members: &[Member], listing: Listing) -> Run {
    let start = Instant::now();
    let mut run = Run::default();
    let reducers: Vec<_> = members.iter().map(|member| member.reducer.clone()).collect();
    for member in members {
        let reducers = reducers.clone();
        if let Err(error) = member.mapper.tell(ReduceAt { reducers }).await {
            run.lose_node(&member.name, &error.cause);
        }
    }
    run.fed =
        feed(listing, members.iter().filter(|member| !run.has_lost(&member.name)).collect()).await;
    for (name, cause) in mem::take(&mut run.fed.lost) {
        run.lose_node(&name, &cause);
    }
    collect(members, &mut run).await;
    run.elapsed = start.elapsed();
    run
}

/// Fills in the tally of `run`, and its losses.
async fn collect(members: &[Member], run: &mut Run) {
    let mut mapped = Mapped { words: 0, bytes: 0 };
    for member in members {
        if run.has_lost(&member.name) {
            continue;
        }
        match member.mapper.ask(Flush).timeout(FLUSH_TIMEOUT).await {
            Ok(part) => {
                mapped.words += part.words;
                mapped.bytes += part.bytes;
            }
            Err(cause) => run.lose_node(&member.name, &cause),
        }
    }
    for member in members {
        if run.has_lost(&member.name) {
            continue;
        }
        if let Err(cause) = take_table(&member.reducer, &mut run.tally).await {
            run.lose_node(&member.name, &cause);
        }
    }
    run.tally.bytes = mapped.bytes;
    if mapped.bytes != run.fed.bytes {
        run.losses.push(Loss::Bytes { read: run.fed.bytes, counted: mapped.bytes });
    }
    if mapped.words != run.tally.words {
        run.losses.push(Loss::Words { counted: mapped.words, tables: run.tally.words });
    }
}

async fn take_table(reducer: &ActorRef<Reducer>, tally: &mut Tally) -> Result<(), AskError> {
    loop {
        let page = reducer.ask(TakePage { words_max: PAGE_WORDS }).await?;
        if page.is_empty() {
            return Ok(());
        }
        for counted in page {
            tally.add(counted.word, counted.count);
        }
    }
}

#[cfg(test)]
mod tests;
