//! The definition of a word, and how a text becomes pieces in which no word is cut.
//!
//! TX-1 (word): a maximal run of alphanumeric characters and underscores, each character lowercased
//! on its own. A run of more than [`WORD_CHARS`] characters counts as words of [`WORD_CHARS`]
//! characters and a rest, so that a word, and with it a message, has a bound.
//!
//! TX-2 (pieces): the pieces of a text are the text, in order; none is longer than [`PIECE_BYTES`];
//! and the words of the pieces are the words of the text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read};
use std::str;

/// A longer run of word characters counts as several words.
pub(crate) const WORD_CHARS: usize = 1024;

/// No piece is longer. Most are about as long, so they travel as fragments.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

// TX-2: a run that fills a piece can be cut between two of its words.
const _: () = assert!(PIECE_BYTES >= 4 * WORD_CHARS);

/// The words of a text and how often each occurs; a word that needs no lowercasing is borrowed.
pub(crate) fn count_words(text: &str) -> HashMap<Cow<'_, str>, u64> {
    let mut counts = HashMap::new();
    for run in text.split(|c| !is_word_char(c)).filter(|run| !run.is_empty()) {
        for word in words_of_run(run) {
            *counts.entry(lowercase(word)).or_insert(0) += 1;
        }
    }
    counts
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// TX-1: cuts a run after every [`WORD_CHARS`] characters.
fn words_of_run(mut run: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let end = run.char_indices().nth(WORD_CHARS).map_or(run.len(), |(at, _)| at);
        let (word, rest) = run.split_at(end);
        run = rest;
        (!word.is_empty()).then_some(word)
    })
}

/// Character by character: `str::to_lowercase` looks at a character's neighbours, across pieces
/// too.
fn lowercase(word: &str) -> Cow<'_, str> {
    if word.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(word.chars().flat_map(char::to_lowercase).collect())
    }
}

/// Why a text cannot be read on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is not UTF-8 text")]
    NotText,
}

/// Reads a text piece by piece, with a bounded buffer.
pub(crate) struct Pieces<R> {
    source: R,
    held: Vec<u8>,
    ended: bool,
}

impl<R: Read> Pieces<R> {
    pub(crate) fn new(source: R) -> Self {
        Pieces { source, held: Vec::with_capacity(PIECE_BYTES), ended: false }
    }

    /// The next piece, never empty; `None` at the end of the text.
    pub(crate) fn next_piece(&mut self) -> Result<Option<String>, ReadError> {
        self.fill()?;
        let text = match str::from_utf8(&self.held) {
            Ok(text) => text,
            // The last character is still to come.
            Err(e) if e.error_len().is_none() && !self.ended => {
                let whole = &self.held[..e.valid_up_to()];
                str::from_utf8(whole).map_err(|_| ReadError::NotText)?
            }
            Err(_) => return Err(ReadError::NotText),
        };
        let end = if self.ended { text.len() } else { last_cut(text) };
        let piece = text[..end].to_owned();
        self.held.drain(..end);
        Ok((!piece.is_empty()).then_some(piece))
    }

    /// The source, read as far as the pieces needed.
    pub(crate) fn into_source(self) -> R {
        self.source
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut filled = self.held.len();
        self.held.resize(PIECE_BYTES, 0);
        while filled < PIECE_BYTES && !self.ended {
            match self.source.read(&mut self.held[filled..]) {
                Ok(0) => self.ended = true,
                Ok(read) => filled += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.held.truncate(filled);
        Ok(())
    }
}

/// The last place of a full buffer between two words (TX-2). A buffer that is one run begins where
/// the run or a word of it begins, so counting characters from there finds the words' ends.
fn last_cut(text: &str) -> usize {
    if let Some((at, c)) = text.char_indices().rfind(|&(_, c)| !is_word_char(c)) {
        return at + c.len_utf8();
    }
    text.char_indices().step_by(WORD_CHARS).last().map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte more at each read, so that every character gets cut somewhere.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = self.1 % 7 + 1;
            let n = self.1.min(buffer.len()).min(self.0.len());
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn pieces(text: &[u8]) -> Result<Vec<String>, ReadError> {
        let mut pieces = Pieces::new(Dribble(text, 0));
        let mut all = Vec::new();
        while let Some(piece) = pieces.next_piece()? {
            all.push(piece);
        }
        Ok(all)
    }

    fn check_pieces(text: &str) -> usize {
        let pieces = pieces(text.as_bytes()).unwrap();
        assert_eq!(pieces.concat(), text, "TX-2: the pieces are the text");
        let mut sum: HashMap<String, u64> = HashMap::new();
        for piece in &pieces {
            assert!(piece.len() <= PIECE_BYTES, "TX-2: {} bytes", piece.len());
            for (word, count) in count_words(piece) {
                *sum.entry(word.into_owned()).or_default() += count;
            }
        }
        let whole: HashMap<String, u64> =
            count_words(text).into_iter().map(|(w, n)| (w.into_owned(), n)).collect();
        assert!(sum == whole, "TX-2: the words of the pieces are those of the text");
        pieces.len()
    }

    #[test]
    fn words_are_lowercased_runs() {
        let counts = count_words("Let the_cat eat; The cat's 2 ÄPFEL, the ΟΔΟΣ\u{0}x");
        let mut words: Vec<_> = counts.iter().map(|(w, n)| format!("{w}={n}")).collect();
        words.sort();
        let expected = "2=1 cat=1 eat=1 let=1 s=1 the=2 the_cat=1 x=1 äpfel=1 οδοσ=1";
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn a_long_run_is_several_words() {
        let run = "é".repeat(2 * WORD_CHARS + 3);
        let counts = count_words(&run);
        assert_eq!(counts["é".repeat(WORD_CHARS).as_str()], 2);
        assert_eq!(counts["ééé"], 1);
        assert_eq!(counts.len(), 2);
    }

    #[test]
    fn pieces_cut_no_word() {
        let sentence = "Zwölf Boxkämpfer jagen 東京 quer_über den ſylter Deich\n";
        assert_eq!(check_pieces(""), 0);
        assert_eq!(check_pieces("word"), 1);
        assert!(check_pieces(&sentence.repeat(4000)) > 3);
    }

    #[test]
    fn pieces_cut_long_runs_between_their_words() {
        for lead in ["", "a ", "ab,"] {
            for letter in ["x", "é", "東", "𝒳"] {
                let run = letter.repeat(3 * PIECE_BYTES / letter.len() + 77);
                assert!(check_pieces(&format!("{lead}{run} tail {run}")) > 6);
            }
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_an_error() {
        assert!(matches!(pieces(b"abc \xff def"), Err(ReadError::NotText)));
        assert!(matches!(
            pieces("cut é".as_bytes().split_last().unwrap().1),
            Err(ReadError::NotText)
        ));
        let mut late = "fine ".repeat(40_000).into_bytes();
        late.push(0xc3);
        assert!(matches!(pieces(&late), Err(ReadError::NotText)));
    }
}
