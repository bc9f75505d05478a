//! Links that are lost and made again while a mailbox is full.

use std::time::Duration;

use ringpost::net::Profile;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;

use super::{Held, Stack, dialling, load, until, waiting};
use crate::correspondent::own_address;
use crate::process::{PATIENCE, event, within};
use crate::relay::{Order, Relay};

const RELINKS: usize = 20;
/// Messages of one node that may wait in one mailbox.
const WINDOW: usize = 64;
/// Tasks that tell the stuck actor.
const TELLERS: u64 = 4;

/// The messages of a node that wait in a mailbox never exceed its window, over all its links.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_than_a_window_waits_in_a_mailbox_however_often_the_link_is_lost() {
    let window = WINDOW as u32;
    let down_after = Duration::from_secs(60);
    let profile = Profile { mailbox_window_messages: window, down_after, ..Profile::default() };
    let address = own_address();
    let relay = Relay::start(address.clone(), Order::Carry).await;
    // It tells alpha the relay's address, so that alpha never finds a way past it.
    let beta = Node::builder("beta").listen(address).advertise([relay.address.clone()]);
    let beta = beta.profile(profile.clone()).start().await.unwrap();
    let stuck = Held::stuck(&beta, "stuck").await;
    Held::free(&beta, "live").await;
    let alpha = dialling("alpha", &relay.address, profile).await;
    let mut events = alpha.events();
    let there = alpha.actor::<Stack>("beta/stuck").await.unwrap();
    let live = alpha.actor::<Stack>("beta/live").await.unwrap();
    let tellers = (0..TELLERS).map(|_| {
        let there = there.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let _ = there.tell(load(number, 10)).await;
            }
        })
    });
    let tellers: Vec<_> = tellers.collect();
    until(|| waiting(&beta, "stuck") >= WINDOW).await;
    let mut most = 0;
    for _ in 0..RELINKS {
        relay.order(Order::Cut);
        let down = |e: &NodeEvent| matches!(e, NodeEvent::LinkDown { .. }).then_some(());
        event(&mut events, down).await;
        relay.order(Order::Carry);
        within(alpha.ready(1)).await.unwrap();
        for number in 0..3 {
            // Comes after the tells sent over the new link. Asks may still fail with the old link.
            while within(async { live.load(number, vec![0; 10]).await }).await.is_err() {}
            most = most.max(waiting(&beta, "stuck"));
        }
    }
    println!("after {RELINKS} relinks at most {most} messages waited, of a window of {WINDOW}");
    assert!(most <= WINDOW, "{most} messages wait in a mailbox whose bound is {WINDOW}");
    tellers.iter().for_each(tokio::task::JoinHandle::abort);
    // The waiting messages are handled, and the window is as wide as before: no credit was lost.
    stuck.release();
    for number in 0..2 * WINDOW as u64 {
        let fate = within(there.tell(load(number, 10)).confirmed()).await;
        assert_eq!(fate.unwrap(), ringpost::send::Fate::Delivered);
    }
    alpha.shutdown(PATIENCE).await;
    beta.shutdown(PATIENCE).await;
}
