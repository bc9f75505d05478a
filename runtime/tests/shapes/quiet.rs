//! Generated code gives no warning where the user's crate is strict.
#![deny(warnings, missing_docs, unreachable_pub, unnameable_types, rust_2018_idioms)]
#![deny(let_underscore_drop, single_use_lifetimes, unused_qualifications, unused_results)]

/// A public module of a strict crate.
pub mod bank {
    use ringpost::Handler;
    use ringpost::group::Group;
    use ringpost::pool::Pool;
    use ringpost::prelude::*;
    use ringpost::wire::Wire;
    use std::collections::HashMap;
    use std::fmt;
    use std::hash::Hash;
    use std::marker::PhantomData;
    use std::num::{NonZero, NonZeroUsize};

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
            /// The owner of the account.
            owner: String,
        ) -> u64 {
            owner.len() as u64
        }

        /// Still served.
        #[deprecated(note = "use `balance`")]
        #[handler]
        pub fn total(&mut self) -> u64 {
            self.cents
        }

        /// Too large for a place in the mailbox.
        #[handler(boxed)]
        pub fn page(&mut self, bytes: [u8; 4096]) -> u64 {
            bytes.len() as u64
        }

        /// More parameters than clippy likes.
        #[allow(clippy::too_many_arguments, reason = "that is what is tried")]
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

    /// An enum whose variants have named fields: its archive has a name, too.
    #[message]
    #[derive(Debug, Clone)]
    #[rkyv(derive(Debug), compare(PartialEq))]
    pub enum Event {
        /// With named fields.
        Opened {
            /// Which account.
            account: String,
            /// By whom, if that is known.
            by: Option<String>,
        },
        /// Without names.
        Moved(u64, u64),
        /// Without fields.
        Closed,
    }

    /// Reads the archive of such an enum.
    pub fn is_known(event: &View<Event>) -> bool {
        match &**event {
            ArchivedEvent::Opened { by, .. } => by.is_some(),
            ArchivedEvent::Moved(from, to) => from != to,
            ArchivedEvent::Closed => true,
        }
    }

    /// The same, generic and recursive.
    #[message]
    #[derive(Debug)]
    pub enum Tree<T> {
        /// Two others.
        Fork {
            /// The one.
            left: Box<Tree<T>>,
            /// The other.
            right: Box<Tree<T>>,
        },
        /// A value.
        Leaf(T),
    }

    /// A message that only says of which type something is.
    #[message]
    #[derive(Debug)]
    pub struct Marked<M>(PhantomData<M>);

    /// A message that says the same of a type as wide as its machine, and holds none.
    #[message]
    #[derive(Debug)]
    pub struct Indexed {
        /// By which number.
        #[message(opaque)]
        pub by: PhantomData<(NonZeroUsize, Vec<NonZero<usize>>)>,
    }

    /// A message that gained a field.
    #[message(version = 2)]
    #[derive(Debug)]
    pub struct Withdraw {
        /// From which account.
        pub account: String,
        /// How much.
        #[message(since = 2)]
        pub cents: u64,
    }

    /// A message that stays here.
    #[message(local)]
    #[derive(Debug)]
    pub struct Stay<T>(pub T);

    /// The messages that a ledger serves.
    #[protocol]
    pub trait Books {
        /// How much there is.
        fn amount(account: String, at: u64) -> Option<u64>;
        /// Notes an event.
        fn note(msg: Event);
    }

    /// A generic actor with hooks.
    #[derive(Debug)]
    pub struct Ledger<K> {
        amounts: HashMap<K, u64>,
    }

    #[actor]
    impl<K: Wire + Eq + Hash + Sync + From<String>> Actor for Ledger<K> {
        async fn on_start(&mut self, _: &mut Context<Self>) -> Result<(), BoxError> {
            self.amounts.clear();
            Ok(())
        }
    }

    #[handlers(Stay<u8>, View<Tree<u64>>)]
    impl<K: Wire + Eq + Hash + Sync + From<String>> Ledger<K> {
        /// Of a protocol.
        #[handler(protocol = Books)]
        pub async fn amount(&self, account: String, at: u64) -> Option<u64> {
            tokio::task::yield_now().await;
            Some(self.amounts.get(&account.into())? + at)
        }

        /// Of a protocol, as a whole.
        #[handler(protocol = Books)]
        pub fn note(&mut self, msg: View<Event>) {
            if is_known(&msg) {
                self.amounts.clear();
            }
        }

        /// Answers later.
        #[handler]
        pub fn later(&mut self, key: K, reply: ReplyTo<u64>) {
            reply.send(self.amounts.remove(&key).unwrap_or_default());
        }

        /// Takes a message that only names a type.
        #[handler]
        pub fn mark(&mut self, msg: Marked<K>) -> Marked<K> {
            msg
        }
    }

    impl<K: Wire + Eq + Hash + Sync + From<String>> Handler<Stay<u8>> for Ledger<K> {
        type Reply = ();
        async fn handle(&mut self, _: Stay<u8>, _: &mut Context<Self>) {}
    }

    impl<K: Wire + Eq + Hash + Sync + From<String>> Handler<View<Tree<u64>>> for Ledger<K> {
        type Reply = u8;
        async fn handle(&mut self, _: View<Tree<u64>>, _: &mut Context<Self>) -> u8 {
            1
        }
    }

    /// Uses a pool and a group.
    ///
    /// # Errors
    /// The first send that failed.
    pub async fn share(
        pool: &Pool<Teller>,
        group: &ActorRef<Group<Event>>,
    ) -> Result<(), BoxError> {
        pool.tell(Open { owner: "ada".into() }).await?;
        let opened = pool.ask(Open { owner: "ada".into() }).await?;
        group.tell(Event::Moved(opened as u64, 0)).await?;
        Ok(())
    }
}
