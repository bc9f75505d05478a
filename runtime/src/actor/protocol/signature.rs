//! The methods of a protocol: how the compiler finds the one that a handler is of.

use super::Protocol;
use crate::actor::Reply;
use crate::message::Message;

/// The method of a protocol at a [`Place`] in it, and the message that was made for it: what a
/// handler of it, wherever that is, finds them by.
#[doc(hidden)]
pub trait Method<Place>: Protocol {
    type Message: Message;
    /// Sorted by their names.
    type Parameters;
    type Reply: Reply;
    fn open(message: Self::Message) -> Self::Parameters;
    fn make(parameters: Self::Parameters) -> Self::Message;
}

/// One of the parameters of a method.
#[doc(hidden)]
pub trait Parameter<Place, const AT: usize>: Protocol {
    type Type;
}

/// The place of a method in its protocol, as a type.
#[doc(hidden)]
pub enum Place<const AT: usize> {}

/// How a method, its message and its parameters are called.
#[doc(hidden)]
pub struct Signature {
    pub name: &'static str,
    pub message: &'static str,
    pub parameters: &'static str,
    /// The error of the compiler for a handler with other parameters.
    pub other: &'static str,
}

/// Returns the place of the method that is called so, or whose message is. That there is none, or
/// one with other parameters, is an error of the compiler.
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
