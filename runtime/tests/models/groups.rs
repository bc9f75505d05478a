//! A group and its members on three nodes: they join, leave, end and come again under their names,
//! while lines are told, asked and sent by `try_broadcast`, links are lost, and nodes are killed.

mod book;
mod judge;
mod line;
mod play;

use super::{check, repeats};

/// As many as reach all states.
const SEEDS: u64 = 150;

#[test]
fn members_of_a_group_are_told_what_the_model_says() {
    check(&judge::STATES, SEEDS, play::play);
}

#[test]
fn a_scene_of_a_group_is_repeatable() {
    (0..6).for_each(|seed| repeats(&judge::STATES, seed, play::play));
}
