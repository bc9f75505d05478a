//! Handlers for a protocol's method with parameters that it does not have, or another reply: one
//! error each.
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

#[actor]
pub struct Auditor;

#[handlers]
impl Auditor {
    #[handler(protocol = Bank)]
    async fn balance(&mut self, account: String) -> u64 {
        account.len() as u64
    }
}

#[actor]
pub struct Later;

#[handlers]
impl Later {
    #[handler(protocol = Bank)]
    fn balance(&self, account: String, reply: ReplyTo<u64>) {
        reply.send(account.len() as u64);
    }
}

fn main() {}
