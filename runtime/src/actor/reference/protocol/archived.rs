//! A protocol's reference as a field of a message: an address. The protocol is part of the schema,
//! and not of the bytes.

use std::marker::PhantomData;

use rkyv::bytecheck::CheckBytes;
use rkyv::munge::munge;
use rkyv::rancor::{Fallible, Source};
use rkyv::ser::Writer;
use rkyv::{Archive, Deserialize, Place, Portable, Serialize};

use super::{Protocol, Ref};
use crate::address::{Address, AddressResolver, ArchivedAddress};
use crate::archive::InNode;
use crate::schema::{FORMAT, Hash, Schema};

/// A [`Ref`] in an archive. `Context::own` or `View::to_owned` make it a reference again, bound to
/// their node.
#[derive(Portable, CheckBytes)]
#[bytecheck(crate = rkyv::bytecheck)]
#[repr(C)]
pub struct ArchivedRef<P> {
    address: ArchivedAddress,
    _protocol: PhantomData<fn() -> P>,
}

impl<P> ArchivedRef<P> {
    /// Returns the name of the actor's node.
    pub fn node(&self) -> &str {
        self.address.node()
    }

    /// Returns the actor's name, or `None` if it has none.
    pub fn name(&self) -> Option<&str> {
        self.address.name()
    }
}

impl<P: Protocol> Schema for Ref<P> {
    const TYPE: u128 = Hash::new("Ref").str(P::NAME).end();
    const LAYOUT: u128 = Hash::new("Ref 1").str(P::NAME).num(FORMAT).end();
    const IN_PLACE: bool = true;
}

impl<P: Protocol> Archive for Ref<P> {
    type Archived = ArchivedRef<P>;
    type Resolver = AddressResolver;

    fn resolve(&self, resolver: AddressResolver, out: Place<Self::Archived>) {
        munge!(let ArchivedRef { address, _protocol: _ } = out);
        Address::resolve(self.address(), resolver, address);
    }
}

impl<P: Protocol, S: Fallible<Error: Source> + Writer + ?Sized> Serialize<S> for Ref<P> {
    fn serialize(&self, serializer: &mut S) -> Result<AddressResolver, S::Error> {
        self.address().serialize(serializer)
    }
}

impl<P: Protocol, D: Fallible + InNode + ?Sized> Deserialize<Ref<P>, D> for ArchivedRef<P> {
    fn deserialize(&self, deserializer: &mut D) -> Result<Ref<P>, D::Error> {
        Ok(Ref::bind(deserializer.node(), self.address.to_address()))
    }
}
