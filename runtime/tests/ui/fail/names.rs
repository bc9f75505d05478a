//! Names that are not there, or there twice.

mod protocol_reexported_alone {
    //! A handler for a protocol that is seen without its messages.
    use ringpost::prelude::*;

    mod client {
        mod bank {
            use ringpost::prelude::*;

            #[protocol]
            pub trait Bank {
                fn balance(account: String) -> Option<u64>;
            }
        }

        pub use bank::Bank;
    }

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler(protocol = client::Bank)]
        fn balance(&self, account: String) -> Option<u64> {
            account.parse().ok()
        }
    }
}

mod protocol_unknown_method {
    //! A handler for a method that its protocol does not have.
    use ringpost::prelude::*;

    #[protocol]
    pub trait Bank {
        fn balance(account: String) -> Option<u64>;
    }

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler(protocol = Bank)]
        fn blance(&self, account: String) -> Option<u64> {
            account.parse().ok()
        }
    }
}

mod handlers_twice {
    //! One block per actor.
    use ringpost::prelude::*;

    #[actor]
    pub struct Teller;

    #[handlers]
    impl Teller {
        #[handler]
        pub async fn open(&mut self, account: String) {
            drop(account);
        }
    }

    #[handlers]
    impl Teller {
        #[handler]
        pub async fn close(&mut self, account: String) {
            drop(account);
        }
    }
}

fn main() {}
