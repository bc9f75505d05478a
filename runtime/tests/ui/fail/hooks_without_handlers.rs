//! Hooks of an actor that has no `#[handlers]` block.
use ringpost::prelude::*;

pub struct Teller;

#[actor]
impl Actor for Teller {
    async fn on_stop(&mut self, _: &mut Context<Self>) {}
}

fn main() {}
