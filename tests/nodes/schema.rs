//! Two builds that disagree on one message.

use std::time::Duration;

use ringpost::prelude::*;
use ringpost_tests::builds::known::{Drift, Drifter, Steady};

use crate::process::{PATIENCE, Process, linked, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_another_layout_is_a_schema_mismatch_and_the_others_work() {
    let beta = Process::start("beta", &[]).await;
    let alpha = linked("alpha", &[&beta], Duration::from_secs(8)).await;
    let drifter = within(alpha.actor::<Drifter>("beta/drifter")).await.unwrap();
    let refused = within(drifter.ask(Drift { number: 1 })).await;
    let refused = refused.map_err(|error| error.cause);
    assert_eq!(refused, Err(AskCause::NotSent(Cause::SchemaMismatch)));
    assert_eq!(within(drifter.ask(Steady { number: 2 })).await, Ok(2));
    let back = within(drifter.tell(Drift { number: 3 })).await.unwrap_err();
    assert_eq!((back.message.number, back.cause), (3, Cause::SchemaMismatch));
    assert_eq!(within(drifter.ask(Steady { number: 4 })).await, Ok(4));
    beta.end().await;
    alpha.shutdown(PATIENCE).await;
}
