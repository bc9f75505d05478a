//! A sender to a mailbox of another node, with links that no driver serves.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use rkyv::util::AlignedVec;

use super::archive::scratch_bytes;
use super::waiter::spare_bytes;
use super::{Awaited, RemoteSender, SendKind, Unsent, Waiter};
use crate::host::{Host, Inbox, Lost, PeerEvent};
use crate::id::NodeId;
use crate::link::LinkHandle;
use crate::link::tests::{MESSAGE, end, opened, take};
use crate::mesh::Peer;
use crate::open_request::{OpenRequest, Target};
use crate::proto::error::OpenRefusal;

/// Hears nothing, and has no mailboxes.
struct Nothing;

impl Host for Nothing {
    fn open(&self, _: &NodeId, _: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        Err(OpenRefusal::NoSuchMailbox)
    }

    fn lost(&self, _: Lost) {}

    fn event(&self, _: PeerEvent) {}
}

/// A sender to the mailbox of this name, and its peer, which has this link.
fn sender(name: &str, link: &Arc<LinkHandle>) -> (RemoteSender, Arc<Peer>) {
    let peer = Peer::stand_in("beta", Arc::new(Nothing));
    peer.set_link(Some(link.clone()));
    let request = OpenRequest::new(Target::Name(name.into()), 0);
    (RemoteSender::new(peer.clone(), request), peer)
}

/// A tell of `bytes` bytes, and how often it was archived.
struct Letter {
    bytes: usize,
    archived: usize,
    waiter: Waiter,
}

impl Letter {
    fn new(bytes: usize) -> Self {
        Letter { bytes, archived: 0, waiter: Waiter::default() }
    }

    /// Polls the send once.
    fn poll(&mut self, to: &RemoteSender) -> Poll<Result<Awaited, Unsent>> {
        let mut cx = Context::from_waker(Waker::noop());
        let Letter { bytes, archived, waiter } = self;
        let mut archive = |_: u8, out: &mut AlignedVec<16>| {
            *archived += 1;
            out.resize(*bytes, 1);
            Ok(None)
        };
        to.poll_send(&MESSAGE, SendKind::Tell, &mut archive, waiter, &mut cx)
    }

    fn is_sent(&mut self, to: &RemoteSender) -> bool {
        matches!(self.poll(to), Poll::Ready(Ok(_)))
    }
}

#[test]
fn a_waiter_serves_one_send_after_another() {
    let link = opened(&[("one", 0)]);
    let (one, _) = sender("one", &link);
    let mut letter = Letter::new(200);
    for sends in 1..=3 {
        assert!(Letter::new(900).is_sent(&one));
        assert!(letter.poll(&one).is_pending() && letter.poll(&one).is_pending());
        assert_eq!(format!("{:?}", letter.waiter), "Waiter(in line)");
        take(&link, 0, 900);
        assert!(letter.is_sent(&one));
        assert_eq!(format!("{:?}", letter.waiter), "Waiter(nowhere)");
        assert_eq!(letter.archived, sends, "once for each send");
        take(&link, 0, 200);
    }
}

#[test]
fn a_send_that_is_dropped_in_line_leaves_its_place_to_the_next() {
    let link = opened(&[("one", 0)]);
    let (one, _) = sender("one", &link);
    assert!(Letter::new(900).is_sent(&one));
    let (mut first, mut second) = (Letter::new(500), Letter::new(50));
    assert!(first.poll(&one).is_pending());
    assert!(second.poll(&one).is_pending(), "it is not its turn");
    drop(first);
    assert!(second.is_sent(&one));
}

/// A waiting send keeps its archive instead of writing it again, even if its link ends and while
/// there is none.
#[test]
fn a_send_goes_on_over_the_next_link_with_its_archive() {
    let link = opened(&[("other", 0), ("one", 1)]);
    let (one, peer) = sender("one", &link);
    assert!(Letter::new(900).is_sent(&one), "the sender knows where its mailbox is");
    let mut letter = Letter::new(200);
    assert!(letter.poll(&one).is_pending());
    end(&link);
    peer.set_link(None);
    assert!(letter.poll(&one).is_pending());
    assert_eq!(format!("{:?}", letter.waiter), "Waiter(for a link)");

    // Its hint is wrong on this link.
    let next = opened(&[("one", 0), ("other", 1)]);
    peer.set_link(Some(next.clone()));
    assert!(letter.is_sent(&one));
    assert_eq!(letter.archived, 1);
    let (other, _) = sender("other", &next);
    assert!(Letter::new(900).is_sent(&other), "it is empty");
    assert!(Letter::new(900).poll(&one).is_pending(), "it is not");
}

/// A link that ended, of which the peer does not know yet.
#[test]
fn a_send_that_meets_an_ended_link_waits_for_the_next() {
    let link = opened(&[("one", 0)]);
    let (one, peer) = sender("one", &link);
    end(&link);
    let mut letter = Letter::new(200);
    assert!(letter.poll(&one).is_pending());
    assert!(matches!(
        one.try_send(&MESSAGE, SendKind::Tell, &mut |_, _| Ok(None)),
        Err(Unsent::LinkDown)
    ));
    peer.set_link(Some(opened(&[("one", 0)])));
    assert!(letter.is_sent(&one));
    assert_eq!(letter.archived, 1);
}

/// A thread keeps a bounded memory for its next sends, however large and many the last ones were.
#[test]
fn a_thread_keeps_little_of_large_and_of_many_sends() {
    let link = opened(&[("one", 0)]);
    let (one, _) = sender("one", &link);
    assert!(Letter::new(900).is_sent(&one));
    let mut waiting: Vec<_> = (0..1000).map(|at| Letter::new(500 * (1 + at % 9))).collect();
    assert!(waiting.iter_mut().all(|letter| letter.poll(&one).is_pending()));
    drop(waiting);
    let spare = spare_bytes();
    assert!(spare.len() <= 32 && spare.iter().all(|bytes| *bytes <= 1024), "{spare:?}");

    let mut large = Letter::new(10 << 20);
    let refused = poll_fn(|_| large.poll(&one)).now_or_never();
    assert!(matches!(refused, Some(Err(Unsent::TooLarge { .. }))), "{refused:?}");
    assert!(scratch_bytes() <= 1 << 20);
}
