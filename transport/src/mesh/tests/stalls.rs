//! Senders that wait: their counts and their log lines, over the simulator.

use std::io;

use rkyv::util::AlignedVec;
use tokio::time::sleep;

use super::inbox::{MESSAGE, TestInbox};
use super::simulated::sim_config;
use super::*;
use crate::endpoint::{RemoteSender, SendKind, Waiter};
use crate::fabric::sim::{self, World};
use crate::host::Delivery;
use crate::limits;
use crate::link::WaitsFor;
use crate::open_request::{Called, Target};

/// A node with mailboxes that keep deliveries, and their room, while they are `held`.
#[derive(Default)]
struct Holder {
    held: Arc<Mutex<Option<Vec<Delivery>>>>,
}

impl Host for Holder {
    fn open(&self, _: &NodeId, request: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        let id = match &request.target {
            Target::Name(name) => name.parse().map_err(|_| OpenRefusal::NoSuchMailbox)?,
            Target::Identity { id, .. } => *id,
        };
        let held = self.held.clone();
        let take = move |run: Vec<Delivery>| {
            if let Some(held) = &mut *held.lock() {
                held.extend(run);
            }
        };
        Ok(Arc::new(TestInbox { id, take, notices: Arc::default() }))
    }

    fn lost(&self, _: Lost) {}

    fn event(&self, _: PeerEvent) {}
}

async fn start(world: &World, name: &str, seeds: &[&str]) -> (Arc<Mesh>, Arc<Holder>) {
    let holder = Arc::new(Holder::default());
    let mesh = Mesh::start(sim_config(world, name, seeds), holder.clone()).await.unwrap();
    (mesh, holder)
}

/// Tells mailbox `number` of beta `count` messages of `bytes` bytes.
async fn tell(mesh: Arc<Mesh>, number: usize, count: usize, bytes: usize) {
    tell_at(mesh, OpenRequest::new(Target::Name(number.to_string()), 0), count, bytes).await;
}

async fn tell_at(mesh: Arc<Mesh>, request: OpenRequest, count: usize, bytes: usize) {
    let peer = mesh.peer(&NodeName::new("beta").unwrap());
    let remote = RemoteSender::new(peer, request);
    for _ in 0..count {
        let mut waiter = Waiter::default();
        let mut archive = |_: u8, out: &mut AlignedVec<16>| {
            out.resize(bytes, 7);
            Ok(None)
        };
        let sent =
            poll_fn(|cx| remote.poll_send(&MESSAGE, SendKind::Tell, &mut archive, &mut waiter, cx));
        sent.await.unwrap();
    }
}

/// The text of the log, line by line.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// How many lines have this text.
    fn count(&self, text: &str) -> usize {
        let log = String::from_utf8(self.0.lock().clone()).unwrap();
        log.lines().filter(|line| line.contains(text)).count()
    }
}

const WAIT: &str = "senders wait for long";
const GO_ON: &str = "stalled senders resumed";

// Promised in docs/SEMANTICS.md.
#[test]
fn senders_that_wait_for_long_are_in_the_log_once_and_when_they_go_on() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false);
    let _here = tracing::subscriber::set_default(subscriber.finish());
    let many = limits::STALLS_REPORTED_MAX + 2;
    sim::run(1, |world| async move {
        let (alpha, _) = start(&world, "alpha", &[]).await;
        let (beta, receiver) = start(&world, "beta", &["alpha"]).await;
        *receiver.held.lock() = Some(Vec::new());
        alpha.ready(1).await;
        let window = limits::MAILBOX_WINDOW_MESSAGES as usize;
        let senders: Vec<_> =
            (0..many).map(|n| tokio::spawn(tell(alpha.clone(), n, window + 1, 8))).collect();
        sleep(limits::STALL_REPORTED / 2).await;
        assert_eq!(log.count(WAIT), 0);
        sleep(4 * limits::STALL_REPORTED).await;
        assert_eq!(log.count(WAIT), limits::STALLS_REPORTED_MAX);
        assert_eq!(log.count("for_what=MailboxWindow"), limits::STALLS_REPORTED_MAX);
        let view = alpha.view().remove(0).link.unwrap();
        assert_eq!(view.waiting.len(), many);
        for line in view.waiting {
            assert_eq!((line.for_what, line.senders), (WaitsFor::MailboxWindow, 1));
            assert!(line.longest >= 4 * limits::STALL_REPORTED, "{:?}", line.longest);
        }
        assert_eq!((view.queued, view.uncredited, log.count(GO_ON)), (0, None, 0));

        let room = receiver.held.lock().take();
        drop(room);
        for sender in senders {
            sender.await.unwrap();
        }
        sleep(2 * limits::HEARTBEAT_INTERVAL).await;
        assert_eq!(log.count(GO_ON), limits::STALLS_REPORTED_MAX);
        assert_eq!(log.count(WAIT), limits::STALLS_REPORTED_MAX);
        let stats = alpha.stats().remove(0).1;
        let least = many as u64 * 4 * limits::STALL_REPORTED.as_micros() as u64;
        assert!(stats.waits.mailbox_us >= least, "{stats:?}");
        assert_eq!((stats.window_stalls, stats.waits.link_us), (many as u64, 0));
        alpha.shutdown(Duration::from_secs(5)).await;
        beta.shutdown(Duration::from_secs(5)).await;
    });
}

/// A mailbox is named by its name, even if its number leads to it, and a mailbox without a name by
/// its kind and number, if the sender knows them.
#[test]
fn senders_that_wait_for_long_are_told_of_with_the_name_of_the_mailbox() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false);
    let _here = tracing::subscriber::set_default(subscriber.finish());
    sim::run(3, |world| async move {
        let (alpha, _) = start(&world, "alpha", &[]).await;
        let (beta, receiver) = start(&world, "beta", &["alpha"]).await;
        *receiver.held.lock() = Some(Vec::new());
        alpha.ready(1).await;
        let target = |index: u64| {
            let incarnation = beta.id().incarnation;
            Target::Identity { incarnation, id: (1 << 32) | index }
        };
        let named = Called { name: Some("till".into()), kind: "bank.Teller" };
        let unnamed = Called { name: None, kind: "bank.Teller" };
        let requests = [
            OpenRequest::new(Target::Name("1".into()), 0),
            OpenRequest { target: target(2), kind: 0, called: named },
            OpenRequest { target: target(3), kind: 0, called: unnamed },
            OpenRequest::new(target(4), 0),
        ];
        let window = limits::MAILBOX_WINDOW_MESSAGES as usize;
        let senders =
            requests.map(|request| tokio::spawn(tell_at(alpha.clone(), request, window + 1, 8)));
        sleep(2 * limits::STALL_REPORTED).await;
        for called in ["1", "till", "bank.Teller#3.1", "#4.1"] {
            let line = format!(
                "{WAIT} peer=beta mailbox={called} senders=1 for_what=MailboxWindow waited=10"
            );
            assert_eq!(log.count(&line), 1, "{line}");
        }
        let room = receiver.held.lock().take();
        drop(room);
        for sender in senders {
            sender.await.unwrap();
        }
        alpha.shutdown(Duration::from_secs(5)).await;
        beta.shutdown(Duration::from_secs(5)).await;
    });
}

/// Frames are sent faster than the peer gives credits back.
#[test]
fn the_wait_for_credits_is_counted_with_how_long_it_was() {
    sim::run(2, |world| async move {
        let (alpha, _) = start(&world, "alpha", &[]).await;
        let (beta, _) = start(&world, "beta", &["alpha"]).await;
        alpha.ready(1).await;
        tell(alpha.clone(), 1, 1000, 4000).await;
        alpha.shutdown(Duration::from_secs(5)).await;
        let stats = alpha.stats().remove(0).1;
        assert!(stats.credit_stalls > 0 && stats.waits.credit_us > 0, "{stats:?}");
        beta.shutdown(Duration::from_secs(5)).await;
    });
}
