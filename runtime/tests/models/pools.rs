//! A pool on one of three nodes, whose workers fail, stop and are killed while its size changes:
//! senders of its node choose a worker themselves, senders of other nodes use a router.

pub(super) mod book;
pub(super) mod judge;
pub(super) mod play;
mod sender;
mod worker;

use super::check;

// Promised in docs/SEMANTICS.md.
#[test]
fn workers_of_a_pool_are_sent_what_the_model_says() {
    check(&judge::STATES, 150, play::play);
}
