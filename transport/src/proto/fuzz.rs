//! Frames of a peer that writes anything, after an honest beginning.

use super::credit::FIRST_COUNT;
use super::header::RecordKind;
use super::pair::{FRAME_MAX, Frame, Pair, name};

/// The side that is attacked.
const SIDE: usize = 0;
/// Bytes of a frame after which its tail begins.
const TAIL_FROM: usize = 900;

/// Reads `input` as a row of frames, each after two bytes of instructions: what the attacked side
/// does before it, which of the frame's header fields are put right, and its length in steps of
/// eight bytes. Ends at the first violation.
pub fn frames(input: &[u8]) {
    let mut pair = opened();
    let mut rest = input;
    while let Some((&[act, length], after)) = rest.split_first_chunk() {
        let (bytes, after) = after.split_at(after.len().min(usize::from(length) * 8));
        rest = after;
        act_on(&mut pair, act >> 3);
        let mut frame = bytes.to_vec();
        frame.truncate(FRAME_MAX);
        right(&mut frame, act & 7, &pair);
        // Of a long one the end is its tail.
        let tail = frame.split_off(frame.len().min(TAIL_FROM));
        if pair.receive_frame(SIDE, &Frame { bytes: frame, tail }).is_err() {
            // Nothing is read after a violation; the link still ends.
            pair.sides[SIDE].link.distrust();
            break;
        }
    }
    pair.transmit(SIDE);
    let (_, report) = pair.sides[SIDE].link.end();
    assert_eq!(report.is_none(), pair.sides[SIDE].link.is_distrusted());
}

/// Two sides with a mailbox open each way, and messages on the way from the attacked one.
fn opened() -> Pair {
    let mut pair = Pair::lending(7);
    pair.open(SIDE, "0");
    pair.open(1 - SIDE, "0");
    let side = &mut pair.sides[SIDE];
    side.send(&name("0"), &[1; 40], RecordKind::Tell);
    side.send(&name("0"), &[2; 40], RecordKind::Ask);
    side.out.outlet(&name("1"), &mut 0);
    pair.transmit(SIDE);
    pair
}

/// Makes the attacked side act, by the bits of `act`.
fn act_on(pair: &mut Pair, act: u8) {
    if act & 1 != 0 {
        pair.transmit(SIDE);
        pair.fetch(SIDE);
    }
    if act & 2 != 0 {
        pair.sides[SIDE].take(0);
    }
    if act & 4 != 0 {
        pair.sides[SIDE].send(&name("0"), &[3; 1500], RecordKind::Tell);
    }
    if act & 8 != 0 {
        pair.close(SIDE, 0);
    }
    if act & 16 != 0 {
        pair.sides[SIDE].link.leave();
    }
}

/// Corrects fields of a frame's header, so that its records are read.
fn right(frame: &mut [u8], fields: u8, pair: &Pair) {
    let bytes = frame.len() as u32;
    let Some(header) = frame.first_chunk_mut::<16>() else { return };
    if fields & 1 != 0 {
        header[0] = 2;
        header[8..12].copy_from_slice(&bytes.to_le_bytes());
    }
    if fields & 2 != 0 {
        let sent = pair.sides[SIDE].link.frames_sent();
        header[4..8].copy_from_slice(&sent.to_le_bytes());
    }
    if fields & 4 != 0 {
        let count = FIRST_COUNT.wrapping_add(header[4].into());
        header[4..8].copy_from_slice(&count.to_le_bytes());
    }
}
