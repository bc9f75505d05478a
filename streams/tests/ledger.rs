//! The oracle of streams: what each direction may show, by what its two programs did.

use std::sync::{Arc, Mutex, MutexGuard};

/// One direction of a stream, as its two programs see it.
#[derive(Clone)]
pub(crate) struct Direction {
    /// Gives each direction bytes of its own.
    salt: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Default, Debug)]
pub(crate) struct State {
    /// Bytes whose write returned `Ok`.
    pub(crate) written: u64,
    /// Bytes of a write that has not returned, and which may arrive before it does.
    pub(crate) under_way: u64,
    pub(crate) read: u64,
    /// The writer has shut it down, or dropped it.
    pub(crate) is_finished: bool,
    /// The reader has dropped it before its end.
    pub(crate) is_abandoned: bool,
}

impl Direction {
    pub(crate) fn new(salt: u64) -> Self {
        Direction { salt, state: Arc::default() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns the byte at an offset: another one in each direction and at each place.
    fn byte(&self, at: u64) -> u8 {
        let mixed = (at ^ self.salt.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 56) as u8
    }

    /// Returns the next bytes to be written.
    pub(crate) fn next(&self, count: usize) -> Vec<u8> {
        let from = self.state().written;
        (from..from + count as u64).map(|at| self.byte(at)).collect()
    }

    pub(crate) fn wrote(&self, count: usize) {
        self.state().written += count as u64;
    }

    /// Notes the end of a write that was under way.
    pub(crate) fn wrote_all(&self) {
        let mut state = self.state();
        state.written += std::mem::take(&mut state.under_way);
    }

    /// Checks bytes that were read: the next ones, and no more than were written.
    pub(crate) fn took(&self, bytes: &[u8]) {
        let mut state = self.state();
        let from = state.read;
        let wrong = (from..).zip(bytes).find(|(at, byte)| self.byte(*at) != **byte);
        assert!(wrong.is_none(), "a byte is wrong (offset, found): {wrong:?}");
        state.read += bytes.len() as u64;
        assert!(
            state.read <= state.written + state.under_way,
            "bytes came from nowhere: {state:?}"
        );
    }

    /// Checks that the end may be read now.
    pub(crate) fn ended(&self) {
        let state = self.state();
        assert!(state.is_finished, "an end that nobody made: {state:?}");
        assert_eq!(state.read, state.written, "an end before the last byte");
    }

    /// Checks a number of bytes that the peer has certainly read.
    pub(crate) fn certain(&self, read: u64) {
        let state = self.state();
        assert!(read <= state.read, "{read} bytes are certain, and {state:?}");
    }
}
