//! A data connection on which anything is written, and a sealed one with a stranger between its
//! ends.

use std::io::{IoSlice, IoSliceMut};

use rkyv::util::AlignedVec;
use snow::TransportState;

use super::input::{Event, Input};
use super::queues::Queues;
use super::seal::Seal;
use crate::entropy::Entropy;
use crate::fabric::{QueuePairConfig, Side};
use crate::memory::{Owner, TailRoom};
use crate::noise::{self, HANDSHAKE_MESSAGE_BYTES};

const SLOTS: u32 = 8;
const SLOT_BYTES: usize = 256;

/// Feeds `input` to a queue pair's reading side, in steps of a size that the first byte gives. A
/// receive that is filled is posted again unless the second byte says otherwise.
pub fn streams(input: &[u8]) {
    let Some((&[step, again], mut rest)) = input.split_first_chunk() else { return };
    let mut queues = queues();
    let mut input = Input::new();
    let step = usize::from(step).max(1) * 8;
    while !rest.is_empty() && !queues.failed() {
        let fed = input.feed(&rest[..rest.len().min(step)], &mut queues);
        rest = &rest[fed..];
        while let Some(event) = input.next(&mut queues) {
            match event {
                Event::Arrived { bytes, solicited } => {
                    assert!(bytes as usize <= SLOT_BYTES, "TC-4");
                    queues.arrived(bytes, solicited);
                    if again & 1 == 0 {
                        repost(&mut queues);
                    }
                }
                Event::TailWanted => {
                    let (_, tail) = input.tail_wanted().expect("it has just begun to wait");
                    let mut memory = AlignedVec::new();
                    memory.resize(tail, 0);
                    input.put_tail_room(TailRoom::new(memory, 0..tail));
                }
                Event::Overrun | Event::Garbage => return,
            }
        }
    }
}

fn queues() -> Queues {
    let config = QueuePairConfig {
        send_queue: 0,
        recv_queue: SLOTS,
        inline_bytes: 0,
        rnr_retry: 0,
        side: Side::Acceptor,
        binding: Vec::new(),
        avoid: Vec::new(),
    };
    let owner = Owner::new();
    let mut queues = Queues::new(&config, owner);
    let mut slots = owner.heap(SLOTS as usize * SLOT_BYTES).into_slots(SLOT_BYTES);
    slots.truncate(SLOTS as usize);
    queues.post_recv(&mut slots).expect("there is room for them");
    queues
}

/// Posts the filled receives again.
fn repost(queues: &mut Queues) {
    let mut completions = Vec::new();
    queues.poll(&mut completions, SLOTS as usize);
    let mut slots = completions.into_iter().map(|completion| completion.slot).collect();
    queues.post_recv(&mut slots).expect("they were taken out of it");
}

/// One end of a sealed connection reads the bytes that the other end sealed and a stranger between
/// them changed. The first byte gives the size of a read, each pair of later bytes an action of the
/// stranger. TC-7: the chunks before the first change are passed on, all of them, and nothing else.
pub fn seals(input: &[u8]) {
    let Some((&step, mut rest)) = input.split_first() else { return };
    let [dialler, acceptor] = keys();
    let (mut sender, mut receiver) = (Seal::new(dialler), Seal::new(acceptor));
    let mut between = Between::default();
    while let Some((&[what, how], more)) = rest.split_first_chunk() {
        rest = more;
        let (what, how) = (usize::from(what), usize::from(how));
        match what % 8 {
            0 => between.flip(how, what / 8),
            1 => between.wire.truncate(between.wire.len().saturating_sub(how)),
            2 => between.repeat(how),
            3 => between.swap(),
            4 => {
                let (inserted, more) = rest.split_at(rest.len().min(how));
                between.wire.extend_from_slice(inserted);
                rest = more;
            }
            _ => between.honest(&mut sender, (how + 1) * (1 + what / 8)),
        }
    }
    let passed = passed_on(&mut receiver, &between.wire, usize::from(step).max(1) * 8);
    assert!(passed == between.plain[..between.unchanged()], "TC-7");
}

/// Returns the bytes of `wire` that a receiver passes on when it reads `step` bytes at once.
fn passed_on(receiver: &mut Seal, mut wire: &[u8], step: usize) -> Vec<u8> {
    let mut passed = Vec::new();
    loop {
        let mut plain = [0; 1000];
        match receiver.open(&mut [IoSliceMut::new(&mut plain)]) {
            Ok(0) if wire.is_empty() => return passed,
            Ok(0) => {
                let room = receiver.room();
                let read = room.len().min(step).min(wire.len());
                room[..read].copy_from_slice(&wire[..read]);
                wire = &wire[read..];
                receiver.add(read);
            }
            Ok(bytes) => passed.extend_from_slice(&plain[..bytes]),
            Err(_) => return passed,
        }
    }
}

/// The bytes that were sealed, and the bytes that a stranger made of them.
#[derive(Default)]
struct Between {
    plain: Vec<u8>,
    sealed: Vec<u8>,
    /// Of each chunk, where it ends among the sealed bytes and the plain ones.
    ends: Vec<(usize, usize)>,
    wire: Vec<u8>,
}

impl Between {
    fn honest(&mut self, sender: &mut Seal, bytes: usize) {
        let plain: Vec<u8> = (0..bytes).map(|at| (self.ends.len() + at) as u8).collect();
        assert_eq!(sender.seal(&[IoSlice::new(&plain)]), bytes, "it is less than a chunk");
        self.plain.extend(plain);
        let sealed = sender.unwritten().to_vec();
        sender.note_written(sealed.len());
        self.sealed.extend_from_slice(&sealed);
        self.wire.extend(sealed);
        self.ends.push((self.sealed.len(), self.plain.len()));
    }

    fn flip(&mut self, back: usize, bit: usize) {
        let at = self.wire.len().saturating_sub(back + 1);
        if let Some(byte) = self.wire.get_mut(at) {
            *byte ^= 1 << (bit % 8);
        }
    }

    /// Repeats the last bytes, or the last chunk.
    fn repeat(&mut self, bytes: usize) {
        let mut ends = self.ends.iter().rev().map(|(end, _)| end);
        let last = ends.next().map_or(0, |last| last - ends.next().unwrap_or(&0));
        let bytes = if bytes == 0 { last } else { bytes };
        let from = self.wire.len().saturating_sub(bytes);
        self.wire.extend_from_within(from..);
    }

    /// Swaps the last two chunks, if they are the end of the wire.
    fn swap(&mut self) {
        if let [.., (first, _), (second, _), (third, _)] = self.ends[..]
            && let Some(start) = self.wire.len().checked_sub(third - first)
        {
            self.wire[start..].rotate_left(second - first);
        }
    }

    /// Returns how many plain bytes lie in the chunks before the first change.
    fn unchanged(&self) -> usize {
        let same = self.sealed.iter().zip(&self.wire).take_while(|(a, b)| a == b).count();
        let whole = self.ends.iter().take_while(|(end, _)| *end <= same);
        whole.last().map_or(0, |(_, plain)| *plain)
    }
}

/// Returns the keys of both ends of a data connection.
pub(super) fn keys() -> [TransportState; 2] {
    let (key, prologue) = ([7; 32], b"a link");
    let mut dialler = noise::data_connection(true, &key, prologue, &Entropy::seeded(1));
    let mut acceptor = noise::data_connection(false, &key, prologue, &Entropy::seeded(2));
    let mut message = [0; 2 * HANDSHAKE_MESSAGE_BYTES];
    let length = dialler.write_message(&[], &mut message).expect("it begins");
    acceptor.read_message(&message[..length], &mut [0; 64]).expect("the keys are the same");
    let length = acceptor.write_message(&[], &mut message).expect("it answers");
    dialler.read_message(&message[..length], &mut [0; 64]).expect("the keys are the same");
    [dialler, acceptor].map(|noise| noise.into_transport_mode().expect("it is over"))
}
