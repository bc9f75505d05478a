//! Wrong places and arguments of `#[actor]`.
use ringpost::prelude::*;

#[actor]
pub struct Borrows<'a> {
    pub text: &'a str,
}

#[actor(title = "x")]
pub struct Titled;

pub struct Plain;

#[actor]
impl Plain {}

#[actor]
impl Actor for Plain {
    const NAME: &'static str = "plain";
}

fn main() {}
