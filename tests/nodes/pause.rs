//! A process that is stopped for a while. (Only here real time passes.)

use std::time::Duration;

use ringpost::ActorRef;
use ringpost::net::NodeDownCause;
use ringpost::observe::NodeEvent;
use ringpost_tests::actors::Counter;

use crate::process::{PATIENCE, Process, linked, within};

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stands_still_for_four_seconds_is_not_down() {
    let beta = Process::start("beta", &[]).await;
    let alpha = linked("alpha", &[&beta], Duration::from_secs(8)).await;
    let mut events = alpha.events();
    let counter = alpha.actor::<Counter>("beta/counter").await.unwrap();
    beta.signal("STOP").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    beta.signal("CONT").await;
    answers_again(&counter).await;
    while let Ok(event) = events.try_recv() {
        assert!(!matches!(event, NodeEvent::NodeDown { .. }), "{event:?}");
    }
    beta.end().await;
    alpha.shutdown(PATIENCE).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stands_still_for_twenty_seconds_is_down_once_and_linked_again() {
    let mut beta = Process::start("beta", &[]).await;
    let alpha = linked("alpha", &[&beta], Duration::from_secs(8)).await;
    let mut events = alpha.events();
    let run = alpha.linked();
    let counter = alpha.actor::<Counter>("beta/counter").await.unwrap();
    beta.says_until("alpha is linked").await;
    beta.signal("STOP").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(alpha.linked(), []);
    beta.signal("CONT").await;
    answers_again(&counter).await;
    assert_eq!(alpha.linked(), run, "the same run of the node");
    let (mut lost, mut down, mut up) = (0, 0, 0);
    while let Ok(event) = events.try_recv() {
        match event {
            NodeEvent::LinkDown { .. } => lost += 1,
            NodeEvent::NodeDown { cause: NodeDownCause::Silent { .. }, .. } => down += 1,
            NodeEvent::LinkUp { .. } => up += 1,
            other => panic!("{other:?}"),
        }
        assert!(down <= lost && up <= lost && (up == 0 || down == 1), "lost, then down, then up");
    }
    assert_eq!((down, up), (1, lost));
    // Of its own absence it says that, and not that the others were gone.
    let mut said = beta.says_until("seen: a pause of").await;
    said.extend(beta.says_until("alpha is linked").await);
    println!("the node that stood still said {said:#?}");
    assert!(!said.iter().any(|line| line.contains("is down")), "{said:?}");
    let pauses = said.iter().filter_map(|line| line.strip_prefix("seen: a pause of "));
    let pauses: Vec<&str> = pauses.collect();
    assert!(matches!(pauses[..], ["19 s" | "20 s" | "21 s"]), "{said:?}");
    beta.end().await;
    alpha.shutdown(PATIENCE).await;
}

/// Waits for an answer. An ask fails while there is no link, and has the node reached for.
async fn answers_again(counter: &ActorRef<Counter>) {
    let answer = within(async {
        loop {
            if let Ok(answer) = counter.echo("awake".into()).await {
                return answer;
            }
        }
    });
    assert_eq!(answer.await, "awake");
}
