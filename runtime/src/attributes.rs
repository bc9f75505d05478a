//! The attribute macros, each with an example. Each macro documents the input that it accepts.

/// Makes a struct or enum a message.
///
/// A message that contains itself, like a tree, may be up to 127 levels deep. A deeper one is not
/// sent, and other nodes would refuse it, because reading it needs stack for each level.
///
/// ```
/// use ringpost::prelude::*;
/// use std::net::IpAddr;
///
/// #[message]
/// #[derive(Debug, Clone)]
/// pub struct Deposit {
///     pub account: String,
///     pub cents: u64,
/// }
///
/// /// Generic, with a foreign type that rkyv can archive and another that needs a wrapper of rkyv.
/// #[message(name = "bank.Import", version = 2)]
/// pub struct Import<T> {
///     pub from: IpAddr,
///     pub items: Vec<T>,
///     #[message(opaque)]
///     pub label: std::ffi::CString,
///     #[message(opaque)]
///     #[rkyv(with = ringpost::rkyv::with::AsString)]
///     pub path: std::path::PathBuf,
/// }
///
/// /// Gained a field: nodes of the previous build still understand it, without the field.
/// #[message(version = 2)]
/// pub struct Withdraw {
///     pub account: String,
///     pub cents: u64,
///     #[message(since = 2)]
///     pub memo: Option<String>,
/// }
///
/// /// Two messages that contain each other.
/// #[message]
/// pub struct Folder {
///     #[message(recursive)]
///     pub entries: Vec<Entry>,
/// }
///
/// #[message]
/// pub enum Entry {
///     File(u64),
///     Folder(#[message(recursive)] Box<Folder>),
/// }
///
/// /// Stays on its node, so its fields may have any type that is `Send`.
/// #[message(local)]
/// pub struct Attach {
///     pub sink: std::sync::mpsc::Sender<u64>,
/// }
///
/// assert_eq!(Import::<Deposit>::NAME, "bank.Import");
/// assert_ne!(Import::<Deposit>::ID, Import::<Folder>::ID);
/// ```
pub use ringpost_macros::message;

/// Makes a type an actor.
///
/// ```
/// use ringpost::prelude::*;
///
/// #[actor]
/// pub struct Counter {
///     total: u64,
/// }
///
/// /// With hooks, the attribute stands on the `impl` block.
/// pub struct Cache {
///     lines: Vec<String>,
/// }
///
/// #[actor(name = "cache")]
/// impl Actor for Cache {
///     async fn on_start(&mut self, _: &mut Context<Self>) -> Result<(), BoxError> {
///         self.lines = vec!["ready".into()];
///         Ok(())
///     }
/// }
///
/// # #[handlers] impl Counter {}
/// # #[handlers] impl Cache {}
/// assert_eq!(Cache::NAME, "cache");
/// ```
pub use ringpost_macros::actor;

/// Collects the handlers of an actor.
///
/// ```
/// use ringpost::Handler;
/// use ringpost::prelude::*;
///
/// #[message]
/// pub struct Ping(pub u64);
///
/// #[actor]
/// #[derive(Default)]
/// pub struct Teller {
///     cents: u64,
/// }
///
/// #[handlers(Ping)] // written by hand below
/// impl Teller {
///     #[handler]
///     pub async fn balance(&self) -> u64 {
///         self.cents
///     }
/// }
///
/// impl Handler<Ping> for Teller {
///     type Reply = u64;
///     async fn handle(&mut self, msg: Ping, _: &mut Context<Self>) -> u64 {
///         msg.0 + 1
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let node = Node::builder("alpha").start().await?;
/// let teller = node.spawn("teller", Teller::default()).await?;
/// assert_eq!(teller.ask(Ping(1)).await?, 2);
/// assert_eq!(teller.balance().await?, 0); // a method of the generated `TellerClient`
/// # Ok(())
/// # }
/// ```
pub use ringpost_macros::handlers;

/// Marks a method as a handler.
///
/// ```
/// use ringpost::Local;
/// use ringpost::prelude::*;
///
/// #[message]
/// pub struct Deposit {
///     pub account: String,
///     pub cents: u64,
/// }
///
/// #[actor]
/// #[derive(Default)]
/// pub struct Teller {
///     cents: u64,
/// }
///
/// #[handlers]
/// impl Teller {
///     /// The parameter is the message, read where it arrived.
///     #[handler]
///     pub async fn deposit(&mut self, msg: View<Deposit>) -> u64 {
///         self.cents += msg.cents.to_native();
///         self.cents
///     }
///
///     /// The parameters are the fields of a generated message: `Withdraw { cents, note }`.
///     #[handler(name = Withdraw, derive(Clone, Debug))]
///     pub fn take_out(
///         &mut self,
///         cents: u64,
///         note: Option<String>,
///         cx: &mut Context<Self>,
///     ) -> Result<u64, String> {
///         let note = note.unwrap_or_else(|| format!("on {}", cx.node().name()));
///         self.cents = self.cents.checked_sub(cents).ok_or(note)?;
///         Ok(self.cents)
///     }
///
///     /// A large message lies behind a pointer in the mailbox.
///     #[handler(boxed)]
///     pub fn import(&mut self, page: [u8; 4096]) -> u64 {
///         page.len() as u64
///     }
///
///     /// Message and reply stay on their node.
///     #[handler(local)]
///     pub fn shared(&self, with: std::sync::mpsc::Sender<u64>) -> Local<bool> {
///         Local(with.send(self.cents).is_ok())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let node = Node::builder("alpha").start().await?;
/// let teller = node.spawn("teller", Teller::default()).await?;
/// teller.tell(Deposit { account: "ada".into(), cents: 3 }).await?;
/// assert_eq!(teller.take_out(1, None).await?, Ok(2));
/// assert_eq!(teller.ask(Withdraw { cents: 9, note: None }).await?, Err("on alpha".into()));
/// # Ok(())
/// # }
/// ```
pub use ringpost_macros::handler;

/// Turns messages and their replies into a protocol, which is independent of the actors that serve
/// it.
///
/// ```
/// use ringpost::prelude::*;
///
/// /// Shared by client and server, without any actor.
/// mod bank {
///     use ringpost::prelude::*;
///
///     #[message]
///     pub struct Deposit {
///         pub account: String,
///         pub cents: u64,
///     }
///
///     #[protocol]
///     pub trait Bank {
///         /// Makes `struct Balance { account: String }`.
///         fn balance(account: String) -> Option<u64>;
///
///         /// Takes an existing message.
///         fn deposit(msg: Deposit);
///     }
/// }
///
/// /// Used by the server only.
/// mod server {
///     use std::collections::HashMap;
///
///     use super::bank;
///     use ringpost::prelude::*;
///
///     #[actor]
///     #[derive(Default)]
///     pub struct Teller {
///         cents: HashMap<String, u64>,
///     }
///
///     #[handlers]
///     impl Teller {
///         /// Its message is `bank::Balance`.
///         #[handler(protocol = bank::Bank)]
///         fn balance(&self, account: String) -> Option<u64> {
///             self.cents.get(&account).copied()
///         }
///
///         #[handler]
///         fn deposit(&mut self, msg: View<bank::Deposit>) {
///             *self.cents.entry(msg.account.to_string()).or_default() += msg.cents.to_native();
///         }
///
///         /// A handler that the protocol does not have.
///         #[handler]
///         fn accounts(&self) -> u64 {
///             self.cents.len() as u64
///         }
///     }
/// }
///
/// use bank::{Balance, Bank, Deposit};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let node = Node::builder("alpha").start().await?;
/// node.spawn("bank", server::Teller::default()).await?;
/// let bank: Ref<Bank> = node.reference("alpha/bank").await?; // also "beta/bank"
/// bank.tell(Deposit { account: "ada".into(), cents: 3 }).await?;
/// assert_eq!(bank.balance("ada".into()).await?, Some(3));
/// assert_eq!(bank.ask(Balance { account: "bob".into() }).await?, None);
/// # Ok(())
/// # }
/// ```
pub use ringpost_macros::protocol;
