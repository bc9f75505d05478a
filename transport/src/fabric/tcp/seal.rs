//! The sealed layer of a data connection, sans I/O but for its handshake: plain bytes above it,
//! chunks on the stream.
//!
//! A chunk is two bytes of length and a Noise transport message of that length. Both sides count
//! the chunks of each direction, and change its key together after every `TCPS_REKEY_CHUNKS`.
//!
//! - **TC-7 sealed**: no byte of a chunk is passed on before the whole chunk was opened as the next
//!   one in the peer's order. Opening fails where a chunk was changed, repeated, moved or left out,
//!   and for every chunk after it; a chunk that was cut short never opens.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};

use crate::limits::{TCPS_BUFFERED_CHUNKS, TCPS_CHUNK_BYTES_MAX, TCPS_REKEY_CHUNKS};
use crate::mutants::planted;
use crate::noise::{HANDSHAKE_MESSAGE_BYTES, SessionKeys, TAG_BYTES};
use crate::wire::DataSocket;
use snow::{HandshakeState, TransportState};

/// Bytes of a chunk's length.
const LENGTH_BYTES: usize = 2;
/// The longest chunk on the stream.
const SEALED_BYTES_MAX: usize = LENGTH_BYTES + TCPS_CHUNK_BYTES_MAX + TAG_BYTES;

/// A chunk that the peer did not seal as its next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a chunk that the peer did not seal, or not as its next one")]
pub(super) struct Forged;

/// The keys of a data connection, and the bytes that wait on either side of them.
pub(super) struct Seal {
    keys: SessionKeys,
    /// Chunks until the next key, of each direction.
    until_rekey: Directions,
    /// The plain bytes of the chunk that is being sealed.
    gathered: Vec<u8>,
    /// Chunks that the stream has not taken lie between `written` and `sealed`. The bytes behind
    /// are left from earlier ones: to clear them would cost as much as to copy them.
    outgoing: Vec<u8>,
    written: usize,
    sealed: usize,
    /// Bytes that were read from the stream and not opened lie between `start` and `end`.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// The chunk that was opened last; its bytes between `taken` and `plain` are not passed on
    /// yet.
    opened: Vec<u8>,
    taken: usize,
    plain: usize,
}

struct Directions {
    outgoing: u32,
    incoming: u32,
}

impl Seal {
    pub(super) fn new(keys: TransportState) -> Self {
        Seal {
            keys: SessionKeys::new(keys),
            until_rekey: Directions { outgoing: TCPS_REKEY_CHUNKS, incoming: TCPS_REKEY_CHUNKS },
            gathered: Vec::new(),
            outgoing: Vec::new(),
            written: 0,
            sealed: 0,
            incoming: vec![0; SEALED_BYTES_MAX],
            start: 0,
            end: 0,
            opened: Vec::new(),
            taken: 0,
            plain: 0,
        }
    }

    /// Seals bytes from the front of `pieces`, as many as may wait for the stream, and returns how
    /// many those are.
    pub(super) fn seal(&mut self, pieces: &[IoSlice<'_>]) -> usize {
        let mut pieces = pieces.iter().map(|piece| &piece[..]);
        let (mut piece, mut sealed): (&[u8], usize) = (&[], 0);
        while self.sealed + SEALED_BYTES_MAX <= TCPS_BUFFERED_CHUNKS * SEALED_BYTES_MAX {
            self.gathered.clear();
            while self.gathered.len() < TCPS_CHUNK_BYTES_MAX {
                if piece.is_empty() {
                    let Some(next) = pieces.next() else { break };
                    piece = next;
                }
                let (now, later) =
                    piece.split_at(piece.len().min(TCPS_CHUNK_BYTES_MAX - self.gathered.len()));
                self.gathered.extend_from_slice(now);
                piece = later;
            }
            if self.gathered.is_empty() {
                break;
            }
            sealed += self.gathered.len();
            self.seal_gathered();
        }
        sealed
    }

    fn seal_gathered(&mut self) {
        let length = self.gathered.len() + TAG_BYTES;
        let end = self.sealed + LENGTH_BYTES + length;
        grow(&mut self.outgoing, end);
        let (prefix, body) = self.outgoing[self.sealed..end].split_at_mut(LENGTH_BYTES);
        prefix.copy_from_slice(&(length as u16).to_le_bytes());
        self.keys
            .write_message(&self.gathered, body)
            .expect("fewer than 2^64 chunks, each shorter than Noise's limit");
        self.sealed = end;
        self.until_rekey.outgoing -= 1;
        if self.until_rekey.outgoing == 0 {
            self.until_rekey.outgoing = TCPS_REKEY_CHUNKS;
            self.keys.rekey_outgoing();
        }
    }

    /// Returns the sealed bytes that the stream has not taken.
    pub(super) fn unwritten(&self) -> &[u8] {
        &self.outgoing[self.written..self.sealed]
    }

    /// Notes that the stream took `bytes` of them.
    pub(super) fn note_written(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written == self.sealed {
            self.forget_unwritten();
        }
    }

    /// Drops the sealed bytes that the stream has not taken: it takes nothing any more.
    pub(super) fn forget_unwritten(&mut self) {
        (self.written, self.sealed) = (0, 0);
    }

    /// Returns the buffer for the next bytes from the stream. It is never empty after
    /// [`open`](Self::open) has found nothing.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.incoming.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        &mut self.incoming[self.end..]
    }

    /// Notes that `bytes` bytes were read there. A peer that fills it has more: the next read may
    /// take several chunks.
    pub(super) fn add(&mut self, bytes: usize) {
        self.end += bytes;
        if self.end == self.incoming.len() {
            self.incoming.resize(TCPS_BUFFERED_CHUNKS * SEALED_BYTES_MAX, 0);
        }
    }

    /// Returns true if [`open`](Self::open) has something to say without more of the stream.
    pub(super) fn has_input(&self) -> bool {
        self.taken < self.plain || !matches!(self.next_chunk(), Ok(None))
    }

    /// Fills `buffers` with the next plain bytes and returns their number: 0 when the next chunk is
    /// not there as a whole.
    ///
    /// # Errors
    /// [`Forged`], now and for ever (TC-7), once all bytes before that chunk are passed on.
    pub(super) fn open(&mut self, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Forged> {
        let mut passed = 0;
        for buffer in buffers {
            let mut buffer = &mut buffer[..];
            while !buffer.is_empty() {
                if self.taken == self.plain {
                    match self.open_next() {
                        Ok(true) => {}
                        Err(forged) if passed == 0 => return Err(forged),
                        Ok(false) | Err(_) => return Ok(passed),
                    }
                }
                let plain = &self.opened[self.taken..self.plain];
                let now = plain.len().min(buffer.len());
                let (filled, rest) = buffer.split_at_mut(now);
                filled.copy_from_slice(&plain[..now]);
                buffer = rest;
                self.taken += now;
                passed += now;
            }
        }
        Ok(passed)
    }

    /// Opens the next chunk, if all of it is there. A chunk that does not open stays where it is.
    fn open_next(&mut self) -> Result<bool, Forged> {
        let Some(body) = self.next_chunk()? else { return Ok(false) };
        (self.taken, self.plain) = (0, 0);
        // With room for the tag the cipher needs no buffer of its own.
        grow(&mut self.opened, body.len());
        let sealed = &self.incoming[body.clone()];
        if self.keys.read_message(sealed, &mut self.opened).is_err() {
            if planted!(SkippedForgery) {
                self.start = body.end;
                return Ok(true);
            }
            return Err(Forged);
        }
        self.plain = body.len() - TAG_BYTES;
        self.start = body.end;
        self.until_rekey.incoming -= 1;
        if self.until_rekey.incoming == 0 {
            self.until_rekey.incoming = TCPS_REKEY_CHUNKS;
            self.keys.rekey_incoming();
        }
        Ok(true)
    }

    /// Returns where the body of the next chunk lies, if it is there as a whole.
    fn next_chunk(&self) -> Result<Option<std::ops::Range<usize>>, Forged> {
        let unopened = &self.incoming[self.start..self.end];
        let Some(length) = unopened.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = usize::from(u16::from_le_bytes(*length));
        if !(TAG_BYTES + 1..=TCPS_CHUNK_BYTES_MAX + TAG_BYTES).contains(&length) {
            return Err(Forged);
        }
        let body = self.start + LENGTH_BYTES..self.start + LENGTH_BYTES + length;
        Ok((body.end <= self.end).then_some(body))
    }
}

/// Makes a buffer at least `bytes` bytes long.
fn grow(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
}

/// Carries the Noise handshake of a data connection, of the dialler if it `begins`.
///
/// # Errors
/// Those of the stream, and [`InvalidData`](io::ErrorKind::InvalidData) when the other end does not
/// know the pre-shared key, or is bound to something else.
pub(super) async fn agree(
    stream: &mut dyn DataSocket,
    mut noise: HandshakeState,
    begins: bool,
) -> io::Result<Seal> {
    let failed = |_| {
        let what = "the other end of the data connection does not know what was agreed on";
        io::Error::new(io::ErrorKind::InvalidData, what)
    };
    let mut message = [0; HANDSHAKE_MESSAGE_BYTES + TAG_BYTES];
    for mine in [begins, !begins] {
        if mine {
            let length = noise.write_message(&[], &mut message).map_err(failed)?;
            write_all(stream, &message[..length]).await?;
        } else {
            read_exact(stream, &mut message[..HANDSHAKE_MESSAGE_BYTES]).await?;
            noise
                .read_message(&message[..HANDSHAKE_MESSAGE_BYTES], &mut [0; TAG_BYTES])
                .map_err(failed)?;
        }
    }
    noise.into_transport_mode().map(Seal::new).map_err(failed)
}

async fn write_all(stream: &mut dyn DataSocket, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(&[IoSlice::new(bytes)], bytes.len()) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if is_fatal(&error) => return Err(error),
            Err(_) => poll_fn(|cx| stream.poll_write_ready(cx)).await?,
        }
    }
    Ok(())
}

async fn read_exact(stream: &mut dyn DataSocket, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let room = bytes.len();
        match stream.read(&mut [IoSliceMut::new(bytes)], room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error) if is_fatal(&error) => return Err(error),
            Err(_) => poll_fn(|cx| stream.poll_read_ready(cx)).await?,
        }
    }
    Ok(())
}

/// Returns true if the stream is of no use after this error.
pub(super) fn is_fatal(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
