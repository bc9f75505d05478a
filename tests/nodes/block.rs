//! A node whose application blocks every thread of its runtime. (Real time passes.)

use std::time::Duration;

use ringpost::prelude::*;
use ringpost_tests::actors::{Block, Blocker, Counter, Notary, Text};
use ringpost_tests::vault::{SUM, Vault};
use tokio::sync::oneshot;

use crate::process::{PATIENCE, Process, linked, within};

/// For longer than a node is waited for, and an operation on its memory.
const BLOCKED: Duration = Duration::from_secs(15);
/// Messages to another actor meanwhile: far more than may wait for it.
const TOLD: u64 = 5000;
/// How the log names what blocks.
const HANDLER: &str = "ringpost_tests::actors::Blocker handles ringpost_tests::actors::Block for ";

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_blocks_all_its_threads_stays_linked_and_its_log_names_the_handler() {
    tokio::join!(blocked("current_thread", 1), blocked("2", 2));
}

/// `threads` of a runtime of this flavour are all there are.
async fn blocked(flavour: &str, threads: u64) {
    let mut beta = Process::start_on(flavour, "beta", &[]).await;
    let alpha = linked("alpha", &[&beta], Duration::from_secs(8)).await;
    let mut events = alpha.events();
    let counter = alpha.actor::<Counter>("beta/counter").await.unwrap();
    let notary = alpha.actor::<Notary>("beta/notary").await.unwrap();
    let vault = alpha.actor::<Vault>("beta/vault").await.unwrap();
    let region = within(async { vault.shared().await }).await.unwrap();
    assert_eq!(within(region.fetch_add(SUM, 1)).await, Ok(0));
    let (over, mut is_over) = oneshot::channel::<()>();
    let counting = tokio::spawn(async move {
        let mut count = 1;
        while is_over.try_recv().is_err() {
            assert_eq!(region.fetch_add(SUM, 1).await, Ok(count), "it is late, and no more");
            count += 1;
        }
        count
    });
    for number in 0..threads {
        let blocker = alpha.actor::<Blocker>(&format!("beta/blocker{number}")).await.unwrap();
        let millis = BLOCKED.as_millis() as u64;
        blocker.tell(Block { threads, millis }).confirmed().await.unwrap();
    }
    let told = counter.clone();
    let telling = tokio::spawn(async move {
        for _ in 0..TOLD {
            told.tell(Text { text: "one two".into() }).await.unwrap();
        }
    });
    let line = beta.warned(HANDLER).await;
    assert_eq!(line.matches(HANDLER).count() as u64, threads, "{line}");
    assert!(!telling.is_finished(), "its senders wait");
    let unanswered = within(async { notary.notes().await }).await;
    // The ring of its node decides whether it could still be sent.
    let ended = [AskCause::Timeout, AskCause::NotSent(Cause::Timeout)];
    let unanswered = unanswered.unwrap_err();
    assert!(ended.contains(&unanswered.cause), "{unanswered}");
    beta.warned("no longer blocked").await;
    within(telling).await.unwrap();
    let counted = within(async { counter.counted().await }).await;
    assert_eq!(counted, Ok((2 * TOLD, 7 * TOLD)));
    over.send(()).unwrap();
    let count = within(counting).await.unwrap();
    assert_eq!(within(async { vault.words().await }).await.unwrap()[SUM], count);
    assert!(events.try_recv().is_err(), "no link was lost, and no node down");
    beta.end().await;
    alpha.shutdown(PATIENCE).await;
}
