//! Large messages, which stay with their sender until the receiver has read them from there.

use std::pin::pin;

use futures::future::{Either, join_all, select};
use ringpost::NodeBuilder;
use ringpost::net::{Lending, Profile};
use ringpost::observe::LoanStats;
use ringpost::prelude::*;
use ringpost::send::Fate;

use super::world::{World, end, until};
use crate::cause;

const LEND_FROM: usize = 64 << 10;
/// Small messages, lent messages, and messages that are just too small to be lent.
const SIZES: [usize; 9] =
    [LEND_FROM - 200, LEND_FROM, 9, 200_001, 1 << 20, 0, (5 << 20) + 3, 100, 3 * LEND_FROM];

#[message]
pub struct Blob {
    pub number: u64,
    pub bytes: Vec<u8>,
}

#[actor]
#[derive(Default)]
pub struct Keeper {
    seen: Vec<(u64, u64)>,
}

#[handlers]
impl Keeper {
    #[handler]
    pub fn keep(&mut self, msg: View<Blob>) {
        self.seen.push((msg.number.to_native(), digest(&msg.bytes)));
    }

    #[handler]
    pub fn echo(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    #[handler]
    pub fn seen(&self) -> Vec<(u64, u64)> {
        self.seen.clone()
    }
}

fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |sum, byte| {
        sum.rotate_left(5).wrapping_add(u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

fn bytes(number: u64, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u64).wrapping_mul(number + 7) as u8).collect()
}

fn builder(world: &World, name: &str, seeds: &[&Node], lending: Lending) -> NodeBuilder {
    let lending = Lending { from: Some(LEND_FROM as u32), ..lending };
    let profile = Profile { lending, mailbox_window_bytes: 4 << 20, ..Profile::default() };
    world.builder(name, seeds).profile(profile)
}

async fn pair(world: &World) -> [Node; 2] {
    pair_of(world, [Lending::default(), Lending::default()]).await
}

/// A pair whose nodes lend, and land, as much as these say.
async fn pair_of(world: &World, [first, second]: [Lending; 2]) -> [Node; 2] {
    let alpha = builder(world, "alpha", &[], first).start().await.unwrap();
    world.adopt(&alpha);
    let beta = builder(world, "beta", &[&alpha], second).start().await.unwrap();
    world.adopt(&beta);
    alpha.ready(1).await.unwrap();
    [alpha, beta]
}

/// How many messages and answers the node has read from the memory of its peer.
fn fetched(node: &Node) -> u64 {
    node.snapshot().peers.iter().map(|peer| peer.carried.fetches.fetched).sum()
}

/// Messages of all sizes arrive in their order, and so do answers; the large ones were fetched.
// Promised in docs/SEMANTICS.md.
pub async fn messages_that_are_lent_arrive_whole_and_in_order(world: &World) {
    let [alpha, beta] = pair(world).await;
    beta.spawn("keeper", Keeper::default()).await.unwrap();
    let keeper = alpha.actor::<Keeper>("beta/keeper").await.unwrap();
    let mut expected = Vec::new();
    // The first ones open the queue pair, and go in parts.
    while fetched(&beta) < 8 {
        for length in SIZES {
            let number = expected.len() as u64;
            let bytes = bytes(number, length);
            expected.push((number, digest(&bytes)));
            keeper.tell(Blob { number, bytes }).await.unwrap();
        }
        assert_eq!(keeper.seen().await.unwrap(), expected);
    }
    let before = fetched(&alpha);
    let asks = SIZES.map(|length| {
        let (keeper, sent) = (keeper.clone(), bytes(3, length));
        async move { assert!(keeper.echo(sent.clone()).await.unwrap() == sent, "{length}") }
    });
    join_all(asks).await;
    assert!(fetched(&alpha) > before, "large answers are fetched, too");
    end([alpha, beta]).await;
}

/// An asker that gives up, and an actor that ends, while messages are lent: each has its fate, and
/// what follows is not held up.
pub async fn what_is_lent_is_given_up_like_every_message(world: &World) {
    let [alpha, beta] = pair(world).await;
    let there = beta.spawn("keeper", Keeper::default()).await.unwrap();
    let keeper = alpha.actor::<Keeper>("beta/keeper").await.unwrap();
    while fetched(&beta) < 1 {
        keeper.echo(bytes(1, 4 * LEND_FROM)).await.unwrap();
    }
    for round in 0..20 {
        let asks = (0..4).map(|ask| keeper.echo(bytes(ask, 4 * LEND_FROM)));
        let asks = pin!(join_all(asks.map(IntoFuture::into_future)));
        let soon = pin!(keeper.echo(vec![round; 3]).into_future());
        match select(asks, soon).await {
            Either::Left((echoes, _)) => {
                let whole = |(ask, echo): (usize, Result<Vec<u8>, _>)| {
                    assert!(echo.unwrap() == bytes(ask as u64, 4 * LEND_FROM), "{ask}");
                };
                echoes.into_iter().enumerate().for_each(whole);
            }
            Either::Right((echo, _)) => assert_eq!(echo.unwrap(), [round; 3]),
        }
    }
    assert_eq!(keeper.echo(vec![7; 3]).await.unwrap(), [7; 3]);

    // It ends while one message is being handed over, and others wait.
    let tells = (0..6).map(|number| {
        let blob = Blob { number, bytes: bytes(number, 4 * LEND_FROM) };
        keeper.tell(blob).confirmed().into_future()
    });
    let before = fetched(&beta);
    let stopping = async {
        until(|| fetched(&beta) > before).await;
        there.stop().await.unwrap();
        there.wait_stopped().await;
    };
    let (fates, ()) = tokio::join!(join_all(tells), stopping);
    let is_delivered = |fate: &Result<_, _>| matches!(fate, Ok(Fate::Delivered));
    let delivered = fates.iter().take_while(|fate| is_delivered(fate)).count();
    println!("{delivered} of 6 were delivered to an actor that ended");
    for (number, fate) in fates.iter().enumerate().skip(delivered) {
        match fate {
            Ok(fate) => assert_eq!(*fate, Fate::Refused, "{number}"),
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                let whole = bytes(number as u64, 4 * LEND_FROM);
                assert!(error.message.bytes == whole, "{number} comes back whole");
            }
        }
    }
    // No loan is held for a message whose fate is known.
    until(|| loans(&alpha).returned == loans(&alpha).lent).await;
    beta.spawn("keeper", Keeper::default()).await.unwrap();
    let keeper = alpha.actor::<Keeper>("beta/keeper").await.unwrap();
    assert!(cause(keeper.echo(bytes(9, 4 * LEND_FROM)).await).is_ok());
    end([alpha, beta]).await;
}

/// Returns what a node has lent, and why it has not.
fn loans(node: &Node) -> LoanStats {
    let peers = node.snapshot().peers;
    peers.into_iter().map(|peer| peer.carried.fetches.loans).next().unwrap_or_default()
}

/// A node lends, and lands, as much as its profile says, which may be nothing; what does not find
/// room comes in parts, and both sides count it.
pub async fn nodes_lend_and_land_as_much_as_their_profiles_say(world: &World) {
    let usual = Lending::default;
    let little = Lending { lent_bytes_max: 3 * LEND_FROM as u64, ..usual() };
    for (sender, receiver) in
        [(Lending::never(), usual()), (usual(), Lending::never()), (little, usual())]
    {
        let lends = sender.lent_bytes_max > 0;
        let lands = receiver.landing_bytes_max > 0;
        let is_little = lends && sender.lent_bytes_max < usual().lent_bytes_max;
        let [alpha, beta] = pair_of(world, [sender, receiver]).await;
        beta.spawn("keeper", Keeper::default()).await.unwrap();
        let keeper = alpha.actor::<Keeper>("beta/keeper").await.unwrap();
        let mut expected = Vec::new();
        for number in 0..40 {
            let bytes = bytes(number, if number % 3 == 0 { 3 } else { 2 } * LEND_FROM);
            expected.push((number, digest(&bytes)));
            keeper.tell(Blob { number, bytes }).await.unwrap();
            if number % 5 == 4 {
                assert_eq!(keeper.seen().await.unwrap(), expected);
            }
        }
        let loans = loans(&alpha);
        println!("{lends} {lands}: {loans:?}");
        assert_eq!(loans.lent > 0, lends);
        assert_eq!(fetched(&beta) > 0, lends && lands);
        assert_eq!(loans.no_room > 0, is_little);
        assert_eq!(loans.not_fetched > 0 && loans.paused > 0, !lands);
        assert_eq!(loans.returned, loans.lent);
        end([alpha, beta]).await;
    }
}
