//! A reference to an actor comes back only through a node.
use ringpost::prelude::*;
use ringpost::rkyv::{from_bytes, rancor::Error};

#[actor]
pub struct Teller;

#[handlers]
impl Teller {}

#[message]
pub struct Subscribe {
    pub who: ActorRef<Teller>,
}

pub fn read(bytes: &[u8]) -> Subscribe {
    from_bytes::<Subscribe, Error>(bytes).unwrap()
}

fn main() {}
