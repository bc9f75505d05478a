//! Names that methods of traits have, which every reference has.
use ringpost::prelude::*;

#[actor]
pub struct Teller;

#[handlers]
impl Teller {
    #[handler]
    pub fn to_owned(&self) {}

    #[handler]
    pub fn into(&self) {}

    #[handler]
    pub fn try_into(&self) {}

    #[handler]
    pub fn ne(&self) {}

    #[handler]
    pub fn clone_into(&self) {}
}

fn main() {}
