//! Every shape of actors, messages and handlers compiles, without a warning, and runs. Each file
//! here is a program of its own: it names nothing of the others.

pub mod generics;
pub mod handlers;
pub mod hooks;
pub mod names;
/// Strict lints have to find its items public.
pub mod quiet;
