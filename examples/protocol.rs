//! A protocol, which is all that a client and its server share: the client links no actor.
//!
//! `cargo run --example protocol` prints:
//!
//! ```text
//! bank: ada has 300 cents
//! bank: bob has no account
//! alpha/tailor does not serve `Bank`
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::LookupError;
use ringpost::prelude::*;

/// A crate of its own in a real program.
mod protocol {
    use ringpost::prelude::*;

    #[protocol]
    pub trait Bank {
        /// Makes the message `Balance { account: String }`.
        fn balance(account: String) -> Option<u64>;
        fn deposit(account: String, cents: u64) -> u64;
    }
}

/// Only the server's program has this.
mod server {
    use std::collections::HashMap;

    use super::protocol;
    use ringpost::prelude::*;

    #[actor]
    #[derive(Default)]
    pub(crate) struct Teller(HashMap<String, u64>);

    #[handlers]
    impl Teller {
        #[handler(protocol = protocol::Bank)]
        fn balance(&self, account: String) -> Option<u64> {
            self.0.get(&account).copied()
        }

        #[handler(protocol = protocol::Bank)]
        fn deposit(&mut self, account: String, cents: u64) -> u64 {
            *self.0.entry(account).and_modify(|has| *has += cents).or_insert(cents)
        }
    }

    #[actor]
    pub(crate) struct Tailor;

    #[handlers]
    impl Tailor {}
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let alpha = Node::builder("alpha").listen("127.0.0.1:0").start().await?;
    let beta = Node::builder("beta").listen("127.0.0.1:0").seeds(alpha.addresses()).start().await?;
    alpha.spawn("bank", server::Teller::default()).await?;
    alpha.spawn("tailor", server::Tailor).await?;

    // Waits until there is one: the client's program may be started first.
    let bank: Ref<protocol::Bank> = beta.when_reference("alpha/bank").await?;
    bank.tell(protocol::Deposit { account: "ada".into(), cents: 100 }).await?;
    println!("bank: ada has {} cents", bank.deposit("ada".into(), 200).await?);
    if bank.balance("bob".into()).await?.is_none() {
        println!("bank: bob has no account");
    }
    let found = beta.reference::<protocol::Bank>("alpha/tailor").await;
    if let Err(LookupError::NotServed { .. }) = found {
        println!("alpha/tailor does not serve `Bank`");
    }

    beta.shutdown(Duration::from_secs(5)).await;
    alpha.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
