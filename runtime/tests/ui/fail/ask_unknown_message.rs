//! A message that the actor does not accept, asked.
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

pub async fn go(teller: ActorRef<Teller>) -> Result<u64, AskError> {
    let cents: u64 = teller.ask(Other).await?;
    Ok(cents)
}

fn main() {}
