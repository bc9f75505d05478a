//! Actors that three nodes have each other spawn, under names and without, watched and not, while
//! links are cut and nodes are killed.

mod book;
mod guest;
mod judge;
mod patron;
mod play;

use super::{check, repeats};

/// As many as reach all states.
const SEEDS: u64 = 150;

#[test]
fn spawns_on_other_nodes_give_one_actor_or_say_why_not() {
    check(&judge::STATES, SEEDS, play::play);
}

#[test]
fn a_scene_of_spawns_is_repeatable() {
    (0..6).for_each(|seed| repeats(&judge::STATES, seed, play::play));
}
