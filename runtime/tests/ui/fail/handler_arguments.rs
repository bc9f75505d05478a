//! Wrong arguments of `#[handler]`.
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
    #[handler(box)]
    pub fn misspelt(&self) {}

    #[handler(name = "Quoted")]
    pub fn quoted(&self) {}

    #[handler(local)]
    pub fn local_elsewhere(&mut self, msg: Deposit) {}

    #[handler(derive(Clone))]
    pub fn derived_elsewhere(&mut self, msg: View<Deposit>) {}
}

fn main() {}
