//! Memory that peers read and write while this process does, too.
#![allow(unsafe_code, reason = "lends the bytes of memory that nobody else has (ME-10)")]

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// Words of a page.
const PAGE_WORDS: usize = 4096 / WORD;

/// Zeroed memory of 64-bit words that several parties read and write at one time: threads of this
/// process, and peers to which it was [granted](crate::fabric::one_sided). There is no reference to
/// its bytes while others have it: they are copied in and out, word by word (ME-10).
///
/// A word never tears: a read finds what one write left in it, never a part of two. A copy of
/// several words may find some from before a write and others from after it.
pub struct Words {
    pages: Box<[Page]>,
    words: usize,
    number: u64,
}

/// Memory is granted by pages: what else the allocator hands out never lies on one of these.
#[derive(bytemuck::Zeroable)]
#[repr(C, align(4096))]
struct Page([AtomicU64; PAGE_WORDS]);

/// A place that does not lie in the memory.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("bytes {} to {} are not in a memory of {bytes} bytes", .wanted.start, .wanted.end)]
pub struct OutOfRange {
    /// The bytes that were asked for.
    pub wanted: Range<u64>,
    /// The bytes that there are.
    pub bytes: u64,
}

crate::debug_by_display!(OutOfRange);

impl Words {
    /// Returns zeroed memory of `bytes` bytes, rounded up to whole words. It takes whole pages of 4
    /// KiB; if they are many, the system provides them when they are first used. `None` where there
    /// is not enough memory.
    pub fn zeroed(bytes: usize) -> Option<Self> {
        let words = bytes.div_ceil(WORD);
        let pages = bytemuck::try_zeroed_slice_box(words.div_ceil(PAGE_WORDS)).ok()?;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Some(Words { pages, words, number })
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> usize {
        self.words * WORD
    }

    /// Returns its number: no other memory of the process has it, or had it.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns where its first page begins. All follow it, and stay there as long as it lives; a
    /// device may read and write them as other threads do (ME-10).
    #[cfg(feature = "verbs")]
    pub(crate) fn base(&self) -> *mut u8 {
        self.pages.as_ptr().cast_mut().cast()
    }

    /// Returns all bytes of its words: no device or other task reads or writes them meanwhile.
    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        let (first, bytes) = (self.pages.as_mut_ptr().cast::<u8>(), self.bytes());
        // SAFETY: the pages are `words` words at least, one after the other, and bytes of any
        // value are words. They are borrowed with `self`. A device that was granted them keeps an
        // `Arc` of this until it is not any more, so that there is no `&mut` of it (ME-10).
        unsafe { std::slice::from_raw_parts_mut(first, bytes) }
    }

    /// Copies the bytes from the byte `at` on.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing is copied then.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let mut rest = into;
        for (word, bytes) in self.pieces(at, rest.len())? {
            let (piece, more) = rest.split_at_mut(bytes.len());
            rest = more;
            let word = word.load(Ordering::Acquire).to_ne_bytes();
            match piece.as_mut_array() {
                Some(whole) => *whole = word,
                None => piece.copy_from_slice(&word[bytes]),
            }
        }
        Ok(())
    }

    /// Copies `from` to the bytes from `at` on. Does not overwrite bytes beside them in the same
    /// word, even if they are written meanwhile.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing is copied then.
    pub fn write(&self, at: u64, from: &[u8]) -> Result<(), OutOfRange> {
        let mut rest = from;
        for (word, bytes) in self.pieces(at, from.len())? {
            let (piece, more) = rest.split_at(bytes.len());
            rest = more;
            if let Ok(whole) = piece.try_into() {
                word.store(u64::from_ne_bytes(whole), Ordering::Release);
                continue;
            }
            let put = |old: u64| {
                let mut new = old.to_ne_bytes();
                new[bytes.clone()].copy_from_slice(piece);
                Some(u64::from_ne_bytes(new))
            };
            let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, put);
        }
        Ok(())
    }

    /// Returns the word that begins at the byte `at`, a multiple of 8, for one access at once.
    ///
    /// # Errors
    /// [`OutOfRange`], also if no word begins there.
    pub fn word(&self, at: u64) -> Result<&AtomicU64, OutOfRange> {
        let index = usize::try_from(at).ok().filter(|at| at.is_multiple_of(WORD));
        let index = index.map(|at| at / WORD).filter(|index| *index < self.words);
        index.map(|index| self.nth(index)).ok_or_else(|| self.out_of_range(at, WORD))
    }

    /// Returns the words in which `bytes` bytes from `at` on lie, and which bytes of each.
    fn pieces(
        &self,
        at: u64,
        bytes: usize,
    ) -> Result<impl Iterator<Item = (&AtomicU64, Range<usize>)>, OutOfRange> {
        let start = usize::try_from(at).ok();
        let end = start.and_then(|start| start.checked_add(bytes));
        let (start, end) = start
            .zip(end)
            .filter(|(_, end)| *end <= self.bytes())
            .ok_or_else(|| self.out_of_range(at, bytes))?;
        Ok((start / WORD..end.div_ceil(WORD)).map(move |index| {
            let first = index * WORD;
            (self.nth(index), start.max(first) - first..end.min(first + WORD) - first)
        }))
    }

    /// Returns a word that there is.
    fn nth(&self, index: usize) -> &AtomicU64 {
        &self.pages[index / PAGE_WORDS].0[index % PAGE_WORDS]
    }

    fn out_of_range(&self, at: u64, bytes: usize) -> OutOfRange {
        OutOfRange { wanted: at..at.saturating_add(bytes as u64), bytes: self.bytes() as u64 }
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Words({} bytes)", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends where memory is refused")]
    fn there_may_not_be_so_much() {
        assert!(Words::zeroed(usize::MAX / 4).is_none());
        assert_eq!(Words::zeroed(0).map(|words| words.bytes()), Some(0));
    }

    /// `write`, `read` and the lent bytes agree, across pages, too.
    #[test]
    fn the_bytes_are_lent_to_who_has_the_memory_alone() {
        let mut words = Arc::new(Words::zeroed(4193).unwrap());
        words.write(4090, b"over the end").unwrap();
        let other = words.clone();
        assert!(Arc::get_mut(&mut words).is_none());
        drop(other);
        let bytes = Arc::get_mut(&mut words).unwrap().as_mut_bytes();
        assert_eq!((bytes.len(), &bytes[4090..4102]), (4200, &b"over the end"[..]));
        bytes[4199] = 7;
        let mut last = [0];
        words.read(4199, &mut last).unwrap();
        assert_eq!(last, [7]);
    }

    /// Random copies have the same effect on words as on bytes.
    #[test]
    fn it_is_as_bytes_are() {
        let mut chance = fastrand::Rng::with_seed(5);
        // Across the end of a page, and the end of all.
        let (words, mut model) = (Words::zeroed(4193).unwrap(), vec![0; 4200]);
        assert_eq!(words.bytes(), model.len());
        let [mut inside, mut outside] = [0; 2];
        for _ in 0..20_000 {
            let (at, bytes) = (chance.usize(4040..4208), chance.usize(..40));
            let new: Vec<u8> = (0..bytes).map(|_| chance.u8(..)).collect();
            let mut found = vec![0; bytes];
            match model.get_mut(at..at + bytes) {
                Some(place) => {
                    inside += 1;
                    words.read(at as u64, &mut found).unwrap();
                    assert_eq!(found, place);
                    words.write(at as u64, &new).unwrap();
                    place.copy_from_slice(&new);
                }
                None => {
                    outside += 1;
                    let wanted = at as u64..(at + bytes) as u64;
                    let error = OutOfRange { wanted, bytes: 4200 };
                    assert_eq!(words.read(at as u64, &mut found), Err(error.clone()));
                    assert_eq!(words.write(at as u64, &new), Err(error));
                }
            }
        }
        let mut all = vec![0; 4200];
        words.read(0, &mut all).unwrap();
        assert_eq!(all, model);
        println!("{inside} copies inside, {outside} outside");
        assert!(inside > 1_000 && outside > 1_000);
    }

    #[test]
    fn places_that_no_memory_has_are_refused() {
        let words = Words::zeroed(16).unwrap();
        for (at, bytes) in [(u64::MAX, 1), (u64::MAX - 7, 8), (17, 0), (16, 1), (9, 8)] {
            assert!(words.read(at, &mut vec![0; bytes]).is_err(), "{at} {bytes}");
            assert!(words.write(at, &vec![0; bytes]).is_err(), "{at} {bytes}");
        }
        for at in [1, 7, 12, 16, u64::MAX - 7, u64::MAX] {
            assert!(words.word(at).is_err(), "{at}");
        }
        assert_eq!((words.read(16, &mut []), words.write(16, &[])), (Ok(()), Ok(())));
        assert!(words.word(8).is_ok());
    }

    /// ME-10: neighbours in one word lose nothing to each other, and a word never tears.
    #[test]
    fn writers_of_one_word_keep_out_of_each_others_bytes() {
        const ROUNDS: u32 = if cfg!(miri) { 50 } else { 20_000 };
        let words = Words::zeroed(16).unwrap();
        thread::scope(|scope| {
            for half in [0, 4] {
                let words = &words;
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        words.write(half, &round.to_ne_bytes()).unwrap();
                        let mut found = [0; 4];
                        words.read(half, &mut found).unwrap();
                        assert_eq!(u32::from_ne_bytes(found), round, "its own bytes");
                        words.write(8, &[round as u8; 8]).unwrap();
                        let mut word = [0; 8];
                        words.read(8, &mut word).unwrap();
                        assert!(word.iter().all(|byte| *byte == word[0]), "torn: {word:?}");
                    }
                });
            }
        });
    }
}
