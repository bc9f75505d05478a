//! The owner of handlers: an actor, or a protocol.

use crate::attr::CratePath;
use syn::{Generics, Ident, Type};

/// The actor that the block is about, or the protocol.
pub(crate) struct HandlerOwner {
    pub(crate) root: CratePath,
    /// As in the block's header, with its generic arguments.
    pub(crate) ty: Type,
    pub(crate) ident: Ident,
    pub(crate) generics: Generics,
}
