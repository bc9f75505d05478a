//! Frames of a peer that is broken or hostile.

use proptest::prelude::*;

use crate::proto::pair::Pair;

/// A byte to change, or the frame's end to move, in the frame of that number.
fn damage() -> impl Strategy<Value = (usize, usize, u8, bool)> {
    // Mostly headers: that is where a change means something.
    (0usize..30, prop_oneof![0usize..64, 0usize..1024], 1u8.., any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// A damaged frame is a violation, or says something else that is harmless; both sides go on
    /// without a panic until one sees a violation.
    #[test]
    fn damaged_frames_never_panic(
        damages in proptest::collection::vec(damage(), 1..4),
        sizes in proptest::collection::vec((0usize..2500, any::<bool>()), 1..6),
    ) {
        let mut pair = Pair::confirmed();
        pair.plan(&[[sizes.clone(), sizes.clone()], [sizes, Vec::new()]]);
        let mut seen = 0;
        'run: for round in 0..60u8 {
            for choice in [0, 2, 1, 12, 13, 14] {
                pair.step(choice);
            }
            let side = usize::from(round & 1);
            while pair.transmit(side) {}
            while let Some(mut frame) = pair.sides[side].frames.pop_front() {
                for (number, at, change, cut) in &damages {
                    if *number != seen {
                        continue;
                    }
                    let at = at % frame.len();
                    frame[at] ^= change;
                    if *cut {
                        frame.truncate(at.max(16));
                        let bytes = frame.len() as u32;
                        frame[8..12].copy_from_slice(&bytes.to_le_bytes());
                    }
                }
                seen += 1;
                if pair.receive_bytes(1 - side, &frame).is_err() {
                    break 'run;
                }
            }
        }
    }
}
