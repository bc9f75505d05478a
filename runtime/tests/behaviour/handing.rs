//! Memory of another node that is handed over to an actor there.

use ringpost::message;
use ringpost::prelude::*;
use ringpost::region::{
    Access, HandOverCause, HandedRegion, MemoryOffer, PeerRegion, Region, RegionError, RemoteRegion,
};

use super::world::{World, end, until};

/// Brings memory, and says what the keeper shall do with it.
#[message]
struct Bring {
    memory: HandedRegion<u64>,
    is_kept: bool,
}

/// Takes memory, if it shall, and answers with its elements.
#[actor]
struct Keeper {
    kept: Vec<Region<u64>>,
}

#[handlers]
impl Keeper {
    #[handler]
    async fn bring(&mut self, msg: View<Bring>, cx: &mut Context<Self>) -> Option<u64> {
        if !msg.is_kept {
            return None;
        }
        let (brought, again) = (msg.to_owned(), msg.to_owned());
        let region = brought.memory.take(cx.node()).await.unwrap();
        // The second `take` fails.
        let again = again.memory.take(cx.node()).await;
        assert_eq!(again.map(|region| region.len()), Err(RegionError::Revoked));
        let len = region.len() as u64;
        self.kept.push(region);
        Some(len)
    }

    /// Returns the sum of the elements that are kept.
    #[handler]
    fn sum(&mut self) -> u64 {
        let kept = self.kept.iter_mut();
        kept.flat_map(|region| region.try_local_mut().expect("nobody else has it").to_vec()).sum()
    }
}

/// The giver has no access any more when the actor has the memory, even if it writes meanwhile; all
/// earlier writes are there; and memory that the actor does not take goes back.
// Promised in docs/SEMANTICS.md.
pub async fn memory_is_handed_over_to_an_actor_of_its_node(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.offer_memory(MemoryOffer { bytes_per_node: 32 << 10, bytes: 1 << 20 }).unwrap();
    beta.spawn("keeper", Keeper { kept: Vec::new() }).await.unwrap();
    let keeper: ActorRef<Keeper> = alpha.actor("beta/keeper").await.unwrap();
    let here = alpha.spawn("keeper", Keeper { kept: Vec::new() }).await.unwrap();
    let peer = alpha.peer("beta");

    for round in 1..=3 {
        let given: PeerRegion<u64> = peer.region(4_096).await.unwrap();
        let clone = given.remote().clone();
        let ones = vec![1; 4_096];
        clone.write(0, &ones).await.unwrap();
        // Another task writes until it is told that it has no access any more.
        let writer = clone.clone();
        let writes = tokio::spawn(async move {
            loop {
                if let Err(error) = writer.write(0, &ones).await {
                    return error;
                }
            }
        });
        let len = given.hand_over(&keeper, |memory| Bring { memory, is_kept: true }).await.unwrap();
        assert_eq!(len, Some(4_096));
        assert_eq!(clone.get(0).await, Err(RegionError::Revoked));
        let ended = writes.await.unwrap();
        assert!(matches!(ended, RegionError::Revoked | RegionError::Unknown(_)), "{ended}");
        assert_eq!(keeper.sum().await.unwrap(), round * 4_096);
    }
    // The memory no longer counts in the offer. Memory that the actor does not take goes back.
    for _ in 0..3 {
        let given: PeerRegion<u64> = peer.region(4_096).await.unwrap();
        let clone = given.remote().clone();
        let left = given.hand_over(&keeper, |memory| Bring { memory, is_kept: false }).await;
        assert_eq!(left.unwrap(), None);
        until(|| beta.snapshot().shared.shares == 0).await;
        assert_eq!(clone.get(0).await, Err(RegionError::Revoked));
    }
    // The actor is on another node than the memory, or has ended.
    let given: PeerRegion<u64> = peer.region(1).await.unwrap();
    given.remote().set(0, 7).await.unwrap();
    let failed =
        given.hand_over(&here, |memory| Bring { memory, is_kept: true }).await.unwrap_err();
    let wanted = HandOverCause::OtherNode { actor: "alpha".into(), memory: "beta".into() };
    assert_eq!(failed.cause, wanted);
    keeper.stop().await.unwrap();
    let failed = failed.region.hand_over(&keeper, |memory| Bring { memory, is_kept: true }).await;
    let failed = failed.unwrap_err();
    assert!(matches!(failed.cause, HandOverCause::NoAnswer(_)), "{failed}");
    assert_eq!(failed.region.remote().get(0).await, Ok(7));
    failed.region.release().await.unwrap();
    end([alpha, beta]).await;
}

/// The elements of a region are borrowed while nobody else reaches them.
pub async fn a_region_that_is_not_shared_is_borrowed(world: &World) {
    let [alpha, beta] = world.pair().await;
    let mut region = alpha.region_of(&[[1_u8; 3]; 1_000]).unwrap();
    region.try_local_mut().unwrap()[999] = [2; 3];
    let shared = region.share(Access::ALL).unwrap();
    assert_eq!(region.try_local_mut(), None);
    let passed = beta.spawn("passes", Passes).await.unwrap();
    let there: ActorRef<Passes> = alpha.actor("beta/passes").await.unwrap();
    assert_eq!(there.last(shared.clone()).await.unwrap(), [2; 3]);
    region.revoke(&shared).await;
    region.try_local_mut().unwrap().fill([3; 3]);
    assert_eq!(region.get(0), Ok([3; 3]));
    passed.stop().await.unwrap();
    end([alpha, beta]).await;
}

/// Reads the last element.
#[actor]
struct Passes;

#[handlers]
impl Passes {
    #[handler]
    async fn last(&mut self, of: RemoteRegion<[u8; 3]>) -> [u8; 3] {
        of.get(of.len() - 1).await.unwrap()
    }
}
