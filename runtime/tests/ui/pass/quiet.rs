//! Generated code gives no warning where the user's crate is strict.
#![deny(warnings, missing_docs, unreachable_pub, rust_2018_idioms)]

/// A public module of a strict crate.
pub mod bank {
    use ringpost::prelude::*;
    use std::fmt;

    /// A documented actor.
    #[actor]
    #[derive(Default)]
    pub struct Teller {
        cents: u64,
    }

    #[handlers]
    impl Teller {
        /// Documented, with its parameters documented by the macro.
        #[handler]
        pub async fn balance(&self, account: String, extra: u64) -> Option<u64> {
            (!account.is_empty()).then_some(self.cents + extra)
        }

        /// Documented, and a parameter by hand.
        #[handler(derive(Clone, Debug))]
        pub fn open(
            &mut self,
            /// Whose account it is.
            owner: String,
        ) -> usize {
            owner.len()
        }

        /// Still served.
        #[deprecated(note = "use `balance`")]
        #[handler]
        pub fn total(&mut self) -> u64 {
            self.cents
        }

        /// Too large for a place in the mailbox.
        #[handler(boxed)]
        pub fn page(&mut self, bytes: [u8; 4096]) -> usize {
            bytes.len()
        }

        /// More parameters than clippy likes.
        #[allow(clippy::too_many_arguments)]
        #[handler]
        pub fn sum(&mut self, a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8) -> u8 {
            a + b + c + d + e + f + g + h
        }
    }

    /// A message with the user's own attributes around ours.
    #[derive(Debug)]
    #[message]
    #[derive(Clone, PartialEq, Eq)]
    #[rkyv(derive(Debug), compare(PartialEq))]
    pub struct Deposit {
        /// Into which account.
        pub account: String,
        /// How much.
        pub cents: u64,
    }

    /// A message of several kinds.
    #[message]
    #[derive(Debug)]
    pub enum Order {
        /// With a field.
        Sell(u64),
        /// Without a field.
        Cancel,
    }

    /// A generic message.
    #[message]
    #[derive(Debug)]
    pub struct Batch<T: fmt::Debug> {
        /// All of one type.
        pub items: Vec<T>,
    }
}

fn main() {}
