//! Several nodes as processes of their own, over loopback: one binary, one module for each subject.

#![allow(clippy::unwrap_used, reason = "tests")]

mod block;
mod correspondent;
mod garbage;
mod hasty;
mod history;
mod hosts;
mod idle;
mod joining;
mod kill;
mod leave;
mod names;
mod pause;
mod pods;
mod pressure;
mod process;
mod refused;
mod relay;
mod rogue;
mod rolling;
mod schema;
mod silent;
mod soak;
mod steps;
mod upgrade;
mod vault;
mod wire;
