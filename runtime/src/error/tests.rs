//! Checks for all causes whether a program may try again.

use ringpost_transport::cause::{LinkCause, NodeDown, NodeDownCause};

use super::*;
use crate::fate::Fate;

/// Returns each cause of a message that was not sent, and true if trying again can help. The list
/// is complete, because the match of [`Cause::is_retryable`] has no wildcard arm.
fn unsent() -> Vec<(Cause, bool)> {
    let down = |cause| Cause::NodeUnreachable(NodeDown { cause, down_ms: 0 });
    vec![
        (Cause::MailboxFull, true),
        (Cause::Stopped, true),
        (Cause::NoSuchActor, true),
        (down(NodeDownCause::Left), true),
        (down(NodeDownCause::Restarted), true),
        (down(NodeDownCause::Silent { silent_ms: 1, last: String::new() }), true),
        (Cause::Opening, true),
        (Cause::LinkDown, true),
        (Cause::Timeout, true),
        (Cause::TooManyAsks, true),
        (Cause::Leaving, true),
        (Cause::WrongActorType { asked: "a", found: "b".into() }, false),
        (Cause::NoNetwork, false),
        (Cause::SchemaMismatch, false),
        (Cause::NotAccepted, false),
        (Cause::TooLarge { bytes: 2, limit: 1 }, false),
        (Cause::LocalOnly, false),
        (Cause::Archive(String::new()), false),
        (Cause::SelfAsk, false),
        (Cause::Cycle("a, b".into()), false),
        (Cause::Shutdown, false),
    ]
}

// Promised in docs/SEMANTICS.md.
#[test]
fn what_was_certainly_not_handled_may_be_tried_again_where_that_can_help() {
    for (cause, expected) in unsent() {
        assert_eq!(cause.is_retryable(), expected, "{cause:?}");
        let told = TellError { message: (), cause: cause.clone() };
        assert_eq!(told.is_retryable(), expected, "{told:?}");
        let found = LookupError::NotFound { path: "a/b".into(), cause: cause.clone() };
        assert_eq!(found.is_retryable(), expected, "{found:?}");
        let unsent = AskCause::NotSent(cause);
        assert_eq!(unsent.is_retryable(), expected, "{unsent:?}");
    }
    assert!(!LookupError::InvalidName(crate::address::check_name("").unwrap_err()).is_retryable());
    for (cause, expected) in [
        (AskCause::NotBegun(NotBegun::Stopped), true),
        (AskCause::NotBegun(NotBegun::Timeout), true),
        (AskCause::NotBegun(NotBegun::InvalidArchive), false),
        (AskCause::Timeout, false),
        (AskCause::NoReply, false),
        (AskCause::LinkDown(LinkCause::Closed), false),
        (AskCause::ReplyTooLarge, false),
        (AskCause::InvalidReply, false),
    ] {
        assert_eq!(cause.is_retryable(), expected, "{cause:?}");
        let address = Address::by_name("a".into(), "b".into());
        assert_eq!(AskError::new(cause, address, "Note").is_retryable(), expected);
    }
    let fates = [Fate::Delivered, Fate::NotSent, Fate::Refused, Fate::Unknown];
    assert_eq!(fates.map(Fate::is_retryable), [false, true, true, false]);
}

// Promised in docs/SEMANTICS.md.
#[test]
fn of_spawns_only_those_that_were_certainly_not_made_may_be_tried_again() {
    let mut causes: Vec<_> = unsent()
        .into_iter()
        .flat_map(|(cause, expected)| {
            let begun = (RemoteSpawnCause::NotBegun(cause.clone()), expected);
            [(RemoteSpawnCause::NotSent(cause), expected), begun]
        })
        .collect();
    let name = crate::address::check_name("").unwrap_err();
    causes.extend([
        (RemoteSpawnCause::NotOffered, true),
        (RemoteSpawnCause::TooMany(1), true),
        (RemoteSpawnCause::Leaving, true),
        (RemoteSpawnCause::InvalidName(name), false),
        (RemoteSpawnCause::OtherArguments, false),
        (RemoteSpawnCause::InvalidArguments, false),
        (RemoteSpawnCause::Refused(String::new()), false),
        (RemoteSpawnCause::Start(String::new()), false),
        (RemoteSpawnCause::Panicked(String::new()), false),
        (RemoteSpawnCause::Killed, false),
        (RemoteSpawnCause::NameTaken("a".into()), false),
        (RemoteSpawnCause::Unanswered(AskCause::Timeout), false),
        (RemoteSpawnCause::Unanswered(AskCause::NoReply), false),
    ]);
    for (cause, expected) in causes {
        let is_open = matches!(cause, RemoteSpawnCause::Unanswered(_));
        let error = RemoteSpawnError::new(cause, "beta".into(), "Worker");
        assert_eq!((error.is_retryable(), error.may_be_spawned()), (expected, is_open), "{error}");
    }
}

/// A program prints the `Debug` form of an error that `main` returns. `tests/tidy` checks all
/// types.
#[test]
fn errors_read_as_sentences_where_a_program_ends_with_them() {
    let asked = Address::by_name("beta".into(), "teller".into());
    let ask = AskError::new(AskCause::NotSent(Cause::Timeout), asked, "Deposit");
    let told = TellError { message: vec![7_u8; 3], cause: Cause::MailboxFull };
    for error in [BoxError::from(ask), told.into()] {
        assert_eq!(format!("{error:?}"), error.to_string());
    }
}

#[test]
fn limits_and_ranges_are_named_as_they_were_set() {
    let large = Cause::TooLarge { bytes: 67_174_657, limit: 67_108_864 }.to_string();
    assert!(large.contains("67174657 bytes, and a `message_bytes_max` of 67108864"), "{large}");
    assert!(large.contains("leaves it 67174656: "), "{large}");
    let outside = |range| RegionError::OutOfRange { range, len: 8 }.to_string();
    let backwards = |start, end| std::ops::Range { start, end };
    assert_eq!(outside(backwards(9, 8)), "elements 9.. are not in a region of 8 elements");
    assert_eq!(outside(backwards(5, 4)), "elements 5..4 are not in a region of 8 elements");
    assert_eq!(outside(7..9), "elements 7..9 are not in a region of 8 elements");
}

/// The list is complete, because the match of [`RegionError::is_retryable`] has no wildcard arm.
// Promised in docs/SEMANTICS.md.
#[test]
fn an_operation_on_a_region_is_tried_again_where_that_can_help() {
    let node = || "alpha".into();
    let down = NodeDown { cause: NodeDownCause::Restarted, down_ms: 0 };
    let silent = NodeDownCause::Silent { silent_ms: 9_000, last: "refused".into() };
    let silent = NodeDown { cause: silent, down_ms: 0 };
    for (error, again, done) in [
        (RegionError::OutOfRange { range: 0..2, len: 1 }, false, false),
        (RegionError::LengthMismatch { wanted: 1, room: 2 }, false, false),
        (RegionError::Unaligned { element: 1 }, false, false),
        (RegionError::NoAccess("read"), false, false),
        (RegionError::TooManyRanges { ranges: 2, max: 1 }, false, false),
        (RegionError::NeverShared(node()), false, false),
        (RegionError::Revoked, false, false),
        (RegionError::Expired, false, false),
        (RegionError::OtherRun(node()), false, false),
        (RegionError::NodeDown { node: node(), down }, false, false),
        (RegionError::NodeDown { node: node(), down: silent }, true, false),
        (RegionError::Unknown(node()), false, true),
        (RegionError::OtherExecutor(node()), true, false),
        (RegionError::Unsupported(node()), false, false),
        (RegionError::Unable { node: node(), why: "none".into() }, true, false),
        (RegionError::NoNetwork, false, false),
        (RegionError::Shutdown, false, false),
    ] {
        assert_eq!((error.is_retryable(), error.may_be_done()), (again, done), "{error:?}");
        let told = WriteAndTellError::NotWritten { error, message: () };
        assert_eq!((told.is_retryable(), told.may_be_done()), (again, done), "{told:?}");
    }
    let told = TellError { message: (), cause: Cause::MailboxFull };
    let told = WriteAndTellError::NotTold(told);
    assert!(told.is_retryable() && told.may_be_done());
}

/// The list is complete, because the match of [`AllocateError::is_retryable`] has no wildcard arm.
#[test]
fn memory_is_asked_for_again_where_that_can_help() {
    let node = || "alpha".into();
    let down = |cause| NodeDown { cause, down_ms: 0 };
    let silent = NodeDownCause::Silent { silent_ms: 9_000, last: "refused".into() };
    let unsent = AskCause::NotSent(Cause::MailboxFull);
    for (error, again) in [
        (AllocateError::NotOffered { node: node() }, true),
        (AllocateError::Refused { node: node(), reason: "none".into() }, true),
        (AllocateError::NodeDown { node: node(), down: down(NodeDownCause::Left) }, true),
        (AllocateError::NodeDown { node: node(), down: down(NodeDownCause::Restarted) }, true),
        (AllocateError::NodeDown { node: node(), down: down(silent) }, true),
        (AllocateError::NoAnswer { node: node(), cause: AskCause::NoReply }, true),
        (AllocateError::NoAnswer { node: node(), cause: unsent }, true),
        (AllocateError::UnknownNode { node: node() }, true),
        (AllocateError::OutOfMemory { bytes: 1 }, true),
        (AllocateError::OverQuota { node: node(), left: 1 }, true),
        (AllocateError::TooLarge { len: 1, element_bytes: 1 }, false),
        (AllocateError::NoNetwork, false),
        (AllocateError::Shutdown, false),
    ] {
        assert_eq!(error.is_retryable(), again, "{error:?}");
    }
}
