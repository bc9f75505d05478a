//! Where generated code lies.

use proc_macro2::Span;

/// At the user's token, so that the compiler's errors about generated code point there (MA-1), with
/// locals of its own that cannot meet the user's (MA-2).
pub(crate) fn at(token: Span) -> Span {
    token.resolved_at(Span::mixed_site())
}
