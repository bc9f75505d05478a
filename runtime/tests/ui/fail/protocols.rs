//! Protocols and routers of messages that an actor does not handle.

mod protocol_not_served {
    //! An actor that does not serve all of a protocol, or answers otherwise.
    use ringpost::prelude::*;

    #[protocol]
    pub trait Bank {
        fn balance(account: String) -> Option<u64>;
        fn close();
    }

    #[actor]
    pub struct Half;

    #[handlers]
    impl Half {
        #[handler(protocol = Bank)]
        fn balance(&self, account: String) -> Option<u64> {
            account.parse().ok()
        }
    }

    #[actor]
    pub struct Otherwise;

    #[handlers]
    impl Otherwise {
        #[handler(protocol = Bank)]
        fn balance(&self, account: String) -> u64 {
            account.len() as u64
        }

        #[handler(protocol = Bank)]
        fn close(&self) {}
    }
}

mod router_not_accepted {
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
}

fn main() {}
