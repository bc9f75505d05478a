//! A reply that cannot cross nodes.
use ringpost::prelude::*;

#[actor]
pub struct Teller;

#[handlers]
impl Teller {
    #[handler]
    pub async fn save(&mut self) -> std::io::Result<u64> {
        Ok(0)
    }
}

fn main() {}
