//! A private handler has a private client method.
mod bank {
    use ringpost::prelude::*;

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        async fn audit(&self) {}
    }
}

pub async fn go(teller: ringpost::prelude::ActorRef<bank::Teller>) {
    let _ = teller.audit().await;
}

fn main() {}
