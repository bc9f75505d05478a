//! A hand-written handler that `#[handlers]` does not list.
use ringpost::prelude::*;

#[message]
pub struct Ping;

#[actor]
pub struct Teller;

#[handlers]
impl Teller {
    #[handler]
    pub async fn balance(&self, account: String) -> u64 {
        account.len() as u64
    }

    #[handler]
    pub async fn close(&mut self) {}
}

impl Handler<Ping> for Teller {
    type Reply = ();
    async fn handle(&mut self, _: Ping, _: &mut Context<Self>) {}
}

pub async fn go(teller: ActorRef<Teller>) {
    let _ = teller.tell(Ping).await;
}

fn main() {}
