//! The handshake, sans-I/O: from the first byte to two proven nodes that know each other's HELLO.
//!
//! Feed what arrives to [`Handshake::handle_bytes`], send what [`Handshake::poll_output`] gives,
//! until [`Handshake::poll_established`] gives the session. After an error, send what there is
//! still to send and close.

use snow::HandshakeState;

use crate::entropy::Entropy;
use crate::id::NodeId;
use crate::limits;
use crate::noise::{self, HANDSHAKE_MESSAGE_BYTES, TAG_BYTES};
use crate::steps::step;
use crate::wire::{PREFACE_BYTES, Preface};

use super::codec::{Kind, Malformed, record, take_record};
use super::failure::Failure;
use super::message::{Hello, Message, Times};
use super::rejection::Rejection;
use super::secret::Key;
use super::session::Session;
use super::version::{VERSIONS_BYTES, Versions};

/// A node as it shows itself in a handshake, and the key that it proves to know. Kept by the table
/// of the node's peers, and cloned for each connection.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Its name and run.
    pub(crate) node: NodeId,
    /// The addresses at which it can be dialled.
    pub(crate) addresses: Vec<String>,
    /// The fabrics that it can carry a link over, best first.
    pub(crate) fabrics: Vec<String>,
    /// The times of its heartbeats.
    pub(crate) times: Times,
    /// Its abilities, as HELLO says them.
    pub(crate) features: u64,
    /// The versions of the protocol that it speaks.
    pub(crate) versions: Versions,
    /// The key that it proves to know.
    pub(crate) key: Key,
    /// The keys that a node that dials it may prove to know instead: at most
    /// `SECRETS_ACCEPTED_MAX`.
    pub(crate) accepts: Vec<Key>,
    /// The source of its ephemeral keys.
    pub(crate) entropy: Entropy,
}

/// One side of a handshake.
pub(crate) struct Handshake<'a> {
    identity: &'a Identity,
    dialler: bool,
    /// True if the peer dialled with a secret that is only accepted.
    other_secret: bool,
    state: State,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    received: usize,
}

enum State {
    /// Waiting for the peer's preface.
    Preface,
    /// The acceptor, with the prologue: waiting for the dialler's message of the Noise handshake.
    Asked(Prologue),
    /// The dialler: waiting for the acceptor's message.
    Asking(Box<HandshakeState>),
    /// Waiting for the peer's HELLO, which proves it.
    Hello(Box<Session>),
    /// The peer is proven.
    Established(Box<Session>, Hello),
    /// It failed, or the session was taken.
    Over,
}

const OPENING_BYTES: usize = PREFACE_BYTES + VERSIONS_BYTES;
/// Random bytes that follow an acceptor's opening. They are in the prologue, and the dialler sends
/// them back before its message of the Noise handshake.
const FRESH_BYTES: usize = 16;

/// The dialler's opening, the acceptor's, and the acceptor's fresh bytes.
type Prologue = [u8; 2 * OPENING_BYTES + FRESH_BYTES];

impl<'a> Handshake<'a> {
    /// Begins the handshake of the side that dialled.
    pub(crate) fn dial(identity: &'a Identity) -> Self {
        let outgoing = opening(identity.versions).to_vec();
        Handshake { dialler: true, outgoing, ..Handshake::accept(identity) }
    }

    /// Begins the handshake of the side that was dialled.
    pub(crate) fn accept(identity: &'a Identity) -> Self {
        Handshake {
            identity,
            dialler: false,
            other_secret: false,
            state: State::Preface,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            received: 0,
        }
    }

    /// Returns how many bytes it takes in at most from now on.
    pub(crate) fn room(&self) -> usize {
        limits::UNPROVEN_BYTES_MAX.saturating_sub(self.received)
    }

    /// Takes in what arrived.
    ///
    /// # Errors
    /// [`Failure`], final. The answer to the peer is in the output.
    pub(crate) fn handle_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.received += bytes.len();
        self.incoming.extend_from_slice(bytes);
        let mut result = self.advance();
        if result.is_ok()
            && self.received >= limits::UNPROVEN_BYTES_MAX
            && !matches!(self.state, State::Established(..))
        {
            result = Err(Malformed::TooMuch.into());
        }
        if let Err(failure) = &result {
            self.give_up(failure);
        }
        result
    }

    /// Takes the bytes to be sent now, if there are any.
    pub(crate) fn poll_output(&mut self) -> Option<Vec<u8>> {
        if self.outgoing.is_empty() { None } else { Some(std::mem::take(&mut self.outgoing)) }
    }

    /// Returns the session, once: when the peer is proven.
    pub(crate) fn poll_established(&mut self) -> Option<(Session, Hello)> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Established(session, hello) => Some((*session, hello)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Returns true if the peer dialled with a secret that this node accepts and does not use
    /// itself.
    pub(crate) fn by_other_secret(&self) -> bool {
        self.other_secret
    }

    /// Ends it: tells the peer why, as well as the state of things allows.
    pub(crate) fn give_up(&mut self, failure: &Failure) {
        let state = std::mem::replace(&mut self.state, State::Over);
        let Some(rejection) = failure.answer() else { return };
        match state {
            // The peer does not speak this protocol, or is silent.
            State::Preface | State::Over => {}
            State::Asked(_) | State::Asking(_) => {
                self.outgoing.extend(record(Kind::Rejection, &[rejection.code()]));
            }
            State::Hello(mut session) | State::Established(mut session, _) => {
                self.outgoing.extend(session.seal(&Message::Reject(rejection)));
            }
        }
    }

    /// Returns the step that is done when the output is sent.
    #[cfg(feature = "steps")]
    pub(crate) fn sent(&self) -> Option<crate::steps::Step> {
        use crate::steps::Step::{HelloSent, NoiseSent, OpeningSent};
        match (&self.state, self.dialler) {
            (State::Preface | State::Asked(_), _) => Some(OpeningSent),
            (State::Asking(_), _) | (State::Hello(_), false) => Some(NoiseSent),
            (State::Hello(_), true) | (State::Established(..), _) => Some(HelloSent),
            (State::Over, _) => None,
        }
    }

    fn advance(&mut self) -> Result<(), Failure> {
        if matches!(self.state, State::Preface) && !self.take_opening()? {
            return Ok(());
        }
        while matches!(self.state, State::Asked(_) | State::Asking(_) | State::Hello(_)) {
            let Some((kind, body)) = take_record(&mut self.incoming)? else { return Ok(()) };
            match kind {
                Kind::Handshake => self.handle_handshake(&body)?,
                Kind::Sealed => self.handle_hello(&body)?,
                // An acceptor that has sent its Noise message seals everything after it: a third
                // party sent this plain rejection (BS-1).
                Kind::Rejection if self.dialler && matches!(self.state, State::Hello(_)) => {
                    return Err(Malformed::Record(Kind::Rejection as u8).into());
                }
                Kind::Rejection => return Err(rejected(&body)?),
            }
        }
        if let State::Established(session, _) = &mut self.state {
            session.handle_bytes(&std::mem::take(&mut self.incoming));
        }
        Ok(())
    }

    /// Judges the peer's opening and answers it. Returns false while a part of it is missing.
    fn take_opening(&mut self) -> Result<bool, Failure> {
        let Some((&theirs, after)) = self.incoming.split_first_chunk::<OPENING_BYTES>() else {
            return Ok(false);
        };
        let Identity { versions: ours, key, entropy, .. } = self.identity;
        let mine = opening(*ours);
        let range = range_of(&theirs)?;
        let fresh = if self.dialler {
            after.first_chunk().copied()
        } else {
            let fresh = entropy.u128().to_le_bytes();
            self.outgoing.extend([&mine[..], &fresh].concat());
            Some(fresh)
        };
        // An acceptor of another version need not send any fresh bytes.
        if !ours.meet(range) {
            return Err(Failure::VersionMismatch { ours: *ours, theirs: range });
        }
        let Some(fresh) = fresh else { return Ok(false) };
        step!(OpeningReceived);
        self.incoming.drain(..OPENING_BYTES + if self.dialler { FRESH_BYTES } else { 0 });
        self.state = if self.dialler {
            let mut noise =
                noise::initiator(key.bytes(), &prologue(&mine, &theirs, &fresh), entropy);
            self.write_handshake(&fresh, &mut noise)?;
            State::Asking(Box::new(noise))
        } else {
            State::Asked(prologue(&theirs, &mine, &fresh))
        };
        Ok(true)
    }

    fn handle_handshake(&mut self, body: &[u8]) -> Result<(), Failure> {
        step!(NoiseReceived);
        let noise = match &mut self.state {
            State::Asked(prologue) => {
                let message = after_fresh(prologue, body)?;
                let (mut noise, own) = answering(self.identity, prologue, message)?;
                self.other_secret = !own;
                self.write_handshake(&[], &mut noise)?;
                noise
            }
            State::Asking(noise) => {
                read_handshake(noise, body)?;
                let State::Asking(noise) = std::mem::replace(&mut self.state, State::Over) else {
                    return Ok(());
                };
                *noise
            }
            _ => return Err(Malformed::Record(Kind::Handshake as u8).into()),
        };
        let binding = noise.get_handshake_hash().try_into().expect("a hash of BLAKE2s");
        let keys = noise.into_transport_mode().map_err(|_| Malformed::HandshakeMessage)?;
        let mut session = Session::new(keys, binding, Vec::new());
        self.outgoing.extend(session.seal(&Message::Hello(self.hello())));
        self.state = State::Hello(Box::new(session));
        Ok(())
    }

    /// Queues the next message of the Noise handshake, behind `fresh` bytes.
    fn write_handshake(
        &mut self,
        fresh: &[u8],
        noise: &mut HandshakeState,
    ) -> Result<(), Malformed> {
        let mut message = [0; HANDSHAKE_MESSAGE_BYTES + TAG_BYTES];
        let length =
            noise.write_message(&[], &mut message).map_err(|_| Malformed::HandshakeMessage)?;
        let body = [fresh, &message[..length]].concat();
        self.outgoing.extend(record(Kind::Handshake, &body));
        Ok(())
    }

    /// Takes the first sealed record, which proves the peer (BS-1).
    fn handle_hello(&mut self, body: &[u8]) -> Result<(), Failure> {
        let State::Hello(session) = &mut self.state else {
            return Err(Malformed::Record(Kind::Sealed as u8).into());
        };
        let hello = match session.open(body)? {
            Message::Hello(hello) => hello,
            Message::Reject(rejection) => return Err(Failure::RejectedByPeer(rejection)),
            other => return Err(Failure::unexpected(&other)),
        };
        if hello.node == self.identity.node {
            return Err(Failure::SelfConnection);
        }
        if hello.node.name == self.identity.node.name {
            return Err(Failure::Rejected(Rejection::DuplicateNodeName));
        }
        let State::Hello(session) = std::mem::replace(&mut self.state, State::Over) else {
            return Ok(());
        };
        step!(HelloReceived);
        self.state = State::Established(session, hello);
        Ok(())
    }

    fn hello(&self) -> Hello {
        let Identity { node, addresses, fabrics, times, features, .. } = self.identity.clone();
        Hello { node, addresses, fabrics, times, features }
    }
}

/// Returns the acceptor's side of Noise after the dialler's message, with the first secret that
/// fits it, and whether that is this node's own.
fn answering(
    identity: &Identity,
    prologue: &[u8],
    message: &[u8],
) -> Result<(HandshakeState, bool), Failure> {
    let Identity { key, accepts, entropy, .. } = identity;
    let mut outcome = Err(Failure::Rejected(Rejection::WrongSecret));
    for (tried, key) in std::iter::once(key).chain(accepts).enumerate() {
        let mut noise = noise::responder(key.bytes(), prologue, entropy);
        outcome = read_handshake(&mut noise, message).map(|()| (noise, tried == 0));
        if !matches!(outcome, Err(Failure::Rejected(Rejection::WrongSecret))) {
            break;
        }
    }
    outcome
}

fn read_handshake(noise: &mut HandshakeState, message: &[u8]) -> Result<(), Failure> {
    if message.len() != HANDSHAKE_MESSAGE_BYTES {
        return Err(Malformed::HandshakeMessage.into());
    }
    match noise.read_message(message, &mut [0; HANDSHAKE_MESSAGE_BYTES]) {
        Ok(_) => Ok(()),
        // Which of a wrong key and a forged message it is cannot be told.
        Err(snow::Error::Decrypt) => Err(Failure::Rejected(Rejection::WrongSecret)),
        Err(_) => Err(Malformed::HandshakeMessage.into()),
    }
}

/// Returns the message of the Noise handshake that follows the acceptor's own fresh bytes.
fn after_fresh<'a>(prologue: &Prologue, body: &'a [u8]) -> Result<&'a [u8], Failure> {
    if body.len() != FRESH_BYTES + HANDSHAKE_MESSAGE_BYTES {
        return Err(Malformed::HandshakeMessage.into());
    }
    let (fresh, message) = body.split_at(FRESH_BYTES);
    if prologue.ends_with(fresh) { Ok(message) } else { Err(Failure::Stale) }
}

/// Returns the versions that the sender of an opening speaks.
fn range_of(opening: &[u8; OPENING_BYTES]) -> Result<Versions, Malformed> {
    let (preface, versions) = opening.split_first_chunk().expect("it is longer");
    if Preface::decode(preface).map_err(Malformed::Preface)? != Preface::Bootstrap {
        return Err(Malformed::NotBootstrap);
    }
    Versions::decode([versions[0], versions[1]])
}

/// Returns all that both sides sent in plain.
fn prologue(
    dialler: &[u8; OPENING_BYTES],
    acceptor: &[u8; OPENING_BYTES],
    fresh: &[u8; FRESH_BYTES],
) -> Prologue {
    let mut out = [0; _];
    out[..OPENING_BYTES].copy_from_slice(dialler);
    out[OPENING_BYTES..2 * OPENING_BYTES].copy_from_slice(acceptor);
    out[2 * OPENING_BYTES..].copy_from_slice(fresh);
    out
}

/// Returns what each side sends first.
fn opening(versions: Versions) -> [u8; OPENING_BYTES] {
    let mut out = [0; OPENING_BYTES];
    out[..PREFACE_BYTES].copy_from_slice(&Preface::Bootstrap.encode());
    out[PREFACE_BYTES..].copy_from_slice(&versions.encode());
    out
}

fn rejected(body: &[u8]) -> Result<Failure, Malformed> {
    let [code] = body else { return Err(Malformed::Truncated) };
    Ok(Failure::RejectedByPeer(Rejection::from_code(*code)?))
}
