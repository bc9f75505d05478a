//! The writing side of a data connection: frames from the send queue, and the records that answer
//! the peer.
//!
//! A record may only stand between two frames: the rest of a frame that was begun goes first.

use std::io::{self, IoSlice};

use arrayvec::ArrayVec;

use super::queues::{FRAME_PIECES, Queues};
use super::record::{RECORD_BYTES, Record, Refusal};
use super::seal::is_fatal;
use super::stream::DataStream;
use crate::limits::TCP_WRITE_SLICES;

/// Two acknowledgements, a refusal, a request for acknowledgement and the record that starts again
/// can wait at once; no second refusal before the peer has read the first.
const ANSWERS_MAX: usize = 5;

/// How far a queue pair has written.
#[derive(Default)]
pub(super) struct Output {
    /// The send that is written next, or is being written when `begun` is not zero.
    position: u64,
    /// Bytes of it that are written.
    begun: usize,
    /// Records to be written before the next frame, from `answered` on.
    answers: Vec<u8>,
    answered: usize,
    turn: Turn,
    /// The stream takes nothing any more; what the peer still says is read.
    broken: bool,
}

/// The state that says whether another frame may be begun.
#[derive(Default, PartialEq, Eq)]
enum Turn {
    #[default]
    Go,
    /// A frame was refused, and it is not yet time to try again.
    Pause,
    /// It is time: once the frame that was begun is written.
    Again,
}

impl Output {
    /// Queues a record to be written at the next chance.
    pub(super) fn answer(&mut self, record: Record) {
        self.answers.extend_from_slice(&record.encode());
    }

    /// Returns true if records wait for the stream to take them.
    pub(super) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Returns true if more records wait than a peer that reads its stream can cause.
    pub(super) fn has_too_many_answers(&self) -> bool {
        self.answers.len() > ANSWERS_MAX * RECORD_BYTES
    }

    /// Returns the position of the send that is written next, or is being written.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns true if the peer may refuse the send at `position`: it has seen some of it.
    pub(super) fn has_begun(&self, position: u64) -> bool {
        position < self.position || (position == self.position && self.begun > 0)
    }

    /// Begins no further frame.
    pub(super) fn pause(&mut self) {
        self.turn = Turn::Pause;
    }

    /// Starts again at the oldest send that was not accepted.
    pub(super) fn again(&mut self) {
        self.turn = Turn::Again;
    }

    /// Returns true if another frame is to be begun, before which a record can travel at no cost.
    pub(super) fn begins_frame(&self, queues: &Queues) -> bool {
        let next = self.position + u64::from(self.begun > 0);
        !self.broken && self.turn == Turn::Go && next < queues.posted()
    }

    /// Returns true if something waits for the stream to take it.
    pub(super) fn pending(&self, queues: &Queues) -> bool {
        let frames = self.begun > 0 || (self.turn == Turn::Go && self.position < queues.posted());
        !self.broken && (frames || self.answered < self.answers.len() || self.turn == Turn::Again)
    }

    /// Returns the unwritten rest of a frame that was begun.
    pub(super) fn rest(&self, queues: &Queues) -> Vec<u8> {
        if self.begun == 0 {
            return Vec::new();
        }
        queues.frame(self.position).concat().split_off(self.begun)
    }

    /// The queue pair has ended: after the rest of the frame that was begun, its last record is a
    /// refusal. `posted` is how many sends there were.
    pub(super) fn conclude(&mut self, mut rest: Vec<u8>, refusal: Refusal, posted: u64) {
        rest.append(&mut self.answers.split_off(self.answered));
        self.answers = rest;
        self.answered = 0;
        self.answer(Record::Refused(refusal));
        self.position = posted;
        self.begun = 0;
        self.turn = Turn::Go;
    }

    /// Writes what the stream takes.
    pub(super) fn write(&mut self, stream: &mut DataStream, queues: &Queues) {
        match stream.flush() {
            Ok(()) => {}
            Err(error) if is_fatal(&error) => self.broken = true,
            Err(_) => return,
        }
        while self.pending(queues) {
            if self.turn == Turn::Again && self.begun == 0 {
                self.answer(Record::Again);
                self.position = queues.accepted();
                self.turn = Turn::Go;
            }
            let mut slices = ArrayVec::new();
            self.gather(queues, &mut slices);
            let offered = slices.iter().map(|slice| slice.len()).sum();
            let written = stream.write(&slices, offered);
            // The slices borrow `self`, which `advance` changes.
            drop(slices);
            match written {
                Ok(0) => self.broken = true,
                Ok(bytes) => self.advance(bytes, queues),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.broken = true,
            }
        }
    }

    fn gather<'a>(
        &'a self,
        queues: &'a Queues,
        slices: &mut ArrayVec<IoSlice<'a>, TCP_WRITE_SLICES>,
    ) {
        let mut position = self.position;
        let mut put = |bytes: &'a [u8]| {
            if !bytes.is_empty() {
                slices.push(IoSlice::new(bytes));
            }
            slices.remaining_capacity() >= FRAME_PIECES
        };
        if self.begun > 0 {
            let mut written = self.begun;
            for piece in queues.frame(position) {
                let skipped = written.min(piece.len());
                put(&piece[skipped..]);
                written -= skipped;
            }
            position += 1;
        }
        let mut room = put(&self.answers[self.answered..]);
        while room && self.turn == Turn::Go && position < queues.posted() {
            for piece in queues.frame(position) {
                room = put(piece);
            }
            position += 1;
        }
    }

    fn advance(&mut self, mut bytes: usize, queues: &Queues) {
        if self.begun > 0 {
            self.advance_frame(&mut bytes, queues);
        }
        let answers = bytes.min(self.answers.len() - self.answered);
        self.answered += answers;
        bytes -= answers;
        if self.answered == self.answers.len() {
            self.answers.clear();
            self.answered = 0;
        }
        while bytes > 0 {
            self.advance_frame(&mut bytes, queues);
        }
    }

    fn advance_frame(&mut self, bytes: &mut usize, queues: &Queues) {
        let pieces = queues.frame(self.position);
        let left = pieces.iter().map(|piece| piece.len()).sum::<usize>() - self.begun;
        if *bytes < left {
            self.begun += *bytes;
            *bytes = 0;
        } else {
            self.position += 1;
            self.begun = 0;
            *bytes -= left;
        }
    }
}
