//! A few bytes that the layer above sends along with a message.

/// Bytes of a note.
pub const NOTE_BYTES: usize = 24;

/// A few bytes that travel with a message, beside its payload; they mean something to the layer
/// above only. Given by the code that writes the message's archive, and handed on with the
/// [`Delivery`](crate::host::Delivery). Boxed: a message without one, as nearly all are, carries a
/// word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note(Box<[u8; NOTE_BYTES]>);

impl Note {
    /// A note of these bytes.
    pub fn new(bytes: [u8; NOTE_BYTES]) -> Self {
        Note(Box::new(bytes))
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> [u8; NOTE_BYTES] {
        *self.0
    }
}
