//! A region as a field of a message.

use std::marker::PhantomData;

use rkyv::bytecheck::CheckBytes;
use rkyv::munge::munge;
use rkyv::rancor::{Fallible, Source};
use rkyv::ser::Writer;
use rkyv::{Archive, Deserialize, Place, Portable, Serialize};

use super::remote::{ArchivedWhereabouts, RemoteRegion, Whereabouts, WhereaboutsResolver};
use crate::archive::InNode;
use crate::schema::{FORMAT, Hash, Schema};

/// A [`RemoteRegion`] in an archive. `Context::own` or `View::to_owned` make it a region again,
/// bound to the node where that happens.
#[derive(Portable, CheckBytes)]
#[bytecheck(crate = rkyv::bytecheck)]
#[repr(C)]
pub struct ArchivedRemoteRegion<T> {
    place: ArchivedWhereabouts,
    _elements: PhantomData<fn() -> T>,
}

impl<T> ArchivedRemoteRegion<T> {
    /// Returns the name of its node.
    pub fn node(&self) -> &str {
        &self.place.node
    }
}

impl<T: Schema> Schema for RemoteRegion<T> {
    const TYPE: u128 = Hash::new("RemoteRegion").num(T::TYPE).end();
    const LAYOUT: u128 = Hash::new("RemoteRegion 1").num(T::LAYOUT).num(FORMAT).end();
}

impl<T> Archive for RemoteRegion<T> {
    type Archived = ArchivedRemoteRegion<T>;
    type Resolver = WhereaboutsResolver;

    fn resolve(&self, resolver: WhereaboutsResolver, out: Place<Self::Archived>) {
        munge!(let ArchivedRemoteRegion { place, _elements: _ } = out);
        Whereabouts::resolve(&self.place, resolver, place);
    }
}

impl<T, S: Fallible<Error: Source> + Writer + ?Sized> Serialize<S> for RemoteRegion<T> {
    fn serialize(&self, serializer: &mut S) -> Result<WhereaboutsResolver, S::Error> {
        Whereabouts::serialize(&self.place, serializer)
    }
}

impl<T, D: Fallible<Error: Source> + InNode + ?Sized> Deserialize<RemoteRegion<T>, D>
    for ArchivedRemoteRegion<T>
{
    fn deserialize(&self, deserializer: &mut D) -> Result<RemoteRegion<T>, D::Error> {
        let place = self.place.deserialize(deserializer)?;
        Ok(RemoteRegion::bind(deserializer.node(), place))
    }
}
