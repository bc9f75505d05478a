//! Programs that break PV-1, PV-2 or PV-11 and so do not compile. Each differs from the first one,
//! which does, by what its title says.
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
//!         splice: None,
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
//!         splice: None,
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
