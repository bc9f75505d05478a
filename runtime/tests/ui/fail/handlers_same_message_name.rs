//! Two actors of one module whose handlers generate messages of one name.
use ringpost::prelude::*;

#[actor]
pub struct Teller;

#[actor]
pub struct Vault;

#[handlers]
impl Teller {
    #[handler]
    pub async fn balance(&self, account: String) -> usize {
        account.len()
    }
}

#[handlers]
impl Vault {
    #[handler]
    pub async fn balance(&self) -> u64 {
        0
    }
}

fn main() {}
