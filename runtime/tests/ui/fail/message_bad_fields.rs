//! What is wrong with a field is said once, also of an enum's, of a generic message's and of a
//! handler's parameter.
use ringpost::prelude::*;

pub struct Alien(pub u8);

#[message]
pub enum Inner {
    Named { alien: Alien },
    Empty,
}

#[message]
pub struct Generic<T> {
    pub alien: Option<Alien>,
    pub item: T,
}

#[actor]
pub struct Teller;

#[handlers]
impl Teller {
    #[handler]
    pub fn put(&mut self, alien: Alien) -> u8 {
        alien.0
    }
}

fn main() {}
