//! Archives lie 16-byte-aligned in frames.
use ringpost::prelude::*;

#[message]
#[rkyv(attr(repr(C, align(32))))]
pub struct Wide {
    pub x: u64,
}

fn main() {}
