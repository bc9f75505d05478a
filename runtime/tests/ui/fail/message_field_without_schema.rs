//! A field of a type that has no schema.
use ringpost::prelude::*;

pub struct Alien(pub u8);

#[message]
pub struct Has {
    pub alien: Alien,
    pub many: Vec<Alien>,
}

fn main() {}
