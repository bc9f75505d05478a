//! The tcps fabric under the conformance cases, and cases that only a sealed stream has.

use std::io::{self, IoSlice, IoSliceMut};

use super::super::fuzz::{self, keys};
use super::super::seal::{Forged, Seal};
use super::*;
use crate::fabric::FabricError;
use crate::fabric::conformance::{Pair, Plan};
use crate::limits::{TCPS_BUFFERED_CHUNKS, TCPS_CHUNK_BYTES_MAX, TCPS_REKEY_CHUNKS};
use crate::noise::{HANDSHAKE_MESSAGE_BYTES, TAG_BYTES};

macro_rules! conform {
    ($($case:ident)*) => { $(
        #[tokio::test]
        async fn $case() {
            let pairs = Loopback::of(TcpFabric::sealed).await;
            conformance::bounded(stringify!($case), conformance::$case(&pairs)).await;
        }
    )* };
}

conformance::for_each_case!(conform);

/// Frames that are sent one by one, so that each is a chunk of its own.
const FRAMES: usize = 6;

/// An attack of a stranger between the ends of a data connection on the chunks of one direction.
#[derive(Debug, Clone, Copy)]
enum Tamper {
    /// Changes one bit of a chunk.
    Flip { chunk: usize, bit: usize },
    /// Sends a chunk twice.
    Replay { chunk: usize },
    /// Sends a chunk after the next one.
    Swap { chunk: usize },
    /// Leaves a chunk out.
    Omit { chunk: usize },
    /// Sends all of a chunk but its last byte, and nothing after it.
    Cut { chunk: usize },
}

impl Tamper {
    /// Returns what becomes of the chunks, and how many of them arrive as they were sent, in turn.
    fn apply(self, chunks: &[Vec<u8>]) -> (Vec<u8>, usize) {
        let mut chunks = chunks.to_vec();
        let honest = match self {
            Tamper::Flip { chunk, bit } => {
                chunks[chunk][bit / 8] ^= 1 << (bit % 8);
                chunk
            }
            Tamper::Replay { chunk } => {
                chunks.insert(chunk, chunks[chunk].clone());
                chunk + 1
            }
            Tamper::Swap { chunk } => {
                chunks.swap(chunk, chunk + 1);
                chunk
            }
            Tamper::Omit { chunk } => {
                chunks.remove(chunk);
                chunk
            }
            Tamper::Cut { chunk } => {
                chunks[chunk].pop();
                chunks.truncate(chunk + 1);
                chunk
            }
        };
        (chunks.concat(), honest)
    }

    /// Returns true if the receiver may wait for more, which a longer chunk would have.
    fn may_wait(self) -> bool {
        matches!(self, Tamper::Cut { .. } | Tamper::Flip { bit: 0..16, .. })
    }
}

/// A stranger through whom the dialler of `pairs` reaches the acceptor.
struct Stranger {
    listener: tokio::net::TcpListener,
    address: String,
}

impl Stranger {
    async fn before(pairs: &mut Loopback) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().to_string();
        Stranger { listener, address: std::mem::replace(&mut pairs.address, own) }
    }

    /// Takes a connection in, carries the handshake, and returns the dialler and the acceptor.
    async fn handshake(&self) -> [TcpStream; 2] {
        self.handshake_but(None).await.unwrap()
    }

    /// As [`handshake`](Self::handshake), but changes one bit on the way, counted from the first
    /// byte of the dialler's.
    async fn handshake_but(&self, bit: Option<usize>) -> io::Result<[TcpStream; 2]> {
        let (mut dialler, _) = self.listener.accept().await?;
        let mut acceptor = TcpStream::connect(&self.address).await?;
        let mut opening = [0; OPENING_BYTES];
        dialler.read_exact(&mut opening).await?;
        flip(&mut opening, bit);
        acceptor.write_all(&opening).await?;
        let mut answer = [0; HANDSHAKE_MESSAGE_BYTES];
        acceptor.read_exact(&mut answer).await?;
        flip(&mut answer, bit.and_then(|bit| bit.checked_sub(8 * OPENING_BYTES)));
        dialler.write_all(&answer).await?;
        Ok([dialler, acceptor])
    }
}

/// Bytes that the dialler of a data connection sends before there are chunks.
const OPENING_BYTES: usize = PREFACE_BYTES + 16 + HANDSHAKE_MESSAGE_BYTES;

/// Changes a bit, if it is one of these bytes.
fn flip(bytes: &mut [u8], bit: Option<usize>) {
    if let Some(bit) = bit
        && let Some(byte) = bytes.get_mut(bit / 8)
    {
        *byte ^= 1 << (bit % 8);
    }
}

async fn read_chunk(stream: &mut TcpStream) -> Vec<u8> {
    let mut chunk = vec![0; 2];
    stream.read_exact(&mut chunk).await.unwrap();
    chunk.resize(2 + usize::from(u16::from_le_bytes([chunk[0], chunk[1]])), 0);
    stream.read_exact(&mut chunk[2..]).await.unwrap();
    chunk
}

/// Sends frames through a stranger; returns the frames received, and how many it left intact.
async fn received_through(tamper: Tamper) -> (Vec<Vec<u8>>, usize) {
    let mut pairs = Loopback::of(TcpFabric::sealed).await;
    let stranger = Stranger::before(&mut pairs).await;
    let plan = Plan::new(FRAMES as u32, 2 * FRAMES as u32);
    let (mut pair, streams) = tokio::join!(Pair::new(&pairs, plan), stranger.handshake());
    let [mut dialler, mut acceptor] = streams;
    for number in 0..FRAMES {
        let request = pair.a.request(&[number as u8; 5]);
        pair.a.send(request);
    }
    let mut chunks = Vec::new();
    while chunks.len() < FRAMES {
        chunks.push(read_chunk(&mut dialler).await);
    }
    let (changed, honest) = tamper.apply(&chunks);
    acceptor.write_all(&changed).await.unwrap();
    if tamper.may_wait() {
        acceptor.shutdown().await.unwrap();
    }
    pair.b.until(|b| b.got.len() == 2 * FRAMES).await;
    (pair.b.frames().into_iter().map(<[u8]>::to_vec).collect(), honest)
}

/// TC-7
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_chunk_that_was_tampered_with_ends_the_queue_pair_and_nothing_of_it_is_received() {
    let chunk = 2;
    let bits = 8 * (2 + prefix(5, 0).len() + 5 + TAG_BYTES);
    let flips = (0..bits).map(|bit| Tamper::Flip { chunk, bit });
    let others = [
        Tamper::Replay { chunk },
        Tamper::Swap { chunk },
        Tamper::Omit { chunk },
        Tamper::Cut { chunk },
        Tamper::Flip { chunk: 0, bit: 100 },
        Tamper::Swap { chunk: 0 },
    ];
    for tamper in flips.chain(others) {
        let run = async {
            let (frames, honest) = received_through(tamper).await;
            let expected: Vec<_> = (0..honest).map(|number| vec![number as u8; 5]).collect();
            assert_eq!(frames, expected, "{tamper:?}");
        };
        conformance::bounded("tampering", run).await;
    }
}

/// TC-7: a bit of each byte of the token and of both messages of the handshake.
#[tokio::test]
async fn a_bit_that_is_changed_in_the_handshake_of_a_data_connection_gives_no_queue_pair() {
    let mut pairs = Loopback::of(TcpFabric::sealed).await;
    let stranger = Stranger::before(&mut pairs).await;
    let [(dialler, dials), (acceptor, accepts)] = pairs.ends();
    let open = |fabric: &dyn Fabric, side: &Side| {
        let config = QueuePairConfig { side: side.clone(), ..Plan::new(1, 1).config };
        fabric.open(config).unwrap()
    };
    for byte in PREFACE_BYTES..OPENING_BYTES + HANDSHAKE_MESSAGE_BYTES {
        let [a, b] = [open(&*dialler, &dials), open(&*acceptor, &accepts)];
        let (from_a, from_b) = (a.offer(), b.offer());
        let bit = 8 * byte + byte % 8;
        // Each end waits for a connection that is not changed, or gives up.
        let patience = std::time::Duration::from_millis(50);
        let to_b = tokio::time::timeout(patience, a.connect(from_b, 0));
        let to_a = tokio::time::timeout(patience, b.connect(from_a, 0));
        let carried = async {
            let streams = stranger.handshake_but(Some(bit)).await;
            // Kept: an end that waits for more is not told that there is none.
            tokio::time::sleep(patience).await;
            drop(streams);
        };
        let carried = tokio::time::timeout(2 * patience, carried);
        let (to_b, to_a, _) = futures::join!(to_b, to_a, carried);
        let is_connected = |end: Result<Result<_, _>, _>| matches!(end, Ok(Ok(_)));
        let connected = [is_connected(to_b), is_connected(to_a)];
        // The acceptor is done once it has answered; the dialler refuses a changed answer.
        assert!(!connected[0], "byte {byte}: {connected:?}");
        assert!(byte >= OPENING_BYTES || !connected[1], "byte {byte}: {connected:?}");
    }
}

/// A data connection is bound to its link: an end with another key, of another link or of the plain
/// fabric gets no queue pair.
#[tokio::test]
async fn only_ends_of_one_link_agree() {
    let pairs = Loopback::of(TcpFabric::sealed).await;
    let [(dialler, dials), (acceptor, accepts)] = pairs.ends();
    for (link, change, agree) in [
        ("a link", [0, 0], true),
        ("a link", [1, 0], false),
        ("a link", [0, 1], false),
        ("another", [0, 0], false),
    ] {
        let open = |fabric: &dyn Fabric, side: &Side, binding: &str| {
            let binding = binding.into();
            let config = QueuePairConfig { side: side.clone(), binding, ..Plan::new(1, 1).config };
            fabric.open(config).unwrap()
        };
        let [a, b] = [open(&*dialler, &dials, link), open(&*acceptor, &accepts, "a link")];
        let [mut from_a, mut from_b] = [a.offer(), b.offer()];
        from_b[16 + 31] ^= change[0];
        from_a[31] ^= change[1];
        let (to_b, to_a) = futures::join!(a.connect(from_b, 0), b.connect(from_a, 0));
        assert_eq!([to_b.is_ok(), to_a.is_ok()], [agree; 2], "{link}");
    }
    let (a, b) = (dialler.open(Plan::new(1, 1).config), acceptor.open(Plan::new(1, 1).config));
    let short = b.unwrap().offer()[..16].to_vec().into();
    assert_eq!(a.unwrap().offer().len(), 16 + 32, "each end has its part of the key");
    let config = QueuePairConfig { side: dials, ..Plan::new(1, 1).config };
    let plain = dialler.open(config).unwrap().connect(short, 0).await;
    assert!(matches!(plain, Err(FabricError::Offer(_))));
}

/// Both sides change a direction's key after the same chunk: a peer that does so is understood, and
/// a peer that does not is cut off.
#[test]
fn the_key_changes_after_so_many_chunks() {
    for by_the_book in [true, false] {
        let [ours, mut theirs] = keys();
        let mut seal = Seal::new(ours);
        let mut plain = [0; 1];
        for number in 0..=TCPS_REKEY_CHUNKS {
            if number == TCPS_REKEY_CHUNKS && by_the_book {
                theirs.rekey_incoming();
                theirs.rekey_outgoing();
            }
            assert_eq!(seal.seal(&[IoSlice::new(&[number as u8])]), 1);
            let ours = theirs.read_message(&seal.unwritten()[2..], &mut plain);
            let [first, second] = ((1 + TAG_BYTES) as u16).to_le_bytes();
            let room = seal.room();
            room[..2].copy_from_slice(&[first, second]);
            let length = theirs.write_message(&[number as u8], &mut room[2..]).unwrap();
            seal.add(2 + length);
            let mut got = [0; 4];
            let read = seal.open(&mut [IoSliceMut::new(&mut got)]);
            if number < TCPS_REKEY_CHUNKS || by_the_book {
                assert_eq!((ours, read), (Ok(1), Ok(1)), "{number}");
                assert_eq!([plain[0], got[0]], [number as u8; 2]);
            } else {
                assert_eq!((ours.is_ok(), read), (false, Err(Forged)));
            }
            let sealed = seal.unwritten().len();
            seal.note_written(sealed);
        }
    }
}

/// The bytes that wait for a stream that takes nothing are bounded, and so is each chunk.
#[test]
fn no_more_is_sealed_than_may_wait() {
    let [ours, theirs] = keys();
    let (mut seal, mut reader) = (Seal::new(ours), Seal::new(theirs));
    let message = vec![7; 10 * TCPS_CHUNK_BYTES_MAX];
    let (first, second) = message.split_at(5);
    let pieces = [IoSlice::new(first), IoSlice::new(second)];
    let sealed = seal.seal(&pieces);
    assert_eq!(sealed, TCPS_BUFFERED_CHUNKS * TCPS_CHUNK_BYTES_MAX);
    assert_eq!(seal.seal(&pieces), 0);
    let mut unwritten = seal.unwritten().to_vec();
    assert_eq!(unwritten.len(), sealed + TCPS_BUFFERED_CHUNKS * (2 + TAG_BYTES));
    let mut got = Vec::new();
    while got.len() < sealed {
        let room = reader.room();
        let read = room.len().min(unwritten.len());
        room[..read].copy_from_slice(&unwritten[..read]);
        unwritten.drain(..read);
        reader.add(read);
        let mut plain = vec![0; 1000];
        while let Ok(bytes @ 1..) = reader.open(&mut [IoSliceMut::new(&mut plain)]) {
            got.extend_from_slice(&plain[..bytes]);
        }
    }
    assert!(got == message[..sealed]);
}

/// TC-7: bytes of the same kind as in the fuzz target `seals`, made to tamper often.
#[test]
fn whatever_a_stranger_does_the_chunks_before_it_are_all_that_is_passed_on() {
    for seed in 0..2000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let actions = random.usize(..12);
        let bytes: Vec<u8> = (0..=2 * actions).map(|_| random.u8(..)).collect();
        fuzz::seals(&bytes);
    }
}
