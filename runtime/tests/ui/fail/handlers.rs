//! Handlers of types that they cannot have.

mod handler_msg_not_message {
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
}

mod handler_reply_not_wire {
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
}

mod handler_not_send {
    //! A handler that keeps something of its thread over an await.
    use ringpost::prelude::*;

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
            let fee = std::rc::Rc::new(1);
            tokio::task::yield_now().await;
            msg.cents - *fee
        }

        #[handler]
        pub async fn fine(&self, account: String) -> u64 {
            account.len() as u64
        }
    }
}

mod handler_not_sync {
    //! An asynchronous `&self` handler of an actor that is not `Sync`.
    use ringpost::prelude::*;

    #[actor]
    pub struct Odd {
        cell: std::cell::Cell<u64>,
    }

    #[handlers]
    impl Odd {
        #[handler]
        pub async fn read(&self) -> u64 {
            self.cell.get()
        }
    }
}

fn main() {}
