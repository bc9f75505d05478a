//! Listed as `Ping`, written for `View<Ping>`.
use ringpost::prelude::*;

#[message]
pub struct Ping;

#[actor]
pub struct Teller;

#[handlers(Ping)]
impl Teller {}

impl Handler<View<Ping>> for Teller {
    type Reply = ();
    async fn handle(&mut self, _: View<Ping>, _: &mut Context<Self>) {}
}

fn main() {}
