//! The actor that counts text: the words of each chunk, sent on to the reducers that own them.

use std::mem;
use std::time::Duration;

use ringpost::prelude::*;

use crate::reducer::{Count, Counts, Reducer, Settle};
use crate::text::count_words;

/// How long the reducers may take for the counts that wait in their mailboxes.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A piece of text.
#[message]
pub(crate) struct Chunk {
    pub(crate) text: String,
}

/// The totals of a mapper.
#[message]
pub(crate) struct Mapped {
    pub(crate) words: u64,
    pub(crate) bytes: u64,
}

/// Keeps totals only: each chunk's counts are on their way before the next chunk is taken.
#[actor]
#[derive(Default)]
pub(crate) struct Mapper {
    /// One per node, in the same order at every mapper; `None` when it is out of reach.
    reducers: Vec<Option<ActorRef<Reducer>>>,
    words: u64,
    bytes: u64,
}

#[handlers]
impl Mapper {
    /// Says who the reducers are; comes before the first chunk.
    #[handler]
    pub(crate) fn reduce_at(&mut self, reducers: Vec<ActorRef<Reducer>>) {
        self.reducers = reducers.into_iter().map(Some).collect();
    }

    /// Counts the text where it lies in the receive buffer.
    #[handler]
    pub(crate) async fn chunk(&mut self, msg: View<Chunk>) {
        let mut shares: Vec<Vec<Count>> = self.reducers.iter().map(|_| Vec::new()).collect();
        for (word, count) in count_words(&msg.text) {
            self.words += count;
            if let Some(share) = shares.get_mut(owner(&word, self.reducers.len())) {
                share.push(Count { word: word.into_owned(), count });
            }
        }
        self.bytes += msg.text.len() as u64;
        // The buffer goes back before this actor waits for others.
        drop(msg);
        for (reducer, counts) in self.reducers.iter_mut().zip(shares) {
            if let Some(there) = reducer
                && !counts.is_empty()
                && there.tell(Counts { counts }).await.is_err()
            {
                // Its node is gone and its share with it: the driver finds these words missing.
                *reducer = None;
            }
        }
    }

    /// Answers when the reducers have added every count that was sent to them before.
    #[handler]
    pub(crate) async fn flush(&mut self) -> Mapped {
        for reducer in &mut self.reducers {
            if let Some(there) = reducer
                && there.ask(Settle).timeout(SETTLE_TIMEOUT).await.is_err()
            {
                *reducer = None;
            }
        }
        Mapped { words: mem::take(&mut self.words), bytes: mem::take(&mut self.bytes) }
    }
}

/// Which of `reducers` owns a word: FNV-1a, since every node must find the same one.
fn owner(word: &str, reducers: usize) -> usize {
    let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    usize::try_from(hash % reducers.max(1) as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_spread_over_the_reducers() {
        let mut owned = [0; 5];
        for n in 0..1000 {
            owned[owner(&format!("word{n}"), 5)] += 1;
        }
        assert!(owned.iter().all(|&n| n > 100), "{owned:?}");
        assert_eq!(owner("any", 0), 0);
    }
}
