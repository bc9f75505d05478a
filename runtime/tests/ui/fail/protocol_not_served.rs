//! An actor that does not serve all of a protocol, or answers otherwise.
use ringpost::prelude::*;

#[protocol]
pub trait Bank {
    fn balance(account: String) -> Option<u64>;
    fn close();
}

#[actor]
pub struct Half;

#[handlers]
impl Half {
    #[handler(protocol = Bank)]
    fn balance(&self, account: String) -> Option<u64> {
        account.parse().ok()
    }
}

#[actor]
pub struct Otherwise;

#[handlers]
impl Otherwise {
    #[handler(protocol = Bank)]
    fn balance(&self, account: String) -> u64 {
        account.len() as u64
    }

    #[handler(protocol = Bank)]
    fn close(&self) {}
}

fn main() {}
