//! A handler that keeps something of its thread over an await.
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
    pub async fn deposit(&mut self, msg: Deposit) -> u64 {
        let fee = std::rc::Rc::new(1);
        tokio::task::yield_now().await;
        msg.cents - *fee
    }

    #[handler]
    pub async fn fine(&self, account: String) -> u64 {
        account.len() as u64
    }
}

fn main() {}
