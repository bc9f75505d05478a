//! The proof of two nodes to each other: names, secrets, versions.

use super::*;
use crate::bootstrap::rejection::Rejection;
use crate::bootstrap::version::Versions;
use crate::limits;

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
    let wrong = [Secret::key(Some(&Secret::numbered(8))), Secret::key(None)];
    for key in wrong {
        let other = Identity { key, ..identity("beta", 2) };
        let (dialler, acceptor) = failures(&identity("alpha", 1), &other);
        assert!(matches!(dialler, Failure::RejectedByPeer(Rejection::WrongSecret)), "{dialler}");
        assert!(matches!(acceptor, Failure::Rejected(Rejection::WrongSecret)), "{acceptor}");
    }
}

/// While a secret is changed, nodes of neighbouring rounds meet, whichever dials.
// Promised in docs/SEMANTICS.md.
#[test]
fn nodes_meet_while_their_secret_is_changed() {
    let key = |number| Secret::key(Some(&Secret::numbered(number)));
    let (old, new) = (|| key(8), || key(9));
    let rounds = [(old(), vec![]), (old(), vec![new()]), (new(), vec![old()]), (new(), vec![])];
    let in_round = |name, seed, round: usize| {
        let (key, accepts) = rounds[round].clone();
        Identity { key, accepts, ..identity(name, seed) }
    };
    for (one, other) in (0..4).flat_map(|one| (0..4).map(move |other| (one, other))) {
        let (alpha, beta) = (in_round("alpha", 1, one), in_round("beta", 2, other));
        let (dialler, acceptor) = run(&alpha, &beta);
        // Rounds that are not neighbours: only a node that accepts more may be dialled.
        let meet = one.abs_diff(other) <= 1 || (one, other) == (0, 2) || (one, other) == (3, 1);
        assert_eq!(dialler.unwrap().is_ok(), meet, "{one} dials {other}");
        assert_eq!(acceptor.unwrap().is_ok(), meet, "{one} dials {other}");
    }
}

/// Of the largest number of secrets, the last works as well as the first; and if none fits, the
/// answer is the same as with a single secret.
#[test]
fn every_secret_is_tried_and_none_is_told_apart() {
    let key = |number| Secret::key(Some(&Secret::numbered(number)));
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
    let newer = Versions { min: VERSIONS.max + 1, max: VERSIONS.max + 2 };
    let other = Identity { versions: newer, ..identity("beta", 2) };
    for (dialler, acceptor) in [(&identity("alpha", 1), &other), (&other, &identity("alpha", 1))] {
        let ended = failures(dialler, acceptor);
        for (failure, mine, peers) in [
            (ended.0, dialler.versions, acceptor.versions),
            (ended.1, acceptor.versions, dialler.versions),
        ] {
            let Failure::VersionMismatch { ours, theirs } = failure else { panic!("{failure}") };
            assert_eq!((ours, theirs), (mine, peers));
            let text = failure.to_string();
            assert!(text.contains("run the same release"), "{text}");
        }
    }
}

/// A change of the range on the way makes the two sides strangers.
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
