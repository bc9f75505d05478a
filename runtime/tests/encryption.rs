//! Tests of a stranger between two nodes: it reads none of their messages, and changes none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::net::{Encryption, Profile};
use ringpost::prelude::*;
use ringpost::send::Fate;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::actors::{Note, Notebook};
use crate::log::Log;
use crate::remote::end;

#[actor]
struct Embassy;

#[handlers]
impl Embassy {
    #[handler]
    fn dispatch(&mut self, text: String) -> String {
        text.replace(QUESTION, ANSWER)
    }
}

const QUESTION: &str = "the fleet sails at dawn; ";
const ANSWER: &str = "understood, at first light; ";

/// Sits between two nodes, and keeps all that they say.
#[derive(Clone, Default)]
struct Stranger {
    heard: Arc<Mutex<Vec<u8>>>,
    /// The next bytes of a data connection are changed on their way to the node that listens.
    meddles: Arc<AtomicBool>,
}

impl Stranger {
    /// Listens for connections to `to`; returns where.
    async fn listen(&self, to: SocketAddr) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stranger = self.clone();
        tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let to = TcpStream::connect(to).await.unwrap();
                from.set_nodelay(true).unwrap();
                to.set_nodelay(true).unwrap();
                let ((from, back), (answers, to)) = (from.into_split(), to.into_split());
                tokio::spawn(stranger.clone().carry(from, to, true));
                tokio::spawn(stranger.clone().carry(answers, back, false));
            }
        });
        address
    }

    async fn carry(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, dialled: bool) {
        const PREFACE_OF_DATA: &[u8] = b"RINGPOST\x01\x02";
        let mut bytes = vec![0; 1 << 16];
        let mut is_data = None;
        while let Ok(read @ 1..) = from.read(&mut bytes).await {
            let is_data = *is_data.get_or_insert(bytes.starts_with(PREFACE_OF_DATA));
            self.heard.lock().extend_from_slice(&bytes[..read]);
            if dialled && is_data && self.meddles.swap(false, Ordering::SeqCst) {
                bytes[read / 2] ^= 0x10;
            }
            if to.write_all(&bytes[..read]).await.is_err() {
                return;
            }
        }
    }

    fn heard(&self, text: &str) -> bool {
        self.heard.lock().windows(text.len()).any(|heard| heard == text.as_bytes())
    }

    /// Starts two nodes that meet by way of it.
    async fn nodes(&self, encryption: Encryption) -> [Node; 2] {
        let profile = Profile { down_after: Duration::from_secs(3), ..Profile::default() };
        let node = |name: &str| {
            Node::builder(name)
                .profile(profile.clone())
                .secret("a secret of the tests, of 43 characters and more")
                .encryption(encryption)
        };
        let alpha = node("alpha").listen("127.0.0.1:0").start().await.unwrap();
        let address = self.listen(alpha.addresses()[0].parse().unwrap()).await;
        let beta = node("beta").seeds([address]).start().await.unwrap();
        beta.ready(1).await.unwrap();
        alpha.ready(1).await.unwrap();
        [alpha, beta]
    }
}

/// The oracle is the same search where nothing is encrypted.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn no_message_name_or_answer_is_seen_on_the_way_where_links_are_encrypted() {
    let log = Log::default();
    let _listening = log.listen();
    for (encryption, is_seen) in [(Encryption::Required, false), (Encryption::Off, true)] {
        let stranger = Stranger::default();
        let [alpha, beta] = stranger.nodes(encryption).await;
        alpha.spawn("embassy-in-lisbon", Embassy).await.unwrap();
        let embassy: ActorRef<Embassy> = beta.actor("alpha/embassy-in-lisbon").await.unwrap();
        for repeated in [1, 100, 10_000] {
            let answer = embassy.dispatch(QUESTION.repeat(repeated)).await.unwrap();
            assert!(answer == ANSWER.repeat(repeated));
        }
        for text in [QUESTION, ANSWER, "embassy-in-lisbon"] {
            assert_eq!(stranger.heard(text), is_seen, "{text} with {encryption:?}");
        }
        end([alpha, beta]).await;
    }
    let off = "messages are sent unencrypted to peers that do not insist: encryption is off";
    assert_eq!(log.count(off), 2, "once for each node");
}

/// A message that is changed on its way is not handled, and its sender learns it. The nodes link
/// again.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_message_that_a_stranger_changes_ends_its_link_and_is_never_handled() {
    let stranger = Stranger::default();
    let [alpha, beta] = stranger.nodes(Encryption::Required).await;
    alpha.spawn("notebook", Notebook::new()).await.unwrap();
    let notebook: ActorRef<Notebook> = beta.actor("alpha/notebook").await.unwrap();
    assert_eq!(notebook.tell(Note { number: 1 }).confirmed().await.unwrap(), Fate::Delivered);
    stranger.meddles.store(true, Ordering::SeqCst);
    let changed = notebook.tell(Note { number: 2 }).confirmed().await.unwrap();
    assert_ne!(changed, Fate::Delivered);
    assert_eq!(notebook.tell(Note { number: 3 }).confirmed().await.unwrap(), Fate::Delivered);
    assert_eq!(notebook.notes().await, Ok(vec![1, 3]));
    end([alpha, beta]).await;
}
