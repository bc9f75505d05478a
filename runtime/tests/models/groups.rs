//! A group and its members on three nodes: they join, leave, end and come again under their names,
//! while lines are told, asked and sent by `try_broadcast`, links are lost, and nodes are killed.

pub(super) mod book;
pub(super) mod judge;
mod line;
pub(super) mod play;

use super::check;

#[test]
fn members_of_a_group_are_told_what_the_model_says() {
    check(&judge::STATES, 150, play::play);
}
