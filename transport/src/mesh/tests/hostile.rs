//! A peer that knows the secret and breaks the protocol, in every way there is, against a whole
//! node over loopback TCP.

mod asking;
mod breaches;
mod joining;
mod older;
pub(super) mod peer;
mod replies;
mod returning;
mod stale;
mod stingy;

use std::collections::HashMap;

use rkyv::util::AlignedVec;
use tokio::sync::mpsc;

use super::inbox::{MESSAGE, TestInbox};
use super::*;
use crate::bootstrap::{Beat, Message};
use crate::cause::{Fate, LinkCause, Violation};
use crate::endpoint::{Awaited, CloseNotice, RemoteSender, SendKind, Unsent, Waiter};
use crate::host::Delivery;
use crate::limits;
use crate::open_request::Target;
use crate::proto::header::RecordKind;
use breaches::{Act, Breach};
use peer::{Linked, Proven, head, identity};

/// The mailbox that takes everything.
const OPEN: u64 = 9;

/// A layer above with a mailbox that takes everything, and some that take nothing.
struct Boxes {
    events: mpsc::UnboundedSender<PeerEvent>,
    shared: Arc<Shared>,
}

/// The messages that its mailboxes keep.
#[derive(Default)]
struct Shared {
    stuck: Mutex<Vec<Delivery>>,
    notices: Arc<Mutex<Vec<CloseNotice>>>,
}

impl Host for Boxes {
    fn open(&self, _: &NodeId, request: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        let ids = HashMap::from([("open", OPEN), ("stuck0", 0), ("stuck1", 1), ("stuck2", 2)]);
        let Target::Name(name) = &request.target else { return Err(OpenRefusal::NoSuchMailbox) };
        let id = *ids.get(name.as_str()).ok_or(OpenRefusal::NoSuchMailbox)?;
        let shared = self.shared.clone();
        let take = move |run| {
            if id != OPEN {
                shared.stuck.lock().extend::<Vec<Delivery>>(run);
            }
        };
        Ok(Arc::new(TestInbox { id, take, notices: self.shared.notices.clone() }))
    }

    fn lost(&self, lost: Lost) {
        panic!("{lost:?} was lost");
    }

    fn event(&self, event: PeerEvent) {
        // The test may be over.
        let _ = self.events.send(event);
    }
}

/// A node under attack, and an honest node linked to it.
struct Scene {
    victim: Arc<Mesh>,
    shared: Arc<Shared>,
    events: mpsc::UnboundedReceiver<PeerEvent>,
    honest: Arc<Mesh>,
    /// From the honest node to the victim's mailbox that takes everything.
    remote: RemoteSender,
}

impl Scene {
    async fn new() -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::default());
        let mut victim = config("victim", Network::tcp(), &[]);
        // The longest breach is of 47 frames, which wait for no credit.
        victim.profile.ring_slots = 64;
        victim.profile.mailbox_window_messages = 32;
        victim.profile.mailbox_window_bytes = 8 * 1024;
        victim.profile.link_window_bytes = 16 * 1024;
        let boxes = Boxes { events: sender, shared: shared.clone() };
        let victim = Mesh::start(victim, Arc::new(boxes)).await.unwrap();
        let (sender, _) = mpsc::unbounded_channel();
        let boxes = Boxes { events: sender, shared: Arc::default() };
        let honest = config("honest", Network::tcp(), &victim.addresses());
        let honest = Mesh::start(honest, Arc::new(boxes)).await.unwrap();
        honest.ready(1).await;
        let remote = remote(&honest, "victim", "open");
        Scene { victim, shared, events, honest, remote }
    }

    fn address(&self) -> String {
        self.victim.addresses()[0].clone()
    }

    /// Returns the next time that a link to `wicked` comes up or goes down.
    async fn event(&mut self) -> PeerEvent {
        let wicked = |peer: &NodeId| peer.name.as_str() == "wicked";
        loop {
            let event = self.events.recv().await.unwrap();
            match &event {
                PeerEvent::LinkUp { peer, .. } | PeerEvent::LinkDown { peer, .. }
                    if wicked(peer) =>
                {
                    return event;
                }
                _ => {}
            }
        }
    }

    /// One breach, on a link of its own; gives what the link ended with.
    async fn commit(&mut self, breach: &Breach) -> LinkCause {
        let proven = Proven::committed(&self.address(), &identity("wicked")).await;
        let mut wicked = proven.link(&peer::silence()).await;
        let up = self.event().await;
        assert!(matches!(up, PeerEvent::LinkUp { .. }), "{}: {up:?}", breach.what);
        let opening = remote(&self.victim, "wicked", "any");
        let unsent = opening.try_send(&MESSAGE, SendKind::Tell, &mut |_, _| Ok(None)).unwrap_err();
        assert_eq!(unsent, Unsent::Opening);
        // Before it was written it could not be answered.
        wicked.asked().await;
        match &breach.act {
            Act::Frames(frames) => {
                for frame in frames() {
                    wicked.frame(&frame).await;
                }
            }
            Act::Data(bytes) => wicked.bytes(bytes).await,
            Act::Says(message) => drop(wicked.channel.send(&message()).await),
            Act::Spoilt => {
                wicked.spoil();
                let beat = Message::Heartbeat(Beat::Plain);
                drop(wicked.channel.send(&beat).await);
            }
            Act::Overrun => overrun(&self.victim, &mut wicked).await,
        }
        let PeerEvent::LinkDown { cause, .. } = self.event().await else {
            panic!("{}: another link", breach.what);
        };
        self.shared.stuck.lock().clear();
        self.shared.notices.lock().retain(|notice| !notice.is_stale());
        cause
    }

    /// The honest node's messages still go through.
    async fn lives_on(&self) {
        assert_eq!(tell(&self.remote).await, Ok(()));
    }

    async fn end(self) {
        self.honest.shutdown(Duration::from_secs(5)).await;
        self.victim.shutdown(Duration::from_secs(5)).await;
    }
}

fn remote(mesh: &Mesh, peer: &str, name: &str) -> RemoteSender {
    let request = OpenRequest::new(Target::Name(name.into()), 0);
    RemoteSender::new(mesh.peer(&NodeName::new(peer).unwrap()), request)
}

/// Sends a message and waits for its fate.
async fn tell(remote: &RemoteSender) -> Result<(), Fate> {
    let mut waiter = Waiter::default();
    let mut archive = |_: u8, out: &mut AlignedVec<16>| {
        out.extend_from_slice(&[7; 100]);
        Ok(None)
    };
    let kind = SendKind::ConfirmedTell;
    let sent = poll_fn(|cx| remote.poll_send(&MESSAGE, kind, &mut archive, &mut waiter, cx));
    match sent.await.unwrap() {
        Awaited::Fate(fate) => fate.await,
        other => panic!("{other:?}"),
    }
}

/// Writes one frame after the other, each when the node has taken the one before, until it takes no
/// more.
async fn overrun(victim: &Mesh, wicked: &mut Linked) {
    let is_linked = || victim.linked().iter().any(|peer| peer.name.as_str() == "wicked");
    let received = || {
        let stats = victim.stats().into_iter().find(|(peer, _)| peer.as_str() == "wicked");
        stats.map(|(_, link)| link.frames_received)
    };
    while is_linked() {
        let before = received();
        wicked.record(head(RecordKind::Probe)).await;
        while is_linked() && received() == before {
            tokio::task::yield_now().await;
        }
    }
}

/// Numbers all violations: a new one compiles only with a number here, and then needs a breach.
fn number(violation: Violation) -> usize {
    match violation {
        Violation::Frame => 0,
        Violation::Bootstrap => 1,
        Violation::Record => 2,
        Violation::CreditOverrun => 3,
        Violation::Count => 4,
        Violation::WindowOverrun => 5,
        Violation::WindowReport => 6,
        Violation::Unknown => 7,
        Violation::Fragment => 8,
        Violation::Opening => 9,
        Violation::Refusal => 10,
        Violation::Confirm => 11,
        Violation::Goodbye => 12,
        Violation::Flood => 13,
        Violation::Loan => 14,
    }
}

#[test]
fn there_is_a_breach_for_every_violation() {
    let mut provoked = [0; 15];
    for breach in breaches::all() {
        if let LinkCause::Violation(violation) = breach.cause {
            provoked[number(violation)] += 1;
        }
    }
    assert!(provoked.iter().all(|count| *count > 0), "{provoked:?}");
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn every_breach_ends_its_own_link_with_its_name_and_nothing_else() {
    let mut scene = Scene::new().await;
    for breach in breaches::all() {
        let cause = scene.commit(&breach).await;
        assert_eq!(cause, breach.cause, "{}", breach.what);
        scene.lives_on().await;
    }
    scene.end().await;
}

const ROUNDS: usize = 1000;
/// Most memory that a thousand breaches may leave behind: far less than a thousand links take.
const GROWTH_KIB_MAX: u64 = 4 * 1024;

#[test]
fn a_thousand_breaches_leave_nothing_behind() {
    alone("a_thousand_breaches_leave_nothing_behind", "breaches beside", thousand());
}

/// Runs a test in a process of its own, where nothing else takes memory or files. `name` is its
/// name below this module, `says` a part of its last output.
fn alone(name: &str, says: &str, test: impl Future<Output = ()>) {
    const ALONE: &str = "RINGPOST_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime.unwrap().block_on(test);
    }
    let name = format!("mesh::tests::hostile::{name}");
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // Without the line nothing was run: the name is wrong.
    assert!(output.status.success() && said.contains(says), "{output:?}");
    print!("{said}");
}

async fn thousand() {
    let mut scene = Scene::new().await;
    let breaches = breaches::all();
    let mut before = (0, 0);
    let warm = 2 * breaches.len();
    for (round, breach) in breaches.iter().cycle().take(warm + ROUNDS).enumerate() {
        if round == warm {
            before = usage().await;
        }
        let cause = scene.commit(breach).await;
        assert_eq!(cause, breach.cause, "round {round}: {}", breach.what);
        scene.lives_on().await;
    }
    let after = usage().await;
    println!(
        "{ROUNDS} breaches beside {} messages: memory {} to {} KiB, open files {} to {}",
        warm + ROUNDS,
        before.0,
        after.0,
        before.1,
        after.1
    );
    assert!(after.0 < before.0 + GROWTH_KIB_MAX);
    assert_eq!(after.1, before.1);
    scene.end().await;
}

/// Resident KiB and open files of this process.
async fn usage() -> (u64, usize) {
    // Links that ended close their files in the turns of their tasks.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let resident: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
    (resident * 4, std::fs::read_dir("/proc/self/fd").unwrap().count())
}
