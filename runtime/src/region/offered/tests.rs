//! Memory requested from a node, and tenants that end.

use super::*;
use crate::error::RegionError;

/// LM-1, LM-2: no number in a request does harm, and neither do many requests or many nodes. Each
/// request takes at least a page, and returned memory is given again.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn requests_without_measure_are_bounded() {
    let node = Node::builder("alpha").listen("127.0.0.1:0").start().await.expect("it starts");
    let offer = |bytes_per_node, bytes| node.offer_memory(MemoryOffer { bytes_per_node, bytes });
    assert_eq!(offer(10 * PAGE_BYTES + 1, u64::MAX), Ok(()));
    let to: Recipient<Allocate, AllocateReply> = Recipient::bind(&node, allocator("alpha".into()));
    let tenant = node.spawn_anonymous(Tenant).await.expect("it is spawned");
    for bytes in [u64::MAX, u64::MAX - 4095, 1 << 63, 11 * PAGE_BYTES] {
        let asked = to.ask(Allocate { bytes, tenant: tenant.clone() }).await;
        let refused = asked.expect("it answers").expect_err("it is too much");
        assert_eq!(refused, NotAllocated::OverQuota(10 * PAGE_BYTES + 1));
    }
    let peer = node.peer("alpha");
    let mut kept = Vec::new();
    for _ in 0..10 {
        kept.push(peer.region::<u8>(1).await.expect("a page is left"));
    }
    let none = |left| AllocateError::OverQuota { node: "alpha".into(), left };
    for _ in 0..2_000 {
        assert_eq!(peer.region::<u8>(0).await.expect_err("none is left"), none(1));
    }
    // The last offer is valid, for all nodes together.
    assert_eq!(offer(u64::MAX, 11 * PAGE_BYTES), Ok(()));
    assert_eq!(peer.region::<u8>(4_097).await.expect_err("too much"), none(PAGE_BYTES));
    kept.push(peer.region::<u8>(4_096).await.expect("a page is left"));
    assert_eq!(peer.region::<u8>(1).await.expect_err("none is left"), none(0));
    for region in kept {
        region.release().await.expect("it answers");
    }
    let all = peer.region::<u64>(11 * 512).await.expect("all has come back");
    all.release().await.expect("it answers");
    // A request for offered but missing memory reduces nothing that exists.
    assert_eq!(offer(u64::MAX, u64::MAX), Ok(()));
    for bytes in [1 << 62, (1 << 62) - 1] {
        let asked = to.ask(Allocate { bytes, tenant: tenant.clone() }).await;
        let refused = asked.expect("it answers");
        assert!(matches!(refused, Err(NotAllocated::Refused(_))), "{refused:?}");
    }
    assert_eq!(offer(11 * PAGE_BYTES, u64::MAX), Ok(()));
    let all = peer.region::<u64>(11 * 512).await.expect("a refusal took nothing");
    drop(all);
    node.shutdown(std::time::Duration::from_secs(60)).await;
    assert_eq!(offer(1, 1), Err(OfferError::Shutdown));
}

/// LM-2: a wait for a region leaves no tenant, wherever its future was dropped.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_wait_for_a_region_that_is_dropped_leaves_no_tenant() {
    let node = Node::builder("alpha").start().await.expect("it starts");
    node.offer_memory(MemoryOffer { bytes_per_node: 1 << 20, bytes: 1 << 20 }).expect("it may");
    let peer = node.peer("alpha");
    // Counts the allocator, too.
    let actors = node.snapshot().actors.len();
    let mut polls = 0;
    loop {
        polls += 1;
        let mut wait = Box::pin(peer.region::<u64>(1));
        let mut given = None;
        for _ in 0..polls {
            tokio::task::yield_now().await;
            if let std::task::Poll::Ready(region) = futures::poll!(&mut wait) {
                given = Some(region.expect("it is given"));
                break;
            }
        }
        drop(wait);
        if given.is_some() {
            break;
        }
    }
    assert!(polls > 1, "the first poll is one of a wait");
    let none_is_left = async {
        while node.snapshot().actors.len() > actors {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    let minute = std::time::Duration::from_secs(60);
    let ended = tokio::time::timeout(minute, none_is_left).await;
    assert!(ended.is_ok(), "{:?}", node.snapshot().actors);
    // Memory given to a dropped future is back, too.
    let all_is_back = async {
        while let Err(error) = peer.region::<u8>(1 << 20).await {
            assert!(matches!(error, AllocateError::OverQuota { .. }), "{error}");
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(minute, all_is_back).await.expect("the whole offer can be had");
}

/// LM-2: a sender that does not know a region cannot return it for its tenant.
#[tokio::test]
async fn a_stranger_releases_nothing() {
    let node = Node::builder("alpha").start().await.expect("it starts");
    let offer = MemoryOffer { bytes_per_node: 1 << 20, bytes: 1 << 20 };
    node.offer_memory(offer).expect("it offers");
    let kept = node.peer("alpha").region::<u64>(1).await.expect("it is given");
    let own = node.region(1).expect("it is small");
    let to: Recipient<Release, bool> = Recipient::bind(&node, allocator("alpha".into()));
    let release = Release { shared: own.share(Access::ALL).unwrap(), tenant: kept.tenant.clone() };
    // To a stranger it looks like a region that is back already.
    assert_eq!(to.ask(release).await, Ok(false));
    assert_eq!(kept.remote().fetch_add(0, 1).await, Ok(0));
    let (shared, tenant) = (kept.shared.clone(), kept.tenant.clone());
    let releases = [(); 2]
        .map(|()| to.ask(Release { shared: shared.clone(), tenant: tenant.clone() }).into_future());
    assert_eq!(futures::future::join_all(releases).await, [Ok(true), Ok(false)]);
    assert_eq!(kept.remote().get(0).await, Err(RegionError::Revoked));
    assert_eq!(kept.release().await, Ok(()), "what is back already is no error");
}

/// LM-2: the allocator does not watch a tenant that has returned its region and may live on.
/// Otherwise its watches would grow with each region.
#[tokio::test]
async fn a_tenant_that_gave_its_region_back_is_not_watched() {
    let node = Node::builder("alpha").start().await.expect("it starts");
    node.offer_memory(MemoryOffer { bytes_per_node: 1 << 20, bytes: 1 << 20 }).expect("it may");
    let begun = node.begin_anonymous(Tenant).expect("it is spawned");
    let (tenant, resident) = (begun.actor, begun.resident);
    begun.starts.await.expect("it starts");
    let to: Recipient<Allocate, AllocateReply> = Recipient::bind(&node, allocator("alpha".into()));
    let back: Recipient<Release, bool> = Recipient::bind(&node, allocator("alpha".into()));
    let allocate = |bytes| to.ask(Allocate { bytes, tenant: tenant.clone() }).into_future();
    allocate(u64::MAX).await.expect("it answers").expect_err("it is too much");
    let unwatched = Arc::strong_count(&resident);
    let shared = allocate(8).await.expect("it answers").expect("it is given");
    assert!(Arc::strong_count(&resident) > unwatched, "a watch holds it");
    assert_eq!(back.ask(Release { shared, tenant: tenant.clone() }).await, Ok(true));
    // It is not watched any more: the aborted task disappears when it is polled.
    while Arc::strong_count(&resident) > unwatched {
        tokio::task::yield_now().await;
    }
}

/// The node of a failed request may be down, and may run again later.
#[test]
fn a_node_that_was_not_asked_says_why() {
    let down = |cause| NodeDown { cause, down_ms: 0 };
    let node = || "beta".into();
    let unsent = |cause| AskCause::NotSent(cause);
    let error = |cause| AskError::new(cause, allocator(node()), "Allocate");
    for cause in [NodeDownCause::Left, NodeDownCause::Restarted] {
        let down = down(cause);
        let asked = unsent(Cause::NodeUnreachable(down.clone()));
        assert!(is_over(&asked), "{asked:?}");
        let said = not_asked(node(), error(asked));
        assert_eq!(said, AllocateError::NodeDown { node: node(), down });
    }
    let unknown = error(unsent(Cause::Timeout)).of_unknown_node();
    assert_eq!(not_asked(node(), unknown), AllocateError::UnknownNode { node: node() });
    let silent = NodeDownCause::Silent { silent_ms: 9_000, last: "refused".into() };
    for (cause, wanted) in [
        (Cause::NoNetwork, AllocateError::NoNetwork),
        (Cause::Shutdown, AllocateError::Shutdown),
        (
            Cause::NodeUnreachable(down(silent.clone())),
            AllocateError::NodeDown { node: node(), down: down(silent) },
        ),
    ] {
        assert!(!is_over(&unsent(cause.clone())), "{cause:?}");
        assert_eq!(not_asked(node(), error(unsent(cause))), wanted);
    }
}
