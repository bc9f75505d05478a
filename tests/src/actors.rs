//! The actors that the node processes host; the tests know them by these types.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringpost::net::Profile;
use ringpost::prelude::*;
use ringpost::spawn::SpawnError;

/// Counts the words it is told, and answers at once.
#[actor]
#[derive(Default)]
pub struct Counter {
    words: u64,
    bytes: u64,
}

/// Some text.
#[message]
pub struct Text {
    /// The text.
    pub text: String,
}

#[handlers]
impl Counter {
    /// Counts the words of a text, in place.
    #[handler]
    pub fn count(&mut self, msg: View<Text>) {
        self.words += msg.text.split_whitespace().count() as u64;
        self.bytes += msg.text.len() as u64;
    }

    /// Returns the words and bytes so far.
    #[handler]
    pub fn counted(&self) -> (u64, u64) {
        (self.words, self.bytes)
    }

    /// Returns the text.
    #[handler]
    pub fn echo(&self, text: String) -> String {
        text
    }

    /// A reference to this very actor, by its identity.
    #[handler]
    pub fn itself(&self, cx: &mut Context<Self>) -> ActorRef<Counter> {
        cx.actor().clone()
    }
}

/// Notes its messages, in order.
#[actor]
#[derive(Default)]
pub struct Notary {
    notes: Vec<(u64, u64, u64)>,
}

#[handlers]
impl Notary {
    /// Notes a number beside the digest and the length of some bytes.
    #[handler]
    pub fn note(&mut self, number: u64, bytes: Vec<u8>) {
        self.notes.push((number, digest(&bytes), bytes.len() as u64));
    }

    /// The notes: number, digest, length.
    #[handler]
    pub fn notes(&self) -> Vec<(u64, u64, u64)> {
        self.notes.clone()
    }
}

/// A number that differs when a byte or its place does (FNV-1a).
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The profile of a node that takes messages of a gibibyte.
pub fn giant() -> Profile {
    Profile { message_bytes_max: 1 << 30, ..Profile::default() }
}

/// Never answers.
#[actor]
pub struct Mute;

#[handlers]
impl Mute {
    /// Waits for ever.
    #[handler]
    pub async fn wait(&self, number: u64) -> u64 {
        std::future::pending::<()>().await;
        number
    }
}

/// Answers with the requested number of bytes.
#[actor]
pub struct Giver;

#[handlers]
impl Giver {
    /// Returns `bytes` bytes.
    #[handler]
    pub fn give(&self, bytes: u64) -> Vec<u8> {
        vec![7; bytes as usize]
    }
}

/// Blocks the thread that it runs on.
#[actor]
pub struct Blocker;

#[handlers]
impl Blocker {
    /// Waits until `threads` handlers block a thread each, and then for `millis` milliseconds.
    #[handler]
    pub fn block(&self, threads: u64, millis: u64) {
        static BLOCKED: AtomicU64 = AtomicU64::new(0);
        BLOCKED.fetch_add(1, Ordering::SeqCst);
        while BLOCKED.load(Ordering::SeqCst) < threads {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(millis));
    }
}

/// How many blocking actors a node process hosts: `blocker0` and `blocker1`.
pub const BLOCKERS: u64 = 2;

/// How many mute actors a node process hosts: `mute0` to `mute7`.
pub const MUTES: u64 = 8;

/// How many counters a node hosts that are there to be stopped: `quitter0` to `quitter63`.
pub const QUITTERS: usize = 64;

/// Starts what the tests of single steps need: a counter, mute actors, and counters to be stopped.
///
/// # Errors
/// When one cannot be spawned.
pub async fn host(node: &Node) -> Result<(), SpawnError> {
    node.spawn("counter", Counter::default()).await?;
    for number in 0..MUTES {
        node.spawn(&format!("mute{number}"), Mute).await?;
    }
    for number in 0..QUITTERS {
        node.spawn(&format!("quitter{number}"), Counter::default()).await?;
    }
    Ok(())
}

/// Tells a counter `count` texts of `bytes` bytes, then waits for their fates; returns how many
/// fates were told.
pub async fn tell(counter: &ActorRef<Counter>, bytes: usize, count: usize) -> usize {
    let mut told = Vec::new();
    for _ in 0..count {
        let mut one = Box::pin(counter.tell(Text { text: "x".repeat(bytes) }).confirmed());
        if one.committed().await.is_ok() {
            told.push(one);
        }
    }
    let mut fates = 0;
    for one in told {
        fates += usize::from(one.await.is_ok());
    }
    fates
}

/// Stops a counter, and tells it something until that fails: tells under way then are refused.
pub async fn quit(counter: &ActorRef<Counter>) {
    if counter.stop().await.is_ok() {
        while counter.tell(Text { text: "late".into() }).await.is_ok() {}
    }
}

/// Tells a mute actor until there is no room, and waits.
pub async fn stuff(mute: &ActorRef<Mute>) {
    let mut number = 0;
    while mute.tell(Wait { number }).await.is_ok() {
        number += 1;
    }
}

/// The size in bytes from which the nodes lend messages.
pub const LEND_FROM: u32 = 100_000;

/// Asks a counter for echoes of texts large enough to be lent, again and again; ends when an ask
/// fails. With `gives_up`, each ask is given up later than the last, to reach every step.
pub async fn ask_large(counter: &ActorRef<Counter>, gives_up: bool) {
    const ASKERS: u64 = 3;
    let mut askers = tokio::task::JoinSet::new();
    for asker in 0..ASKERS {
        let counter = counter.clone();
        askers.spawn(async move {
            for round in asker.. {
                let ask = counter.echo("x".repeat(2 * LEND_FROM as usize));
                let time =
                    Duration::from_micros(if gives_up { round % 64 * 300 } else { u64::MAX });
                if let Ok(Err(_)) = tokio::time::timeout(time, ask).await {
                    return;
                }
            }
        });
    }
    askers.join_all().await;
}
