//! Programs that break PV-1, PV-2, PV-11 or PV-13 and so do not compile. Each differs from the last
//! one before it that does, by what its title says.
//!
//! # A slot is posted, and comes back in a completion
//!
//! ```
//! use ringpost_transport::fabric::{QueuePair, SendRequest};
//! use ringpost_transport::memory::Region;
//!
//! fn carry(queue_pair: &mut dyn QueuePair, region: Region) {
//!     let mut slots = region.into_slots(4096);
//!     let mut slot = slots.remove(0);
//!     slot[0] = 1;
//!     queue_pair.post_recv(&mut slots).unwrap();
//!     let request = SendRequest {
//!         slot,
//!         bytes: 1,
//!         tail: None,
//!         signaled: true,
//!         solicited: true,
//!         inline: false,
//!     };
//!     queue_pair.post_send(&mut vec![request]).unwrap();
//!     let mut out = Vec::new();
//!     queue_pair.poll(&mut out, 1);
//!     for completion in out {
//!         let mut slot = completion.slot;
//!         slot[0] = 2;
//!     }
//! }
//! ```
//!
//! # PV-2: the slot is written after it was given to a request
//!
//! ```compile_fail,E0382
//! use ringpost_transport::fabric::{QueuePair, SendRequest};
//! use ringpost_transport::memory::Region;
//!
//! fn carry(queue_pair: &mut dyn QueuePair, region: Region) {
//!     let mut slots = region.into_slots(4096);
//!     let mut slot = slots.remove(0);
//!     let request = SendRequest {
//!         slot,
//!         bytes: 1,
//!         tail: None,
//!         signaled: true,
//!         solicited: true,
//!         inline: false,
//!     };
//!     queue_pair.post_send(&mut vec![request]).unwrap();
//!     slot[0] = 2;
//! }
//! ```
//!
//! # PV-2: its bytes are read while it is posted
//!
//! ```compile_fail,E0505
//! use ringpost_transport::fabric::QueuePair;
//! use ringpost_transport::memory::Region;
//!
//! fn carry(queue_pair: &mut dyn QueuePair, region: Region) -> u8 {
//!     let mut slots = region.into_slots(4096);
//!     let slot = slots.remove(0);
//!     let bytes = &slot[..];
//!     queue_pair.post_recv(&mut vec![slot]).unwrap();
//!     bytes[0]
//! }
//! ```
//!
//! # PV-2: it is posted twice
//!
//! ```compile_fail,E0382
//! use ringpost_transport::fabric::QueuePair;
//! use ringpost_transport::memory::Region;
//!
//! fn carry(queue_pair: &mut dyn QueuePair, region: Region) {
//!     let mut slots = region.into_slots(4096);
//!     let slot = slots.remove(0);
//!     queue_pair.post_recv(&mut vec![slot]).unwrap();
//!     queue_pair.post_recv(&mut vec![slot]).unwrap();
//! }
//! ```
//!
//! # PV-2: there are two of it
//!
//! ```compile_fail,E0599
//! use ringpost_transport::fabric::QueuePair;
//! use ringpost_transport::memory::Region;
//!
//! fn carry(queue_pair: &mut dyn QueuePair, region: Region) {
//!     let mut slots = region.into_slots(4096);
//!     let slot = slots.remove(0);
//!     queue_pair.post_recv(&mut vec![slot.clone()]).unwrap();
//! }
//! ```
//!
//! # PV-1: a region is cut twice
//!
//! ```compile_fail,E0382
//! use ringpost_transport::memory::Region;
//!
//! fn cut(region: Region) {
//!     region.into_slots(4096);
//!     region.into_slots(8192);
//! }
//! ```
//!
//! # PV-2: a completed slot is kept by a caller that only looked at the completion
//!
//! ```compile_fail,E0507
//! use ringpost_transport::fabric::Completion;
//! use ringpost_transport::memory::Slot;
//!
//! fn look(completion: &Completion) -> Slot {
//!     completion.slot
//! }
//! ```
//!
//! # PV-11: receives are posted by the opening after it was connected
//!
//! ```compile_fail,E0382
//! use ringpost_transport::fabric::Opening;
//! use ringpost_transport::memory::Slot;
//!
//! fn connect(mut opening: Box<dyn Opening>, mut slots: Vec<Slot>) {
//!     let _connecting = opening.connect(Default::default(), 0);
//!     opening.post_recv(&mut slots).unwrap();
//! }
//! ```
//!
//! # VB-1: the parts of a verbs queue pair are taken apart from outside
//!
//! ```compile_fail,E0603
//! use ringpost_transport::fabric::verbs::queue_pair::QueuePair;
//! ```
//!
//! # One-sided access: a slot is posted and comes back, a grant is kept, locked memory is adopted
//!
//! ```
//! use std::sync::Arc;
//!
//! use ringpost_transport::fabric::one_sided::{Access, Key, Kind, Locked, OneSided};
//! use ringpost_transport::fabric::one_sided::{Operation, Outcome};
//! use ringpost_transport::memory::{Slot, Words};
//!
//! fn reach(one_sided: &mut dyn OneSided, mut slot: Slot, key: Key) {
//!     slot[0] = 1;
//!     let operation = Operation { slot, bytes: 1, key, at: 0, kind: Kind::Write };
//!     one_sided.post(&mut vec![operation]).unwrap();
//!     let mut out = Vec::new();
//!     one_sided.poll(&mut out, 1);
//!     for outcome in out {
//!         if let Outcome::Done { mut slot, .. } = outcome {
//!             slot[0] = 2;
//!         }
//!     }
//! }
//!
//! fn share(one_sided: &mut dyn OneSided, memory: &Arc<Words>) -> Key {
//!     let grant = one_sided.grant(memory, 0, 8, Access::READ).finish().unwrap();
//!     let key = grant.key();
//!     drop(grant);
//!     key
//! }
//!
//! fn lock(one_sided: &mut dyn OneSided, memory: Locked) -> Slot {
//!     one_sided.adopt(memory)
//! }
//! ```
//!
//! # PV-2: the slot is read after it was given to an operation
//!
//! ```compile_fail,E0382
//! use ringpost_transport::fabric::one_sided::{Key, Kind, OneSided, Operation};
//! use ringpost_transport::memory::Slot;
//!
//! fn reach(one_sided: &mut dyn OneSided, mut slot: Slot, key: Key) -> u8 {
//!     let operation = Operation { slot, bytes: 1, key, at: 0, kind: Kind::Read };
//!     one_sided.post(&mut vec![operation]).unwrap();
//!     slot[0]
//! }
//! ```
//!
//! # PV-2: a posted operation is looked into
//!
//! ```compile_fail,E0382
//! use ringpost_transport::fabric::one_sided::{Key, Kind, OneSided, Operation};
//! use ringpost_transport::memory::Slot;
//!
//! fn reach(one_sided: &mut dyn OneSided, mut slot: Slot, key: Key) -> u8 {
//!     let operation = Operation { slot, bytes: 1, key, at: 0, kind: Kind::Read };
//!     one_sided.post(&mut vec![operation]).unwrap();
//!     operation.slot[0]
//! }
//! ```
//!
//! # PV-2: one slot is given to two operations
//!
//! ```compile_fail,E0382
//! use ringpost_transport::fabric::one_sided::{Key, Kind, OneSided, Operation};
//! use ringpost_transport::memory::Slot;
//!
//! fn reach(one_sided: &mut dyn OneSided, mut slot: Slot, key: Key) {
//!     let read = Operation { slot, bytes: 1, key, at: 0, kind: Kind::Read };
//!     let write = Operation { slot, bytes: 1, key, at: 0, kind: Kind::Write };
//!     one_sided.post(&mut vec![read, write]).unwrap();
//! }
//! ```
//!
//! # PV-2: the slot of an outcome is kept by a caller that only looked at the outcome
//!
//! ```compile_fail,E0507
//! use ringpost_transport::fabric::one_sided::Outcome;
//! use ringpost_transport::memory::Slot;
//!
//! fn look(outcome: &Outcome) -> Option<Slot> {
//!     match outcome {
//!         Outcome::Done { slot, .. } => Some(*slot),
//!         _ => None,
//!     }
//! }
//! ```
//!
//! # PV-13: a grant is asked for its key after it has ended
//!
//! ```compile_fail,E0382
//! use std::sync::Arc;
//!
//! use ringpost_transport::fabric::one_sided::{Access, Key, OneSided};
//! use ringpost_transport::memory::Words;
//!
//! fn share(one_sided: &mut dyn OneSided, memory: &Arc<Words>) -> Key {
//!     let grant = one_sided.grant(memory, 0, 8, Access::READ).finish().unwrap();
//!     drop(grant);
//!     grant.key()
//! }
//! ```
//!
//! # PV-13: there are two of a grant, of which one would outlive the end of the other
//!
//! ```compile_fail,E0599
//! use std::sync::Arc;
//!
//! use ringpost_transport::fabric::one_sided::{Access, Grant, OneSided};
//! use ringpost_transport::memory::Words;
//!
//! fn share(one_sided: &mut dyn OneSided, memory: &Arc<Words>) -> [Grant; 2] {
//!     let grant = one_sided.grant(memory, 0, 8, Access::READ).finish().unwrap();
//!     [grant.clone(), grant]
//! }
//! ```
//!
//! # PV-13: a grant is made of a key, without memory that it keeps
//!
//! ```compile_fail,E0451
//! use ringpost_transport::fabric::one_sided::{Grant, Key};
//!
//! fn forge(key: Key) -> Grant {
//!     Grant { key, is_slow: false, _held: Box::new(()) }
//! }
//! ```
//!
//! # PV-2: locked memory is adopted twice
//!
//! ```compile_fail,E0382
//! use ringpost_transport::fabric::one_sided::{Locked, OneSided};
//! use ringpost_transport::memory::Slot;
//!
//! fn lock(one_sided: &mut dyn OneSided, memory: Locked) -> [Slot; 2] {
//!     [one_sided.adopt(memory), one_sided.adopt(memory)]
//! }
//! ```
//!
//! # PV-2: locked memory is posted before a queue pair has adopted it
//!
//! ```compile_fail,E0616
//! use ringpost_transport::fabric::one_sided::{Key, Kind, Locked, Operation};
//!
//! fn lock(memory: Locked, key: Key) -> Operation {
//!     Operation { slot: memory.slot, bytes: 1, key, at: 0, kind: Kind::Write }
//! }
//! ```
//!
//! # PV-15: memory that peers may write is borrowed as bytes
//!
//! ```compile_fail,E0608
//! use ringpost_transport::memory::Words;
//!
//! fn look(memory: &Words) -> &[u8] {
//!     &memory[..]
//! }
//! ```
