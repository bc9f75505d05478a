//! A reply without a name.
use ringpost::prelude::*;

#[actor]
pub struct Teller;

#[handlers]
impl Teller {
    #[handler]
    pub fn accounts(&self) -> impl Iterator<Item = u64> {
        [1, 2].into_iter()
    }

    #[handler]
    pub fn owner(&self, account: u64) -> Option<impl ToString> {
        Some(account)
    }
}

fn main() {}
