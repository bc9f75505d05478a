//! A pool on one of three nodes, whose workers fail, stop and are killed while its size changes:
//! senders of its node choose a worker themselves, those of others have a router do it.

mod book;
mod judge;
mod play;
mod sender;
mod worker;

use super::{check, repeats};

/// As many as reach all states.
const SEEDS: u64 = 150;

// Promised in docs/SEMANTICS.md.
#[test]
fn workers_of_a_pool_are_sent_what_the_model_says() {
    check(&judge::STATES, SEEDS, play::play);
}

#[test]
fn a_scene_of_a_pool_is_repeatable() {
    (0..6).for_each(|seed| repeats(&judge::STATES, seed, play::play));
}
