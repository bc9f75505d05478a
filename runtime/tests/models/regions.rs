//! Memory of four nodes on which actors of all of them count, while users and owners are killed,
//! links are lost, and shares are revoked. Its rules are in `regions/book.rs`.

pub(super) mod book;
pub(super) mod play;
mod user;

use super::check;

// Promised in docs/SEMANTICS.md.
#[test]
fn regions_are_exact_and_closed_whoever_is_killed() {
    check(&book::STATES, 100, play::play);
}
