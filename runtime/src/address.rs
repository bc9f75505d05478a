//! Addresses of actors: a node, and the actor's identity or name on it.

use std::fmt;
use std::sync::Arc;

use ringpost_transport::id::{Incarnation, InvalidNodeName, NodeName};
use ringpost_transport::memory::{Inspect, Inspected};
use rkyv::bytecheck::CheckBytes;
use rkyv::munge::munge;
use rkyv::rancor::{Fallible, Source};
use rkyv::rend::{u32_le, u128_le};
use rkyv::ser::Writer;
use rkyv::string::{ArchivedString, StringResolver};
use rkyv::{Archive, Deserialize, Portable, Serialize};

use crate::limits;
use crate::registry::Key;
use crate::schema::{FORMAT, Hash, Schema};

/// The address of an actor. It names the actor by its identity or only by its name. Two addresses
/// are equal if they have the same node and the same identity, whatever the name, or if both have
/// no identity and the same node and name.
#[derive(Clone)]
pub struct Address {
    node: Arc<str>,
    identity: Option<Identity>,
    name: Option<Arc<str>>,
}

/// The identity of exactly one actor in one run of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) incarnation: Incarnation,
    pub(crate) key: Key,
}

impl Address {
    /// Creates the address of exactly this actor.
    pub(crate) fn of(node: Arc<str>, identity: Identity, name: Option<Arc<str>>) -> Self {
        Address { node, identity: Some(identity), name }
    }

    /// Creates the address of whichever actor has this name when the address is used.
    pub(crate) fn by_name(node: Arc<str>, name: Arc<str>) -> Self {
        Address { node, identity: None, name: Some(name) }
    }

    /// Returns the name of the actor's node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Returns the actor's name, or `None` if it has none.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn shared_name(&self) -> Option<Arc<str>> {
        self.name.clone()
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity
    }
}

/// Displays an address for people: an actor without a name by its type and number.
pub(crate) struct AddressDisplay<'a> {
    pub(crate) address: &'a Address,
    /// The name of the actor's type; empty if it is not known.
    pub(crate) kind: &'static str,
}

impl fmt::Display for AddressDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Address { node, identity: Some(Identity { key, .. }), name: None } => {
                write!(f, "{node}/{}#{}.{}", self.kind, key.index, key.generation)
            }
            address => address.fmt(f),
        }
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
            && self.identity == other.identity
            && (self.identity.is_some() || self.name == other.name)
    }
}

impl Eq for Address {}

impl std::hash::Hash for Address {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.node.hash(state);
        match &self.identity {
            Some(identity) => identity.hash(state),
            None => self.name.hash(state),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.identity) {
            (Some(name), _) => write!(f, "{}/{name}", self.node),
            (None, Some(_)) => AddressDisplay { address: self, kind: "" }.fmt(f),
            (None, None) => write!(f, "{}/", self.node),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// A text that cannot be an actor's name.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not an actor's name: use 1 to {max} bytes without `/` and control characters, and \
    not `#` first",
    .0.escape_debug(),
    max = limits::ACTOR_NAME_BYTES_MAX
)]
pub struct InvalidActorName(pub String);

ringpost_transport::debug_by_display!(InvalidActorName);

/// Checks an actor's name, and returns it as a shared text.
pub(crate) fn check_name(name: &str) -> Result<Arc<str>, InvalidActorName> {
    check(name)?;
    Ok(name.into())
}

/// First character of the names of the runtime's own actors. A user cannot give such a name, send
/// to it or put it into a message.
pub(crate) const RESERVED: char = '#';

fn check(name: &str) -> Result<(), InvalidActorName> {
    let fits = (1..=limits::ACTOR_NAME_BYTES_MAX).contains(&name.len());
    if !fits || name.starts_with(RESERVED) || name.contains(|c: char| c == '/' || c.is_control()) {
        return Err(InvalidActorName(name.chars().take(80).collect()));
    }
    Ok(())
}

/// An [`Address`] in an archive. Its check accepts only valid names of actors and nodes, so no
/// invalid name reaches a log or a table of this node.
#[derive(Portable, CheckBytes)]
#[bytecheck(crate = rkyv::bytecheck)]
#[repr(transparent)]
pub struct ArchivedAddress(Inspected<AddressFields>);

/// The fields of an archived address. In an address by name, `generation` is 0; `name` is empty if
/// the actor has none.
#[derive(Portable, CheckBytes)]
#[bytecheck(crate = rkyv::bytecheck)]
#[repr(C)]
struct AddressFields {
    incarnation: u128_le,
    node: ArchivedString,
    name: ArchivedString,
    index: u32_le,
    generation: u32_le,
}

impl AddressFields {
    fn is_by_name(&self) -> bool {
        self.generation == 0
    }
}

impl Inspect for AddressFields {
    type Refusal = InvalidAddress;

    fn inspect(&self) -> Result<(), InvalidAddress> {
        NodeName::check(&self.node)?;
        if !self.name.is_empty() || self.is_by_name() {
            check(&self.name)?;
        }
        Ok(())
    }
}

/// The reason why bytes of another node are not an address.
#[derive(Debug, thiserror::Error)]
enum InvalidAddress {
    #[error(transparent)]
    Node(#[from] InvalidNodeName),
    #[error(transparent)]
    Actor(#[from] InvalidActorName),
}

impl ArchivedAddress {
    /// Returns the name of the actor's node.
    pub fn node(&self) -> &str {
        &self.0.0.node
    }

    /// Returns the actor's name, or `None` if it has none.
    pub fn name(&self) -> Option<&str> {
        Some(self.0.0.name.as_str()).filter(|name| !name.is_empty())
    }

    pub(crate) fn to_address(&self) -> Address {
        let place = &self.0.0;
        let identity = (!place.is_by_name()).then(|| Identity {
            incarnation: Incarnation(place.incarnation.to_native()),
            key: Key { index: place.index.to_native(), generation: place.generation.to_native() },
        });
        Address { node: self.node().into(), identity, name: self.name().map(Arc::from) }
    }
}

/// The positions of the two names of an [`ArchivedAddress`].
pub struct AddressResolver {
    node: StringResolver,
    name: StringResolver,
}

impl Archive for Address {
    type Archived = ArchivedAddress;
    type Resolver = AddressResolver;

    fn resolve(&self, resolver: AddressResolver, out: rkyv::Place<ArchivedAddress>) {
        munge!(let ArchivedAddress(Inspected(place)) = out);
        munge!(let AddressFields { incarnation, node, name, index, generation } = place);
        ArchivedString::resolve_from_str(&self.node, resolver.node, node);
        let text = self.name.as_deref().unwrap_or_default();
        ArchivedString::resolve_from_str(text, resolver.name, name);
        let by_name =
            Identity { incarnation: Incarnation(0), key: Key { index: 0, generation: 0 } };
        let identity = self.identity.unwrap_or(by_name);
        incarnation.write(identity.incarnation.0.into());
        index.write(identity.key.index.into());
        generation.write(identity.key.generation.into());
    }
}

impl<S: Fallible<Error: Source> + Writer + ?Sized> Serialize<S> for Address {
    fn serialize(&self, serializer: &mut S) -> Result<AddressResolver, S::Error> {
        let text = self.name.as_deref().unwrap_or_default();
        Ok(AddressResolver {
            node: ArchivedString::serialize_from_str(&self.node, serializer)?,
            name: ArchivedString::serialize_from_str(text, serializer)?,
        })
    }
}

impl Schema for Address {
    const TYPE: u128 = Hash::new("Address").end();
    const LAYOUT: u128 = Hash::new("Address 1").num(FORMAT).end();
    const IN_PLACE: bool = true;
}

impl<D: Fallible + ?Sized> Deserialize<Address, D> for ArchivedAddress {
    fn deserialize(&self, _: &mut D) -> Result<Address, D::Error> {
        Ok(self.to_address())
    }
}

#[cfg(test)]
mod tests {
    use ringpost_transport::memory::Payload;
    use rkyv::util::AlignedVec;

    use super::*;
    use crate::archive;
    use crate::node::Node;

    /// Checks that reading an archived address fails if its node's or actor's name is invalid in
    /// this version. A peer of another version may send such an address.
    // Promised in docs/SEMANTICS.md.
    #[tokio::test]
    async fn an_address_with_names_that_are_none_is_no_archive() {
        let node = Node::builder("alpha").start().await.expect("it has no network");
        let read = |address: &Address| {
            let mut bytes = AlignedVec::new();
            archive::write(address, &mut bytes).expect("it is written");
            archive::read::<Address>(&Payload::owned(bytes), &node).map_err(|error| error.0)
        };
        let key = Key { index: 1, generation: 1 };
        let identity = Identity { incarnation: Incarnation(7), key };
        let long = "x".repeat(64 * 1024);
        let nodes = ["beta", "", "line\nbreak", "a b", "\u{1b}[31m", "größe", &long];
        let names = ["name", "größe", "line\nbreak", "a/b", "#1", "\u{1b}[31m", "\u{7f}", &long];
        for (at, on) in nodes.iter().enumerate() {
            for (which, name) in names.iter().enumerate() {
                let name: Arc<str> = (*name).into();
                for address in [
                    Address::of((*on).into(), identity, Some(name.clone())),
                    Address::by_name((*on).into(), name),
                ] {
                    let read = read(&address);
                    assert_eq!(read.is_ok(), at == 0 && which < 2, "{on:.9}, {read:?}");
                    let refused = read.err().unwrap_or_default();
                    assert!(refused.len() < 1000 && !refused.contains('\u{1b}'), "{refused}");
                }
            }
            let nameless = read(&Address::of((*on).into(), identity, None));
            assert_eq!(nameless.is_ok(), at == 0, "{nameless:?}");
        }
        let nobody = read(&Address { node: "beta".into(), identity: None, name: None });
        assert!(nobody.is_err(), "{nobody:?}");
    }
}
