//! Links between actors of two nodes.

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::test_kit;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use super::{alone, failed, link};
use crate::behaviour::world::World;
use crate::registered::{AskSilent, Clerk, Do, Fail, MS, Meet, Silent, within};
use crate::remote::{end, listening, pair};

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn actors_of_two_nodes_fail_with_each_other() {
    for case in ["near fails", "far fails", "stops", "far stops", "unlinks", "far unlinks"] {
        let (alpha, beta) = pair().await;
        let here = alpha.spawn("here", Clerk::default()).await.unwrap();
        let there = beta.spawn("there", Clerk::default()).await.unwrap();
        let far = alpha.actor::<Clerk>("beta/there").await.unwrap();
        // The far one knows this one, to unlink it.
        far.ask(Meet(here.clone())).await.unwrap();
        link(&here, &far).await;
        alone(&beta, 2).await;
        let panicked = "which panicked: as it was told";
        match case {
            "near fails" => {
                here.fail().await.unwrap_err();
                let why = failed(&format!("linked to alpha/here, {panicked}"));
                assert_eq!(there.wait_stopped().await, why);
            }
            "far fails" => {
                there.fail().await.unwrap_err();
                let why = failed(&format!("linked to beta/there, {panicked}"));
                assert_eq!(here.wait_stopped().await, why);
            }
            "stops" => {
                here.stop().await.unwrap();
                here.wait_stopped().await;
                alone(&beta, 1).await;
            }
            "far stops" => {
                there.stop().await.unwrap();
                there.wait_stopped().await;
                alone(&alpha, 1).await;
            }
            "unlinks" => {
                within(&here, move |_, cx| assert!(cx.unlink(&far) && !cx.unlink(&far))).await;
                alone(&beta, 1).await;
                here.fail().await.unwrap_err();
                assert_eq!(there.notes().await, Ok(vec![]));
            }
            _ => {
                let unlink = |there: &mut Clerk, cx: &mut Context<Clerk>| {
                    cx.unlink(there.met.as_ref().unwrap())
                };
                // Until the tie has the link, there is none here.
                while !within(&there, unlink).await {}
                alone(&alpha, 1).await;
                there.fail().await.unwrap_err();
                assert_eq!(here.notes().await, Ok(vec![4242]));
            }
        }
        end([alpha, beta]).await;
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_that_links_and_ends_at_once_tells_the_other_node_how() {
    let (alpha, beta) = pair().await;
    let there = beta.spawn("there", Clerk::default()).await.unwrap();
    for fails in [false, true] {
        let here = alpha.spawn("here", Clerk::default()).await.unwrap();
        let far = alpha.actor::<Clerk>("beta/there").await.unwrap();
        let act = move |_: &mut Clerk, cx: &mut Context<Clerk>| {
            cx.link(&far);
            if fails { panic!("at once") } else { cx.stop() }
        };
        here.tell(Do(Box::new(act))).await.unwrap();
        here.wait_stopped().await;
        if fails {
            let why = failed("linked to alpha/here, which panicked: at once");
            assert_eq!(there.wait_stopped().await, why);
        } else {
            alone(&alpha, 0).await;
            alone(&beta, 1).await;
        }
    }
    // No actor has the name any more.
    let here = alpha.spawn("here", Clerk::default()).await.unwrap();
    let far = alpha.actor::<Clerk>("beta/silent").await.err();
    assert!(far.is_some());
    let late = beta.spawn("late", Clerk::default()).await.unwrap();
    let far = alpha.actor::<Clerk>("beta/late").await.unwrap();
    late.stop().await.unwrap();
    late.wait_stopped().await;
    link(&here, &far).await;
    assert_eq!(here.wait_stopped().await, failed("linked to beta/late, which had ended"));
    end([alpha, beta]).await;
}

/// If a node goes without a goodbye, the actors that are linked to its actors end, too.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_node_that_is_down_ends_what_is_linked_to_its_actors() {
    let (first, second) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let alpha = first.block_on(listening("alpha", &[]));
    let beta = second.block_on(listening("beta", &[&alpha]));
    let (makes, is_linked_to) = first.block_on(async {
        alpha.ready(1).await.unwrap();
        let makes = alpha.spawn("makes", Clerk::default()).await.unwrap();
        let linked = alpha.spawn("linked", Clerk::default()).await.unwrap();
        (makes, linked)
    });
    let there = second.block_on(async {
        beta.ready(1).await.unwrap();
        beta.spawn("there", Clerk::default()).await.unwrap()
    });
    first.block_on(async {
        let far = alpha.actor::<Clerk>("beta/there").await.unwrap();
        link(&makes, &far).await;
        alone(&beta, 2).await;
        far.ask(Meet(is_linked_to.clone())).await.unwrap();
    });
    second.block_on(async {
        within(&there, |there, cx| cx.link(there.met.as_ref().unwrap())).await;
        alone(&alpha, 4).await;
        alone(&beta, 3).await;
        // The links are made when the ties have handled their messages.
        tokio::time::sleep(100 * MS).await;
    });
    second.shutdown_background();
    first.block_on(async {
        let why = failed("linked to beta/there, whose node is down");
        assert_eq!(makes.wait_stopped().await, why);
        assert_eq!(is_linked_to.wait_stopped().await, why);
        alpha.shutdown(Duration::from_secs(5)).await;
    });
}

/// An actor that fails while it drains, or that is killed since it does not end in time, has the
/// other one fail, whichever of the two nodes shuts down.
#[test]
fn a_failure_of_an_actor_whose_node_shuts_down_is_told_over_its_link() {
    for (seed, (links_here, is_late)) in
        (0..).zip([(true, false), (true, true), (false, false), (false, true)])
    {
        test_kit::run(seed, |cluster| async move {
            let [alpha, beta] = World::Sim(cluster).pair().await;
            let here = alpha.spawn("here", Clerk::default()).await.unwrap();
            let there = beta.spawn("there", Clerk::default()).await.unwrap();
            let silent = beta.spawn("silent", Silent).await.unwrap();
            let far = alpha.actor::<Clerk>("beta/there").await.unwrap();
            far.ask(Meet(here.clone())).await.unwrap();
            if links_here {
                link(&here, &far).await;
            } else {
                within(&there, |there, cx| cx.link(there.met.as_ref().unwrap())).await;
            }
            sleep(100 * MS).await;
            // For 5 s, and then it panics.
            let silent = alpha.actor::<Silent>(&silent.address().to_string()).await.unwrap();
            here.tell(AskSilent(silent)).await.unwrap();
            here.tell(Fail).await.unwrap();
            let deadline = Duration::from_secs(if is_late { 1 } else { 60 });
            let killed = alpha.shutdown(deadline).await;
            let how = if is_late { "was killed" } else { "panicked: as it was told" };
            assert_eq!(killed.len(), usize::from(is_late));
            let why = failed(&format!("linked to alpha/here, which {how}"));
            assert_eq!(there.wait_stopped().await, why);
            beta.shutdown(Duration::from_secs(1)).await;
        });
    }
}

/// The same for an actor that a kill does not end, also for its watchers.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_actor_that_never_waits_was_killed_where_its_node_shuts_down() {
    let (alpha, beta) = pair().await;
    let here = alpha.spawn("here", Clerk::default()).await.unwrap();
    let there = beta.spawn("there", Clerk::default()).await.unwrap();
    let watcher = beta.spawn("watcher", Clerk::default()).await.unwrap();
    let far = beta.actor::<Clerk>("alpha/here").await.unwrap();
    link(&there, &far).await;
    let watched = far.clone();
    within(&watcher, move |_, cx| cx.watch(&watched)).await;
    // The link is made before a later ask is handled.
    far.notes().await.unwrap();
    let (began, begins) = tokio::sync::oneshot::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let block = move |_: &mut Clerk, _: &mut Context<Clerk>| {
        began.send(()).unwrap();
        // Tasks that the thread has at hand go on elsewhere.
        tokio::task::block_in_place(|| released.recv().unwrap_err());
    };
    here.tell(Do(Box::new(block))).await.unwrap();
    begins.await.unwrap();
    let killed = alpha.shutdown(Duration::ZERO).await;
    assert_eq!(killed, [here.address().clone()]);
    let ended = timeout(Duration::from_secs(20), there.wait_stopped()).await;
    assert_eq!(ended.unwrap(), failed("linked to alpha/here, which was killed"));
    let mut downs = Vec::new();
    while downs.is_empty() {
        downs = watcher.downs().await.unwrap();
    }
    assert_eq!(downs[0].1, "it was killed");
    drop(release);
    assert_eq!(here.wait_stopped().await, ActorExit::Killed);
    beta.shutdown(Duration::from_secs(5)).await;
}
