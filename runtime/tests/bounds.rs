//! Two nodes over loopback: sends with bounds, of time and of size.

use std::time::Duration;

use ringpost::net::Profile;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;

use crate::actors::{Note, Notebook, fill, held};
use crate::asking::{Audit, Teller};
use crate::remote::{PATIENCE, end, pair};

/// A message is sent in time or comes back, is sent at once or comes back, and may be sent from a
/// thread that is not async, as on one node.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_to_another_node_have_time_outs_and_need_not_wait() {
    let (alpha, beta) = pair().await;
    let held = held(&beta, 8).await;
    let notebook = alpha.actor::<Notebook>("beta/held").await.unwrap();
    let short = Duration::from_millis(20);
    let told = fill(&notebook, short).await;
    let refused = notebook.ask(Note { number: 0 }).try_send().err().unwrap();
    assert_eq!(refused.cause, Cause::MailboxFull);
    held.gate.add_permits(1);
    let all = (0..told).collect::<Vec<_>>();
    assert_eq!(notebook.notes().await, Ok(all.clone()));
    assert_eq!(notebook.notes().try_send().unwrap().await, Ok(all.clone()));
    let thread = std::thread::spawn({
        let notebook = notebook.clone();
        move || {
            notebook.tell(Note { number: told }).blocking().unwrap();
            notebook.notes().blocking()
        }
    });
    let noted = tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap();
    assert_eq!(noted.map(|notes| notes.len() as u64), Ok(told + 1));
    let mut events = alpha.events();
    beta.shutdown(PATIENCE).await;
    while !matches!(events.recv().await, Ok(NodeEvent::NodeDown { .. })) {}
    let unlinked = notebook.tell(Note { number: 0 }).wait_for_link().timeout(short).await;
    assert_eq!(unlinked.unwrap_err().cause, Cause::Timeout);
    let unlinked = notebook.ask(Note { number: 0 }).try_send().err().unwrap();
    assert!(matches!(unlinked.cause, Cause::NodeUnreachable(_)), "{unlinked}");
    alpha.shutdown(PATIENCE).await;
}

/// The smaller limit of the two nodes counts, whichever sends.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_profile_allows_larger_messages_between_nodes_that_both_have_it() {
    let start = |name: &str, message_bytes_max| {
        let profile = Profile { message_bytes_max, ..Profile::default() };
        Node::builder(name).listen("127.0.0.1:0").profile(profile)
    };
    let alpha = start("alpha", 1 << 30).start().await.unwrap();
    let beta = start("beta", 1 << 30).seeds(alpha.addresses()).start().await.unwrap();
    let gamma = start("gamma", 64 << 20).seeds(alpha.addresses()).start().await.unwrap();
    alpha.ready(2).await.unwrap();
    let audit = |bytes| Audit { note: "x".repeat(bytes) };
    let bytes = 100 << 20;
    for node in [&beta, &gamma] {
        node.spawn("teller", Teller::default()).await.unwrap();
    }
    let teller = alpha.actor::<Teller>("beta/teller").await.unwrap();
    assert_eq!(teller.ask(audit(bytes)).timeout(PATIENCE * 6).await, Ok(bytes as u64));
    let teller = alpha.actor::<Teller>("gamma/teller").await.unwrap();
    let refused = teller.tell(audit(bytes)).await.unwrap_err();
    assert!(matches!(refused.cause, Cause::TooLarge { limit: 67_108_864, .. }), "{refused}");
    alpha.spawn("teller", Teller::default()).await.unwrap();
    let teller = gamma.actor::<Teller>("alpha/teller").await.unwrap();
    let refused = teller.tell(audit(bytes)).await.unwrap_err();
    assert!(matches!(refused.cause, Cause::TooLarge { limit: 67_108_864, .. }), "{refused}");
    let most = Profile { message_bytes_max: 1 << 30, ..Profile::default() };
    assert!(most.validate().is_ok());
    assert!(Profile { message_bytes_max: (1 << 30) + 1, ..most }.validate().is_err());
    gamma.shutdown(PATIENCE).await;
    end([alpha, beta]).await;
}
