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

fn main() {}
