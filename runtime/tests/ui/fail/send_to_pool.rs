//! A pool is asked a message that its workers do not accept.
use ringpost::Pool;
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

pub async fn go(pool: Pool<Worker>) {
    let _ = pool.tell(Other).await;
}

fn main() {}
