//! Counts the files again: one thread, character by character, none of the code of the nodes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use crate::files::Source;
use crate::tally::Tally;
use crate::text::WORD_CHARS;

/// Bytes of a file that are read at once.
const PART_BYTES: usize = 64 * 1024;

/// How the second count differs from the first.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Difference {
    #[error(
        "the word `{word}` occurs {found} times in the files and was counted {counted} times \
         ({words} words differ)"
    )]
    Word { word: String, counted: u64, found: u64, words: usize },
    #[error("the files have {found} bytes and {counted} bytes were counted")]
    Bytes { counted: u64, found: u64 },
    #[error("{path:?} was counted and cannot be read again: {error}")]
    Gone { path: PathBuf, error: io::Error },
}

/// Compares `tally` with the words and bytes of `sources`, the files it was counted from.
///
/// # Errors
/// The first difference: a missing file, then the alphabetically first word, then the bytes.
pub(crate) fn verify(tally: &Tally, sources: &[Source]) -> Result<(), Difference> {
    let mut counter = Counter::default();
    for source in sources {
        let gone = |error| Difference::Gone { path: source.path.clone(), error };
        counter.add_file(&source.path).map_err(gone)?;
    }
    let Counter { found, bytes, .. } = counter;
    compare_words(&tally.table, &found)?;
    if bytes != tally.bytes {
        return Err(Difference::Bytes { counted: tally.bytes, found: bytes });
    }
    Ok(())
}

/// Counts of words, and the word that is being read.
#[derive(Default)]
struct Counter {
    found: HashMap<String, u64>,
    bytes: u64,
    word: String,
    chars: usize,
}

impl Counter {
    /// Adds the words of a file, of which never more than a part is in memory.
    fn add_file(&mut self, path: &Path) -> io::Result<()> {
        let mut file = BufReader::with_capacity(PART_BYTES, File::open(path)?);
        // Bytes of a character whose others are in the next part.
        let mut held = Vec::new();
        loop {
            let part = file.fill_buf()?;
            let (read, is_last) = (part.len(), part.is_empty());
            held.extend_from_slice(part);
            file.consume(read);
            let whole = match str::from_utf8(&held) {
                Ok(text) => text,
                Err(error) if error.error_len().is_none() && !is_last => {
                    str::from_utf8(&held[..error.valid_up_to()]).map_err(io::Error::other)?
                }
                Err(error) => return Err(io::Error::new(ErrorKind::InvalidData, error)),
            };
            whole.chars().for_each(|c| self.add(c));
            let bytes = whole.len();
            self.bytes += bytes as u64;
            held.drain(..bytes);
            if is_last {
                self.end_word();
                return Ok(());
            }
        }
    }

    fn add(&mut self, c: char) {
        let inside = matches!(c, '_' | 'a'..='z' | 'A'..='Z' | '0'..='9')
            || (!c.is_ascii() && (c.is_alphabetic() || c.is_numeric()));
        if inside {
            self.word.extend(c.to_lowercase());
            self.chars += 1;
        }
        if !inside || self.chars == WORD_CHARS {
            self.end_word();
        }
    }

    fn end_word(&mut self) {
        if self.chars == 0 {
            return;
        }
        if let Some(count) = self.found.get_mut(&self.word) {
            *count += 1;
        } else {
            self.found.insert(self.word.clone(), 1);
        }
        self.word.clear();
        self.chars = 0;
    }
}

fn compare_words(
    counted: &HashMap<String, u64>,
    found: &HashMap<String, u64>,
) -> Result<(), Difference> {
    let count = |table: &HashMap<String, u64>, word: &str| table.get(word).copied().unwrap_or(0);
    let missing = found.iter().filter(|(word, n)| count(counted, word) != **n);
    let invented = counted.iter().filter(|(word, _)| !found.contains_key(*word));
    let different: Vec<&String> = missing.chain(invented).map(|(word, _)| word).collect();
    match different.iter().min() {
        None => Ok(()),
        Some(word) => Err(Difference::Word {
            word: (*word).clone(),
            counted: count(counted, word),
            found: count(found, word),
            words: different.len(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::tests::{Folder, list};
    use crate::text::{PIECE_BYTES, count_words};

    fn tally(text: &str) -> Tally {
        let mut tally = Tally::default();
        for (word, count) in count_words(text) {
            tally.add(word.into_owned(), count);
        }
        tally.bytes = text.len() as u64;
        tally
    }

    fn verify_text(tally: &Tally, name: &str, text: &str) -> Result<(), Difference> {
        let folder = Folder::new(name);
        folder.write("a", text);
        verify(tally, &list(&folder).sources)
    }

    #[test]
    fn both_ways_of_counting_agree() {
        let every_char: String = ('\0'..=char::MAX).collect();
        let apart: String = ('\0'..=char::MAX).flat_map(|c| [c, ' ']).collect();
        let long = "Ǆ".repeat(PIECE_BYTES);
        for (name, text) in [("every", every_char), ("apart", apart), ("long", long)] {
            verify_text(&tally(&text), name, &text).unwrap();
        }
        verify_text(&Tally::default(), "empty", "").unwrap();
    }

    #[test]
    fn a_difference_is_named() {
        let says =
            |name, counted, text| verify_text(&tally(counted), name, text).unwrap_err().to_string();
        let fewer = says("fewer", "a b b c", "a b b b d c");
        let more = says("more", "x y", "y");
        let bytes = says("bytes", "x  y", "x y");
        assert_eq!(
            fewer,
            "the word `b` occurs 3 times in the files and was counted 2 times (2 words differ)"
        );
        assert_eq!(
            more,
            "the word `x` occurs 0 times in the files and was counted 1 times (1 words differ)"
        );
        assert_eq!(bytes, "the files have 3 bytes and 4 bytes were counted");
    }
}
