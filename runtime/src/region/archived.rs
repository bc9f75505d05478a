//! A region as a field of a message.

use std::marker::PhantomData;

use ringpost_transport::id::{InvalidNodeName, NodeName};
use ringpost_transport::memory::{Inspect, Inspected};
use rkyv::bytecheck::CheckBytes;
use rkyv::munge::munge;
use rkyv::rancor::{Fallible, Source};
use rkyv::ser::Writer;
use rkyv::{Archive, Deserialize, Place, Portable, Serialize};

use super::remote::{ArchivedRegionAddress, RegionAddress, RegionAddressResolver, RemoteRegion};
use crate::archive::InNode;
use crate::schema::{FORMAT, Hash, Schema};

/// A [`RemoteRegion`] in an archive. `Context::own` or `View::to_owned` turn it back into a region
/// bound to their node. The check of the archive refuses names that no node can have.
#[derive(Portable, CheckBytes)]
#[bytecheck(crate = rkyv::bytecheck)]
#[repr(C)]
pub struct ArchivedRemoteRegion<T> {
    place: Inspected<ArchivedRegionAddress>,
    _elements: PhantomData<fn() -> T>,
}

impl<T> ArchivedRemoteRegion<T> {
    /// Returns the name of its node.
    pub fn node(&self) -> &str {
        &self.place.0.node
    }
}

impl Inspect for ArchivedRegionAddress {
    type Refusal = InvalidNodeName;

    fn inspect(&self) -> Result<(), InvalidNodeName> {
        NodeName::check(&self.node)
    }
}

impl<T: Schema> Schema for RemoteRegion<T> {
    const TYPE: u128 = Hash::new("RemoteRegion").num(T::TYPE).end();
    const LAYOUT: u128 = Hash::new("RemoteRegion 1").num(T::LAYOUT).num(FORMAT).end();
    const IN_PLACE: bool = true;
}

impl<T> Archive for RemoteRegion<T> {
    type Archived = ArchivedRemoteRegion<T>;
    type Resolver = RegionAddressResolver;

    fn resolve(&self, resolver: RegionAddressResolver, out: Place<Self::Archived>) {
        munge!(let ArchivedRemoteRegion { place: Inspected(place), _elements: _ } = out);
        RegionAddress::resolve(&self.place, resolver, place);
    }
}

impl<T, S: Fallible<Error: Source> + Writer + ?Sized> Serialize<S> for RemoteRegion<T> {
    fn serialize(&self, serializer: &mut S) -> Result<RegionAddressResolver, S::Error> {
        RegionAddress::serialize(&self.place, serializer)
    }
}

impl<T, D: Fallible<Error: Source> + InNode + ?Sized> Deserialize<RemoteRegion<T>, D>
    for ArchivedRemoteRegion<T>
{
    fn deserialize(&self, deserializer: &mut D) -> Result<RemoteRegion<T>, D::Error> {
        let place = self.place.0.deserialize(deserializer)?;
        Ok(RemoteRegion::bind(deserializer.node(), place))
    }
}

#[cfg(test)]
mod tests {
    use ringpost_transport::memory::Payload;
    use rkyv::util::AlignedVec;

    use super::*;
    use crate::archive;
    use crate::node::Node;

    /// Checks names that no node of this version has, as a peer may write them.
    // Promised in docs/SEMANTICS.md.
    #[tokio::test]
    async fn a_region_of_a_node_whose_name_is_none_is_no_archive() {
        let node = Node::builder("alpha").start().await.expect("it has no network");
        let long = "x".repeat(64 * 1024);
        for name in ["beta", "", "line\nbreak", "a b", "\u{1b}[31m", "größe", &long] {
            let place =
                RegionAddress { node: name.into(), incarnation: 1, share: 7, at: 0, len: 8 };
            let mut bytes = AlignedVec::new();
            archive::write(&RemoteRegion::<u64>::bind(&node, place), &mut bytes).expect("written");
            let read = archive::read::<RemoteRegion<u64>>(&Payload::owned(bytes), &node);
            let read = read.map_err(|error| error.0);
            assert_eq!(read.is_ok(), name == "beta", "{name:.9}, {read:?}");
            let refused = read.err().unwrap_or_default();
            assert!(refused.len() < 1000 && !refused.contains('\u{1b}'), "{refused}");
        }
    }
}
