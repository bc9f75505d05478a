//! Links that spin: other tasks have their turns, it ends, and nothing is lost at its end.

use std::time::Instant;

use tokio::task::yield_now;

use super::*;
use crate::driver::spin::SEAT;

/// So long that thousands of turns fit, on a slow machine, too.
const LONG: Duration = Duration::from_millis(50);

impl Rig {
    /// A link with one mailbox that has carried nothing yet, and whose driver spins.
    fn spinning(spin: Duration) -> Self {
        let mut rig = Rig::new();
        rig.hear(&[open("one", 1)]);
        rig.driver.spin = Spin::new(Spins::InPlace, spin);
        rig
    }

    /// Runs the driver, to which a tell comes. Returns how often it looked until it slept, and how
    /// many turns another task of its thread had meanwhile.
    async fn looks_and_turns(mut self) -> (u64, u64) {
        self.arrives(&[at(RecordKind::Tell, 0)]);
        let Rig { driver, wire, host, .. } = self;
        let armed = wire.lock().armed;
        let running = tokio::spawn(driver.run());
        let (before, mut turns) = (wire.lock().looks, 0);
        while wire.lock().armed == armed {
            yield_now().await;
            turns += 1;
        }
        let looks = wire.lock().looks - before;
        assert_eq!(host.0.lock()[0].1.waiting.lock().len(), 1, "the tell was delivered");
        for _ in 0..100 {
            yield_now().await;
        }
        assert_eq!(wire.lock().looks - before, looks, "it looks on, though it is quiet");
        running.abort();
        (looks, turns)
    }
}

/// In a runtime with one thread.
#[tokio::test]
async fn others_have_turns_while_a_link_spins_and_it_ends_when_it_is_quiet() {
    let (looks, turns) = Rig::spinning(LONG).looks_and_turns().await;
    assert!(turns >= 100, "{turns} turns");
    assert!(looks >= 2 * turns, "{looks} looks in {turns} turns: none of them in place");
}

/// While another driver spins in place.
#[tokio::test]
async fn a_link_beside_one_that_spins_in_place_looks_once_a_turn() {
    let (other, now) = (usize::MAX, Instant::now());
    SEAT.with(|seat| assert!(seat.take(other, now, now + Duration::from_secs(60))));
    let (looks, turns) = Rig::spinning(LONG).looks_and_turns().await;
    SEAT.with(|seat| seat.leave(other));
    assert!(turns >= 100, "{turns} turns");
    // And once for the tell, and when it arms.
    assert!(looks <= turns + 3, "{looks} looks in {turns} turns");
}

/// PV-8: a frame that comes between the last look of a spin and the arming wakes no task, so it is
/// found by the look that follows.
#[test]
fn a_frame_that_comes_when_a_spin_ends_is_not_lost() {
    let mut rig = Rig::spinning(Duration::from_nanos(1));
    rig.arrives(&[at(RecordKind::Tell, 0)]);
    assert!(matches!(rig.poll(), Poll::Ready(Turn::Yield)), "a receiver may have been woken");
    rig.arrives(&[at(RecordKind::Tell, 0)]);
    {
        let wire = &mut *rig.wire.lock();
        wire.at_arm = wire.done.pop_back();
    }
    while matches!(rig.poll(), Poll::Ready(Turn::Yield)) {}
    assert!(rig.wire.lock().at_arm.is_none(), "it has armed");
    assert_eq!(rig.host.0.lock()[0].1.waiting.lock().len(), 2);
}

/// Frames without messages keep no driver awake.
#[test]
fn a_probe_and_a_notice_start_no_spin() {
    let mut rig = Rig::spinning(Duration::from_secs(3600));
    let probe = (RecordHeader::new(RecordKind::Probe), Vec::new());
    for _ in 0..3 {
        rig.arrives(std::slice::from_ref(&probe));
        assert!(rig.poll().is_pending(), "it spins after a probe");
    }
    rig.arrives(&[at(RecordKind::Blocked, 0)]);
    assert!(rig.poll().is_pending(), "it spins after a notice");
    rig.arrives(&[at(RecordKind::Tell, 0)]);
    assert!(matches!(rig.poll(), Poll::Ready(Turn::Yield)));
}
