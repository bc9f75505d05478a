//! A member of the cluster that keeps no rule of regions: it names memory that it was not given.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::region::{AllocateError, RemoteRegion};
use ringpost_tests::vault::{GIVEN_BYTES, Vault, WORDS};
use ringpost_transport::cause::NotShared;
use ringpost_transport::endpoint::{AccessError, Config, Encryption, Endpoint, Network, Profile};
use ringpost_transport::entropy::Entropy;
use ringpost_transport::host::{Host, Inbox, Lost, OpenRefusal, OpenRequest, PeerEvent};
use ringpost_transport::id::{NodeId, NodeName, ShareId};
use rkyv::rancor::Error;

use crate::process::{PATIENCE, Process, linked, within};

/// Numbers that are guessed.
const GUESSES: u64 = 1_000;
/// Bytes of a vault.
const BYTES: u64 = 8 * WORDS as u64;
const UNKNOWN: AccessError = AccessError::NotShared(NotShared::Unknown);
const REVOKED: AccessError = AccessError::NotShared(NotShared::Revoked);

/// A host without mailboxes: notes the events of its links.
#[derive(Default)]
struct Nothing(Mutex<Vec<PeerEvent>>);

impl Host for Nothing {
    fn open(&self, _: &NodeId, _: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        Err(OpenRefusal::NoSuchMailbox)
    }

    fn lost(&self, _: Lost) {}

    fn event(&self, event: PeerEvent) {
        self.0.lock().push(event);
    }
}

async fn rogue(seed: &str) -> (Endpoint, Arc<Nothing>) {
    let config = Config {
        name: NodeName::new("rogue").unwrap(),
        listen: None,
        advertise: Vec::new(),
        seeds: vec![seed.to_owned()],
        secret: None,
        also_accept: Vec::new(),
        refused_addresses: Vec::new(),
        encryption: Encryption::Default,
        profile: Profile::default(),
        linger: Duration::ZERO,
        metrics_by_peer: false,
        entropy: Entropy::os(),
        network: Network::best(),
    };
    let host = Arc::new(Nothing::default());
    let endpoint = Endpoint::start(config, host.clone()).await.unwrap();
    within(endpoint.ready(1)).await.unwrap();
    (endpoint, host)
}

/// Returns the number of the share that a region has in a message: it follows its node's run.
fn share_of(region: &RemoteRegion<u64>, owner: &NodeId) -> ShareId {
    let bytes = rkyv::to_bytes::<Error>(region).unwrap();
    let run = owner.incarnation.0.to_le_bytes();
    let at = bytes.windows(16).position(|window| window == run).unwrap() + 16;
    ShareId(u128::from_le_bytes(bytes[at..at + 16].try_into().unwrap()))
}

/// Tries every kind of access to memory; returns the error of each.
async fn attack(rogue: &Endpoint, owner: &NodeId, share: ShareId, at: u64) -> [AccessError; 4] {
    let memory = rogue.shared_memory(owner, share);
    let mut read = [0xaa; 8];
    let ended = [
        within(memory.read(at, &mut read)).await.unwrap_err(),
        within(memory.write(at, &[0xff; 8])).await.unwrap_err(),
        within(memory.fetch_add(at, 1)).await.unwrap_err(),
        within(memory.compare_and_swap(at, 0, 1)).await.unwrap_err(),
    ];
    assert_eq!(read, [0xaa; 8], "nothing was read");
    ended
}

/// A member of the cluster names memory that it was not given: a thousand guessed shares, places
/// beyond a share, accesses that a share does not allow, and a share that has ended. Nothing is
/// read or written, and no link is lost. Memory is allocated within a quota.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rogue_reaches_nothing_that_it_was_not_given() {
    let owner = Process::start("owner", &[]).await;
    let judge = linked("judge", &[&owner], Duration::from_secs(8)).await;
    let mut events = judge.events();
    let (rogue, seen) = rogue(&owner.address).await;
    let vault: ActorRef<Vault> = within(judge.when_named("owner/vault")).await.unwrap();
    let [whole, shown] = within(async { vault.both().await }).await.unwrap();
    within(whole.write(0, &[7; WORDS])).await.unwrap();
    let run = judge.linked().into_iter().find(|node| node.name.as_str() == "owner").unwrap();

    let (whole_id, shown_id) = (share_of(&whole, &run), share_of(&shown, &run));
    for guess in 0..GUESSES {
        // One bit off a valid number, and anywhere.
        let near = whole_id.0 ^ 1 << (guess % 128);
        let share = if guess % 2 == 0 { near } else { fastrand::u128(..) };
        let memory = rogue.shared_memory(&run, ShareId(share));
        assert_eq!(within(memory.write(0, &[0xff; 8])).await, Err(UNKNOWN));
    }
    assert_eq!(attack(&rogue, &run, ShareId(fastrand::u128(..)), 0).await, [const { UNKNOWN }; 4]);
    for at in [BYTES, u64::MAX - 7, 1 << 63] {
        for ended in attack(&rogue, &run, whole_id, at).await {
            assert!(matches!(ended, AccessError::OutOfRange(_)), "{at}: {ended}");
        }
    }
    let memory = rogue.shared_memory(&run, shown_id);
    let mut read = [0; 8];
    within(memory.read(0, &mut read)).await.unwrap();
    assert_eq!(read, 7_u64.to_le_bytes());
    let wrote = within(memory.write(0, &[0xff; 8])).await;
    assert!(matches!(wrote, Err(AccessError::NoAccess(_))), "{wrote:?}");
    let added = within(memory.fetch_add(0, 1)).await;
    assert!(matches!(added, Err(AccessError::NoAccess(_))), "{added:?}");

    assert_eq!(within(async { vault.words().await }).await.unwrap(), vec![7; WORDS]);
    assert!(within(async { vault.revoke().await }).await.unwrap());
    assert_eq!(attack(&rogue, &run, whole_id, 0).await, [const { REVOKED }; 4]);
    assert_eq!(within(async { vault.words().await }).await.unwrap(), vec![7; WORDS]);

    // All held at once.
    let mut given = Vec::new();
    let refused = loop {
        match within(judge.peer("owner").region::<u8>(GIVEN_BYTES as usize / 4)).await {
            Ok(memory) => given.push(memory),
            Err(error) => break error,
        }
    };
    let over_quota = AllocateError::OverQuota { node: "owner".into(), left: 0 };
    assert_eq!((given.len(), refused), (4, over_quota));
    assert!(matches!(seen.0.lock()[..], [PeerEvent::LinkUp { .. }]), "its link went on");
    while let Ok(event) = events.try_recv() {
        assert!(matches!(event, NodeEvent::LinkUp { .. }), "{event:?}");
    }
    rogue.shutdown(PATIENCE).await;
    drop(given);
    judge.shutdown(PATIENCE).await;
    owner.end().await;
}
