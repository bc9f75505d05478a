//! Spans of generated code.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// Returns a span at the position of the user's token, where the compiler then reports errors about
/// generated code. Local names with this span cannot collide with the user's.
pub(crate) fn at(token: Span) -> Span {
    token.resolved_at(Span::mixed_site())
}

/// Returns a path or a type whose names still resolve where the user wrote it, but whose position
/// is `at`: errors about it are reported there.
pub(crate) fn located(path: &impl ToTokens, at: Span) -> TokenStream {
    let tokens = path.to_token_stream().into_iter();
    let located = tokens.map(|mut token| {
        token.set_span(token.span().located_at(at));
        token
    });
    located.collect()
}
