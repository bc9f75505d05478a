//! A listed message that nobody handles.
use ringpost::prelude::*;

#[message]
pub struct Ping;

#[actor]
pub struct Teller;

#[handlers(Ping)]
impl Teller {}

fn main() {}
