//! Asks that an actor, or a reference to one, does not take.

mod ask_not_in_protocol {
    //! A question that the protocol of a reference does not have.
    use ringpost::prelude::*;

    #[message]
    pub struct Other;

    #[protocol]
    pub trait Bank {
        fn balance(account: String) -> Option<u64>;
        fn close();
    }

    pub async fn go(bank: Ref<Bank>) {
        let _ = bank.ask(Other).await;
    }
}

mod ask_pool {
    //! A pool is asked a message that its workers do not accept.
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

    pub async fn go(pool: Pool<Worker>) {
        let _ = pool.ask(Other).await;
    }
}

mod ask_unknown_message {
    //! A message that the actor does not accept, asked.
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

    pub async fn go(teller: ActorRef<Teller>) -> Result<u64, AskError> {
        let cents: u64 = teller.ask(Other).await?;
        Ok(cents)
    }
}

fn main() {}
