//! Actors that three nodes have each other spawn, under names and without, watched and not, while
//! links are cut and nodes are killed.

pub(super) mod book;
mod guest;
pub(super) mod judge;
mod patron;
pub(super) mod play;

use super::check_but;

#[test]
fn spawns_on_other_nodes_give_one_actor_or_say_why_not() {
    check_but(Some("it was killed as it started"), &judge::STATES, 150, play::play);
}
