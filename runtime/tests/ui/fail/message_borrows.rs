//! A message owns its data.
use ringpost::prelude::*;

#[message]
pub struct Line<'a> {
    pub text: &'a str,
}

fn main() {}
