//! The result: every word's count.

use std::collections::HashMap;

/// The counts of all nodes together.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How often each word occurs.
    pub(crate) table: HashMap<String, u64>,
    /// The sum of the table.
    pub(crate) words: u64,
    /// Bytes of text that were counted.
    pub(crate) bytes: u64,
}

impl Tally {
    /// Adds occurrences of a word.
    pub(crate) fn add(&mut self, word: String, count: u64) {
        *self.table.entry(word).or_default() += count;
        self.words += count;
    }

    /// The most frequent words, first the most frequent; of equals the alphabetically first.
    pub(crate) fn top(&self, count: usize) -> Vec<(&str, u64)> {
        let mut words: Vec<_> = self.table.iter().map(|(word, n)| (word.as_str(), *n)).collect();
        words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        words.truncate(count);
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_words_are_ordered() {
        let mut tally = Tally::default();
        for (word, count) in [("c", 2), ("b", 1), ("a", 1), ("c", 1)] {
            tally.add(word.to_owned(), count);
        }
        assert_eq!(tally.top(2), [("c", 3), ("a", 1)]);
        assert_eq!((tally.words, tally.top(9).len()), (5, 3));
    }
}
