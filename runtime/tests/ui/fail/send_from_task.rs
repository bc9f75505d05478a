//! A request borrows its reference.
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

pub fn go(teller: ActorRef<Teller>) {
    tokio::spawn(teller.balance(String::new()));
}

fn main() {}
