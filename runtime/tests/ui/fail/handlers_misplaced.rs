//! Wrong places and arguments of `#[handlers]` and `#[handler]`.
use ringpost::prelude::*;

#[actor]
pub struct Teller;

#[handlers]
impl Clone for Teller {
    fn clone(&self) -> Self {
        Teller
    }
}

#[handlers(&'static str)]
impl Teller {}

impl Teller {
    #[handler]
    pub async fn deposit(&mut self, cents: u64) -> u64 {
        cents
    }
}

fn main() {}
