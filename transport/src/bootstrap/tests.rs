//! Two handshakes joined in memory, and everything that can go wrong between them.

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::codec::Malformed;
use super::failure::Failure;
use super::handshake::{Handshake, Identity};
use super::message::{Beat, Hello, Message, OfferMade, Resync};
use super::record::{BODY_BYTES_MAX, Kind, record};
use super::rejection::Rejection;
use super::secret::{InvalidSecret, Secret};
use super::session::Session;
use super::version::{VERSIONS, Versions};
use crate::cause::Refusal;
use crate::entropy::Entropy;
use crate::id::{Incarnation, NodeId, NodeName};
use crate::limits;
use crate::proto::fate::Refused;
use crate::wire::{Preface, PrefaceError};

fn node(name: &str, incarnation: u128) -> NodeId {
    NodeId { name: NodeName::new(name).unwrap(), incarnation: Incarnation(incarnation) }
}

fn identity(name: &str, seed: u64) -> Identity {
    Identity {
        node: node(name, seed.into()),
        addresses: vec![format!("127.0.0.1:{}", 7700 + seed)],
        fabrics: vec!["verbs".into(), "tcp".into()],
        versions: VERSIONS,
        key: Secret::key(Some(&Secret::new(&[7; 32]).unwrap())),
        accepts: Vec::new(),
        entropy: Entropy::seeded(seed),
    }
}

type Ended = Result<(Session, Hello), Failure>;

/// Feeds both sides what the other says until nothing moves any more.
fn run(dialler: &Identity, acceptor: &Identity) -> (Option<Ended>, Option<Ended>) {
    let mut sides = [Handshake::dial(dialler), Handshake::accept(acceptor)];
    let mut ended = [None, None];
    loop {
        let mut moved = false;
        for from in [0, 1] {
            let Some(bytes) = sides[from].poll_output() else { continue };
            let to = 1 - from;
            moved = true;
            if ended[to].is_none()
                && let Err(failure) = sides[to].handle_bytes(&bytes)
            {
                ended[to] = Some(Err(failure));
            }
            if let Some(established) = sides[to].poll_established() {
                ended[to] = Some(Ok(established));
            }
        }
        if !moved {
            return ended.into();
        }
    }
}

fn failures(dialler: &Identity, acceptor: &Identity) -> (Failure, Failure) {
    let (dialler, acceptor) = run(dialler, acceptor);
    let failed = |ended: Option<Ended>| ended.expect("it ended").err().expect("it failed");
    (failed(dialler), failed(acceptor))
}

fn pair() -> (Session, Session) {
    let (dialler, acceptor) = run(&identity("alpha", 1), &identity("beta", 2));
    (dialler.unwrap().unwrap().0, acceptor.unwrap().unwrap().0)
}

#[test]
fn both_sides_learn_who_the_other_is() {
    let (alpha, beta) = (identity("alpha", 1), identity("beta", 2));
    let (dialler, acceptor) = run(&alpha, &beta);
    let (_, of_beta) = dialler.unwrap().unwrap();
    let (_, of_alpha) = acceptor.unwrap().unwrap();
    assert_eq!(of_beta.node, beta.node);
    assert_eq!(of_beta.addresses, beta.addresses);
    assert_eq!(of_alpha.node, alpha.node);
    assert_eq!(of_alpha.fabrics, ["verbs", "tcp"]);
}

#[test]
fn the_same_seeds_give_the_same_bytes() {
    let first_bytes = |seed| {
        let (alpha, beta) = (identity("alpha", seed), identity("beta", seed + 1));
        let (mut dialler, mut acceptor) = (Handshake::dial(&alpha), Handshake::accept(&beta));
        let mut said = dialler.poll_output().unwrap();
        acceptor.handle_bytes(&said).unwrap();
        let answer = acceptor.poll_output().unwrap();
        dialler.handle_bytes(&answer).unwrap();
        said.extend(answer);
        said.extend(dialler.poll_output().unwrap());
        said
    };
    assert_eq!(first_bytes(5), first_bytes(5));
    assert_ne!(first_bytes(5), first_bytes(6));
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_wrong_secret_is_named_on_both_sides() {
    let wrong = [Secret::key(Some(&Secret::new(&[8; 40]).unwrap())), Secret::key(None)];
    for key in wrong {
        let other = Identity { key, ..identity("beta", 2) };
        let (dialler, acceptor) = failures(&identity("alpha", 1), &other);
        assert!(matches!(dialler, Failure::RejectedByPeer(Rejection::WrongSecret)), "{dialler}");
        assert!(matches!(acceptor, Failure::Rejected(Rejection::WrongSecret)), "{acceptor}");
    }
    assert_eq!(Secret::new(&[1; 31]).err(), Some(InvalidSecret(31)));
}

/// BS-5: while a secret is changed, nodes of neighbouring rounds meet, whoever dials.
// Promised in docs/SEMANTICS.md.
#[test]
fn nodes_meet_while_their_secret_is_changed() {
    let [old, new] = [8, 9].map(|byte| Secret::key(Some(&Secret::new(&[byte; 32]).unwrap())));
    let rounds = [(old, vec![]), (old, vec![new]), (new, vec![old]), (new, vec![])];
    let in_round = |name, seed, round: usize| {
        let (key, accepts) = rounds[round].clone();
        Identity { key, accepts, ..identity(name, seed) }
    };
    for (one, other) in (0..4).flat_map(|one| (0..4).map(move |other| (one, other))) {
        let (alpha, beta) = (in_round("alpha", 1, one), in_round("beta", 2, other));
        let (dialler, acceptor) = run(&alpha, &beta);
        // Rounds that are not neighbours: only who accepts more may be dialled.
        let meet = one.abs_diff(other) <= 1 || (one, other) == (0, 2) || (one, other) == (3, 1);
        assert_eq!(dialler.unwrap().is_ok(), meet, "{one} dials {other}");
        assert_eq!(acceptor.unwrap().is_ok(), meet, "{one} dials {other}");
    }
}

/// BS-5: the last of the most secrets there can be is as good as the first, and without one that
/// fits the answer is what it is with a single secret.
#[test]
fn every_secret_is_tried_and_none_is_told_apart() {
    let key = |byte| Secret::key(Some(&Secret::new(&[byte; 32]).unwrap()));
    let accepts: Vec<_> = (0..limits::SECRETS_ACCEPTED_MAX as u8).map(|n| key(100 + n)).collect();
    let many = Identity { accepts: accepts.clone(), ..identity("beta", 2) };
    for own in accepts {
        let (dialler, acceptor) = run(&Identity { key: own, ..identity("alpha", 1) }, &many);
        assert!(dialler.unwrap().is_ok() && acceptor.unwrap().is_ok());
    }
    let answer = |acceptor: &Identity| {
        let stranger = Identity { key: key(1), ..identity("alpha", 1) };
        let (mut dialler, mut acceptor) = (Handshake::dial(&stranger), Handshake::accept(acceptor));
        acceptor.handle_bytes(&dialler.poll_output().unwrap()).unwrap();
        dialler.handle_bytes(&acceptor.poll_output().unwrap()).unwrap();
        let message = dialler.poll_output().unwrap();
        let failure = acceptor.handle_bytes(&message).unwrap_err();
        assert!(matches!(failure, Failure::Rejected(Rejection::WrongSecret)), "{failure}");
        acceptor.poll_output().unwrap()
    };
    assert_eq!(answer(&many), answer(&identity("beta", 2)));
}

// Promised in docs/SEMANTICS.md.
#[test]
fn versions_without_overlap_are_named_on_both_sides() {
    let newer = Versions { min: 3, max: 4 };
    let other = Identity { versions: newer, ..identity("beta", 2) };
    for (dialler, acceptor) in [(&identity("alpha", 1), &other), (&other, &identity("alpha", 1))] {
        let ended = failures(dialler, acceptor);
        for (failure, mine, peers) in [
            (ended.0, dialler.versions, acceptor.versions),
            (ended.1, acceptor.versions, dialler.versions),
        ] {
            let Failure::VersionMismatch { ours, theirs } = failure else { panic!("{failure}") };
            assert_eq!((ours, theirs), (mine, peers));
        }
    }
}

/// BS-4: whoever changes the range on the way makes the two sides strangers.
#[test]
fn a_changed_version_range_is_found_out() {
    let wide = Identity { versions: Versions { min: 1, max: 3 }, ..identity("alpha", 1) };
    let beta = Identity { versions: Versions { min: 1, max: 3 }, ..identity("beta", 2) };
    let (mut dialler, mut acceptor) = (Handshake::dial(&wide), Handshake::accept(&beta));
    let mut opening = dialler.poll_output().unwrap();
    opening[13] = 1;
    acceptor.handle_bytes(&opening).unwrap();
    dialler.handle_bytes(&acceptor.poll_output().unwrap()).unwrap();
    let failure = acceptor.handle_bytes(&dialler.poll_output().unwrap()).unwrap_err();
    assert!(matches!(failure, Failure::Rejected(Rejection::WrongSecret)), "{failure}");
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_node_recognises_itself_and_its_namesake() {
    let alpha = identity("alpha", 1);
    let (dialler, acceptor) = failures(&alpha, &alpha.clone());
    assert!(matches!(dialler, Failure::SelfConnection), "{dialler}");
    assert!(matches!(acceptor, Failure::SelfConnection), "{acceptor}");
    let (dialler, acceptor) = failures(&alpha, &identity("alpha", 9));
    for failure in [dialler, acceptor] {
        assert!(matches!(failure, Failure::Rejected(Rejection::DuplicateNodeName)), "{failure}");
    }
}

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

/// BS-2: an endless stream of nothing ends when it is too long for a proof.
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
            // What is cut only waits; what is spoilt is found out, or waits for more.
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

/// What a dialler says to an acceptor whose random numbers are known.
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

// Promised in docs/SEMANTICS.md.
#[test]
fn a_replayed_dialler_proves_nothing() {
    let (alpha, beta) = (identity("alpha", 1), identity("beta", 2));
    let said = transcript(&alpha, &beta);
    // The same node, later: its random numbers are others.
    let later = Identity { entropy: Entropy::seeded(77), ..beta };
    let mut acceptor = Handshake::accept(&later);
    acceptor.handle_bytes(&said[0]).unwrap();
    acceptor.handle_bytes(&said[1]).unwrap();
    let failure = acceptor.handle_bytes(&said[2]).unwrap_err();
    assert!(matches!(failure, Failure::Malformed(Malformed::Seal)), "{failure}");
    assert!(acceptor.poll_established().is_none());
}

#[test]
fn a_reflected_dialler_does_not_talk_to_itself() {
    let alpha = identity("alpha", 1);
    let mut dialler = Handshake::dial(&alpha);
    let opening = dialler.poll_output().unwrap();
    dialler.handle_bytes(&opening).unwrap();
    let message = dialler.poll_output().unwrap();
    let failure = dialler.handle_bytes(&message).unwrap_err();
    assert!(matches!(failure, Failure::Rejected(Rejection::WrongSecret)), "{failure}");
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_proven_connection_refuses_replayed_reordered_and_plain_records() {
    let (mut alpha, mut beta) = pair();
    let one = alpha.seal(&Message::Commit { epoch: 7 });
    let two = alpha.seal(&Message::Heartbeat(Beat::Plain));
    beta.handle_bytes(&[&one[..], &one, &two].concat());
    assert_eq!(beta.poll_message(), Ok(Some(Message::Commit { epoch: 7 })));
    assert_eq!(beta.poll_message(), Err(Malformed::Seal));

    let (mut alpha, mut beta) = pair();
    let (_, two) =
        (alpha.seal(&Message::Commit { epoch: 7 }), alpha.seal(&Message::Commit { epoch: 7 }));
    beta.handle_bytes(&two);
    assert_eq!(beta.poll_message(), Err(Malformed::Seal));

    let (_, mut beta) = pair();
    beta.handle_bytes(&record(Kind::Rejection, &[Rejection::Busy.code()]));
    assert_eq!(beta.poll_message(), Err(Malformed::Record(2)));
}

#[test]
fn what_follows_the_hello_at_once_is_not_lost() {
    let (alpha, beta) = (identity("alpha", 1), identity("beta", 2));
    let mut dialler = Handshake::dial(&alpha);
    let mut acceptor = Handshake::accept(&beta);
    acceptor.handle_bytes(&dialler.poll_output().unwrap()).unwrap();
    dialler.handle_bytes(&acceptor.poll_output().unwrap()).unwrap();
    acceptor.handle_bytes(&dialler.poll_output().unwrap()).unwrap();
    dialler.handle_bytes(&acceptor.poll_output().unwrap()).unwrap();
    let mut bytes = dialler.poll_output().unwrap();
    let (mut session, _) = dialler.poll_established().unwrap();
    bytes.extend(session.seal(&Message::Commit { epoch: 7 }));
    acceptor.handle_bytes(&bytes).unwrap();
    let (mut session, _) = acceptor.poll_established().unwrap();
    assert_eq!(session.poll_message(), Ok(Some(Message::Commit { epoch: 7 })));
}

#[tokio::test(start_paused = true)]
async fn a_silent_or_unwanted_connection_is_told_why() {
    let alpha = identity("alpha", 1);
    for (why, give_way) in [(Rejection::TooSlow, false), (Rejection::Busy, true)] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let beta = identity("beta", 2);
        client.write_all(&Handshake::dial(&beta).poll_output().unwrap()).await.unwrap();
        let (way, wayward) = tokio::sync::oneshot::channel::<()>();
        let meeting = async {
            let deadline = tokio::time::Instant::now() + limits::HANDSHAKE_TIMEOUT;
            let wayward = async { drop(wayward.await) };
            super::meet(Box::new(server), Handshake::accept(&alpha), &[], deadline, wayward).await
        };
        let reading = async {
            let mut opening = [0; 14];
            client.read_exact(&mut opening).await.unwrap();
            if give_way {
                drop(way);
            } else {
                std::mem::forget(way);
            }
            let mut said = Vec::new();
            client.read_to_end(&mut said).await.unwrap();
            said
        };
        let (met, said) = tokio::join!(meeting, reading);
        assert!(matches!(met, Err(Failure::Rejected(reason)) if reason == why));
        assert_eq!(said, record(Kind::Rejection, &[why.code()]));
    }
}

fn name() -> impl Strategy<Value = NodeName> {
    "[A-Za-z0-9._-]{1,64}".prop_map(|name| NodeName::new(&name).unwrap())
}

fn addresses() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-z0-9.:\\[\\]]{1,255}", 0..=8)
}

fn fabric() -> impl Strategy<Value = String> {
    "[a-z]{1,32}"
}

fn message() -> impl Strategy<Value = Message> {
    let hello = (name(), any::<u128>(), addresses(), prop::collection::vec(fabric(), 0..=8))
        .prop_map(|(name, incarnation, addresses, fabrics)| {
            let node = NodeId { name, incarnation: Incarnation(incarnation) };
            Message::Hello(Hello { node, addresses, fabrics })
        });
    let queue_pair = prop::collection::vec(any::<u8>(), 0..=limits::OFFER_BYTES_MAX);
    let (ring, sixteenths) = (8..=4096u32, 128..=65536u32);
    let bytes = || 1..=i32::MAX as u32;
    let offer = (fabric(), ring, sixteenths, bytes(), bytes(), queue_pair).prop_map(
        |(fabric, ring_slots, sixteenths, message_bytes_max, link_window_bytes, queue_pair)| {
            let slot_bytes = sixteenths * 16;
            Message::Offer(OfferMade {
                fabric,
                ring_slots,
                slot_bytes,
                message_bytes_max,
                link_window_bytes,
                queue_pair,
            })
        },
    );
    let refused = (any::<u32>(), any::<u16>()).prop_map(|(frame, place)| Refused {
        frame,
        place,
        refusal: Refusal::Closed,
    });
    let refusals = prop::collection::vec(refused, 0..=limits::RESYNC_REFUSALS_MAX);
    let resync = (any::<u64>(), any::<u32>(), refusals, any::<bool>());
    let resync = resync.prop_map(|(epoch, consumed, refusals, more)| {
        Message::Resync(Resync { epoch, consumed, refusals, more })
    });
    prop_oneof![
        hello,
        any::<u64>().prop_map(|epoch| Message::Commit { epoch }),
        resync,
        offer,
        (fabric(), any::<bool>(), "[ -~]{0,255}")
            .prop_map(|(fabric, again, reason)| Message::Pass { fabric, again, reason }),
        fabric().prop_map(|fabric| Message::Ready { fabric }),
        fabric().prop_map(|fabric| Message::Connected { fabric }),
        prop_oneof![
            Just(Beat::Plain),
            Just(Beat::Question),
            Just(Beat::Answer),
            Just(Beat::Stalled)
        ]
        .prop_map(Message::Heartbeat),
        name().prop_map(Message::WhoIs),
        (name(), addresses()).prop_map(|(name, addresses)| Message::Known { name, addresses }),
        any::<bool>().prop_map(|left| Message::Bye { left }),
        (1..=8u8).prop_map(|code| Message::Reject(Rejection::from_code(code).unwrap())),
    ]
}

proptest! {
    /// BS-3: one encoding, and no prefix or extension of it is one.
    #[test]
    fn messages_are_read_back_and_nothing_else_is(message in message()) {
        let bytes = message.encode();
        prop_assert!(bytes.len() + 16 <= BODY_BYTES_MAX);
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
        for length in 0..bytes.len() {
            prop_assert_eq!(Message::decode(&bytes[..length]), Err(Malformed::Truncated));
        }
        let longer = [&bytes[..], &[0]].concat();
        prop_assert_eq!(Message::decode(&longer), Err(Malformed::Trailing(1)));
    }

    #[test]
    fn the_document_names_every_message_and_rejection(message in message()) {
        let document = include_str!("../../../docs/WIRE.md");
        let row = format!("\n| {} | {} | ", message.encode()[0], message.name());
        prop_assert!(document.contains(&row), "{}", row);
        if let Message::Reject(rejection) = message {
            let row = format!("\n| {} | `{rejection:?}` | ", rejection.code());
            prop_assert!(document.contains(&row), "{}", row);
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(message) = Message::decode(&bytes) {
            // Feature bits are the one thing that is read and not kept.
            if !matches!(message, Message::Hello(_)) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }
    }

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

#[test]
fn numbers_and_texts_out_of_bounds_are_named() {
    let offer = |change: fn(&mut OfferMade)| {
        let mut offer = OfferMade {
            fabric: "tcp".into(),
            ring_slots: 64,
            slot_bytes: 8448,
            message_bytes_max: 1,
            link_window_bytes: 1,
            queue_pair: vec![0; 256],
        };
        change(&mut offer);
        Message::decode(&Message::Offer(offer).encode()).unwrap_err()
    };
    let number = |what, value| Malformed::Number { what, value };
    assert_eq!(offer(|o| o.ring_slots = 7), number("number of ring slots", 7));
    assert_eq!(offer(|o| o.ring_slots = 4097), number("number of ring slots", 4097));
    assert_eq!(offer(|o| o.slot_bytes = 2032), number("slot size", 2032));
    assert_eq!(offer(|o| o.slot_bytes = 8450), number("slot size", 8450));
    assert_eq!(offer(|o| o.message_bytes_max = 0), number("size limit of messages", 0));
    assert_eq!(offer(|o| o.link_window_bytes = 1 << 31), number("window of a link", 1 << 31));
    assert_eq!(offer(|o| o.queue_pair.push(0)), number("length of a queue pair's offer", 257));
    assert_eq!(offer(|o| o.fabric.clear()), Malformed::Text("fabric name"));
    assert_eq!(Message::decode(&[7, 1, b'/']), Err(Malformed::Text("node name")));
    assert_eq!(Message::decode(&[8, 1, b'a', 1, 0]), Err(Malformed::Text("address")));
    assert_eq!(Message::decode(&[8, 1, b'a', 9]), Err(number("number of addresses", 9)));
    assert_eq!(Message::decode(&[4, 1, b'a', 1, 1, 0xff]), Err(Malformed::Text("reason")));
    assert_eq!(Message::decode(&[4, 1, b'a', 2, 0]), Err(number("mark of another way", 2)));
    assert_eq!(Message::decode(&[10, 0]), Err(number("reason for a refusal", 0)));
    assert_eq!(Message::decode(&[13]), Err(Malformed::MessageKind(13)));
    let resync = |mark, count: u16, code: u16| {
        let count = count.to_le_bytes();
        let head = [&[11][..], &[7; 12], &[mark], &count].concat();
        Message::decode(&[&head[..], &[0; 6], &code.to_le_bytes()].concat())
    };
    assert!(resync(1, 1, 1).is_ok());
    assert_eq!(resync(2, 1, 1), Err(number("mark of a part", 2)));
    assert_eq!(resync(0, 501, 1), Err(number("number of refusals", 501)));
    assert_eq!(resync(0, 1, 9), Err(number("kind of refusal", 9)));
    assert_eq!(Message::decode(&[]), Err(Malformed::Truncated));
}
