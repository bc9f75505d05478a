//! The traits of messages: `Message`, and `Wire`, of those that can cross nodes.

use ringpost_transport::memory::{InvalidArchive, Payload};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Archived, Deserialize, Portable, Serialize};

use crate::archive::{self, Check, De, Ser};
use crate::node::Node;
use crate::schema::Schema;

/// Anything an actor can be told. Written by `#[message]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a message",
    label = "not a message",
    note = "put `#[message]` on `{Self}`",
    note = "in a `#[handlers]` block, a parameter called `msg` is the message itself; any other \
         name makes it a field of a generated message"
)]
pub trait Message: Sized + Send + 'static {
    /// Its name, for people.
    const NAME: &'static str;
    /// Which message it is, on every node: a hash of its name and of its arguments. (One that never
    /// leaves its node is known by its type there, and its arguments are in no hash.)
    const ID: u128;
    /// How it crosses nodes; `None` for `#[message(local)]`.
    const CODEC: Option<Codec<Self>>;
}

/// Everything a type needs to cross nodes. Every type with a [`Schema`] and rkyv's three derives
/// has it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross nodes",
    label = "not archivable with a known layout",
    note = "put `#[message]` on `{Self}`, or wrap it in `Local<..>` if it is a reply that stays \
         on its node"
)]
pub trait Wire:
    Schema
    + Sized
    + Send
    + 'static
    + Archive<
        Archived: Portable
                      + Send
                      + Sync
                      + for<'a> CheckBytes<Check<'a>>
                      + for<'a> Deserialize<Self, De<'a>>,
    >
    + for<'a> Serialize<Ser<'a>>
{
}

#[diagnostic::do_not_recommend]
impl<T> Wire for T where
    T: Schema
        + Sized
        + Send
        + 'static
        + Archive<
            Archived: Portable
                          + Send
                          + Sync
                          + for<'a> CheckBytes<Check<'a>>
                          + for<'a> Deserialize<T, De<'a>>,
        >
        + for<'a> Serialize<Ser<'a>>
{
}

/// How a type is written and read: a value, so that a type that stays on its node can have none.
pub struct Codec<T> {
    pub(crate) layout: u128,
    pub(crate) encode: Encode<T>,
    pub(crate) decode: fn(Payload, &Node) -> Result<T, InvalidArchive>,
}

/// Writes the archive of a value into an empty buffer.
pub(crate) type Encode<T> = fn(&T, &mut AlignedVec<16>) -> Result<(), Error>;

impl<T: Wire> Codec<T> {
    /// The codec of a type that can cross nodes.
    pub const fn of() -> Self {
        const {
            assert!(
                align_of::<Archived<T>>() <= 16,
                "archives are 16-byte aligned where they arrive: this type needs more"
            );
        }
        Codec { layout: T::LAYOUT, encode: archive::write::<T>, decode: archive::read::<T> }
    }
}
