//! Clients that know a protocol, and not the actor that serves it.

use ringpost::LookupError;
use ringpost::prelude::*;

use super::bank::{Balance, Bank, Deposit, Introduce};
use super::world::{World, end};

/// The side of the client: it hears of a bank, and uses it.
#[actor]
#[derive(Default)]
struct Customer {
    bank: Option<Ref<Bank>>,
    ends: u64,
}

#[handlers]
impl Customer {
    #[handler]
    async fn introduce(&mut self, msg: View<Introduce>, cx: &mut Context<Self>) -> Option<u64> {
        let Introduce { bank, account } = msg.to_owned();
        cx.watch(&bank);
        let balance = bank.balance(account).await.ok().flatten();
        self.bank = Some(bank);
        balance
    }

    #[handler]
    async fn pay(&mut self, account: String, cents: u64) -> Option<u64> {
        self.bank.as_ref()?.deposit(Deposit { account, cents }).await.ok()
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        assert_eq!(msg.exit, ActorExit::Stopped);
        self.ends += 1;
    }

    #[handler]
    fn ends(&self) -> u64 {
        self.ends
    }
}

/// The part that only the server's program has.
pub mod server {
    use std::collections::BTreeMap;

    use super::super::bank::{self, Bank, Close, Deposit};
    use ringpost::prelude::*;

    #[actor]
    #[derive(Default)]
    pub struct Teller {
        cents: BTreeMap<String, u64>,
    }

    #[handlers]
    impl Teller {
        /// A message that the protocol does not know comes first in the actor's table.
        #[handler]
        pub fn accounts(&self) -> u64 {
            self.cents.len() as u64
        }

        #[handler]
        pub fn deposit(&mut self, msg: View<Deposit>) -> u64 {
            let cents = self.cents.entry(msg.account.to_string()).or_default();
            *cents += msg.cents.to_native();
            *cents
        }

        #[handler(protocol = bank::Bank)]
        pub async fn balance(&self, account: String, cx: &mut Context<Self>) -> Option<u64> {
            assert_eq!(cx.node().name(), "beta");
            self.cents.get(&account).copied()
        }

        #[handler(protocol = Bank)]
        pub fn close(&mut self, cx: &mut Context<Self>) {
            cx.stop();
        }
    }

    /// Does not serve all of it.
    #[actor]
    pub struct Clerk;

    #[handlers]
    impl Clerk {
        #[handler]
        pub fn deposit(&mut self, msg: Deposit) -> u64 {
            msg.cents
        }
    }

    /// Answers otherwise.
    #[actor]
    pub struct Debtor;

    #[handlers]
    impl Debtor {
        #[handler]
        pub fn balance(&self, msg: super::Balance) -> Option<i64> {
            i64::try_from(msg.account.len()).ok()
        }
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn a_client_knows_the_protocol_and_not_the_actor(world: &World) {
    let [alpha, beta] = world.pair().await;
    let teller = beta.spawn("bank", server::Teller::default()).await.unwrap();
    let bank: Ref<Bank> = alpha.reference("beta/bank").await.unwrap();
    let near: Ref<Bank> = beta.reference("bank").await.unwrap();
    assert_eq!((bank.is_local(), near.is_local()), (false, true));
    assert_eq!(near, teller.protocol());
    assert_eq!(near, Ref::from(teller.clone()));
    let deposit = |cents| Deposit { account: "ada".into(), cents };
    for (bank, cents) in [(&bank, 10), (&near, 20)] {
        bank.tell(deposit(1)).await.unwrap();
        bank.try_tell(deposit(2)).unwrap();
        bank.reserve().await.unwrap().tell(deposit(3)).unwrap();
        assert_eq!(bank.deposit(deposit(4)).await, Ok(cents));
        assert_eq!(bank.ask(Balance { account: "ada".into() }).await, Ok(Some(cents)));
        assert_eq!(bank.balance("bob".into()).await, Ok(None));
    }
    assert_eq!(teller.accounts().await, Ok(1));
    // It travels, and leads back.
    let customer = alpha.spawn("customer", Customer::default()).await.unwrap();
    let from_beta = beta.actor::<Customer>("alpha/customer").await.unwrap();
    let introduced = Introduce { bank: near, account: "ada".into() };
    assert_eq!(from_beta.introduce(introduced).await, Ok(Some(20)));
    assert_eq!(customer.pay("bob".into(), 7).await, Ok(Some(7)));
    assert_eq!(customer.ends().await, Ok(0));
    bank.close().await.unwrap();
    teller.wait_stopped().await;
    while customer.ends().await == Ok(0) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let late = bank.tell(deposit(9)).await.unwrap_err();
    assert_eq!(late.message.cents, 9);
    assert!(matches!(late.cause, Cause::Stopped | Cause::NoSuchActor), "{late:?}");
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn a_lookup_names_the_first_message_that_is_not_served(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.spawn("clerk", server::Clerk).await.unwrap();
    beta.spawn("debtor", server::Debtor).await.unwrap();
    let wanted = |name: &str, cause: Cause| LookupError::NotServed {
        path: format!("beta/{name}"),
        protocol: Bank::NAME,
        message: Balance::NAME,
        cause: Box::new(cause),
    };
    // On the own node, and on another one.
    for node in [&alpha, &beta] {
        let found = node.reference::<Bank>("beta/clerk").await;
        assert_eq!(found, Err(wanted("clerk", Cause::NotAccepted)));
        let nobody = node.reference::<Bank>("beta/nobody").await.unwrap_err();
        assert_eq!(nobody.cause(), Some(&Cause::NoSuchActor));
    }
    let found = alpha.reference::<Bank>("beta/debtor").await;
    assert_eq!(found, Err(wanted("debtor", Cause::SchemaMismatch)));
    let found = beta.reference::<Bank>("beta/debtor").await;
    assert_eq!(found, Err(wanted("debtor", Cause::NotAccepted)));
    end([alpha, beta]).await;
}
