//! Sends that an actor, or a reference to one, does not take.

mod send_client_argument {
    //! A client method with an argument of the wrong type.
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

    pub async fn go(teller: ActorRef<Teller>) {
        let _ = teller.balance(3).await;
    }
}

mod send_client_missing {
    //! A client method that does not exist.
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

    pub async fn go(teller: ActorRef<Teller>) {
        let _ = teller.withdraw(3).await;
    }
}

mod send_not_a_message {
    //! Something that is no message.
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

    pub async fn go(teller: ActorRef<Teller>) {
        let _ = teller.tell("hello").await;
    }
}

mod send_not_in_protocol {
    //! A message that the protocol of a reference does not have.
    use ringpost::prelude::*;

    #[message]
    pub struct Other;

    #[protocol]
    pub trait Bank {
        fn balance(account: String) -> Option<u64>;
        fn close();
    }

    pub async fn go(bank: Ref<Bank>) {
        let _ = bank.tell(Other).await;
    }
}

mod send_private {
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
}

mod send_to_group {
    //! A group is told a message that is not its members'.
    use ringpost::group::Group;
    use ringpost::prelude::*;

    #[message]
    #[derive(Clone)]
    pub struct Line;

    #[message]
    pub struct Other;

    pub async fn go(room: ActorRef<Group<Line>>) {
        let _ = room.tell(Other).await;
    }
}

mod send_to_pool {
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
        let _ = pool.tell(Other).await;
    }
}

mod send_to_recipient {
    //! A recipient is sent a message other than its own.
    use ringpost::prelude::*;

    #[message]
    pub struct Ping;

    #[message]
    pub struct Other;

    pub async fn go(recipient: Recipient<Ping>) {
        let _ = recipient.tell(Other).await;
    }
}

mod send_to_router {
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
}

mod send_unknown_message {
    //! A message that the actor does not accept.
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

    pub async fn go(teller: ActorRef<Teller>) {
        let _ = teller.tell(Other).await;
    }
}

fn main() {}
