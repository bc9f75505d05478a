//! A message that would make every place in the mailbox large.
use ringpost::prelude::*;

#[actor]
pub struct Teller;

#[handlers]
impl Teller {
    #[handler]
    pub async fn store(&mut self, page: [u8; 1000]) -> u64 {
        page.len() as u64
    }
}

fn main() {}
