//! Programs that break MR-1 or LM-2, or use memory after it was given away, and therefore do not
//! compile. Each differs from the last compiling program before it only in the point that its title
//! names.
//!
//! # Regions of plain data, borrowed, and returned
//!
//! ```
//! use ringpost::Node;
//! use ringpost::bytemuck::{Pod, Zeroable};
//! use ringpost::region::{
//!     AllocateError, PeerRegion, Region, RegionDraft, RegionSlice, RegionWriter,
//! };
//!
//! #[derive(Clone, Copy, Pod, Zeroable)]
//! #[repr(C)]
//! struct Account {
//!     balance: u64,
//!     number: u32,
//!     kind: u32,
//! }
//!
//! fn plain(node: &Node) -> Result<(), AllocateError> {
//!     node.region::<Account>(8)?;
//!     node.region::<[u8; 3]>(8)?;
//!     node.region_of(&[1.5f64, 2.5])?;
//!     Ok(())
//! }
//!
//! fn half(region: &Region<u64>) -> RegionSlice<'_, u64> {
//!     region.slice(0..region.len() / 2).unwrap()
//! }
//!
//! fn first(region: Region<u64>) -> u64 {
//!     let slice = region.slice(..1).unwrap();
//!     let first = slice.get(0).unwrap();
//!     drop(region);
//!     first
//! }
//!
//! async fn give_back(region: PeerRegion<u64>) {
//!     region.remote().set(0, 1).await.unwrap();
//!     region.release().await.unwrap();
//! }
//!
//! async fn write(writer: &mut RegionWriter<u64>, mut draft: RegionDraft<u64>) {
//!     draft[0] = 1;
//!     writer.write_draft(0, draft).await.unwrap();
//! }
//! ```
//!
//! # Elements of one byte, and elements of zero bytes
//!
//! ```
//! use ringpost::Node;
//! use ringpost::region::RemoteRegion;
//!
//! let _: fn(&Node) = |node| drop(node.region::<[u8; 1]>(8));
//! let _: fn(&RemoteRegion<[u8; 1]>) = |region| drop(region.slice(..));
//! ```
//!
//! ```compile_fail,E0080
//! use ringpost::Node;
//!
//! let _: fn(&Node) = |node| drop(node.region::<[u8; 0]>(8));
//! ```
//!
//! ```compile_fail,E0080
//! use ringpost::region::RemoteRegion;
//!
//! let _: fn(&RemoteRegion<[u8; 0]>) = |region| drop(region.slice(..));
//! ```
//!
//! # MR-1: elements that own memory of their node
//!
//! ```compile_fail,E0277
//! fn not_plain(node: &ringpost::Node) {
//!     node.region::<Vec<u8>>(8).unwrap();
//! }
//! ```
//!
//! # MR-1: elements for which some bytes are invalid
//!
//! ```compile_fail,E0277
//! fn not_plain(node: &ringpost::Node) {
//!     node.region::<bool>(8).unwrap();
//! }
//! ```
//!
//! ```compile_fail,E0277
//! fn not_plain(node: &ringpost::Node) {
//!     node.region_of(&['a', 'b']).unwrap();
//! }
//! ```
//!
//! # MR-1: elements that point to memory of their node
//!
//! ```compile_fail,E0277
//! fn not_plain(node: &ringpost::Node) {
//!     node.region::<&'static u64>(8).unwrap();
//! }
//! ```
//!
//! # MR-1: elements with uninitialized bytes between their fields
//!
//! ```compile_fail,E0080
//! use ringpost::bytemuck::{Pod, Zeroable};
//!
//! #[derive(Clone, Copy, Pod, Zeroable)]
//! #[repr(C)]
//! struct Account {
//!     balance: u64,
//!     number: u32,
//! }
//! ```
//!
//! # MR-1: elements that are not declared as plain
//!
//! ```compile_fail,E0277
//! #[derive(Clone, Copy)]
//! #[repr(C)]
//! struct Account {
//!     balance: u64,
//!     number: u32,
//!     kind: u32,
//! }
//!
//! async fn not_plain(peer: &ringpost::Peer) {
//!     peer.region::<Account>(8).await.unwrap();
//! }
//! ```
//!
//! # MR-1: memory that peers may write is borrowed
//!
//! ```compile_fail,E0608
//! fn look(region: &ringpost::region::Region<u64>) -> &[u64] {
//!     &region[..]
//! }
//! ```
//!
//! # A slice outlives its region
//!
//! ```compile_fail,E0505
//! use ringpost::region::Region;
//!
//! fn first(region: Region<u64>) -> u64 {
//!     let slice = region.slice(..1).unwrap();
//!     drop(region);
//!     slice.get(0).unwrap()
//! }
//! ```
//!
//! ```compile_fail,E0515
//! use ringpost::Node;
//! use ringpost::region::RegionSlice;
//!
//! fn half(node: &Node) -> RegionSlice<'_, u64> {
//!     let region = node.region::<u64>(8).unwrap();
//!     region.slice(0..4).unwrap()
//! }
//! ```
//!
//! # LM-2: memory of a peer is used by its owner after its return
//!
//! ```compile_fail,E0382
//! use ringpost::region::PeerRegion;
//!
//! async fn give_back(region: PeerRegion<u64>) {
//!     region.release().await.unwrap();
//!     region.remote().set(0, 1).await.unwrap();
//! }
//! ```
//!
//! # LM-2: two owners of the same memory of a peer
//!
//! ```compile_fail,E0599
//! use ringpost::region::PeerRegion;
//!
//! fn share(region: PeerRegion<u64>) -> [PeerRegion<u64>; 2] {
//!     [region.clone(), region]
//! }
//! ```
//!
//! # A draft is changed while it is written
//!
//! ```compile_fail,E0382
//! use ringpost::region::{RegionDraft, RegionWriter};
//!
//! async fn write(writer: &mut RegionWriter<u64>, mut draft: RegionDraft<u64>) {
//!     writer.write_draft(0, draft).await.unwrap();
//!     draft[0] = 1;
//! }
//! ```
