//! Asks that would wait for their own askers, near and far.

mod graphs;

use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use ringpost::observe::Awaits;
use ringpost::prelude::*;
use ringpost::{AskCause, AskError, test_kit};

use crate::actors::node;

/// Makes the calls that a script says.
#[actor]
#[derive(Default)]
struct Caller {
    peers: Vec<ActorRef<Caller>>,
    /// The way back to an asker that waits.
    kept: Option<ReplyTo<u64>>,
    goes_on: bool,
}

#[message]
struct Meet {
    peers: Vec<ActorRef<Caller>>,
}

/// A call of a script: which it is.
#[message]
struct Call {
    calls: Vec<Step>,
    at: u16,
}

#[message]
#[derive(Debug, Clone)]
struct Step {
    to: u8,
    /// Hands on to the first of `then`, and waits for nothing.
    forwards: bool,
    /// Makes all calls of `then` at once.
    joined: bool,
    then: Vec<u16>,
}

/// The outcome of a call: `told` is empty if it was answered.
#[message]
#[derive(Debug, Clone, PartialEq)]
struct Heard {
    at: u16,
    told: String,
}

impl Heard {
    fn answer(at: u16) -> Self {
        Heard { at, told: String::new() }
    }
}

#[handlers]
impl Caller {
    #[handler]
    fn meet(&mut self, msg: Meet) {
        self.peers = msg.peers;
    }

    #[handler]
    async fn call(&mut self, msg: Call, reply: ReplyTo<Vec<Heard>>) {
        let Call { calls, at } = msg;
        let Step { forwards, joined, then, .. } = calls[usize::from(at)].clone();
        if forwards {
            let to = &self.peers[usize::from(calls[usize::from(then[0])].to)];
            return reply.forward(to, Call { calls, at: then[0] });
        }
        let mut all = Vec::new();
        if joined {
            let asks = then.iter().map(|next| self.ask(&calls, *next));
            all.extend(join_all(asks).await.into_iter().flatten());
        } else {
            for next in then {
                all.extend(self.ask(&calls, next).await);
            }
        }
        reply.send(all);
    }

    /// Asks the next one on the way to ask on; the last one says its place.
    #[handler]
    async fn around(&mut self, way: Vec<u8>) -> Result<u64, String> {
        let Some((first, rest)) = way.split_first() else { return Ok(way.len() as u64) };
        let asked = self.peers[usize::from(*first)].around(rest.to_vec()).await;
        asked.map_err(|error| error.cause.to_string())?
    }

    /// Asks another one for so long, and goes on.
    #[handler]
    async fn give_up(&mut self, whom: u8, ms: u64) -> bool {
        let asked = self.peers[usize::from(whom)].ask_later(10 * ms);
        let is_late = asked.timeout(Duration::from_millis(ms)).await.is_err();
        tokio::time::sleep(Duration::from_millis(100 * ms)).await;
        is_late
    }

    /// Asks the first peer after `ms` milliseconds.
    #[handler]
    async fn ask_later(&mut self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        let asked = self.peers[0].ping().timeout(Duration::from_secs(60)).await;
        let note = self.peers[2].note(format!("{asked:?}"));
        note.timeout(Duration::from_secs(60)).await.unwrap();
    }

    #[handler]
    fn note(&mut self, text: String) {
        assert_eq!(text, "Ok(7)");
        self.kept.take().unwrap().send(1);
    }

    #[handler]
    fn ping(&self) -> u64 {
        7
    }

    /// Asks the second one, which answers and then asks back.
    #[handler]
    async fn ask_it(&mut self) {
        assert_eq!(self.peers[1].ask_back().await, Ok(1));
    }

    #[handler]
    async fn ask_back(&mut self, reply: ReplyTo<u64>) {
        reply.send(1);
        self.ask_later(0).await;
    }

    /// Puts an ask aside until it is told to go on, and then asks back.
    #[handler]
    async fn put_aside(&mut self, reply: ReplyTo<String>, cx: &mut Context<Self>) {
        if !self.goes_on {
            return cx.stash_ask(PutAside, reply).unwrap();
        }
        reply.send(format!("{:?}", self.peers[0].ping().await.map_err(|error| error.cause)));
    }

    #[handler]
    async fn ask_what_is_put_aside(&mut self) -> String {
        self.peers[1].put_aside().await.unwrap()
    }

    #[handler]
    fn go_on(&mut self, cx: &mut Context<Self>) {
        self.goes_on = true;
        cx.unstash();
    }

    /// Makes the second peer ask back, and does not wait for it.
    #[handler]
    async fn leave(&mut self, way: String, cx: &mut Context<Self>) {
        let mut ask = Box::pin(self.peers[1].ask_later(1).into_ask());
        match &*way {
            "told" => return self.peers[1].tell(AskLater { ms: 1 }).await.unwrap(),
            "begun" => assert!(futures::poll!(&mut ask).is_pending()),
            _ => assert_eq!(way, "spawned"),
        }
        cx.spawn_task(async move { ask.await.unwrap() });
    }

    /// Asks another one, which keeps the way back.
    #[handler]
    async fn hold(&mut self, whom: u8) {
        self.peers[usize::from(whom)].wait_for_note().await.ok();
    }

    #[handler]
    fn wait_for_note(&mut self, reply: ReplyTo<u64>) {
        self.kept = Some(reply);
    }
}

impl Caller {
    async fn ask(&self, calls: &[Step], at: u16) -> Vec<Heard> {
        let to = &self.peers[usize::from(calls[usize::from(at)].to)];
        heard(at, to.ask(Call { calls: calls.to_vec(), at }).await)
    }
}

fn heard(at: u16, asked: Result<Vec<Heard>, AskError>) -> Vec<Heard> {
    let told = match asked.map_err(|error| error.cause) {
        Ok(below) => return below.into_iter().chain([Heard::answer(at)]).collect(),
        Err(AskCause::NotSent(Cause::Cycle(names))) => format!("cycle: {names}"),
        Err(AskCause::NotSent(Cause::SelfAsk)) => "an ask of itself".into(),
        Err(other) => format!("another error: {other}"),
    };
    vec![Heard { at, told }]
}

fn name_of(node: usize, actor: usize) -> String {
    format!("n{}/a{actor}", node + 1)
}

/// Spawns an actor on each of these nodes; all know all.
async fn meet(nodes: &[Node], node_of: &[usize]) -> Vec<ActorRef<Caller>> {
    let mut peers = Vec::new();
    for (actor, node) in node_of.iter().enumerate() {
        peers.push(nodes[*node].spawn(format!("a{actor}"), Caller::default()).await.unwrap());
    }
    for (actor, peer) in peers.iter().enumerate() {
        let mut known = Vec::new();
        for (other, node) in node_of.iter().enumerate() {
            let here = &nodes[node_of[actor]];
            known.push(here.actor::<Caller>(&name_of(*node, other)).await.unwrap());
        }
        peer.ask(Meet { peers: known }).await.unwrap();
    }
    peers
}

// Promised in docs/SEMANTICS.md.
#[test]
fn actors_that_ask_each_other_in_a_cycle_are_told_at_once() {
    for count in 2..=5 {
        for nodes in 1..=3 {
            test_kit::run(nodes, async |cluster| {
                let nodes = cluster.nodes(nodes as usize).await;
                let node_of: Vec<usize> = (0..count).map(|actor| actor % nodes.len()).collect();
                let actors = meet(&nodes, &node_of).await;
                let start = cluster.now();
                let way = (1..count as u8).chain([0]).collect();
                let text = actors[0].around(way).await.unwrap().unwrap_err();
                let names: Vec<_> = (0..count).map(|at| name_of(node_of[at], at)).collect();
                let cycle = names.join(", which waits for ");
                let cycle = format!("{} waits for {cycle}", names[count - 1]);
                assert!(text.contains(&format!("wait for each other ({cycle}):")), "{text}");
                let no_cycle = (1..count as u8).collect();
                assert_eq!(actors[0].around(no_cycle).await, Ok(Ok(0)));
                assert!(cluster.now() - start < Duration::from_millis(100));
            });
        }
    }
}

#[tokio::test]
async fn the_error_of_a_cycle_says_what_to_do() {
    let node = node().await;
    let [a, b] = ["a", "b"].map(|name| node.spawn(name, Caller::default()));
    let (a, b) = (a.await.unwrap(), b.await.unwrap());
    for actor in [&a, &b] {
        actor.ask(Meet { peers: vec![a.clone(), b.clone()] }).await.unwrap();
    }
    let text = "not sent: actors would wait for each other (alpha/b waits for alpha/a, which waits \
                for alpha/b): have one of them answer later (`ReplyTo`), or send from a task of \
                its own (`Context::spawn_task`)";
    assert_eq!(a.around(vec![1, 0]).await, Ok(Err(text.to_owned())));
}

/// Returns three actors, the first two on these nodes: has the third one wait for a note while the
/// first one does something.
async fn noted<F: Future>(
    nodes: &[Node],
    node_of: [usize; 2],
    act: impl FnOnce(ActorRef<Caller>) -> F,
) -> F::Output {
    let actors = meet(nodes, &[&node_of[..], &[0]].concat()).await;
    let (outcome, noted) = tokio::join!(act(actors[0].clone()), actors[2].wait_for_note());
    assert_eq!(noted, Ok(1));
    outcome
}

/// No false cycle is found, over one node and over two.
fn near_and_far<F: Future<Output = ()>>(check: impl Fn(Vec<Node>, [usize; 2]) -> F) {
    for node_of in [[0, 0], [0, 1], [1, 0]] {
        test_kit::run(7, async |cluster| check(cluster.nodes(2).await, node_of).await);
    }
}

// Promised in docs/SEMANTICS.md.
#[test]
fn an_actor_that_has_given_up_its_ask_closes_no_cycle() {
    near_and_far(async |nodes, node_of| {
        let is_late = noted(&nodes, node_of, async |first| first.give_up(1, 20).await).await;
        assert_eq!(is_late, Ok(true));
    });
}

#[test]
fn an_ask_that_no_handler_awaits_has_no_chain() {
    for way in ["told", "begun", "spawned"] {
        near_and_far(async |nodes, node_of| {
            noted(&nodes, node_of, async |first| first.leave(way.into()).await).await.unwrap();
        });
    }
}

#[test]
fn an_actor_that_has_its_answer_closes_no_cycle() {
    near_and_far(async |nodes, node_of| {
        noted(&nodes, node_of, async |first| first.ask_it().await).await.unwrap();
    });
}

#[test]
fn an_ask_that_was_put_aside_keeps_its_chain() {
    near_and_far(async |nodes, node_of| {
        let actors = meet(&nodes, &node_of).await;
        let asked = actors[0].ask_what_is_put_aside();
        let (told, ()) = tokio::join!(asked, async {
            actors[1].ping().await.unwrap();
            actors[1].go_on().await.unwrap();
        });
        let told = told.unwrap();
        assert!(told.contains("would wait for each other"), "{told}");
    });
}

/// A runtime of several threads: asks there and back, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asks_there_and_back_one_after_the_other_are_no_cycle() {
    let node = node().await;
    let actors = [Caller::default(), Caller::default()];
    let [a, b] = actors.map(|actor| node.spawn_anonymous(actor));
    let (a, b) = (a.await.unwrap(), b.await.unwrap());
    for actor in [&a, &b] {
        actor.ask(Meet { peers: vec![a.clone(), b.clone()] }).await.unwrap();
    }
    for _ in 0..1000 {
        assert_eq!(a.around(vec![1]).await, Ok(Ok(0)));
        assert_eq!(b.around(vec![0]).await, Ok(Ok(0)));
    }
}

#[test]
fn a_snapshot_says_who_waits_for_whom() {
    test_kit::run(7, async |cluster| {
        let nodes = cluster.nodes(2).await;
        let actors = meet(&nodes, &[0, 0, 1]).await;
        let (a, b) = (actors[0].clone(), actors[1].clone());
        let work = async { tokio::join!(a.hold(1), b.hold(2)) };
        let mut work = Box::pin(work);
        assert!((&mut work).now_or_never().is_none());
        cluster.sleep(Duration::from_secs(1)).await;
        let waits = nodes[0].snapshot().waits;
        let texts: Vec<_> = waits
            .iter()
            .map(|wait| {
                (wait.actor.to_string(), wait.handler, wait.what, wait.whom.to_string(), wait.link)
            })
            .collect();
        let handler = "runtime::chains::Hold";
        let expected = [
            ("n1/a0".into(), handler, Awaits::Answer, "n1/a1".into(), None),
            ("n1/a1".into(), handler, Awaits::Answer, "n2/a2".into(), Some("sim")),
        ];
        assert_eq!(texts, expected);
        assert!(nodes[1].snapshot().waits.is_empty());
        drop(work);
    });
}
