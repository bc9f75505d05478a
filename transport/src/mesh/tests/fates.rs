//! The fate of tells whose link is lost, over the simulator.

use rkyv::util::AlignedVec;

use super::better::{Gate, gated};
use super::simulated::sim_config;
use super::*;
use crate::cause::{Fate, Refusal};
use crate::endpoint::{Awaited, CloseNotice, Confirmation, RemoteSender, SendKind, Waiter};
use crate::fabric::sim::{self, World};
use crate::host::Deliveries;
use crate::open_request::{Accepted, MessageForms, Target};

const MESSAGE: MessageForms = MessageForms { id: 1, layouts: &[2], replies: &[] };

/// A node with one mailbox, which keeps the numbers that came.
#[derive(Default)]
struct Keeper {
    came: Arc<Mutex<Vec<u32>>>,
    lost: Mutex<Vec<Fate>>,
    down: Mutex<usize>,
}

impl Host for Keeper {
    fn open(&self, _: &NodeId, _: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        Ok(Arc::new(Kept { came: self.came.clone(), open: Mutex::default() }))
    }

    fn lost(&self, lost: Lost) {
        self.lost.lock().push(lost.fate);
    }

    fn event(&self, event: PeerEvent) {
        if let PeerEvent::NodeDown { .. } = event {
            *self.down.lock() += 1;
        }
    }
}

struct Kept {
    came: Arc<Mutex<Vec<u32>>>,
    open: Mutex<Vec<CloseNotice>>,
}

impl Inbox for Kept {
    fn id(&self) -> u64 {
        1
    }

    fn accepted(&self) -> Vec<Accepted> {
        vec![MESSAGE.newest()]
    }

    fn deliver(&self, run: &mut Vec<Deliveries>) -> Result<(), Refusal> {
        for delivery in run.drain(..).flatten() {
            let number = delivery.payload.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
            self.came.lock().push(number.unwrap());
        }
        Ok(())
    }

    fn signal(&self, _: u16) {}

    fn on_close(&self, notice: CloseNotice) {
        self.open.lock().push(notice);
    }
}

async fn start(world: &World, name: &str, seeds: &[&str]) -> (Arc<Mesh>, Arc<Keeper>) {
    start_with(sim_config(world, name, seeds)).await
}

async fn start_with(config: Config) -> (Arc<Mesh>, Arc<Keeper>) {
    let keeper = Arc::new(Keeper::default());
    let mesh = Mesh::start(config, keeper.clone()).await.unwrap();
    (mesh, keeper)
}

/// While tells are sent, one after the other and some without a pause, the link gives way to one by
/// a better fabric. Each is delivered, once, and in order.
// Promised in docs/SEMANTICS.md.
#[test]
fn no_tell_suffers_when_a_link_gives_way_to_a_better_fabric() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let gate = Gate::new("first", false, true);
            let (alpha, sender) = start_with(gated(&world, "alpha", &[], &gate)).await;
            let beta = gated(&world, "beta", &["alpha"], &gate);
            let (_beta, receiver) = start_with(beta).await;
            let remote = remote(&alpha);
            let (mut waiter, mut fates) = (Waiter::default(), Vec::new());
            for number in 0..400 {
                fates.push(tell_by(&remote, number, &mut waiter).await);
                if number == 100 {
                    gate.turn();
                }
                if number % 7 == 0 {
                    world.sleep(Duration::from_millis(150)).await;
                }
            }
            for fate in fates {
                assert_eq!(fate.await, Ok(()), "seed {seed}");
            }
            assert!((0..400).eq(receiver.came.lock().iter().copied()), "seed {seed}");
            let peer = alpha.peer(&NodeName::new("beta").unwrap());
            assert_eq!(peer.link().as_ref().map(|link| link.fabric()), Some("first"));
            assert_eq!((sender.lost.lock().len(), *sender.down.lock()), (0, 0));
        });
    }
}

/// Commits tell number `number` to the mailbox of `beta`.
async fn tell(remote: &RemoteSender, number: u32) -> Confirmation {
    tell_by(remote, number, &mut Waiter::default()).await
}

async fn tell_by(remote: &RemoteSender, number: u32, waiter: &mut Waiter) -> Confirmation {
    let mut archive = |_: u8, out: &mut AlignedVec<16>| {
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&[7; 500]);
        Ok(None)
    };
    let kind = SendKind::ConfirmedTell;
    let sent = poll_fn(|cx| remote.poll_send(&MESSAGE, kind, &mut archive, waiter, cx));
    match sent.await.unwrap() {
        Awaited::Fate(confirmation) => confirmation,
        other => panic!("{other:?}"),
    }
}

/// Sends one confirmed tell that is delivered, then forty more. Returns the numbers and
/// confirmations of the forty.
async fn forty_tells(remote: &RemoteSender) -> Vec<(u32, Confirmation)> {
    assert_eq!(tell(remote, 0).await.await, Ok(()));
    let mut fates = Vec::new();
    for number in 1..=40 {
        fates.push((number, tell(remote, number).await));
    }
    fates
}

fn remote(mesh: &Mesh) -> RemoteSender {
    let target = Target::Name("m".into());
    let peer = mesh.peer(&NodeName::new("beta").unwrap());
    RemoteSender::new(peer, OpenRequest::new(target, 0))
}

/// The messages that came show it: the first send waits for a link, the second for its turn.
#[test]
fn a_waiter_serves_one_send_after_the_other() {
    sim::run(1, |world| async move {
        let (alpha, _) = start(&world, "alpha", &[]).await;
        let (remote, mut waiter) = (remote(&alpha), Waiter::default());
        let (first, (_beta, receiver)) =
            tokio::join!(tell_by(&remote, 1, &mut waiter), start(&world, "beta", &["alpha"]));
        assert_eq!(format!("{waiter:?}"), "Waiter(nowhere)");
        let second = tell_by(&remote, 2, &mut waiter).await;
        assert_eq!((first.await, second.await), (Ok(()), Ok(())));
        assert_eq!(*receiver.came.lock(), [1, 2]);
    });
}

/// Whatever was on its way when a link was lost, the next link tells its fate: the tells reported
/// as delivered are exactly the delivered ones.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_confirmed_tell_learns_its_fate_on_the_next_link() {
    type Fault = fn(&World);
    let faults: [Fault; 3] = [
        |world| world.sever_streams("alpha", "beta"),
        |world| world.sever_data("alpha", "beta"),
        |world| world.sever_data("beta", "alpha"),
    ];
    let (mut delivered, mut not_sent) = (0, 0);
    for seed in 0..90 {
        let fault = faults[seed as usize % 3];
        let (yes, no) = sim::run(seed, move |world| async move {
            let (alpha, sender) = start(&world, "alpha", &[]).await;
            let (beta, receiver) = start(&world, "beta", &["alpha"]).await;
            let remote = remote(&alpha);
            let fates = forty_tells(&remote).await;
            world.sleep(Duration::from_nanos(seed * 400)).await;
            fault(&world);
            let mut told = vec![0];
            let mut lost = Vec::new();
            for (number, fate) in fates {
                match fate.await {
                    Ok(()) => told.push(number),
                    Err(fate) => lost.push(fate),
                }
            }
            assert_eq!(*receiver.came.lock(), told, "seed {seed}");
            assert!(lost.iter().all(|fate| *fate == Fate::NotSent), "seed {seed}: {lost:?}");
            assert_eq!(*sender.lost.lock(), lost, "the dead letters, seed {seed}");
            // The loss may show only now.
            while let Err(fate) = tell(&remote, 99).await.await {
                assert_eq!(fate, Fate::NotSent, "seed {seed}");
            }
            alpha.shutdown(Duration::from_secs(5)).await;
            beta.shutdown(Duration::from_secs(5)).await;
            (told.len(), lost.len())
        });
        delivered += yes;
        not_sent += no;
    }
    assert!(delivered > 500 && not_sent > 200, "{delivered} delivered, {not_sent} not sent");
}

/// Without another meeting the fate stays unknown, and is told before the node's end.
#[test]
fn what_is_in_doubt_when_a_node_is_down_stays_unknown() {
    let mut unknown = 0;
    for seed in 0..30 {
        unknown += sim::run(seed, move |world| async move {
            let (alpha, sender) = start(&world, "alpha", &[]).await;
            let (beta, receiver) = start(&world, "beta", &["alpha"]).await;
            let remote = remote(&alpha);
            let fates = forty_tells(&remote).await;
            world.sleep(Duration::from_nanos(seed * 1_000)).await;
            world.kill_node("beta");
            let mut unknown = 0;
            for (number, fate) in fates {
                let came = receiver.came.lock().contains(&number);
                match fate.await {
                    Ok(()) => assert!(came, "seed {seed}: {number}"),
                    Err(Fate::Unknown) => unknown += 1,
                    Err(fate) => assert!(!came, "seed {seed}: {number} {fate:?}"),
                }
            }
            assert_eq!(*sender.down.lock(), usize::from(unknown > 0), "seed {seed}");
            drop(beta);
            alpha.shutdown(Duration::from_secs(5)).await;
            unknown
        });
    }
    assert!(unknown > 100, "{unknown}");
}
