//! A reference as a field of a message.

use std::marker::PhantomData;

use rkyv::bytecheck::CheckBytes;
use rkyv::munge::munge;
use rkyv::rancor::{Fallible, Source};
use rkyv::ser::Writer;
use rkyv::{Archive, Deserialize, Place, Portable, Serialize};

use super::ActorRef;
use crate::actor::{Actor, Handlers};
use crate::address::{Address, AddressResolver, ArchivedAddress};
use crate::archive::InNode;
use crate::schema::{FORMAT, Hash, Schema};

/// An [`ActorRef`] in an archive: an address. `Context::own` or `View::to_owned` make it a
/// reference again, bound to their node.
#[derive(Portable, CheckBytes)]
#[bytecheck(crate = rkyv::bytecheck)]
#[repr(C)]
pub struct ArchivedActorRef<A> {
    address: ArchivedAddress,
    _actor: PhantomData<fn() -> A>,
}

impl<A> ArchivedActorRef<A> {
    /// Returns the name of the actor's node.
    pub fn node(&self) -> &str {
        self.address.node()
    }

    /// Returns the actor's name, or `None` if it has none.
    pub fn name(&self) -> Option<&str> {
        self.address.name()
    }
}

impl<A: Handlers> Schema for ActorRef<A> {
    const TYPE: u128 = Hash::new("ActorRef").str(<A as Actor>::NAME).end();
    const LAYOUT: u128 = Hash::new("ActorRef 1").str(<A as Actor>::NAME).num(FORMAT).end();
    const IN_PLACE: bool = true;
}

impl<A: Handlers> Archive for ActorRef<A> {
    type Archived = ArchivedActorRef<A>;
    type Resolver = AddressResolver;

    fn resolve(&self, resolver: AddressResolver, out: Place<Self::Archived>) {
        munge!(let ArchivedActorRef { address, _actor: _ } = out);
        Address::resolve(self.address(), resolver, address);
    }
}

impl<A: Handlers, S: Fallible<Error: Source> + Writer + ?Sized> Serialize<S> for ActorRef<A> {
    fn serialize(&self, serializer: &mut S) -> Result<AddressResolver, S::Error> {
        self.address().serialize(serializer)
    }
}

impl<A: Handlers, D: Fallible + InNode + ?Sized> Deserialize<ActorRef<A>, D>
    for ArchivedActorRef<A>
{
    fn deserialize(&self, deserializer: &mut D) -> Result<ActorRef<A>, D::Error> {
        Ok(ActorRef::bind(deserializer.node(), self.address.to_address()))
    }
}
