//! Handlers for a protocol's method with parameters that it does not have.
use ringpost::prelude::*;

#[protocol]
pub trait Bank {
    fn balance(account: String) -> Option<u64>;
}

#[actor]
pub struct Clerk;

#[handlers]
impl Clerk {
    #[handler(protocol = Bank)]
    fn balance(&self, name: String) -> Option<u64> {
        name.parse().ok()
    }
}

#[actor]
pub struct Cashier;

#[handlers]
impl Cashier {
    #[handler(protocol = Bank)]
    fn balance(&self, account: u64) -> Option<u64> {
        Some(account)
    }
}

fn main() {}
