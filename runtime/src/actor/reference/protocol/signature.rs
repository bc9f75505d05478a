//! The methods of a protocol, and how the compiler finds the method of a handler.

use super::Protocol;
use crate::actor::Reply;
use crate::message::Message;

/// The method of a protocol at a [`MethodIndex`]: its message, parameters and reply. The code of a
/// handler finds them by this trait, in whatever crate it is.
#[doc(hidden)]
pub trait Method<Place>: Protocol {
    type Message: Message;
    /// A tuple of the parameters, sorted by their names.
    type Parameters;
    type Reply: Reply;
    fn open(message: Self::Message) -> Self::Parameters;
    fn make(parameters: Self::Parameters) -> Self::Message;
}

/// The parameter at the index `AT` of a method; the parameters are sorted by their names.
#[doc(hidden)]
pub trait Parameter<Place, const AT: usize>: Protocol {
    type Type;
}

/// The index of a method in its protocol, as a type.
#[doc(hidden)]
pub enum MethodIndex<const AT: usize> {}

/// The names of a method, its message and its parameters.
#[doc(hidden)]
pub struct Signature {
    pub name: &'static str,
    pub message: &'static str,
    pub parameters: &'static str,
    /// The compiler's error for a handler with other parameters.
    pub other: &'static str,
}

/// Returns the index of the method with this name, or with a message of this name. Fails to compile
/// if there is no such method, or if it has other parameters.
#[doc(hidden)]
#[track_caller]
pub const fn place<P: Protocol, M: Message>(name: &str, message: &str, parameters: &str) -> usize {
    let mut at = 0;
    while at < P::SIGNATURES.len() {
        let method = &P::SIGNATURES[at];
        if is_same(method.name, name) || is_same(method.message, message) {
            if is_same(method.parameters, parameters) {
                return at;
            }
            panic!("{}", method.other);
        }
        at += 1;
    }
    panic!("{}", P::OTHER)
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}
