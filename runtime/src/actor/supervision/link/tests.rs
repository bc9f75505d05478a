//! Tests of links, as other nodes ask for them.

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::*;
use crate::BoxError;
use crate::actor::Recipient;
use crate::actor::send::destination::DestinationView;
use crate::dead_letter::DeadLetterCause;
use crate::remote::SendKind;
use crate::shared::MemoryOffer;

#[actor]
#[derive(Default)]
struct LinkTarget;

#[handlers]
impl LinkTarget {}

/// An actor that links to another one when it starts.
struct Linker(ActorRef<LinkTarget>);

#[actor]
impl Actor for Linker {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        cx.link(&self.0);
        Ok(())
    }
}

#[handlers]
impl Linker {}

/// Returns two nodes with a link between them; the second offers memory.
async fn pair() -> (Node, Node) {
    let start = |name: &str, seeds| Node::builder(name).listen("127.0.0.1:0").seeds(seeds);
    let alpha = start("alpha", vec![]).start().await.unwrap();
    let beta = start("beta", alpha.addresses()).start().await.unwrap();
    beta.offer_memory(MemoryOffer { bytes_per_node: 1 << 20, bytes: 1 << 20 }).unwrap();
    alpha.ready(1).await.unwrap();
    (alpha, beta)
}

/// Returns the sender with which `node` sends to an actor of node `beta`.
fn way_to(node: &Node, name: &str) -> RemoteSender {
    let address = Address::by_name("beta".into(), name.into());
    let there = Recipient::<Untied, ()>::bind(node, address);
    let destination = there.destination().now();
    let DestinationView::Remote(sender, _) = destination.view() else { panic!("it is far") };
    sender.clone()
}

fn tether(node: &Node) -> Tether {
    let actor = Address::by_name(node.shared_name().clone(), "nobody".into());
    Tether { tie: actor.clone(), actor }
}

#[tokio::test]
async fn no_node_links_to_an_actor_of_the_runtime_of_another_one() {
    let (alpha, beta) = pair().await;
    let peer = alpha.peer("beta");
    let region = peer.region::<u64>(8).await.unwrap();
    let made = make(way_to(&alpha, "#memory"), alpha.clone(), tether(&alpha)).await;
    assert!(matches!(made, Err(LinkError::Refused(_))), "it takes no link");
    assert_eq!(region.remote().read(..).await.unwrap(), [0; 8], "it lives on");
    peer.region::<u64>(8).await.unwrap();
    beta.shutdown(limits::STOP_WITHIN).await;
}

#[tokio::test]
async fn a_request_for_a_link_that_was_told_is_a_dead_letter() {
    let (alpha, beta) = pair().await;
    let there = beta.spawn("there", LinkTarget).await.unwrap();
    let mut dead = beta.dead_letters().subscribe();
    let sender = way_to(&alpha, "there");
    for _ in 0..2 {
        let (mut message, mut waiter) = (Some(tether(&alpha)), Waiter::default());
        let to = (&sender, &TETHER, SendKind::Tell);
        let told =
            poll_fn(|cx| remote_send::poll_send(to, (&alpha, None), &mut message, &mut waiter, cx));
        told.await.map(drop).unwrap();
        let letter = dead.recv().await.unwrap();
        assert_eq!(
            (letter.name, letter.cause),
            (Some(Tether::NAME), DeadLetterCause::InvalidArchive)
        );
    }
    there.stop().await.unwrap();
    assert_eq!(there.wait_stopped().await, ActorExit::Stopped);
}

#[tokio::test]
async fn a_text_of_another_node_is_one_line_in_the_failure_that_it_causes() {
    let node = Node::builder("alpha").start().await.unwrap();
    let failing = node.spawn("failing", LinkTarget).await.unwrap();
    let DestinationView::Local(near) = failing.destination().view() else { panic!("it is near") };
    let me: Arc<dyn LocalActor> = near.shared();
    let to = Address::by_name("beta".into(), "there".into());
    let (cell, _) = node.begin(Tie::options(), Tie::new(&me, &to), None, None).unwrap();
    let tie = ActorRef::local(cell.clone());
    assert!(me.ends().link(cell.resident().token(), link_by(&tie, to)));
    tie.tell(Untied { why: Some("full\r\n\x1b[2J\u{202e}disk".into()) }).await.unwrap();
    let exit = failing.wait_stopped().await;
    assert_eq!(exit, ActorExit::Failed("full   [2J disk".into()));
}

/// The limit holds for links that are asked for at the same time, too.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn no_more_links_are_made_for_other_nodes_than_an_actor_may_have() {
    let start = |name: &str, seeds| Node::builder(name).listen("127.0.0.1:0").seeds(seeds);
    let alpha = start("alpha", vec![]).start().await.unwrap();
    let beta = start("beta", alpha.addresses()).start().await.unwrap();
    alpha.ready(1).await.unwrap();
    let there = beta.spawn("there", LinkTarget).await.unwrap();
    let DestinationView::Local(near) = there.destination().view() else { panic!("it is near") };
    for number in 2..limits::LINKS_MAX {
        let link = LinkEnd { to: there.address().clone(), tell: Box::new(|_| {}) };
        assert!(near.cell().ends().link(number, link));
    }
    let far = alpha.actor::<LinkTarget>("beta/there").await.unwrap();
    let ends = FuturesUnordered::new();
    for _ in 0..4 {
        let linker = alpha.spawn_anonymous(Linker(far.clone())).await.unwrap();
        ends.push(async move { linker.wait_stopped().await });
    }
    let why = "not linked to beta/there: it has 65536 links already";
    let refused: Vec<_> = ends.take(2).collect().await;
    assert_eq!(refused, [ActorExit::Failed(why.into()), ActorExit::Failed(why.into())]);
}
