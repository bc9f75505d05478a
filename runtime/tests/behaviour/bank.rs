//! What a client and a server share: a protocol, and no actor.

use ringpost::prelude::*;

#[message]
pub struct Deposit {
    pub account: String,
    pub cents: u64,
}

/// The messages of a bank.
#[protocol]
pub trait Bank {
    /// Returns what is in an account.
    fn balance(account: String) -> Option<u64>;

    /// Returns what is in the account then.
    fn deposit(msg: Deposit) -> u64;

    fn close();
}

/// A reference to a bank travels.
#[message]
pub struct Introduce {
    pub bank: Ref<Bank>,
    pub account: String,
}
