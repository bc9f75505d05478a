//! The first bytes that a dialler sends on every connection: its protocol and the connection's
//! purpose.
//!
//! | bytes | what |
//! |---|---|
//! | 0..9 | `RINGPOST` and a byte 1 |
//! | 9 | kind: 1 bootstrap, 2 data |
//! | 10..12 | zero |
//!
//! After the preface of a data connection come the 16 bytes of the token that the acceptor offered,
//! little-endian.

/// Length of a preface, in bytes.
pub const PREFACE_BYTES: usize = 12;

/// Never changes: which versions of the protocol a node speaks, it says after the preface.
const MAGIC: [u8; 9] = *b"RINGPOST\x01";

/// The purpose of a connection, as its first bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preface {
    /// Two nodes meet: handshake, then heartbeats.
    Bootstrap,
    /// The frames of one queue pair of the tcp fabric.
    Data,
}

impl Preface {
    /// Returns the bytes the dialler sends first.
    pub fn encode(self) -> [u8; PREFACE_BYTES] {
        let mut bytes = [0; PREFACE_BYTES];
        bytes[..9].copy_from_slice(&MAGIC);
        bytes[9] = match self {
            Preface::Bootstrap => 1,
            Preface::Data => 2,
        };
        bytes
    }

    /// Reads the first bytes of an accepted connection.
    ///
    /// # Errors
    /// [`PrefaceError`], by the first byte that is wrong.
    pub fn decode(bytes: &[u8; PREFACE_BYTES]) -> Result<Self, PrefaceError> {
        if bytes[..9] != MAGIC {
            return Err(PrefaceError::Magic);
        }
        if bytes[10..] != [0; 2] {
            return Err(PrefaceError::Reserved);
        }
        match bytes[9] {
            1 => Ok(Preface::Bootstrap),
            2 => Ok(Preface::Data),
            kind => Err(PrefaceError::Kind(kind)),
        }
    }
}

/// Why the first bytes of a connection are not a preface.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefaceError {
    /// Something else than a node dialled this port, or this node dialled something else.
    #[error("the connection does not speak this protocol")]
    Magic,
    /// A kind of connection that this version does not have.
    #[error("unknown kind of connection: {0}")]
    Kind(u8),
    /// Bytes that this version keeps zero are not.
    #[error("reserved bytes of the preface are not zero")]
    Reserved,
}

crate::debug_by_display!(PrefaceError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preface_is_read_back() {
        for kind in [Preface::Bootstrap, Preface::Data] {
            assert_eq!(Preface::decode(&kind.encode()), Ok(kind));
        }
        assert_eq!(&Preface::Data.encode(), b"RINGPOST\x01\x02\0\0");
    }

    #[test]
    fn each_wrong_byte_has_its_name() {
        let with = |at: usize, byte: u8| {
            let mut bytes = Preface::Data.encode();
            bytes[at] = byte;
            Preface::decode(&bytes)
        };
        assert_eq!(with(0, b'G'), Err(PrefaceError::Magic));
        assert_eq!(with(8, 2), Err(PrefaceError::Magic));
        assert_eq!(with(9, 3), Err(PrefaceError::Kind(3)));
        assert_eq!(with(10, 1), Err(PrefaceError::Reserved));
        assert_eq!(with(11, 1), Err(PrefaceError::Reserved));
    }
}
