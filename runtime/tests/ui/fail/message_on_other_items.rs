//! Only structs and enums are messages.
use ringpost::prelude::*;

#[message]
pub union Bits {
    pub float: f32,
    pub int: u32,
}

#[message]
fn deposit() {}

fn main() {}
