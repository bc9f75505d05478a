//! Whose handlers they are.

use crate::attr::Root;
use syn::{Generics, Ident, Type};

/// The actor that the block is about.
pub(super) struct Actor {
    pub(super) root: Root,
    /// As in the block's header, with its arguments.
    pub(super) ty: Type,
    pub(super) ident: Ident,
    pub(super) generics: Generics,
}
