//! Memory of four nodes on which actors of all of them count, while users and owners are killed,
//! links are lost, and shares are revoked. Its rules are in `regions/book.rs`.

mod book;
mod play;
mod user;

use super::{check, repeats};

/// As many as reach all states.
const SEEDS: u64 = 100;

// Promised in docs/SEMANTICS.md.
#[test]
fn regions_are_exact_and_closed_whoever_is_killed() {
    check(&book::STATES, SEEDS, play::play);
}

#[test]
fn a_scene_of_regions_is_repeatable() {
    (0..6).for_each(|seed| repeats(&book::STATES, seed, play::play));
}
