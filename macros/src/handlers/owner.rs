//! The owner of handlers: an actor, or a protocol.

use crate::attr::CratePath;
use syn::{Generics, Ident, Type};

/// The actor of a `#[handlers]` block, or a protocol.
pub(crate) struct HandlerOwner {
    pub(crate) root: CratePath,
    /// The type with its generic arguments, as the block's header writes it.
    pub(crate) ty: Type,
    pub(crate) ident: Ident,
    pub(crate) generics: Generics,
}
