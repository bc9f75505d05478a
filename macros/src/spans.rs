//! Where generated code lies.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// At the user's token, so that the compiler's errors about generated code point there (MA-1), with
/// locals of its own that cannot meet the user's (MA-2).
pub(crate) fn at(token: Span) -> Span {
    token.resolved_at(Span::mixed_site())
}

/// Returns a path or a type as if it were written at `at`, and means what it means where it is: an
/// error about it lies where it begins.
pub(crate) fn located(path: &impl ToTokens, at: Span) -> TokenStream {
    let tokens = path.to_token_stream().into_iter();
    let located = tokens.map(|mut token| {
        token.set_span(token.span().located_at(at));
        token
    });
    located.collect()
}
