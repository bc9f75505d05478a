//! A router is told a message other than the one that it routes.
use ringpost::pool::{Pool, Router};
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

pub async fn go(router: ActorRef<Router<Worker, Square>>) {
    let _ = router.tell(Other).await;
}

fn main() {}
