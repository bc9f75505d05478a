//! Counts the files again: one thread, whole files, character by character, none of the code that
//! the nodes count with.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use crate::files::Source;
use crate::tally::Tally;
use crate::text::WORD_CHARS;

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
    #[error("{} was counted and cannot be read again: {error}", path.display())]
    Gone { path: PathBuf, error: io::Error },
}

/// Compares `tally` with the words and bytes of `sources`, the files it was counted from.
///
/// # Errors
/// What differs first: a file that went away, the alphabetically first word, the bytes.
pub(crate) fn verify(tally: &Tally, sources: &[Source]) -> Result<(), Difference> {
    let mut found = HashMap::new();
    let mut bytes = 0;
    for source in sources {
        let gone = |error| Difference::Gone { path: source.path.clone(), error };
        let text = fs::read_to_string(&source.path).map_err(gone)?;
        bytes += text.len() as u64;
        add_words(&text, &mut found);
    }
    compare_words(&tally.table, &found)?;
    if bytes != tally.bytes {
        return Err(Difference::Bytes { counted: tally.bytes, found: bytes });
    }
    Ok(())
}

fn add_words(text: &str, found: &mut HashMap<String, u64>) {
    let mut word = String::new();
    let mut chars = 0;
    for c in text.chars() {
        let inside = matches!(c, '_' | 'a'..='z' | 'A'..='Z' | '0'..='9')
            || (!c.is_ascii() && (c.is_alphabetic() || c.is_numeric()));
        if inside {
            word.extend(c.to_lowercase());
            chars += 1;
        }
        if (!inside && chars > 0) || chars == WORD_CHARS {
            add_word(&word, found);
            word.clear();
            chars = 0;
        }
    }
    if chars > 0 {
        add_word(&word, found);
    }
}

fn add_word(word: &str, found: &mut HashMap<String, u64>) {
    if let Some(count) = found.get_mut(word) {
        *count += 1;
    } else {
        found.insert(word.to_owned(), 1);
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
