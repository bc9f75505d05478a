//! The actor that adds up: it owns some of the words.

use std::collections::HashMap;

use ringpost::prelude::*;

/// How often a word occurs.
#[message]
pub(crate) struct Count {
    pub(crate) word: String,
    pub(crate) count: u64,
}

/// Counts to add.
#[message]
pub(crate) struct Counts {
    pub(crate) counts: Vec<Count>,
}

/// The table of the words that hash to it.
#[actor]
#[derive(Default)]
pub(crate) struct Reducer {
    table: HashMap<String, u64>,
}

#[handlers]
impl Reducer {
    /// Reads the words where they arrived: only a new one is copied.
    #[handler]
    pub(crate) fn add(&mut self, msg: View<Counts>) {
        for counted in msg.counts.iter() {
            let count = counted.count.to_native();
            match self.table.get_mut(counted.word.as_str()) {
                Some(sum) => *sum += count,
                None => {
                    self.table.insert(counted.word.as_str().to_owned(), count);
                }
            }
        }
    }

    /// Answers when the counts that its asker's node sent before have been added.
    #[handler]
    pub(crate) fn settle(&self) {}

    /// Gives up to `words_max` words away; none when the table is empty.
    #[handler]
    pub(crate) fn take_page(&mut self, words_max: u32) -> Vec<Count> {
        let page = self.table.extract_if(|_, _| true).take(words_max as usize);
        page.map(|(word, count)| Count { word, count }).collect()
    }
}
