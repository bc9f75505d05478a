//! Why a mailbox closed, as the peers that had it open are told.

use std::sync::Arc;

use crate::limits::CLOSE_TEXT_BYTES_MAX;
use crate::text;

/// Why a mailbox closed: a number and a text that mean something to the layer above. Made where the
/// mailbox was; carried by CLOSED.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CloseReason {
    /// The number; 0 says nothing.
    pub code: u16,
    /// The text. Of a longer one about the first [`CLOSE_TEXT_BYTES_MAX`] bytes reach the peer.
    pub text: Option<Arc<str>>,
}

impl CloseReason {
    /// Returns the bytes of the text, as many as are sent.
    pub(crate) fn text_bytes(&self) -> &[u8] {
        let text = self.text.as_deref().unwrap_or_default();
        &text.as_bytes()[..text.floor_char_boundary(CLOSE_TEXT_BYTES_MAX)]
    }

    /// Reads the bytes of a peer as text, cut to its longest length; invalid bytes are replaced.
    pub(crate) fn read(code: u16, text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&text[..text.len().min(CLOSE_TEXT_BYTES_MAX)]);
        let text = text::of_peer(&text, usize::MAX);
        CloseReason { code, text: (!text.is_empty()).then(|| text.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_garbage_is_made_readable() {
        let long = CloseReason { code: 3, text: Some("\u{fc}".repeat(1000).into()) };
        let read = CloseReason::read(3, long.text_bytes());
        assert_eq!(read, CloseReason { code: 3, text: Some("\u{fc}".repeat(128).into()) });
        assert_eq!(
            CloseReason::read(0, CloseReason::default().text_bytes()),
            CloseReason::default()
        );
        let forged = CloseReason::read(2, b"left: 1\n right: 2\r\x1b[2Ja disk is full\t");
        assert_eq!(forged.text.as_deref(), Some("left: 1  right: 2  [2Ja disk is full "));
        let garbage = CloseReason::read(9, &[0xff; 70_000]);
        assert_eq!(garbage.text.unwrap().chars().count(), CLOSE_TEXT_BYTES_MAX);
    }
}
