//! A node of the first build of a ledger: see `ringpost_tests::ledger`.

use std::error::Error;

use ringpost::prelude::*;
use ringpost_tests::ledger::{Build, run};

#[message(name = "ledger.Deposit")]
struct Deposit {
    from: String,
    number: u64,
}

#[message(name = "ledger.Receipt")]
struct Receipt {
    number: u64,
}

#[actor(name = "ledger.Ledger")]
struct Ledger;

#[handlers]
impl Ledger {
    #[handler]
    fn deposit(&mut self, msg: Deposit) -> Receipt {
        println!("took {} {} in v1", msg.from, msg.number);
        Receipt { number: msg.number }
    }
}

struct V1;

impl Build for V1 {
    type Ledger = Ledger;

    fn ledger() -> Ledger {
        Ledger
    }

    async fn deposit(
        ledger: &ActorRef<Ledger>,
        from: String,
        number: u64,
    ) -> Result<String, AskCause> {
        let receipt = ledger.ask(Deposit { from, number }).await.map_err(|error| error.cause)?;
        Ok(format!("receipt {}", receipt.number))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    run::<V1>().await
}
