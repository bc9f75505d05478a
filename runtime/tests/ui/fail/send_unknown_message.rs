//! A message that the actor does not accept.
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
    let _ = teller.tell(Other).await;
}

fn main() {}
