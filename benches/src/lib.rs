//! Measurements of messages: their contents, their times, and the processes between which they go.
//!
//! A *contestant* is a way to send messages: Ringpost, a floor (the least that any such way could
//! cost, made of tokio or of blocking sockets), or a peer (another crate). Each implements
//! [`Pair`] for messages between two processes, [`Local`] for messages within one, or both; the
//! same code drives them all. `benches/README.md` says what each figure is.
//!
//! - [`figure`]: the figures, and the measurements that give them.
//! - [`contestant`]: the contestants and the messages that each of them can send.
//! - [`failure`], [`clock`], [`child`], [`awake`]: values, times, child processes.
//! - [`path`], [`beside`]: what makes a measurement hard: a long path, other traffic.
//! - [`pair`], [`local`]: the traits of a contestant, and its measurement.
//! - [`serve`]: the serving process, and its answers to the measuring one.
//! - [`program`]: the command line of a program that holds contestants.

pub mod awake;
pub mod beside;
pub mod child;
pub mod clock;
pub mod contestant;
pub mod failure;
pub mod figure;
pub mod local;
pub mod pair;
pub mod path;
pub mod program;
pub mod serve;

pub use failure::Failure;
pub use local::Local;
pub use pair::{Client, Pair, Small};
