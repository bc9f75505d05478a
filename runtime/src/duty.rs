//! `HandlerInfo`: the work of a handler or hook, named for people.

use std::fmt;

/// The work of a thread for an actor: the actor's type, and the message or hook.
pub(crate) struct HandlerInfo {
    actor: &'static str,
    does: &'static str,
    what: &'static str,
}

impl HandlerInfo {
    /// Returns the work of an actor of this type that handles this message.
    pub(crate) const fn handles(actor: &'static str, message: &'static str) -> Self {
        HandlerInfo { actor, does: "handles", what: message }
    }

    /// Returns the work of an actor of this type that runs this hook.
    pub(crate) const fn runs(actor: &'static str, hook: &'static str) -> Self {
        HandlerInfo { actor, does: "runs", what: hook }
    }

    /// Returns the actor's type.
    pub(crate) const fn actor(&self) -> &'static str {
        self.actor
    }

    /// Returns the message, or the hook.
    pub(crate) const fn what(&self) -> &'static str {
        self.what
    }
}

impl fmt::Display for HandlerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.actor, self.does, self.what)
    }
}
