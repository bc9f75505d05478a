//! Tests by seeds: the choice of seeds, random numbers, and the states that were reached.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Returns the seeds of a test. The variable of this name in the environment says how many there
/// are, and the variable that ends with `_SEED` which one runs alone.
pub fn seeds(variable: &str, usual: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    match number(&format!("{variable}_SEED")) {
        Some(seed) => seed..seed + 1,
        None => 0..number(variable).unwrap_or(usual),
    }
}

/// Says how to run a seed again, should it fail.
pub struct Replay(pub &'static str, pub u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}_SEED={} runs it alone", self.0, self.1);
        }
    }
}

/// Numbers by a seed (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// Returns one of `all`, which has some.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// How often each state was reached that is hard to reach, by name.
#[derive(Debug)]
pub struct Reached(BTreeMap<&'static str, u64>);

impl Reached {
    /// Each of `states` has to be reached by a run of all seeds.
    pub fn new(states: &[&'static str]) -> Self {
        Reached(states.iter().map(|state| (*state, 0)).collect())
    }

    pub fn note(&mut self, state: &'static str) {
        *self.0.get_mut(state).unwrap_or_else(|| panic!("an unlisted state: {state}")) += 1;
    }

    /// Adds the counts of another seed.
    pub fn add(&mut self, other: &Reached) {
        other.0.iter().for_each(|(state, count)| *self.0.get_mut(state).unwrap() += count);
    }

    /// Returns the states that were not reached.
    pub fn missing(&self) -> Vec<&'static str> {
        self.0.iter().filter(|(_, count)| **count == 0).map(|(state, _)| *state).collect()
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(state, count)| writeln!(f, "{count:8}  {state}"))
    }
}
