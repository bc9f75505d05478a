//! Links: two actors of which each fails with the other.

mod nodes;

use std::sync::mpsc;
use std::time::Duration;

use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart};
use ringpost::test_kit::{Cluster, LinkModel};
use tokio::time::{sleep, timeout};

use crate::actors::{Note, node};
use crate::behaviour::world::World;
use crate::log::Log;
use crate::registered::{AskSilent, Clerk, Do, Fail, MS, Meet, Silent, within};
use crate::remote::{end, pair};

/// Links one clerk to another actor, from within the first.
async fn link(clerk: &ActorRef<Clerk>, to: &ActorRef<Clerk>) {
    let to = to.clone();
    within(clerk, move |_, cx| cx.link(&to)).await;
}

fn failed(reason: &str) -> ActorExit {
    ActorExit::Failed(reason.into())
}

async fn three(node: &Node) -> [ActorRef<Clerk>; 3] {
    let mut clerks = Vec::new();
    for name in ["a", "b", "c"] {
        clerks.push(node.spawn(name, Clerk::default()).await.unwrap());
    }
    clerks.try_into().unwrap()
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn linked_actors_fail_with_each_other_whichever_of_them_made_the_link() {
    let node = node().await;
    for first in [0, 1] {
        let [a, b, c] = three(&node).await;
        link(&a, &b).await;
        link(&a, &b).await;
        link(&b, &c).await;
        let (fails, other) = if first == 0 { (&a, &b) } else { (&b, &a) };
        fails.fail().await.unwrap_err();
        let name = ["a", "b"][first];
        let why = format!("linked to alpha/{name}, which panicked: as it was told");
        assert_eq!(other.wait_stopped().await, failed(&why));
        let why = match first {
            0 => format!("linked to alpha/b, which failed: {why}"),
            _ => why,
        };
        assert_eq!(c.wait_stopped().await, failed(&why));
    }
}

/// The other one has failed before the handler that panics ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_that_panics_while_a_link_fails_says_how_it_panicked() {
    let node = node().await;
    let [a, b, _] = three(&node).await;
    link(&a, &b).await;
    let (begun, begins) = tokio::sync::oneshot::channel();
    let (released, blocked) = mpsc::channel::<()>();
    let deed = move |_: &mut Clerk, _: &mut Context<Clerk>| {
        begun.send(()).unwrap();
        blocked.recv().unwrap();
        panic!("for its own reason");
    };
    a.tell(Do(Box::new(deed))).await.unwrap();
    begins.await.unwrap();
    b.kill().await.unwrap();
    b.wait_stopped().await;
    released.send(()).unwrap();
    assert_eq!(a.wait_stopped().await, ActorExit::Panicked("for its own reason".into()));
}

/// A reference by name unlinks the actor that it linked.
#[tokio::test]
async fn a_link_by_name_is_undone_by_name() {
    let node = node().await;
    let [a, b, _] = three(&node).await;
    let named = node.named::<Clerk>("b").unwrap();
    within(&a, move |_, cx| {
        cx.link(&named);
        assert!(cx.unlink(&named) && !cx.unlink(&named));
    })
    .await;
    b.fail().await.unwrap_err();
    b.wait_stopped().await;
    assert!(a.notes().await.is_ok());
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_that_is_stopped_or_unlinked_ends_no_other_and_one_that_has_ended_ends_who_links()
{
    let node = node().await;
    let [a, b, c] = three(&node).await;
    link(&a, &b).await;
    link(&a, &a).await;
    link(&a, &c).await;
    let to = c.clone();
    within(&a, move |_, cx| assert!(cx.unlink(&to) && !cx.unlink(&to))).await;
    b.stop().await.unwrap();
    c.kill().await.unwrap();
    assert_eq!(b.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(c.wait_stopped().await, ActorExit::Killed);
    assert_eq!(a.notes().await, Ok(vec![]));
    // From within a handler that goes on to wait: it ends there.
    let to = b.clone();
    a.tell(Do(Box::new(move |_, cx| cx.link(&to)))).await.unwrap();
    assert_eq!(a.wait_stopped().await, failed("linked to alpha/b, which had ended"));
}

/// A handler that waits is dropped where it waits.
#[tokio::test(start_paused = true)]
async fn a_linked_actor_fails_in_the_midst_of_a_handler() {
    let node = node().await;
    let [a, b, _] = three(&node).await;
    let silent = node.spawn_anonymous(Silent).await.unwrap();
    link(&a, &b).await;
    let to = silent.clone();
    let waits = {
        let b = b.clone();
        tokio::spawn(async move { b.ask(AskSilent(to)).await })
    };
    // When this is over, all others wait.
    tokio::time::sleep(MS).await;
    a.kill().await.unwrap();
    assert_eq!(b.wait_stopped().await, failed("linked to alpha/a, which was killed"));
    assert!(waits.await.unwrap().is_err());
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_link_ends_with_the_incarnation_of_either_actor() {
    let node = node().await;
    let child = || Child::new(Clerk::default).restart(Restart::on_failure().backoff(MS, MS));
    let a = node.supervise(child().named("a")).await.unwrap();
    let b = node.supervise(child().named("b")).await.unwrap();
    link(&a, &b).await;
    for clerk in [&a, &b] {
        within(clerk, |clerk, _| clerk.notes.push(1)).await;
    }
    // Both are restarted, and have no links.
    a.fail().await.unwrap_err();
    assert_eq!((a.notes().await, b.notes().await), (Ok(vec![]), Ok(vec![])));
    within(&b, |clerk, _| clerk.notes.push(2)).await;
    a.fail().await.unwrap_err();
    assert_eq!((a.notes().await, b.notes().await), (Ok(vec![]), Ok(vec![2])));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_that_traps_is_told_by_its_watch_and_goes_on() {
    let node = node().await;
    let [a, b, c] = three(&node).await;
    let (first, second) = (b.clone(), c.clone());
    within(&a, move |_, cx| {
        cx.trap_exits(true);
        cx.link(&first);
        cx.watch(&first);
        cx.link(&second);
    })
    .await;
    b.fail().await.unwrap_err();
    let mut downs = Vec::new();
    while downs.is_empty() {
        downs = a.downs().await.unwrap();
    }
    assert_eq!(downs, [("alpha/b".to_owned(), "it panicked: as it was told".to_owned())]);
    a.fail().await.unwrap_err();
    let why = "linked to alpha/a, which panicked: as it was told";
    assert_eq!(c.wait_stopped().await, failed(why));
}

/// Waits until no ties are left: as long as there are some, there are more actors than clerks.
async fn alone(node: &Node, clerks: usize) {
    while node.snapshot().actors.len() != clerks {
        tokio::time::sleep(MS).await;
    }
}

/// Links to another clerk and has it fail, in one handler.
#[actor]
struct Reckless;

#[handlers]
impl Reckless {
    #[handler]
    async fn link_and_fail(&mut self, msg: Meet, cx: &mut Context<Self>) {
        cx.link(&msg.0);
        msg.0.tell(Fail).await.unwrap();
    }
}

/// The link is there before what the actor that made it tells the other one next.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_an_actor_tells_after_it_linked_comes_after_the_link() {
    let (alpha, beta) = pair().await;
    let child = Child::new(Clerk::default).named("there");
    let child = child.restart(Restart::on_failure().at_most(1000, 1000 * MS).backoff(MS, MS));
    beta.supervise(child).await.unwrap();
    let found = alpha.actor::<Clerk>("beta/there").await.unwrap();
    for round in 0..200 {
        let here = alpha.spawn("here", Reckless).await.unwrap();
        let far = match round % 2 {
            0 => found.clone(),
            _ => alpha.actor::<Clerk>("beta/there").await.unwrap(),
        };
        here.tell(Meet(far)).await.unwrap();
        let why = failed("linked to beta/there, which panicked: as it was told");
        let exit = timeout(Duration::from_secs(2), here.wait_stopped()).await;
        assert_eq!(exit, Ok(why), "round {round}");
    }
    end([alpha, beta]).await;
}

/// Also where both wait: for the other one to be found, and for room in its mailbox.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_waits_behind_a_link_comes_after_it() {
    let (alpha, beta) = pair().await;
    let restart = Restart::on_failure().at_most(1000, 1000 * MS).backoff(MS, MS);
    for round in 0..100 {
        let name = format!("there{round}");
        let child = Child::new(Clerk::default).named(name.clone()).restart(restart);
        let there = beta.supervise(child).await.unwrap();
        let far = alpha.named::<Clerk>(&format!("beta/{name}")).unwrap();
        let here = alpha.spawn("here", Reckless).await.unwrap();
        let (opens, open) = mpsc::channel::<()>();
        if round % 4 == 3 {
            let waits = move |_: &mut Clerk, _: &mut Context<Clerk>| {
                // Tasks that the thread has at hand go on elsewhere.
                tokio::task::block_in_place(|| open.recv().unwrap_err());
            };
            there.tell(Do(Box::new(waits))).await.unwrap();
            far.tell(Note { number: 0 }).await.unwrap();
            while far.try_tell(Note { number: 0 }).is_ok() {}
        }
        here.tell(Meet(far)).await.unwrap();
        if round % 4 == 3 {
            sleep(MS).await;
        }
        drop(opens);
        let why = failed(&format!("linked to beta/{name}, which panicked: as it was told"));
        let exit = timeout(Duration::from_secs(2), here.wait_stopped()).await;
        assert_eq!(exit, Ok(why), "round {round}");
    }
    end([alpha, beta]).await;
}

/// The log names the actors that a user knows, and not the stand-ins for actors of other nodes.
#[tokio::test]
async fn a_link_that_cannot_be_made_is_in_the_log_as_what_it_is() {
    let log = Log::default();
    let _here = log.listen();
    let (alpha, beta) = pair().await;
    let here = alpha.spawn("here", Clerk::default()).await.unwrap();
    let late = beta.spawn("late", Clerk::default()).await.unwrap();
    let far = alpha.actor::<Clerk>("beta/late").await.unwrap();
    late.stop().await.unwrap();
    late.wait_stopped().await;
    link(&here, &far).await;
    assert_eq!(here.wait_stopped().await, failed("linked to beta/late, which had ended"));
    alone(&alpha, 0).await;
    let there = beta.spawn("there", Clerk::default()).await.unwrap();
    let here = alpha.spawn("here", Clerk::default()).await.unwrap();
    let far = alpha.actor::<Clerk>("beta/there").await.unwrap();
    link(&here, &far).await;
    here.fail().await.unwrap_err();
    there.wait_stopped().await;
    alone(&alpha, 0).await;
    alone(&beta, 0).await;
    assert_eq!(log.count("whose node is down"), 0);
    assert_eq!(log.count("an actor failed"), 2, "the two that are linked");
    assert_eq!(log.count("an actor panicked"), 1);
    end([alpha, beta]).await;
}

/// Connections are lost meanwhile: the other actor is still told who ended, and how.
#[test]
fn an_end_of_a_link_is_told_although_the_connection_is_lost_meanwhile() {
    let mut reached = [[0; 2]; 6];
    for seed in 0..400 {
        // Over links that are so fast that a connection is lost in the midst of it.
        let seeded = Cluster::seeded(seed).links(LinkModel::default());
        let (deed, is_cut) = seeded.run(|cluster| async move {
            let cuts = cluster.world().clone();
            let [alpha, beta] = World::Sim(cluster).pair().await;
            let mut events = alpha.events();
            let near = alpha.spawn("near", Clerk::default()).await.unwrap();
            let there = beta.spawn("there", Clerk::default()).await.unwrap();
            let far = alpha.actor::<Clerk>("beta/there").await.unwrap();
            link(&near, &far).await;
            let pause = || sleep(Duration::from_micros(cuts.random() % 400));
            let cut = || match cuts.random() % 4 {
                0 => cuts.sever_streams("alpha", "beta"),
                1 | 2 => cuts.sever_data("alpha", "beta"),
                _ => {}
            };
            // The link is made.
            sleep(100 * MS).await;
            cut();
            pause().await;
            let deed = cuts.random() as usize % 6;
            let unlink = |of: ActorRef<Clerk>, from: ActorRef<Clerk>| async move {
                within(&of, move |_, cx| {
                    cx.unlink(&from);
                })
                .await;
            };
            match deed {
                0 => drop(near.fail().await),
                1 => drop(there.fail().await),
                2 => near.stop().await.unwrap(),
                3 => there.stop().await.unwrap(),
                4 => unlink(near.clone(), far.clone()).await,
                _ => near.kill().await.unwrap(),
            }
            if cuts.random() % 2 == 0 {
                pause().await;
                cut();
            }
            let (fails, other) = match deed {
                0 | 5 => (true, &there),
                1 => (true, &near),
                3 => (false, &near),
                _ => (false, &there),
            };
            if fails {
                let exit = timeout(Duration::from_secs(60), other.wait_stopped()).await;
                let Ok(ActorExit::Failed(why)) = exit else { panic!("seed {seed}: {exit:?}") };
                let how = if deed == 5 { "which was killed" } else { "which panicked: as it was" };
                assert!(why.contains(how), "seed {seed}, deed {deed}: {why}");
            } else {
                sleep(Duration::from_secs(10)).await;
                assert!(other.notes().await.is_ok(), "seed {seed}, deed {deed}");
                alone(&alpha, usize::from(deed != 2)).await;
            }
            let mut is_lost = false;
            while let Ok(event) = events.try_recv() {
                is_lost |= matches!(event, NodeEvent::LinkDown { .. });
            }
            (deed, is_lost)
        });
        reached[deed][usize::from(is_cut)] += 1;
    }
    println!("ends of links, the connection kept or lost: {reached:?}");
    assert!(reached.iter().flatten().all(|count| *count > 5), "{reached:?}");
}
