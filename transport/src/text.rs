//! Texts of peers, as logs and errors show them.

/// Returns true for a character that breaks a line, moves the cursor of a terminal, or changes the
/// order in which a line is shown.
pub(crate) fn is_control(c: char) -> bool {
    let reorders = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2066}'..='\u{2069}');
    c.is_control() || reorders || matches!(c, '\u{2028}'..='\u{202e}')
}

/// Returns a text of a peer as logs and errors may show it: its first bytes, at most `bytes_max`,
/// on one line and without control characters. Each text of a peer goes through here.
pub fn of_peer(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].replace(is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_peer_is_one_line_that_shows_as_it_is() {
        let forged = "left: 1\r\n\x1b[2J\u{9b}1mfull\u{202e}drawkcab\u{2028}\u{2066}end\t";
        assert_eq!(of_peer(forged, 100), "left: 1   [2J 1mfull drawkcab  end ");
        assert_eq!(of_peer("\u{fc}\u{fc}", 3), "\u{fc}");
        assert_eq!(of_peer("", 3), "");
    }
}
