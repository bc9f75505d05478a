//! One message has one handler, owned or as a view.
use ringpost::prelude::*;

#[message]
pub struct Deposit {
    pub cents: u64,
}

#[actor]
pub struct Teller;

#[handlers]
impl Teller {
    #[handler]
    pub async fn owned(&mut self, msg: Deposit) -> u64 {
        msg.cents
    }

    #[handler]
    pub async fn viewed(&mut self, msg: View<Deposit>) -> u64 {
        msg.cents.to_native()
    }
}

fn main() {}
