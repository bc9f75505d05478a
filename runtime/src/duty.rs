//! `HandlerInfo`: describes a handler or hook to people.

use std::fmt;

/// Describes a handler or hook to people: the names of the actor's type, and of the message or
/// hook.
pub(crate) struct HandlerInfo {
    actor: &'static str,
    does: &'static str,
    what: &'static str,
}

impl HandlerInfo {
    /// Describes the handler of this message, of an actor of this type.
    pub(crate) const fn handles(actor: &'static str, message: &'static str) -> Self {
        HandlerInfo { actor, does: "handles", what: message }
    }

    /// Describes this hook of an actor of this type.
    pub(crate) const fn runs(actor: &'static str, hook: &'static str) -> Self {
        HandlerInfo { actor, does: "runs", what: hook }
    }

    /// Returns the name of the actor's type.
    pub(crate) const fn actor(&self) -> &'static str {
        self.actor
    }

    /// Returns the name of the message or hook.
    pub(crate) const fn what(&self) -> &'static str {
        self.what
    }
}

impl fmt::Display for HandlerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.actor, self.does, self.what)
    }
}
