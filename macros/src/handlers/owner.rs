//! Whose handlers they are.

use crate::attr::Root;
use syn::{Generics, Ident, Type};

/// The actor that the block is about.
pub(crate) struct Actor {
    pub(crate) root: Root,
    /// As in the block's header, with its arguments.
    pub(crate) ty: Type,
    pub(crate) ident: Ident,
    pub(crate) generics: Generics,
}
