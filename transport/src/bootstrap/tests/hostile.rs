//! Strangers: garbage, records out of place, handshakes cut, spoilt, replayed or reflected.

use proptest::prelude::*;

use super::*;
use crate::bootstrap::codec::Malformed;
use crate::bootstrap::codec::{BODY_BYTES_MAX, Kind, record};
use crate::bootstrap::rejection::Rejection;
use crate::wire::{Preface, PrefaceError};

#[test]
fn garbage_is_named_and_not_answered() {
    let alpha = identity("alpha", 1);
    let fail = |bytes: &[u8]| {
        let mut acceptor = Handshake::accept(&alpha);
        let failure = acceptor.handle_bytes(bytes).unwrap_err();
        assert_eq!(acceptor.poll_output(), None);
        let Failure::Malformed(malformed) = failure else { panic!("{failure}") };
        malformed
    };
    assert_eq!(fail(b"GET / HTTP/1.1\r\n\r\n"), Malformed::Preface(PrefaceError::Magic));
    let data = [&Preface::Data.encode()[..], &[1, 1]].concat();
    assert_eq!(fail(&data), Malformed::NotBootstrap);
    let empty_range = [&Preface::Bootstrap.encode()[..], &[2, 1]].concat();
    assert_eq!(fail(&empty_range), Malformed::Number { what: "range of versions", value: 2 });
}

#[test]
fn records_out_of_place_are_named() {
    let (alpha, beta) = (identity("alpha", 1), identity("beta", 2));
    let opening = Handshake::dial(&alpha).poll_output().unwrap();
    let fail = |bytes: &[u8]| {
        let mut acceptor = Handshake::accept(&beta);
        acceptor.handle_bytes(&opening).unwrap();
        let failure = acceptor.handle_bytes(bytes).unwrap_err();
        let Failure::Malformed(malformed) = failure else { panic!("{failure}") };
        malformed
    };
    assert_eq!(fail(&record(Kind::Handshake, &[0; 47])), Malformed::HandshakeMessage);
    assert_eq!(fail(&record(Kind::Sealed, &[0; 48])), Malformed::Record(3));
    assert_eq!(fail(&record(Kind::Rejection, &[])), Malformed::Truncated);
    assert_eq!(fail(&[9, 0, 0, 0]), Malformed::Record(9));
    assert_eq!(fail(&[1, 1, 0, 0]), Malformed::Record(1));
    assert_eq!(fail(&[1, 0, 0xff, 0xff]), Malformed::RecordTooLong(0xffff));
}

/// An endless stream of nothing ends when it is too long for a proof.
#[test]
fn nothing_is_taken_in_beyond_the_limit() {
    let alpha = identity("alpha", 1);
    let beta = identity("beta", 2);
    let mut acceptor = Handshake::accept(&alpha);
    acceptor.handle_bytes(&Handshake::dial(&beta).poll_output().unwrap()).unwrap();
    let header = &record(Kind::Handshake, &[0; BODY_BYTES_MAX])[..4];
    acceptor.handle_bytes(header).unwrap();
    while acceptor.room() > 1 {
        acceptor.handle_bytes(&[0]).unwrap();
    }
    let failure = acceptor.handle_bytes(&[0]).unwrap_err();
    assert!(matches!(failure, Failure::Malformed(Malformed::TooMuch)), "{failure}");
}

#[test]
fn a_handshake_cut_or_spoilt_at_any_byte_never_completes() {
    let (alpha, beta) = (identity("alpha", 1), identity("beta", 2));
    let transcript = transcript(&alpha, &beta);
    let length: usize = transcript.iter().map(Vec::len).sum();
    for at in 0..length {
        for spoil in [false, true] {
            let beta = identity("beta", 2);
            let mut acceptor = Handshake::accept(&beta);
            let mut result = Ok(());
            let mut seen = 0;
            for part in &transcript {
                let mut part = part.clone();
                if (seen..seen + part.len()).contains(&at) {
                    if spoil {
                        part[at - seen] ^= 1;
                    } else {
                        part.truncate(at - seen);
                    }
                } else if seen > at && !spoil {
                    break;
                }
                seen += part.len();
                result = result.and_then(|()| acceptor.handle_bytes(&part));
            }
            assert!(acceptor.poll_established().is_none(), "byte {at}, spoilt: {spoil}");
            // A cut message only waits; a spoilt one is found out, or waits for more.
            assert!(spoil || result.is_ok(), "byte {at}");
        }
    }
    let beta = identity("beta", 2);
    let mut acceptor = Handshake::accept(&beta);
    for part in &transcript {
        acceptor.handle_bytes(part).unwrap();
    }
    assert!(acceptor.poll_established().is_some(), "the whole of it does complete");
}

/// Returns the bytes of a dialler to an acceptor whose random numbers are known.
fn transcript(alpha: &Identity, beta: &Identity) -> Vec<Vec<u8>> {
    let beta = Identity { entropy: Entropy::seeded(2), ..beta.clone() };
    let (mut dialler, mut acceptor) = (Handshake::dial(alpha), Handshake::accept(&beta));
    let mut said = Vec::new();
    while let Some(bytes) = dialler.poll_output() {
        acceptor.handle_bytes(&bytes).unwrap();
        said.push(bytes);
        if let Some(answer) = acceptor.poll_output() {
            dialler.handle_bytes(&answer).unwrap();
        }
    }
    said
}

#[test]
fn one_byte_at_a_time_is_as_good_as_all_at_once() {
    let (alpha, beta) = (identity("alpha", 1), identity("beta", 2));
    let mut acceptor = Handshake::accept(&beta);
    for byte in transcript(&alpha, &identity("beta", 2)).concat() {
        acceptor.handle_bytes(&[byte]).unwrap();
    }
    assert_eq!(acceptor.poll_established().unwrap().1.node, alpha.node);
}

/// A replayed recording leads to no agreement on a key, and only this side can tell it from a wrong
/// secret.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_replayed_dialler_proves_nothing() {
    let (alpha, beta) = (identity("alpha", 1), identity("beta", 2));
    let said = transcript(&alpha, &beta);
    // The same node, later: its random numbers are others.
    let later = Identity { entropy: Entropy::seeded(77), ..beta };
    let refused_with = |rename: bool| {
        let mut acceptor = Handshake::accept(&later);
        acceptor.handle_bytes(&said[0]).unwrap();
        let opening = acceptor.poll_output().unwrap();
        let mut replayed = said[1].clone();
        if rename {
            replayed[4..20].copy_from_slice(&opening[14..]);
        }
        let failure = acceptor.handle_bytes(&replayed).unwrap_err();
        assert!(acceptor.poll_established().is_none());
        (failure, acceptor.poll_output().unwrap())
    };
    let (failure, stale) = refused_with(false);
    assert!(matches!(failure, Failure::Stale), "{failure}");
    // A peer that names the fresh bytes of this connection is a stranger as any other.
    let (failure, renamed) = refused_with(true);
    assert!(matches!(failure, Failure::Rejected(Rejection::WrongSecret)), "{failure}");
    let refusal = record(Kind::Rejection, &[Rejection::WrongSecret.code()]);
    assert_eq!([stale, renamed], [refusal.clone(), refusal]);
}

/// BS-1: once the acceptor has proved itself, a plain message is from a third party.
#[test]
fn a_refusal_that_a_stranger_puts_in_is_not_believed() {
    let (alpha, beta) = (identity("alpha", 1), identity("beta", 2));
    let (mut dialler, mut acceptor) = (Handshake::dial(&alpha), Handshake::accept(&beta));
    acceptor.handle_bytes(&dialler.poll_output().unwrap()).unwrap();
    dialler.handle_bytes(&acceptor.poll_output().unwrap()).unwrap();
    acceptor.handle_bytes(&dialler.poll_output().unwrap()).unwrap();
    let said = acceptor.poll_output().unwrap();
    let noise = 4 + u16::from_le_bytes([said[2], said[3]]) as usize;
    dialler.handle_bytes(&said[..noise]).unwrap();
    let plain = record(Kind::Rejection, &[Rejection::DialRace.code()]);
    let failure = dialler.handle_bytes(&plain).unwrap_err();
    assert!(matches!(failure, Failure::Malformed(Malformed::Record(_))), "{failure}");
}

#[test]
fn a_reflected_dialler_does_not_talk_to_itself() {
    let alpha = identity("alpha", 1);
    let mut dialler = Handshake::dial(&alpha);
    let opening = dialler.poll_output().unwrap();
    dialler.handle_bytes(&[&opening[..], &[5; 16]].concat()).unwrap();
    let message = dialler.poll_output().unwrap();
    let fresh_and_noise = &message[4..];
    let failure = dialler.handle_bytes(&record(Kind::Handshake, &fresh_and_noise[16..]));
    let failure = failure.unwrap_err();
    assert!(matches!(failure, Failure::Rejected(Rejection::WrongSecret)), "{failure}");
}

proptest! {
    #[test]
    fn any_bytes_end_a_handshake_or_are_waited_on(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        opened in any::<bool>(),
    ) {
        let (alpha, beta) = (identity("alpha", 1), identity("beta", 2));
        let mut acceptor = Handshake::accept(&beta);
        if opened {
            acceptor.handle_bytes(&Handshake::dial(&alpha).poll_output().unwrap()).unwrap();
        }
        let _ = acceptor.handle_bytes(&bytes);
        prop_assert!(acceptor.poll_established().is_none());
    }
}
