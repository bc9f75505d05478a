//! `#[handlers]` for a type that is no actor.
use ringpost::prelude::*;

pub struct Plain;

#[handlers]
impl Plain {
    #[handler]
    pub async fn double(&self, number: u8) -> u8 {
        number * 2
    }
}

fn main() {}
