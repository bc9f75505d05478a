//! Shares that end by themselves, and memory that another node gives.

use std::sync::Arc;
use std::time::Duration;

use ringpost::limits::REVOKE_PATIENCE;
use ringpost::prelude::*;
use ringpost::region::{
    Access, AllocateError, MemoryOffer, PeerRegion, Region, RegionError, RemoteRegion,
};
use tokio::time::Instant;

use super::world::{World, end, until};
use crate::random::Dice;
use crate::remote::PATIENCE;

/// Leases its region.
#[actor]
struct Lessor {
    cells: Arc<Region<u64>>,
}

#[handlers]
impl Lessor {
    #[handler]
    fn lease(&mut self, for_millis: u64, cx: &mut Context<Self>) -> RemoteRegion<u64> {
        let lease = self.cells.lease(Access::READ).until_stopped(cx);
        let time = Duration::from_millis(for_millis);
        lease.for_at_most(time).share().unwrap()
    }

    /// Returns a renewable lease for each of these times.
    #[handler]
    fn lease_each(&mut self, millis: Vec<u64>) -> Vec<RemoteRegion<u64>> {
        let leases = millis.into_iter().map(|millis| {
            let lease = self.cells.lease(Access::READ).renewable();
            lease.for_at_most(Duration::from_millis(millis)).share().unwrap()
        });
        leases.collect()
    }

    /// Shares until its actor ends.
    #[handler]
    fn share(&mut self, cx: &mut Context<Self>) -> RemoteRegion<u64> {
        self.cells.lease(Access::ALL).until_stopped(cx).share().unwrap()
    }

    /// Shares for a time.
    #[handler]
    fn share_for(&mut self, millis: u64) -> RemoteRegion<u64> {
        let lease = self.cells.lease(Access::ALL);
        lease.for_at_most(Duration::from_millis(millis)).share().unwrap()
    }

    #[handler]
    fn leave(&self, cx: &mut Context<Self>) {
        cx.stop();
    }
}

/// A revocation waits for the end of its share, even if that end is under way already: whatever
/// began it, nothing reaches the memory after the revocation has returned.
// Promised in docs/SEMANTICS.md.
pub async fn a_revocation_waits_for_one_that_is_under_way(world: &World) {
    const LEN: usize = 100_000;
    let [alpha, beta] = world.pair().await;
    for round in 0..16 {
        let cells = Arc::new(beta.region::<u64>(LEN).unwrap());
        let lessor = beta.spawn("lessor", Lessor { cells: cells.clone() }).await.unwrap();
        let there = alpha.actor::<Lessor>("beta/lessor").await.unwrap();
        let shared = match round % 4 {
            0 => there.share_for(20).await.unwrap(),
            _ => there.share().await.unwrap(),
        };
        let writes = tokio::spawn({
            let shared = shared.clone();
            async move {
                for nth in 1.. {
                    if let Err(error) = shared.write(0, &vec![nth; LEN]).await {
                        return error;
                    }
                }
                unreachable!()
            }
        });
        tokio::time::sleep(Duration::from_micros(20_000 + 137 * round)).await;
        match round % 4 {
            // Its time has ended it.
            0 => {}
            1 => {
                let mut first = Box::pin(cells.revoke(&shared));
                assert!(futures::poll!(&mut first).is_pending() || cells.read(..).is_ok());
            }
            2 => {
                there.leave().await.unwrap();
                lessor.wait_stopped().await;
            }
            _ => {
                drop(tokio::spawn(cells.revoke(&shared)));
                tokio::task::yield_now().await;
            }
        }
        match round % 8 {
            0..4 => drop(cells.revoke(&shared).await),
            _ => cells.revoke_all().await,
        }
        let at_its_end = cells.read(..).unwrap();
        let error = writes.await.unwrap();
        match error {
            RegionError::Unknown(_) => {}
            RegionError::Expired => assert_eq!(round % 4, 0),
            error => assert_eq!(error, RegionError::Revoked),
        }
        assert!(cells.read(..).unwrap() == at_its_end, "round {round}: written after its end");
        if round % 4 != 2 {
            there.leave().await.unwrap();
            lessor.wait_stopped().await;
        }
    }
    end([alpha, beta]).await;
}

/// A lease ends after its time and not before, and with its actor, and the memory lives on.
// Promised in docs/SEMANTICS.md.
pub async fn a_lease_ends_with_its_time_or_its_actor(world: &World) {
    let [alpha, beta] = world.pair().await;
    let cells = Arc::new(beta.region_of(&[4u64]).unwrap());
    let kept = cells.share(Access::READ).unwrap();
    let lessor = beta.spawn("lessor", Lessor { cells: cells.clone() }).await.unwrap();
    let there = alpha.actor::<Lessor>("beta/lessor").await.unwrap();
    // How late it ends can be told where time is simulated.
    let is_late = |since: Instant, time: Duration| {
        matches!(world, World::Sim(_)) && since.elapsed() > time + REVOKE_PATIENCE
    };
    let (begun, time) = (Instant::now(), Duration::from_millis(100));
    let [short, long] = [there.lease(100).await.unwrap(), there.lease(600_000).await.unwrap()];
    assert_eq!(long.get(0).await, Ok(4));
    // It ends in the midst of its use.
    let leased = Instant::now();
    while let Ok(found) = short.get(0).await {
        assert_eq!(found, 4);
        assert!(!is_late(leased, time), "it goes on after {:?}", leased.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(begun.elapsed() >= time, "it has ended after {:?}", begun.elapsed());
    assert_eq!(short.get(0).await, Err(RegionError::Expired));
    assert_eq!(long.get(0).await, Ok(4));
    there.leave().await.unwrap();
    lessor.wait_stopped().await;
    let stopped = Instant::now();
    while long.get(0).await.is_ok() {
        assert!(!is_late(stopped, Duration::ZERO), "it goes on without its actor");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(long.get(0).await, Err(RegionError::Revoked));
    // An actor that ends in the handler that leased.
    let (told, lease) = tokio::sync::oneshot::channel();
    let lessor =
        beta.spawn("hasty", Hasty { cells: cells.clone(), told: Some(told) }).await.unwrap();
    lessor.lease_and_stop().await.unwrap();
    lessor.wait_stopped().await;
    assert_eq!(lease.await.unwrap().get(0).await, Err(RegionError::Revoked));
    assert_eq!(kept.get(0).await, Ok(4));
    end([alpha, beta]).await;
}

/// A lease, which ends between two moments.
struct Term {
    lease: RemoteRegion<u64>,
    time: Duration,
    end: [Instant; 2],
    has_ended: bool,
}

impl Term {
    /// Notes that its time began between these moments.
    fn begin(&mut self, since: Instant) {
        self.end = [since, Instant::now()].map(|begun| begun + self.time);
    }

    /// Notes how an operation ended that began then.
    fn note<V>(&mut self, begun: Instant, ended: Result<V, RegionError>, is_sim: bool) {
        match ended {
            Ok(_) => {
                assert!(!self.has_ended, "it goes on after its end");
                // A peer that has not heard of the end may go on for a while.
                let is_late = is_sim && begun > self.end[1] + REVOKE_PATIENCE;
                assert!(!is_late, "{:?} after its end", begun - self.end[1]);
            }
            Err(error) => {
                assert_eq!(error, RegionError::Expired);
                assert!(Instant::now() >= self.end[0], "it ends before its time");
                self.has_ended = true;
            }
        }
    }
}

/// One message renews ten of a thousand leases, which go on. Each other lease ends in its time.
// Promised in docs/SEMANTICS.md.
pub async fn leases_are_renewed_together_and_end_apart(world: &World) {
    const LEASES: u64 = 1_000;
    let is_sim = matches!(world, World::Sim(_));
    let [alpha, beta] = world.pair().await;
    let cells = Arc::new(beta.region_of(&[4u64]).unwrap());
    beta.spawn("lessor", Lessor { cells: cells.clone() }).await.unwrap();
    let there = alpha.actor::<Lessor>("beta/lessor").await.unwrap();
    let times: Vec<u64> = (0..LEASES).map(|nth| 2_000 + nth).collect();
    let begun = Instant::now();
    let leases = there.lease_each(times.clone()).await.unwrap();
    let mut terms: Vec<Term> = leases
        .into_iter()
        .zip(&times)
        .map(|(lease, time)| {
            let time = Duration::from_millis(*time);
            let mut term = Term { lease, time, end: [begun; 2], has_ended: false };
            term.begin(begun);
            term
        })
        .collect();
    let sent = || alpha.links()[0].1.messages_sent;
    let mut chance = Dice::new(1);
    while begun.elapsed() < Duration::from_secs(4) {
        tokio::time::sleep(Duration::from_millis(1 + chance.below(500) as u64)).await;
        let (since, before) = (Instant::now(), sent());
        let renewed = alpha.renew(terms.iter().step_by(100).map(|it| &it.lease)).await;
        let is_one = renewed.iter().any(Result::is_err) || sent() == before + 1;
        assert!(is_one, "{} messages", sent() - before);
        for (term, renewed) in terms.iter_mut().step_by(100).zip(renewed) {
            let is_renewed = renewed.is_ok();
            term.note(since, renewed, false);
            if is_renewed {
                term.begin(since);
            }
        }
        for _ in 0..20 {
            let (term, begun) = (&mut terms[chance.below(LEASES as usize)], Instant::now());
            term.note(begun, term.lease.get(0).await, is_sim);
        }
    }
    for (nth, term) in terms.iter_mut().enumerate() {
        let begun = Instant::now();
        term.note(begun, term.lease.get(0).await, is_sim);
        assert!(!is_sim || term.has_ended == (nth % 100 != 0), "lease {nth}");
    }
    let kept = there.lease_each(vec![600_000]).await.unwrap().remove(0);
    let bare = there.share().await.unwrap();
    let not = there.share_for(600_000).await.unwrap();
    let no = || Err(RegionError::NoAccess("renew"));
    assert_eq!(alpha.renew([&bare, &kept, &not]).await, [no(), Ok(()), no()]);
    cells.revoke(&kept).await;
    let node = alpha.clone();
    let renewed = tokio::spawn(async move { node.renew([&kept, &kept]).await }).await.unwrap();
    assert_eq!(renewed, [(); 2].map(|()| Err(RegionError::Revoked)));
    end([alpha, beta]).await;
}

/// Reads for others.
#[actor]
struct User;

#[handlers]
impl User {
    #[handler]
    async fn has(&self, cells: RemoteRegion<u64>) -> bool {
        cells.get(0).await.is_ok()
    }
}

/// The holders of a region are those nodes that have used each share, by a model.
pub async fn the_holders_of_a_region_are_known(world: &World) {
    let [alpha, beta] = world.pair().await;
    let gamma = world.node("gamma", &[&alpha, &beta]).await;
    gamma.ready(2).await.unwrap();
    let begun = Instant::now();
    let cells = alpha.region::<u64>(16).unwrap();
    let mut users = Vec::new();
    for node in [&beta, &gamma] {
        node.spawn("user", User).await.unwrap();
        users.push(alpha.actor::<User>(&format!("{}/user", node.name())).await.unwrap());
    }
    let accesses = [Access::READ, Access::READ | Access::WRITE];
    let (mut chance, mut shares, mut model) = (Dice::new(3), Vec::new(), Vec::new());
    for round in 0..60 {
        match chance.below(4) {
            0 => {
                let (from, access) = (chance.below(16), accesses[chance.below(2)]);
                shares.push((cells.share_range(from.., access).unwrap(), from, access));
            }
            1 if !shares.is_empty() => {
                let (share, from, access) = shares.swap_remove(chance.below(shares.len()));
                assert!(cells.revoke(&share).await);
                model.retain(|(_, of)| *of != (share.clone(), from, access));
            }
            _ if !shares.is_empty() => {
                let (of, nth) = (shares[chance.below(shares.len())].clone(), chance.below(2));
                assert!(users[nth].has(of.0.clone()).await.unwrap());
                if !model.contains(&(nth, of.clone())) {
                    model.push((nth, of));
                }
            }
            _ => {}
        }
        let found = cells.holders();
        assert!(found.iter().all(|it| it.since >= begun && it.since <= Instant::now()));
        let found = found.into_iter().map(|it| (it.node.to_string(), it.range, it.access));
        let wanted = model.iter().map(|(nth, (_, from, access))| {
            (["beta", "gamma"][*nth].to_owned(), *from..16, *access)
        });
        let [mut found, mut wanted]: [Vec<_>; 2] = [found.collect(), wanted.collect()];
        found.sort_by_key(|it| format!("{it:?}"));
        wanted.sort_by_key(|it| format!("{it:?}"));
        assert_eq!(found, wanted, "round {round}");
    }
    gamma.shutdown(PATIENCE).await;
    until(|| cells.holders().iter().all(|it| &*it.node == "beta")).await;
    end([alpha, beta]).await;
}

/// Leases and ends in one handler.
#[actor]
struct Hasty {
    cells: Arc<Region<u64>>,
    told: Option<tokio::sync::oneshot::Sender<RemoteRegion<u64>>>,
}

#[handlers]
impl Hasty {
    #[handler]
    fn lease_and_stop(&mut self, cx: &mut Context<Self>) {
        let lease = self.cells.lease(Access::READ).until_stopped(cx).share().unwrap();
        cx.stop();
        let _ = self.told.take().map(|told| told.send(lease));
    }
}

/// A node has another one allocate memory, within what that offers, until it is dropped or the node
/// is down.
// Promised in docs/SEMANTICS.md.
pub async fn a_node_gives_another_one_memory(world: &World) {
    let [alpha, beta] = world.pair().await;
    let peer = alpha.peer("beta");
    let refused = peer.region::<u64>(1).await.unwrap_err();
    assert_eq!(refused, AllocateError::NotOffered { node: "beta".into() });
    assert!(refused.is_retryable());
    let offer = |bytes| MemoryOffer { bytes_per_node: bytes, bytes: 1 << 20 };
    beta.offer_memory(offer(64 * 1024)).unwrap();
    // A look-up that failed may be remembered for a moment.
    let first = loop {
        match peer.region::<u64>(4_096).await {
            Ok(first) => break first,
            Err(AllocateError::NotOffered { .. }) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    first.remote().write(4_090, &[1, 2, 3]).await.unwrap();
    assert_eq!(first.remote().read(4_090..4_094).await, Ok(vec![1, 2, 3, 0]));
    assert_eq!(first.remote().fetch_add(0, 2).await, Ok(0));
    let second = peer.region::<[u8; 3]>(10_922).await.unwrap();
    second.remote().write(10_921, &[[7; 3]]).await.unwrap();
    assert_eq!(second.remote().get(10_921).await, Ok([7; 3]));
    let over = peer.region::<u8>(1).await.unwrap_err();
    assert_eq!(over, AllocateError::OverQuota { node: "beta".into(), left: 0 });
    assert!(over.is_retryable());
    let clone = first.remote().clone();
    first.release().await.unwrap();
    assert_eq!(clone.get(0).await, Err(RegionError::Revoked));
    let third = peer.region::<u8>(32_768).await.unwrap();
    assert!(peer.region::<u8>(1).await.is_err());
    beta.offer_memory(offer(68 * 1024)).unwrap();
    let fourth = peer.region::<u8>(1).await.unwrap();
    fourth.remote().set(0, 9).await.unwrap();
    assert_eq!(fourth.remote().get(0).await, Ok(9));
    drop(fourth);
    // It comes back without a wait, too.
    while let Err(error) = peer.region::<u8>(1).await.map(PeerRegion::release) {
        assert!(matches!(error, AllocateError::OverQuota { .. }), "{error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    alpha.shutdown(PATIENCE).await;
    until(|| beta.snapshot().shared.shares == 0).await;
    drop((second, third));
    beta.shutdown(PATIENCE).await;
}

/// A node that asks for more than it is offered, again and again and all at once, gets just that,
/// and takes it from no other one.
// Promised in docs/SEMANTICS.md.
pub async fn a_node_that_asks_for_too_much_takes_it_from_no_other(world: &World) {
    const PAGE: usize = 4096;
    let alpha = world.node("alpha", &[]).await;
    let quota = 16 * PAGE as u64;
    alpha.offer_memory(MemoryOffer { bytes_per_node: quota, bytes: 2 * quota }).unwrap();
    let beta = world.node("beta", &[&alpha]).await;
    let gamma = world.node("gamma", &[&alpha]).await;
    alpha.ready(2).await.unwrap();
    let (greedy, modest) = (beta.peer("alpha"), gamma.peer("alpha"));
    let (mut given, mut refused) = (Vec::new(), 0);
    for round in 0..20 {
        let asks =
            (0..32).map(|nth| greedy.region::<u8>(if nth % 2 == 0 { PAGE } else { 1 << 30 }));
        for asked in futures::future::join_all(asks).await {
            match asked {
                Ok(region) => given.push(region),
                Err(AllocateError::OverQuota { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(given.len(), 16, "round {round}");
        let shared = alpha.snapshot().shared;
        assert_eq!((shared.shares, shared.bytes), (16, quota), "round {round}");
        let own = modest.region::<u8>(16 * PAGE).await.unwrap();
        own.remote().set(0, round).await.unwrap();
        assert_eq!(own.remote().get(0).await, Ok(round));
        own.release().await.unwrap();
        // It gets again as much as it gives back, and no more.
        for region in given.drain(..usize::from(round) % 4) {
            region.remote().set(1, 1).await.unwrap();
            region.release().await.unwrap();
        }
    }
    assert_eq!(refused, 20 * 32 - 16 - (0..19).map(|round| round % 4).sum::<usize>());
    drop(given);
    end([beta, gamma]).await;
    alpha.shutdown(PATIENCE).await;
}
