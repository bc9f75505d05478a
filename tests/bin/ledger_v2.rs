//! A node of the second build of a ledger, whose messages gained fields: see
//! `ringpost_tests::ledger`.

use std::error::Error;

use ringpost::prelude::*;
use ringpost_tests::ledger::{Build, run};

#[message(name = "ledger.Deposit", version = 2)]
struct Deposit {
    from: String,
    number: u64,
    #[message(since = 2, default = "none".to_owned())]
    memo: String,
}

#[message(name = "ledger.Receipt", version = 2)]
struct Receipt {
    number: u64,
    #[message(since = 2)]
    memo: Option<String>,
}

#[actor(name = "ledger.Ledger")]
struct Ledger;

#[handlers]
impl Ledger {
    /// Views the deposit where it arrived; a deposit of the first build is archived again first.
    #[handler]
    fn deposit(&mut self, msg: View<Deposit>) -> Receipt {
        let (number, memo) = (msg.number.to_native(), msg.memo.to_string());
        println!("took {} {number} in v2 memo {memo}", msg.from);
        Receipt { number, memo: Some(memo) }
    }
}

struct V2;

impl Build for V2 {
    type Ledger = Ledger;

    fn ledger() -> Ledger {
        Ledger
    }

    async fn deposit(
        ledger: &ActorRef<Ledger>,
        from: String,
        number: u64,
    ) -> Result<String, AskCause> {
        let memo = format!("of-{from}-{number}");
        let deposit = Deposit { from, number, memo };
        let receipt = ledger.ask(deposit).await.map_err(|error| error.cause)?;
        Ok(format!("receipt {} memo {}", receipt.number, receipt.memo.unwrap_or("none".into())))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    run::<V2>().await
}
