//! A handler for a method that its protocol does not have.
use ringpost::prelude::*;

#[protocol]
pub trait Bank {
    fn balance(account: String) -> Option<u64>;
}

#[actor]
pub struct Teller;

#[handlers]
impl Teller {
    #[handler(protocol = Bank)]
    fn blance(&self, account: String) -> Option<u64> {
        account.parse().ok()
    }
}

fn main() {}
