//! References that follow a name, and waits for one, of clients that do not know the actor's type.

use ringpost::LookupError;
use ringpost::prelude::*;

use super::bank::{Balance, Bank, Deposit};
use super::protocols::server::{Clerk, Debtor, Teller};
use super::world::{World, end};
use crate::cause;
use crate::remote::PATIENCE;

fn deposit(cents: u64) -> Deposit {
    Deposit { account: "ada".into(), cents }
}

/// Asks again while that can help.
async fn patiently<R>(ask: impl AsyncFn() -> Result<R, AskError>) -> R {
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn references_that_follow_a_name_outlast_a_restart_of_its_node(world: &World) {
    let [alpha, beta] = world.pair().await;
    let bank: Ref<Bank> = alpha.named_reference("beta/bank").unwrap();
    let deposits: Recipient<Deposit, u64> = alpha.named_recipient("beta/bank").unwrap();
    let none = AskCause::NotSent(Cause::NoSuchActor);
    assert_eq!(cause(bank.balance("ada".into()).await), Err(none.clone()));
    assert_eq!(cause(deposits.ask(deposit(1)).await), Err(none));
    // The name is given, to one after the other.
    for cents in [3, 5] {
        let teller = beta.spawn("bank", Teller::default()).await.unwrap();
        // The end of the last one may not be known yet.
        assert_eq!(patiently(async || deposits.ask(deposit(cents)).await).await, cents);
        assert_eq!(patiently(async || bank.balance("ada".into()).await).await, Some(cents));
        teller.stop().await.unwrap();
        teller.wait_stopped().await;
    }
    beta.spawn("bank", Teller::default()).await.unwrap();
    let found: Ref<Bank> = alpha.reference("beta/bank").await.unwrap();
    beta.shutdown(PATIENCE).await;
    let beta = world.node("beta", &[&alpha]).await;
    beta.spawn("bank", Teller::default()).await.unwrap();
    assert_eq!(bank.balance("ada".into()).wait_for_link().await, Ok(None));
    assert_eq!(deposits.ask(deposit(7)).wait_for_link().await, Ok(7));
    let lost = cause(found.balance("ada".into()).wait_for_link().await);
    assert!(
        matches!(lost, Err(AskCause::NotSent(Cause::NoSuchActor | Cause::Stopped))),
        "that one has ended: {lost:?}"
    );
    // On its own node, too.
    let near: Ref<Bank> = beta.named_reference("bank").unwrap();
    assert_eq!(near.balance("ada".into()).await, Ok(Some(7)));
    assert_eq!(near, beta.named_reference("beta/bank").unwrap());
    assert!(alpha.named_reference::<Bank>("a/b/c").is_err());
    assert!(alpha.named_recipient::<Deposit, u64>("").is_err());
    end([alpha, beta]).await;
}

pub async fn a_client_that_comes_first_waits_for_what_it_knows_by_message_or_protocol(
    world: &World,
) {
    let alpha = world.node("alpha", &[]).await;
    let (bank, deposits, beta) = tokio::join!(
        alpha.when_reference::<Bank>("beta/bank"),
        alpha.when_recipient::<Deposit, u64>("beta/bank"),
        async {
            let beta = world.node("beta", &[&alpha]).await;
            beta.ready(1).await.unwrap();
            beta.spawn("bank", Teller::default()).await.unwrap();
            beta
        },
    );
    let (bank, deposits) = (bank.unwrap(), deposits.unwrap());
    assert_eq!(deposits.ask(deposit(2)).await, Ok(2));
    assert_eq!(bank.balance("ada".into()).await, Ok(Some(2)));
    // Also while its node leaves and comes back.
    let (bank, deposits, beta) = tokio::join!(
        alpha.when_reference::<Bank>("beta/late"),
        alpha.when_recipient::<Deposit, u64>("beta/late"),
        async {
            beta.shutdown(PATIENCE).await;
            let beta = world.node("beta", &[&alpha]).await;
            beta.spawn("late", Teller::default()).await.unwrap();
            beta
        },
    );
    assert_eq!(deposits.unwrap().ask(deposit(4)).await, Ok(4));
    assert_eq!(bank.unwrap().balance("ada".into()).await, Ok(Some(4)));
    // And on the same node.
    let (near, told, _) = tokio::join!(
        beta.when_reference::<Bank>("bank"),
        beta.when_recipient::<Deposit, u64>("beta/bank"),
        beta.spawn("bank", Teller::default()),
    );
    assert_eq!(told.unwrap().ask(deposit(6)).await, Ok(6));
    assert_eq!(near.unwrap().balance("ada".into()).await, Ok(Some(6)));
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn a_name_of_an_actor_that_does_not_serve_is_told_by_the_wait_or_the_send(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.spawn("clerk", Clerk).await.unwrap();
    beta.spawn("debtor", Debtor).await.unwrap();
    let wanted = |name: &str, cause: Cause| LookupError::NotServed {
        path: format!("beta/{name}"),
        protocol: Bank::NAME,
        message: Balance::NAME,
        cause: Box::new(cause),
    };
    for node in [&alpha, &beta] {
        let found = node.when_reference::<Bank>("beta/clerk").await;
        assert_eq!(found, Err(wanted("clerk", Cause::NotAccepted)));
    }
    let found = alpha.when_reference::<Bank>("beta/debtor").await;
    assert_eq!(found, Err(wanted("debtor", Cause::SchemaMismatch)));
    let near = beta.when_recipient::<Balance, Option<u64>>("beta/debtor").await.unwrap_err();
    assert_eq!(near.cause(), Some(&Cause::NotAccepted));
    // A reference that follows the name finds out at each send.
    let not_sent = |cause: Cause| AskCause::NotSent(cause);
    let clerk: Ref<Bank> = alpha.named_reference("beta/clerk").unwrap();
    let refused = cause(clerk.balance("ada".into()).await);
    assert_eq!(refused, Err(not_sent(Cause::NotAccepted)));
    assert_eq!(clerk.deposit(deposit(3)).await, Ok(3), "that one it accepts");
    let debtor: Ref<Bank> = alpha.named_reference("beta/debtor").unwrap();
    let refused = cause(debtor.balance("ada".into()).await);
    assert_eq!(refused, Err(not_sent(Cause::SchemaMismatch)));
    let clerk: Ref<Bank> = beta.named_reference("beta/clerk").unwrap();
    let unsent = clerk.tell(deposit(3)).await.unwrap_err();
    assert_eq!((unsent.message.cents, unsent.cause), (3, Cause::NotAccepted));
    for node in [&alpha, &beta] {
        let balances: Recipient<Balance> = node.named_recipient("beta/clerk").unwrap();
        let unsent = balances.tell(Balance { account: "ada".into() }).await.unwrap_err();
        assert_eq!((&*unsent.message.account, unsent.cause), ("ada", Cause::NotAccepted));
    }
    end([alpha, beta]).await;
}
