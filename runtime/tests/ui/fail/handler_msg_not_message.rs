//! `msg` is the message itself, so its type must be one.
use ringpost::prelude::*;

#[actor]
pub struct Teller;

#[handlers]
impl Teller {
    #[handler]
    pub async fn rename(&mut self, msg: String) -> u64 {
        msg.len() as u64
    }
}

fn main() {}
