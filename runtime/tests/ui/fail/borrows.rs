//! Messages that are lent or moved where they cannot be.

mod send_from_task {
    //! A request borrows its reference.
    use ringpost::prelude::*;

    #[message]
    pub struct Other;

    #[message]
    pub struct Deposit {
        pub cents: u64,
    }

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        pub async fn deposit(&mut self, msg: Deposit) -> u64 {
            msg.cents
        }

        #[handler]
        pub async fn balance(&self, account: String) -> u64 {
            account.len() as u64
        }
    }

    pub fn go(teller: ActorRef<Teller>) {
        tokio::spawn(teller.balance(String::new()));
    }
}

mod send_moved {
    //! A message is moved into its first send.
    use ringpost::prelude::*;

    #[message]
    pub struct Other;

    #[message]
    pub struct Deposit {
        pub cents: u64,
    }

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        pub async fn deposit(&mut self, msg: Deposit) -> u64 {
            msg.cents
        }

        #[handler]
        pub async fn balance(&self, account: String) -> u64 {
            account.len() as u64
        }
    }

    pub async fn go(teller: &ActorRef<Teller>, deposit: Deposit) {
        for _ in 0..2 {
            let _ = teller.tell(deposit).await;
        }
    }
}

fn main() {}
