//! A router for a message that the workers of its pool do not accept.
use ringpost::pool::Pool;
use ringpost::prelude::*;

#[message]
pub struct Other;

#[actor]
pub struct Worker;

#[handlers]
impl Worker {
    #[handler]
    pub fn square(&self, number: u64) -> u64 {
        number * number
    }

    #[handler]
    pub fn double(&self, number: u64) -> u64 {
        number * 2
    }
}

pub fn go(pool: Pool<Worker>) {
    let _ = pool.router::<Other>();
}

fn main() {}
