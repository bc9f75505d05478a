//! Measurements of messages: their contents, their times, and the processes between which they go.
//!
//! A *contestant* is a way to send messages: Ringpost, a floor (the least that any such way could
//! cost, made of tokio or of blocking sockets), or a peer (another crate). Each implements
//! [`Pair`] for messages between two processes, [`System`] for actors within one, or both; the
//! same code drives them all. `benches/README.md` says what each figure is.
//!
//! - [`figure`]: the figures, and the measurements that give them.
//! - [`contestant`]: the contestants and the messages that each of them can send.
//! - [`failure`], [`clock`], [`memory`], [`child`], [`awake`]: values, times, memory, child
//!   processes.
//! - [`path`], [`beside`]: what makes a measurement hard: a long path, other traffic.
//! - [`pair`]: the traits of a contestant between two processes, and its measurement.
//! - [`stream`]: the same for byte streams.
//! - [`system`], [`local`]: the same within one process. The programs are in `local` itself, in
//!   `crowd` (many actors) and in `savina`; `repeat` runs them.
//! - [`strangers`]: connections of strangers to an open port, beside a measurement.
//! - [`serve`]: the serving process, and its answers to the measuring one.
//! - [`program`]: the command line of a program that holds contestants.

pub mod awake;
pub mod beside;
pub mod child;
pub mod clock;
pub mod contestant;
mod crowd;
pub mod failure;
pub mod figure;
pub mod local;
pub mod memory;
pub mod pair;
pub mod path;
pub mod program;
mod repeat;
mod savina;
pub mod serve;
pub mod strangers;
pub mod stream;
pub mod system;

pub use failure::Failure;
pub use pair::{Client, Pair, Small};
pub use system::{Behavior, System};
