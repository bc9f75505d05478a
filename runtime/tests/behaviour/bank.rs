//! A protocol that a client and a server share, without an actor.

use ringpost::prelude::*;

#[message]
pub struct Deposit {
    pub account: String,
    pub cents: u64,
}

/// The messages of a bank.
#[protocol]
pub trait Bank {
    /// Returns the balance of an account.
    fn balance(account: String) -> Option<u64>;

    /// Returns the new balance.
    fn deposit(msg: Deposit) -> u64;

    fn close();
}

/// A reference to a bank travels.
#[message]
pub struct Introduce {
    pub bank: Ref<Bank>,
    pub account: String,
}
