//! A client method with an argument of the wrong type.
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

pub async fn go(teller: ActorRef<Teller>) {
    let _ = teller.balance(3).await;
}

fn main() {}
