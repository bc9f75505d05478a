//! Links that are closed because neither node uses them, as actors meet them.

use std::time::Duration;

use ringpost::net::{LinkCause, Profile};
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::send::Fate;
use ringpost::test_kit::{self, Cluster, LinkModel};
use tokio::time::{Instant, sleep, sleep_until};

use crate::behaviour::world::{World, end};
use crate::registered::{Clerk, MS, within};

/// Counts its messages.
#[derive(Default)]
#[actor]
struct Counter {
    told: u64,
}

#[handlers]
impl Counter {
    #[handler]
    async fn count(&mut self) -> u64 {
        self.told += 1;
        self.told
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Two nodes that know each other by a name of both: links to other seeds are kept.
async fn pair(cluster: Cluster) -> [Node; 2] {
    cluster.world().set_name("any:7700", &["alpha:7700", "beta:7700"]);
    let world = World::Sim(cluster);
    let profile = Profile { idle_close: Some(SECOND), ..Profile::default() };
    let alpha = world.builder("alpha", &[]).profile(profile.clone()).start().await.unwrap();
    let beta =
        world.builder("beta", &[]).seeds(["any:7700"]).profile(profile).start().await.unwrap();
    beta.ready(1).await.unwrap();
    [alpha, beta]
}

/// Sends about when both nodes agree to close their link, from both sides. Returns how often the
/// link was closed.
async fn send_as_it_closes(cluster: Cluster) -> usize {
    let [alpha, beta] = pair(cluster.clone()).await;
    let mut events = alpha.events();
    let here = alpha.spawn("here", Counter::default()).await.unwrap();
    let there = beta.spawn("there", Counter::default()).await.unwrap();
    let to_there = alpha.actor::<Counter>("beta/there").await.unwrap();
    let to_here = beta.actor::<Counter>("alpha/here").await.unwrap();
    let sender = |to: ActorRef<Counter>, counts: ActorRef<Counter>| {
        let cluster = cluster.clone();
        async move {
            for sent in 0..40 {
                // Links are looked at each second; some are used again at that moment.
                let began = Instant::now();
                let until = cluster.random() % 4 * 1_000_000 + cluster.random() % 400;
                sleep_until(began + Duration::from_micros(until)).await;
                match sent % 4 {
                    0 => to.tell(Count).await.unwrap(),
                    1 => assert_eq!(to.tell(Count).confirmed().await.unwrap(), Fate::Delivered),
                    2 => to.reserve().await.unwrap().tell(Count).unwrap(),
                    _ => drop(to.count().await.unwrap()),
                }
            }
            // All tells came before this ask.
            assert_eq!(to.count().await, Ok(41));
            drop(counts);
        }
    };
    tokio::join!(sender(to_there, there), sender(to_here, here));
    let mut closed = 0;
    while let Ok(event) = events.try_recv() {
        match event {
            NodeEvent::LinkUp { .. } => {}
            NodeEvent::LinkDown { cause: LinkCause::Idle, .. } => closed += 1,
            other => panic!("{other:?}"),
        }
    }
    end([alpha, beta]).await;
    closed
}

// Promised in docs/SEMANTICS.md.
#[test]
fn what_is_sent_as_an_idle_link_closes_is_sent_on_the_next_one() {
    // Over links that are so fast that the sends come in the midst of it.
    let seeded = |seed| Cluster::seeded(seed).links(LinkModel::default());
    let closed: usize = (0..100).map(|seed| seeded(seed).run(send_as_it_closes)).sum();
    assert!(closed > 1_000, "links were closed {closed} times");
}

/// A watch and a permit use a link, an actor that was looked up does not.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_on_which_an_end_is_waited_for_is_not_idle() {
    test_kit::run(1, |cluster| async move {
        let [alpha, beta] = pair(cluster).await;
        let clerk = Clerk::spawn(&alpha).await;
        let there = beta.spawn("there", Counter::default()).await.unwrap();
        let linked = || alpha.snapshot().peers.iter().any(|peer| peer.link.is_some());
        let far = alpha.actor::<Counter>("beta/there").await.unwrap();
        sleep(10 * SECOND).await;
        assert!(!linked());
        let watched = far.clone();
        within(&clerk, move |_, cx| cx.watch(&watched)).await;
        sleep(60 * SECOND).await;
        assert!(linked());
        there.stop().await.unwrap();
        sleep(100 * MS).await;
        let downs = clerk.downs().await.unwrap();
        assert_eq!(downs, [("beta/there".to_owned(), "it stopped".into())]);
        sleep(10 * SECOND).await;
        assert!(!linked());
        let again = beta.spawn("again", Counter::default()).await.unwrap();
        let permit = alpha.actor::<Counter>("beta/again").await.unwrap().reserve().await.unwrap();
        sleep(60 * SECOND).await;
        assert!(linked());
        permit.tell(Count).unwrap();
        sleep(10 * SECOND).await;
        assert!(!linked());
        assert_eq!(again.count().await, Ok(2));
        end([alpha, beta]).await;
    });
}
