//! Ranks and collective operations, as MPI has them, on Ringpost.
//!
//! A *world* is a fixed number of programs, its *ranks*, which are numbered from 0 on and linked
//! with each other. Ranks send each other typed messages, which are received in MPI's order, and do
//! collective operations: barrier, broadcast, reductions and more. Each is a future. When a rank
//! dies the others are told, and can go on without it. All of it runs over RDMA where both nodes
//! have it, and otherwise over TCP.
//!
//! ```
//! use ringpost_ranks::{Sum, World, WorldError};
//!
//! /// What each rank does: passes a number around, and adds up.
//! async fn work(world: &World) -> Result<f64, WorldError> {
//!     let (rank, size) = (world.rank(), world.size());
//!     let next = (rank + 1) % size;
//!     let before = (rank + size - 1) % size;
//!     world.send(next, 7, &[rank as u64]).await?;
//!     let (got, status) = world.recv::<u64>(before, 7).await?;
//!     assert_eq!((got[0] as usize, status.source), (before, before));
//!
//!     let mut sum = [rank as f64];
//!     world.all_reduce(&mut sum, Sum).await?;
//!     Ok(sum[0])
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), ringpost::BoxError> {
//! # let hosts = ringpost_ranks::LocalHosts::reserve(2)?;
//! // Rank 0 of two; the other program says `rank(1)`. Either may start first.
//! let join = World::builder("sums").rank(0).hosts(hosts.addresses()).join();
//! # let other = World::builder("sums").rank(1).hosts(hosts.addresses()).join();
//! # let (join, other) = futures::try_join!(join, other)?;
//! # let join = async { Ok::<_, ringpost::BoxError>(join) };
//! let world = join.await?;
//! # let (sum, _) = futures::try_join!(work(&world), work(&other))?;
//! # if false {
//! let sum = work(&world).await?;
//! # }
//! assert_eq!(sum, 1.0);
//! world.leave().await;
//! # other.leave().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Joining
//!
//! | by | with |
//! |---|---|
//! | number, at addresses | `World::builder("job").rank(2).hosts([..]).join()` |
//! | number, on own nodes | `World::builder("job").node(&node).size(4).rank(2).join()` |
//! | arrival, on own nodes | [`World::join(&node, "job", 4)`](World::join) |
//! | `ringpost run -n 4 PROGRAM` | [`World::from_env()`](World::from_env) |
//!
//! # Messages
//!
//! Elements are [`Plain`] data, sent byte by byte; other values, such as a `#[message]`, cross as
//! archives ([`World::send_value`]). A receive names a source and a tag, or any. It gets its place
//! in line when it is called, so the future replaces `MPI_Irecv`. A rank keeps up to 80 MiB of each
//! other rank's messages until they are received ([`WorldBuilder::window`]); then senders wait.
//!
//! # Collective operations
//!
//! | operation | algorithms |
//! |---|---|
//! | [`barrier`](World::barrier) | dissemination (Hensgen, Finkel and Manber 1988) |
//! | [`broadcast`](World::broadcast) | binomial tree; chain; scatter and ring (van de Geijn) |
//! | [`scatter`](World::scatter), [`gather`](World::gather) | binomial tree; linear |
//! | [`all_gather`](World::all_gather) | recursive doubling; Bruck et al. 1997; ring |
//! | [`all_to_all`](World::all_to_all) | Bruck et al. 1997; all at once; pairwise; sequential |
//! | [`reduce`](World::reduce) | binomial tree; Rabenseifner |
//! | [`all_reduce`](World::all_reduce) | recursive doubling; Rabenseifner |
//! | [`reduce_scatter`](World::reduce_scatter) | pairwise exchange |
//! | [`scan`](World::scan), [`exclusive_scan`](World::exclusive_scan) | recursive doubling |
//! | [`scatterv`](World::scatterv), [`gatherv`](World::gatherv) | linear |
//! | [`all_gatherv`](World::all_gatherv), [`all_to_allv`](World::all_to_allv) | ring; pairwise |
//!
//! Those without another source are described by Thakur, Rabenseifner and Gropp, *Optimization of
//! Collective Communication Operations in MPICH*, 2005. Reductions take [`Sum`], [`Max`] and the
//! like, or a closure; [`Ordered`] ones combine in the order of the ranks.
//!
//! # When a rank dies
//!
//! Whatever waits for it fails with [`WorldError::Died`], on every rank. So does every collective
//! operation from then on. A rank whose messages were lost with a link counts as dead, too: it gets
//! the error with its own number, and joins again. The others make a smaller world, as MPI's
//! chapter on fault tolerance (ULFM) has it:
//!
//! ```
//! # use ringpost_ranks::{World, WorldError};
//! # async fn step(_: &World) -> Result<(), WorldError> { Ok(()) }
//! /// Works with the living ranks until all is done.
//! async fn work(mut world: World) -> Result<(), WorldError> {
//!     loop {
//!         match step(&world).await {
//!             Err(WorldError::Died { .. } | WorldError::Revoked) => {
//!                 world.revoke(); // also those hear of it that wait for others
//!                 world = world.shrink().await?;
//!             }
//!             done => return done,
//!         }
//!     }
//! }
//! ```
//!
//! # The code, in reading order
//!
//! - `builder`, `lobby`, `environment`, `local_hosts`: how ranks find each other.
//! - `world`, `core`, `state`, `member`, `intake`: a rank, as its program and its actor share it.
//! - `message`, `matching`, `circle`: messages, their order, and sends that wait for each other.
//! - `call`, `calls`, `collective`: collective operations.
//! - `agreement`, `recovery`: going on after a death; `split`: worlds made of a world.
//! - `packet`: what crosses; `error`, `status`, `operation`, `value`, [`limits`]: plain values.

mod agreement;
mod builder;
mod call;
mod calls;
mod circle;
mod collective;
mod core;
mod environment;
mod error;
mod intake;
pub mod limits;
mod lobby;
mod local_hosts;
mod matching;
mod member;
mod message;
mod operation;
mod packet;
mod recovery;
mod split;
mod state;
mod status;
mod value;
mod world;

pub use builder::WorldBuilder;
pub use collective::Exchange;
pub use error::{JoinError, Mismatch, Missing, WorldError};
pub use local_hosts::LocalHosts;
pub use operation::{
    And, BitAnd, BitOr, BitXor, Integer, Max, Min, Number, Operation, Or, Ordered, Product, Sum,
    Xor,
};
pub use status::{Plain, Source, Status, Tag};
pub use value::Value;
pub use world::World;

/// The program of the crate's README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
