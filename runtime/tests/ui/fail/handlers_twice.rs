//! One block per actor.
use ringpost::prelude::*;

#[actor]
pub struct Teller;

#[handlers]
impl Teller {
    #[handler]
    pub async fn open(&mut self, account: String) {
        drop(account);
    }
}

#[handlers]
impl Teller {
    #[handler]
    pub async fn close(&mut self, account: String) {
        drop(account);
    }
}

fn main() {}
