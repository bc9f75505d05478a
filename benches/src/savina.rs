//! Six programs of the Savina suite (Imam and Sarkar, "Savina: an actor benchmark suite", AGERE!
//! 2014), each checked by its answer. `benches/README.md` says where their sizes differ from the
//! suite's.

mod bank;
mod big;
mod create;
mod dictionary;
mod fib;
mod logistic_map;

pub(crate) use bank::Bank;
pub(crate) use big::Big;
pub(crate) use create::Create;
pub(crate) use dictionary::Dictionary;
pub(crate) use fib::Fib;
pub(crate) use logistic_map::LogisticMap;

/// Numbers that look random and are the same in every run: SplitMix64.
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    /// Returns a number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as usize % end
    }
}
