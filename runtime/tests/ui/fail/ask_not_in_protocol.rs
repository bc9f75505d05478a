//! A question that the protocol of a reference does not have.
use ringpost::prelude::*;

#[message]
pub struct Other;

#[protocol]
pub trait Bank {
    fn balance(account: String) -> Option<u64>;
    fn close();
}

pub async fn go(bank: Ref<Bank>) {
    let _ = bank.ask(Other).await;
}

fn main() {}
