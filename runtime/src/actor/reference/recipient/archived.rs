//! A recipient as a field of a message: an address. The message and the reply are part of the
//! schema, and not of the bytes.

use std::marker::PhantomData;

use rkyv::bytecheck::CheckBytes;
use rkyv::munge::munge;
use rkyv::rancor::{Fallible, Source};
use rkyv::ser::Writer;
use rkyv::{Archive, Deserialize, Place, Portable, Serialize};

use super::{Recipient, Unasked};
use crate::address::{Address, AddressResolver, ArchivedAddress};
use crate::archive::InNode;
use crate::message::Message;
use crate::schema::{FORMAT, Hash, Schema};

/// A [`Recipient`] in an archive. `Context::own` or `View::to_owned` make it a recipient again,
/// bound to their node.
#[derive(Portable, CheckBytes)]
#[bytecheck(crate = rkyv::bytecheck)]
#[repr(C)]
pub struct ArchivedRecipient<M, R> {
    address: ArchivedAddress,
    _message: PhantomData<fn(M) -> R>,
}

impl<M, R> ArchivedRecipient<M, R> {
    /// Returns the name of the actor's node.
    pub fn node(&self) -> &str {
        self.address.node()
    }

    /// Returns the actor's name, or `None` if it has none.
    pub fn name(&self) -> Option<&str> {
        self.address.name()
    }
}

impl<M: Message, R: Schema> Schema for Recipient<M, R> {
    const TYPE: u128 = Hash::new("Recipient").num(M::ID).num(R::TYPE).end();
    const LAYOUT: u128 = Hash::new("Recipient 1").num(M::ID).num(R::TYPE).num(FORMAT).end();
    const IN_PLACE: bool = true;
}

impl Schema for Unasked {
    const TYPE: u128 = 0;
    const LAYOUT: u128 = 0;
}

impl<M: Message, R: Send + 'static> Archive for Recipient<M, R> {
    type Archived = ArchivedRecipient<M, R>;
    type Resolver = AddressResolver;

    fn resolve(&self, resolver: AddressResolver, out: Place<Self::Archived>) {
        munge!(let ArchivedRecipient { address, _message: _ } = out);
        Address::resolve(self.address(), resolver, address);
    }
}

impl<M: Message, R: Send + 'static, S: Fallible<Error: Source> + Writer + ?Sized> Serialize<S>
    for Recipient<M, R>
{
    fn serialize(&self, serializer: &mut S) -> Result<AddressResolver, S::Error> {
        self.address().serialize(serializer)
    }
}

impl<M: Message, R: Send + 'static, D: Fallible + InNode + ?Sized> Deserialize<Recipient<M, R>, D>
    for ArchivedRecipient<M, R>
{
    fn deserialize(&self, deserializer: &mut D) -> Result<Recipient<M, R>, D::Error> {
        Ok(Recipient::bind(deserializer.node(), self.address.to_address()))
    }
}
