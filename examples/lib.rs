//! Holds the bank of docs/GUIDE.md: the messages and actors that all programs of its cluster share.
//! `two_processes.rs` uses them, too. The other examples stand for themselves.

use std::collections::HashMap;

use ringpost::prelude::*;

/// Says that money came in.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub struct Deposit {
    /// The account's name.
    pub account: String,
    /// How much.
    pub cents: u64,
}

/// Why a withdrawal was refused.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub enum Refused {
    /// Nothing was ever paid into the account.
    NoAccount,
    /// The account has only this many cents.
    NotEnough(u64),
}

/// A day's deposits into one account: a large message.
#[message]
pub struct Statement {
    /// The account's name.
    pub account: String,
    /// Each deposit, in cents.
    pub deposits: Vec<u64>,
}

/// Keeps the balances of accounts.
#[actor]
#[derive(Default)]
pub struct Teller {
    balances: HashMap<String, u64>,
}

#[handlers]
impl Teller {
    /// Adds to the balance of an account.
    #[handler]
    pub fn deposit(&mut self, msg: Deposit) {
        let balance = self.balances.entry(msg.account).or_default();
        *balance = balance.saturating_add(msg.cents);
    }

    /// Returns the balance of an account, if there is one.
    #[handler]
    pub fn balance(&self, account: String) -> Option<u64> {
        self.balances.get(&account).copied()
    }

    /// Takes an amount from an account, and returns the new balance.
    #[handler]
    pub fn withdraw(&mut self, account: String, cents: u64) -> Result<u64, Refused> {
        let balance = self.balances.get_mut(&account).ok_or(Refused::NoAccount)?;
        *balance = balance.checked_sub(cents).ok_or(Refused::NotEnough(*balance))?;
        Ok(*balance)
    }

    /// Adds all deposits of a statement, which is read where it arrived, and returns the balance.
    #[handler]
    pub fn import(&mut self, msg: View<Statement>) -> u64 {
        let sum = msg.deposits.iter().fold(0, |sum: u64, c| sum.saturating_add(c.to_native()));
        let balance = self.balances.entry(msg.account.to_string()).or_default();
        *balance = balance.saturating_add(sum);
        *balance
    }
}

/// The first program of the project compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// The guide's programs compile and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/GUIDE.md")]
pub struct Guide;

/// The programs for newcomers from other libraries compile and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/COMING_FROM.md")]
pub struct ComingFrom;

/// The programs of the page on RDMA programs compile and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/RDMA_PROGRAMS.md")]
pub struct RdmaPrograms;
