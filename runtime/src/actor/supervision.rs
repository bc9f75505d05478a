//! Supervisors and links: what an actor does when another one ends.

pub(crate) mod link;
pub(crate) mod supervisor;
