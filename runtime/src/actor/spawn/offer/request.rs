//! The message by which a node asks another node to spawn an actor.
//!
//! Within the message the arguments are an archive of their own, in one of the versions of their
//! type. So a node can spawn actors on a node of an earlier or later build even if the arguments
//! gained fields.

use ringpost_transport::memory::{InvalidArchive, Payload, buffer};
use rkyv::rancor::Error;
use rkyv::util::AlignedVec;

use crate::address::Address;
use crate::archive;
use crate::message;
use crate::message::{Codec, Message, Wire};
use crate::node::Node;
use crate::schema::{Hash, Schema};

/// A request to spawn an actor.
pub(crate) struct SpawnRequest<T> {
    /// Boxed, because no message in a mailbox may be large.
    pub(crate) arguments: Box<T>,
    pub(crate) name: Option<String>,
    pub(crate) mailbox_capacity: Option<u64>,
    /// The actor that watches the new actor from its start: the new actor is held until
    /// [`BeginHeldActor`](super::BeginHeldActor).
    pub(crate) watcher: Option<Address>,
}

/// The wire type of a [`SpawnRequest`], with the archive of the arguments.
#[message(name = "ringpost::Spawn")]
struct WireSpawnRequest {
    arguments: Vec<u8>,
    name: Option<String>,
    mailbox_capacity: Option<u64>,
    watcher: Option<Address>,
}

/// Length of the table of layouts. A type has at most 16 forms, one for each version: see `since`
/// of [`#[message]`](macro@crate::message).
const FORMS_MAX: usize = 32;

impl<T: Wire> SpawnRequest<T> {
    const ARGUMENTS: Codec<T> = Codec::of();

    /// The layouts of the request, one for each version of the arguments; the last entries are
    /// unused.
    const ALL_LAYOUTS: [u128; FORMS_MAX] = {
        let (mut all, mut form) = ([0; FORMS_MAX], 0);
        while form < T::LAYOUTS.len() {
            let hash = Hash::new("ringpost::Spawn").num(WireSpawnRequest::LAYOUT);
            all[form] = hash.num(T::LAYOUTS[form]).end();
            form += 1;
        }
        all
    };

    const LAYOUTS: &'static [u128] = {
        let all: &'static [u128; FORMS_MAX] = &Self::ALL_LAYOUTS;
        all.split_at(T::LAYOUTS.len()).0
    };
}

#[diagnostic::do_not_recommend]
impl<T: Wire> Message for SpawnRequest<T> {
    const NAME: &'static str = "ringpost::Spawn";
    const ID: u128 = Hash::new("ringpost::Spawn").num(T::TYPE).end();
    const CODEC: Option<Codec<Self>> =
        Some(Codec { layouts: Self::LAYOUTS, encode: write::<T>, decode: read::<T> });
}

fn write<T: Wire>(
    spawn: &SpawnRequest<T>,
    form: u8,
    out: &mut AlignedVec<16>,
) -> Result<(), Error> {
    let mut arguments = AlignedVec::new();
    (SpawnRequest::<T>::ARGUMENTS.encode)(&spawn.arguments, form, &mut arguments)?;
    let packed = WireSpawnRequest {
        arguments: arguments.to_vec(),
        name: spawn.name.clone(),
        mailbox_capacity: spawn.mailbox_capacity,
        watcher: spawn.watcher.clone(),
    };
    archive::write(&packed, out)
}

fn read<T: Wire>(
    payload: &Payload,
    node: &Node,
    form: u8,
) -> Result<SpawnRequest<T>, InvalidArchive> {
    let WireSpawnRequest { arguments: packed, name, mailbox_capacity, watcher } =
        archive::read(payload, node)?;
    let mut arguments = AlignedVec::new();
    buffer::reserve(&mut arguments, packed.len());
    arguments.extend_from_slice(&packed);
    let arguments = (SpawnRequest::<T>::ARGUMENTS.decode)(&Payload::owned(arguments), node, form)?;
    Ok(SpawnRequest { arguments: Box::new(arguments), name, mailbox_capacity, watcher })
}
