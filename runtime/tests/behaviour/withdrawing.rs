//! Types that a node offers no more.

use std::time::Duration;

use futures::poll;
use ringpost::Local;
use ringpost::prelude::*;
use ringpost::spawn::{Offered, RemoteSpawnCause};

use super::world::{World, end};

#[actor]
struct Guest {
    number: u64,
}

#[handlers]
impl Guest {
    #[handler]
    fn number(&self) -> u64 {
        self.number
    }
}

impl Offered for Guest {
    type Arguments = u64;

    fn create(number: u64) -> Result<Self, BoxError> {
        Ok(Guest { number })
    }
}

/// Places a guest on beta, which withdraws the type before the guest has begun.
#[actor]
struct Host;

#[message(local)]
struct Invite {
    beta: Node,
    /// Beta offers the type again before the guest is told to begin.
    is_offered_again: bool,
}

#[handlers]
impl Host {
    #[handler]
    async fn invite(
        &mut self,
        msg: Invite,
        cx: &mut Context<Self>,
    ) -> Local<Result<ActorRef<Guest>, RemoteSpawnCause>> {
        let Invite { beta, is_offered_again } = msg;
        let spawn = cx.node().peer("beta").spawn::<Guest>("held", 2);
        let mut spawn = spawn.timeout(Duration::from_secs(3600)).watched_by(cx);
        while beta.actor::<Guest>("held").await.is_err() {
            assert!(poll!(&mut spawn).is_pending());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(beta.withdraw::<Guest>().await);
        if is_offered_again {
            beta.offer::<Guest>().unwrap();
        }
        Local(spawn.await.map_err(|error| error.cause))
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        panic!("it was told of the end of {}", msg.actor);
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn a_type_that_is_withdrawn_is_spawned_no_more_until_it_is_offered_again(world: &World) {
    let [alpha, beta] = world.pair().await;
    for node in [&alpha, &beta] {
        assert!(!beta.withdraw::<Guest>().await, "it is not offered");
        beta.offer::<Guest>().unwrap();
        let peer = node.peer("beta");
        let first: ActorRef<Guest> = peer.spawn("first", 1).await.unwrap();
        let host = node.spawn("host", Host).await.unwrap();
        // (On its own node a guest begins as soon as it has its place.)
        for is_offered_again in [true, false].into_iter().filter(|_| node.name() == alpha.name()) {
            let invite = Invite { beta: beta.clone(), is_offered_again };
            let invited = host.ask(invite).timeout(Duration::from_secs(60)).await;
            assert_eq!(invited.unwrap().0, Err(RemoteSpawnCause::Withdrawn), "{is_offered_again}");
            // The held guest has ended; the other one lives on.
            let gone = beta.actor::<Guest>("held").await.unwrap_err();
            assert_eq!(gone.cause(), Some(&Cause::NoSuchActor));
        }
        assert_eq!(first.number().await, Ok(1));
        beta.withdraw::<Guest>().await;
        let refused = peer.spawn::<Guest>("held", 3).await.unwrap_err();
        assert_eq!((&refused.cause, refused.is_retryable()), (&RemoteSpawnCause::NotOffered, true));
        beta.offer::<Guest>().unwrap();
        let again: ActorRef<Guest> = peer.spawn("held", 3).await.unwrap();
        assert_eq!(again.number().await, Ok(3));
        assert!(beta.withdraw::<Guest>().await);
        for guest in [first, again] {
            guest.stop().await.unwrap();
            guest.wait_stopped().await;
        }
        assert_eq!(host.stop().await, Ok(()));
        host.wait_stopped().await;
    }
    end([alpha, beta]).await;
}
