//! The traits of messages: `Message`, and `Wire` for types that can cross nodes.

use ringpost_transport::memory::{InvalidArchive, Payload};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Archived, Deserialize, Portable, Serialize};

use crate::archive::{self, Check, De, Ser};
use crate::node::Node;
use crate::schema::Schema;

/// A value that actors can receive. Implemented by `#[message]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a message",
    label = "not a message",
    note = "put `#[message]` on `{Self}`",
    note = "in a `#[handlers]` block, a parameter called `msg` is the message itself; any other \
         name makes it a field of a generated message"
)]
pub trait Message: Sized + Send + 'static {
    /// The name of the message, for people.
    const NAME: &'static str;
    /// Identity of the message on every node: a hash of its name and its generic arguments. (A
    /// message that never leaves its node is identified there by its Rust type, and its hash leaves
    /// type arguments out.)
    const ID: u128;
    /// Its codec; `None` for `#[message(local)]`.
    const CODEC: Option<Codec<Self>>;
}

/// Everything a type needs to cross nodes. Implemented for every type with a [`Schema`] and rkyv's
/// three derives.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross nodes",
    label = "not archivable with a known layout",
    note = "`usize` and `isize` cannot, as they are as wide as their machine: use `u64` and `i64`",
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

/// The functions that write and read the archives of a type. They are a value, and not a trait, so
/// that a type that stays on its node has none.
pub struct Codec<T> {
    /// The layouts of its versions, newest first.
    pub(crate) layouts: &'static [u128],
    pub(crate) encode: EncodeFn<T>,
    pub(crate) decode: DecodeFn<T>,
}

/// Writes the archive of a value into an empty buffer, in the version with this index in
/// `Codec::layouts`.
pub(crate) type EncodeFn<T> = fn(&T, u8, &mut AlignedVec<16>) -> Result<(), Error>;

/// Reads a value back from its archive in the version with this index in `Codec::layouts`.
pub(crate) type DecodeFn<T> = fn(&Payload, &Node, u8) -> Result<T, InvalidArchive>;

impl<T: Wire> Codec<T> {
    /// Returns the codec of a type that can cross nodes.
    pub const fn of() -> Self {
        const {
            assert!(
                align_of::<Archived<T>>() <= 16,
                "archives are 16-byte aligned where they arrive: this type needs more"
            );
        }
        Codec { layouts: T::LAYOUTS, encode: write_form::<T>, decode: read_form::<T> }
    }
}

/// Writes the archive of `value` in the version whose layout is `LAYOUTS[form]`.
fn write_form<T: Wire>(value: &T, form: u8, out: &mut AlignedVec<16>) -> Result<(), Error> {
    if form != 0 {
        return value.write_earlier(form, out);
    }
    archive::write(value, out)?;
    archive::check_written::<T, T::Archived>(out)
}

/// Checks the bytes, and reads the value back from the version whose layout is `LAYOUTS[form]`.
fn read_form<T: Wire>(payload: &Payload, node: &Node, form: u8) -> Result<T, InvalidArchive> {
    if form == 0 { archive::read(payload, node) } else { T::read_earlier(form, payload, node) }
}

#[cfg(test)]
mod tests;
