//! Actors that watch actors of another node, and actors that are restarted there.

use std::time::Duration;

use ringpost::Local;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart};

use super::world::{World, end, until};
use crate::actors::{Fail, Note, Notebook};
use crate::cause;
use crate::remote::PATIENCE;

/// Watches actors on request, and notes their ends.
#[actor]
#[derive(Default)]
struct Watcher {
    ends: Vec<(String, ActorExit)>,
    words: Vec<u64>,
}

#[message]
struct Watch {
    actor: ActorRef<Notebook>,
}

#[message]
struct Unwatch {
    actor: ActorRef<Notebook>,
}

#[handlers]
impl Watcher {
    #[handler]
    fn watch(&mut self, msg: Watch, cx: &mut Context<Self>) {
        cx.watch(&msg.actor);
    }

    #[handler]
    fn listen(&mut self, msg: Listen, cx: &mut Context<Self>) {
        cx.watch(&msg.to);
    }

    #[handler]
    fn unwatch(&mut self, msg: Unwatch, cx: &mut Context<Self>) -> bool {
        cx.unwatch(&msg.actor)
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        self.ends.push((msg.actor.to_string(), msg.exit));
    }

    #[handler]
    fn ends(&mut self) -> Local<Vec<(String, ActorExit)>> {
        Local(std::mem::take(&mut self.ends))
    }

    #[handler]
    fn word(&mut self, number: u64) {
        self.words.push(number);
    }

    #[handler]
    fn words(&mut self) -> Local<(Vec<u64>, usize)> {
        Local((std::mem::take(&mut self.words), self.ends.len()))
    }
}

/// Waits for the next ends that a watcher is told.
async fn next_ends(watcher: &ActorRef<Watcher>, count: usize) -> Vec<(String, ActorExit)> {
    let mut ends = Vec::new();
    while ends.len() < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
        ends.extend(watcher.ends().await.unwrap().0);
    }
    ends
}

const MINUTE: Duration = Duration::from_secs(60);

fn restarted(times: u32, pause: Duration) -> Child<Notebook> {
    let restart = Restart::on_failure().at_most(times, MINUTE).backoff(pause, pause);
    Child::new(Notebook::new).named("watched").restart(restart)
}

/// The watcher is told the end that the actor's own node knows.
// Promised in docs/SEMANTICS.md.
pub async fn a_watcher_of_another_node_is_told_each_kind_of_end(world: &World) {
    let [alpha, beta] = world.pair().await;
    let watcher = alpha.spawn("watcher", Watcher::default()).await.unwrap();
    for kind in ["stop", "drain", "kill", "panic", "fail"] {
        let there = match kind {
            "fail" => beta.supervise(restarted(0, Duration::ZERO)).await.unwrap(),
            _ => beta.spawn("watched", Notebook::new()).await.unwrap(),
        };
        let here = alpha.actor::<Notebook>("beta/watched").await.unwrap();
        watcher.watch(Watch { actor: here.clone() }).await.unwrap();
        // Behind the opening that the watch makes.
        here.notes().await.unwrap();
        match kind {
            "stop" => here.stop().await.unwrap(),
            "drain" => here.drain().await.unwrap(),
            "kill" => here.kill().await.unwrap(),
            _ => assert_eq!(cause(here.ask(Fail).await), Err(AskCause::Panicked)),
        }
        let exit = there.wait_stopped().await;
        let told = next_ends(&watcher, 1).await;
        assert_eq!(told, [("beta/watched".into(), exit.clone())], "{kind}");
        match (kind, exit) {
            ("stop" | "drain", ActorExit::Stopped) | ("kill", ActorExit::Killed) => {}
            ("panic", ActorExit::Panicked(text)) => assert_eq!(&*text, "as it was told"),
            ("fail", ActorExit::Failed(text)) => assert!(text.contains("as it was told"), "{text}"),
            (kind, exit) => panic!("{kind}: {exit}"),
        }
        // An actor that had ended.
        watcher.watch(Watch { actor: here }).await.unwrap();
        assert_eq!(next_ends(&watcher, 1).await, [("beta/watched".into(), ActorExit::NoActor)]);
    }
    beta.spawn("watched", Notebook::new()).await.unwrap();
    let here = alpha.actor::<Notebook>("beta/watched").await.unwrap();
    beta.shutdown(PATIENCE).await;
    until(|| alpha.linked().is_empty()).await;
    watcher.watch(Watch { actor: here }).await.unwrap();
    let told = next_ends(&watcher, 1).await;
    assert_eq!(told, [("beta/watched".into(), ActorExit::NodeDown)]);
    end([alpha, beta]).await;
}

/// The news of the end comes over the link just before its goodbye: the watcher is told of that
/// end, even if it looks only after the link has ended.
pub async fn a_watcher_is_told_how_an_actor_ended_whose_node_shuts_down(world: &World) {
    let [alpha, beta] = world.pair().await;
    let watcher = alpha.spawn("watcher", Watcher::default()).await.unwrap();
    beta.spawn("watched", Notebook::new()).await.unwrap();
    let here = alpha.actor::<Notebook>("beta/watched").await.unwrap();
    watcher.watch(Watch { actor: here.clone() }).await.unwrap();
    here.notes().await.unwrap();
    beta.shutdown(PATIENCE).await;
    let told = next_ends(&watcher, 1).await;
    assert_eq!(told, [("beta/watched".into(), ActorExit::Stopped)]);
    end([alpha, beta]).await;
}

pub async fn watchers_of_two_nodes_are_told_once_and_one_that_watches_no_longer_is_not(
    world: &World,
) {
    let [alpha, beta] = world.pair().await;
    let there = beta.spawn("watched", Notebook::new()).await.unwrap();
    let here = alpha.actor::<Notebook>("beta/watched").await.unwrap();
    let far = alpha.spawn("watcher", Watcher::default()).await.unwrap();
    let other = alpha.spawn("other", Watcher::default()).await.unwrap();
    let near = beta.spawn("watcher", Watcher::default()).await.unwrap();
    for _ in 0..2 {
        far.watch(Watch { actor: here.clone() }).await.unwrap();
        other.watch(Watch { actor: here.clone() }).await.unwrap();
        near.watch(Watch { actor: there.clone() }).await.unwrap();
    }
    assert_eq!(other.unwatch(Unwatch { actor: here.clone() }).await, Ok(true));
    assert_eq!(other.unwatch(Unwatch { actor: here.clone() }).await, Ok(false));
    here.notes().await.unwrap();
    there.kill().await.unwrap();
    for watcher in [&far, &near] {
        assert_eq!(next_ends(watcher, 1).await, [("beta/watched".into(), ActorExit::Killed)]);
    }
    // Whatever was told is there when an answer of the other node is.
    beta.spawn("last", Notebook::new()).await.unwrap();
    alpha.actor::<Notebook>("beta/last").await.unwrap().notes().await.unwrap();
    for watcher in [&far, &other, &near] {
        assert_eq!(watcher.ends().await.unwrap().0, []);
    }
    end([alpha, beta]).await;
}

/// Tells a watcher of another node numbers, and fails.
#[actor]
struct Speaker;

#[message]
struct Speak {
    to: ActorRef<Watcher>,
    words: u64,
}

#[handlers]
impl Speaker {
    #[handler]
    async fn speak(&mut self, msg: Speak) {
        for number in 0..msg.words {
            msg.to.tell(Word { number }).await.unwrap();
        }
        panic!("as it was told")
    }
}

#[message]
struct Listen {
    to: ActorRef<Speaker>,
}

// Promised in docs/SEMANTICS.md.
pub async fn an_end_is_told_on_another_node_after_the_last_words(world: &World) {
    let [alpha, beta] = world.pair().await;
    let watcher = alpha.spawn("watcher", Watcher::default()).await.unwrap();
    beta.spawn("speaker", Speaker).await.unwrap();
    let speaker = alpha.actor::<Speaker>("beta/speaker").await.unwrap();
    watcher.listen(Listen { to: speaker.clone() }).await.unwrap();
    speaker.tell(Speak { to: watcher.clone(), words: 2_000 }).await.unwrap();
    let (mut words, mut ends) = (Vec::new(), 0);
    while ends == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let (more, told) = watcher.words().await.unwrap().0;
        words.extend(more);
        ends = told;
    }
    assert_eq!(words, (0..2_000).collect::<Vec<_>>());
    let panicked = ActorExit::Panicked("as it was told".into());
    assert_eq!(watcher.ends().await.unwrap().0, [("beta/speaker".into(), panicked)]);
    end([alpha, beta]).await;
}

/// Its reference and waiting messages last; nobody is told of an end.
// Promised in docs/SEMANTICS.md.
pub async fn an_actor_that_is_restarted_is_the_same_for_another_node(world: &World) {
    let [alpha, beta] = world.pair().await;
    let watcher = alpha.spawn("watcher", Watcher::default()).await.unwrap();
    let there = beta.supervise(restarted(2, Duration::from_millis(50))).await.unwrap();
    let here = alpha.actor::<Notebook>("beta/watched").await.unwrap();
    watcher.watch(Watch { actor: here.clone() }).await.unwrap();
    here.tell(Note { number: 1 }).await.unwrap();
    assert_eq!(cause(here.ask(Fail).await), Err(AskCause::Panicked));
    // It rests, or has been restarted.
    here.tell(Note { number: 2 }).await.unwrap();
    assert_eq!(here.notes().await, Ok(vec![2]));
    here.kill().await.unwrap();
    while here.notes().await != Ok(vec![]) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(alpha.actor::<Notebook>("beta/watched").await.as_ref(), Ok(&here));
    assert_eq!(watcher.ends().await.unwrap().0, []);
    assert_eq!(cause(here.ask(Fail).await), Err(AskCause::Panicked));
    let told = next_ends(&watcher, 1).await;
    assert_eq!(told, [("beta/watched".into(), there.wait_stopped().await)]);
    assert!(matches!(&told[0].1, ActorExit::Failed(_)), "{told:?}");
    end([alpha, beta]).await;
}

/// Its node and others are told of the stop, and not of the failure before its rest.
pub async fn an_actor_that_is_stopped_while_it_rests_has_stopped_for_another_node(world: &World) {
    let [alpha, beta] = world.pair().await;
    let watcher = alpha.spawn("watcher", Watcher::default()).await.unwrap();
    let there = beta.supervise(restarted(2, 10 * MINUTE)).await.unwrap();
    let here = alpha.actor::<Notebook>("beta/watched").await.unwrap();
    watcher.watch(Watch { actor: here.clone() }).await.unwrap();
    assert_eq!(cause(here.ask(Fail).await), Err(AskCause::Panicked));
    here.stop().await.unwrap();
    let told = next_ends(&watcher, 1).await;
    assert_eq!(told, [("beta/watched".into(), ActorExit::Stopped)]);
    assert_eq!(there.wait_stopped().await, ActorExit::Stopped);
    end([alpha, beta]).await;
}
