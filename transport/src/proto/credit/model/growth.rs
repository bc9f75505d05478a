//! Rings that grow at any time a link could let them, and sides that leave at any time.

use super::super::CreditSettings;
use super::side::{Fault, Side};
use super::{Explored, explore};

/// Two sides with rings that may grow.
#[derive(Debug, Clone, Copy)]
struct Setting {
    rings: [u32; 2],
    reserve: u32,
    thresholds: [u32; 2],
    /// Slots to which each may grow.
    ring_max: [u32; 2],
    /// Data, answers, control and probes that wait on each side.
    backlog: [[u8; 4]; 2],
    /// Which side may begin to leave.
    leaves: [bool; 2],
    slow: bool,
    fault: Fault,
}

impl Setting {
    fn explore(&self) -> Explored {
        let Setting { rings, reserve, thresholds, .. } = *self;
        let start = [0, 1].map(|i| {
            let (ring, peer_ring, threshold) = (rings[i], rings[1 - i], thresholds[i]);
            let settings = CreditSettings { peer_ring, ring, reserve, threshold };
            let settings = settings.check().expect("accepted settings");
            let side = Side::new(settings, self.backlog[i]).dispatching(self.slow);
            side.growing(self.ring_max[i], self.leaves[i], self.fault)
        });
        explore(start)
    }

    fn name(&self) -> String {
        let Setting { rings, ring_max, reserve, thresholds, backlog, leaves, slow, .. } = self;
        format!(
            "rings {rings:?} to {ring_max:?}, reserve {reserve}, threshold {thresholds:?}, backlog \
             {backlog:?}, leaves {leaves:?}, slow {slow}"
        )
    }
}

const ONE_WAY: [[u8; 4]; 2] = [[1, 0, 0, 0], [8, 1, 0, 0]];

/// The first side's ring grows twice, while the second has more to say than either holds at first.
const SMALL: Setting = Setting {
    rings: [4, 4],
    reserve: 1,
    thresholds: [2, 2],
    ring_max: [16, 4],
    backlog: ONE_WAY,
    leaves: [false, false],
    slow: false,
    fault: Fault::None,
};

#[rustfmt::skip]
const SETTINGS: [Setting; 9] = [
    SMALL,
    Setting { leaves: [true, false], ..SMALL },
    Setting { leaves: [false, true], ..SMALL },
    Setting { leaves: [true, true], backlog: [[1, 0, 0, 0], [5, 0, 0, 1]], ..SMALL },
    // Both grow, and both have much to say.
    Setting { ring_max: [8, 8], backlog: [[5, 0, 0, 0], [5, 0, 0, 0]], ..SMALL },
    Setting {
        ring_max: [8, 8], leaves: [true, true], backlog: [[3, 0, 0, 0], [3, 0, 0, 0]], ..SMALL
    },
    // The last step is not a doubling.
    Setting { rings: [6, 4], ring_max: [9, 4], leaves: [true, false], ..SMALL },
    // Without goodbyes, which rely on a driver that dispatches frames it took before it sends: the
    // answer that a goodbye asks for is whatever frame is sent next.
    Setting { slow: true, backlog: [[1, 0, 0, 0], [6, 0, 0, 0]], ..SMALL },
    // The values that a link chooses, on the smallest ring it may have.
    Setting {
        rings: [8, 8], reserve: 2, ring_max: [32, 8], backlog: [[1, 0, 0, 0], [9, 0, 0, 0]],
        leaves: [true, false], ..SMALL
    },
];

/// CR-1, CR-2, CR-6, LK-3: wherever rings grow and sides leave, no frame comes without a
/// receive, nothing waits for ever, and what a side is told of is what its peer has. Each fault
/// breaks one of them.
#[test]
fn model_of_rings_that_grow() {
    let mut states = 0;
    for setting in &SETTINGS {
        let found = setting.explore();
        let Explored { dead, endless, wrong, .. } = found;
        println!("model growth {}: {} states", setting.name(), found.states);
        assert_eq!((dead, endless, wrong), (0, false, None), "{setting:?}");
        states += found.states;
    }
    println!("model growth: {states} states in {} settings", SETTINGS.len());
    for (fault, leaves, breaks) in [
        (Fault::GrowsUntold, [true, false], None),
        (Fault::GrantLost, [false, false], None),
        (Fault::GrantTwice, [false, false], Some("CR-1: slots")),
        (Fault::GrantBeforePost, [false, false], Some("CR-6: a frame without a posted receive")),
    ] {
        let setting = Setting { fault, leaves, ..SMALL };
        let Explored { dead, wrong, .. } = setting.explore();
        println!("model growth with {fault:?}: {dead} dead states, {wrong:?}");
        assert_eq!((dead > 0, wrong), (breaks.is_none(), breaks), "{fault:?}");
    }
}
