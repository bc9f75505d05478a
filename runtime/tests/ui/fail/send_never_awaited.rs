//! Requests are futures: nothing is sent before they are awaited.
use ringpost::prelude::*;

#[message]
pub struct Other;

#[message]
pub struct Deposit {
    pub cents: u64,
}

#[actor]
pub struct Teller;

#[handlers]
impl Teller {
    #[handler]
    pub async fn deposit(&mut self, msg: Deposit) -> u64 {
        msg.cents
    }

    #[handler]
    pub async fn balance(&self, account: String) -> u64 {
        account.len() as u64
    }
}

#[deny(unused_must_use)]
pub fn go(teller: &ActorRef<Teller>) {
    teller.tell(Deposit { cents: 1 });
    teller.deposit(Deposit { cents: 1 });
}

fn main() {}
