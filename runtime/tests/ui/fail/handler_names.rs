//! Names that a handler or its message cannot have.
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
    pub fn tell(&self) {}

    #[handler]
    pub fn monitor(&self) {}

    #[handler]
    pub fn option(&self) {}

    #[handler]
    pub fn deposit(&mut self, deposit: Deposit) -> u64 {
        deposit.cents
    }

    #[handler]
    pub fn teller(&self) {}

    #[handler]
    pub fn close(&mut self) {}

    #[handler(name = Close)]
    pub fn shut(&mut self) {}
}

fn main() {}
