//! Methods that cannot be handlers; every one is reported.
#![allow(unused_variables)]

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
    pub fn borrowed(&self, account: &str, list: Vec<&'static str>) {}

    #[handler]
    pub fn unnamed_type(&self, account: impl ToString) {}

    #[handler]
    pub fn pattern(&self, (account, cents): (String, u64)) {}

    #[handler]
    pub fn generic<T: ToString>(&self, account: T) {}

    #[handler]
    pub fn consumed(self) {}

    #[handler]
    pub fn associated(account: String) {}

    #[handler]
    pub fn message_and_field(&mut self, msg: Deposit, account: String) {}

    #[handler]
    pub fn two_messages(&mut self, msg: Deposit, view: View<Deposit>) {}

    #[handler]
    pub fn message_by_reference(&mut self, msg: &Deposit) {}

    #[handler]
    pub fn conditional(&self, #[cfg(unix)] account: String) {}
}

fn main() {}
