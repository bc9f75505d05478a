//! Mailboxes that are opened, refused and closed.

use crate::limits::KIND_NAME_BYTES_MAX;
use crate::proto::error::OpenRefusal;
use crate::proto::header::FRAME_HEADER;
use crate::proto::pair::{self, Pair, name};
use crate::proto::send_queue::Notice;

#[test]
fn requests_for_one_mailbox_share_its_window_and_end_together() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    pair.open(0, "also 0");
    let out = &mut pair.sides[0].out;
    let outlets = [out.outlet(&name("0"), &mut 0), out.outlet(&name("also 0"), &mut 0)];
    assert_ne!(outlets[0], outlets[1]);
    assert_eq!(out.mailbox(outlets[0]).unwrap().0, out.mailbox(outlets[1]).unwrap().0);
    pair.sides[0].notices.clear();
    pair.close(1, 0);
    pair.transmit(1);
    pair.receive(0).unwrap();
    let ended = std::mem::take(&mut pair.sides[0].notices);
    assert_eq!(
        ended,
        outlets.map(|outlet| Notice::Ended { outlet, mailbox: Some(0), refusal: None })
    );
}

#[test]
fn a_description_longer_than_a_frame_comes_in_parts() {
    let mut pair = Pair::confirmed();
    pair.sides[1].accepted = 100;
    pair.open(0, "0");
    let outlet = pair.sides[0].out.outlet(&name("0"), &mut 0);
    assert_eq!(pair.sides[0].out.mailbox(outlet).unwrap().1.accepted.len(), 100);
    let (bytes, room) = (100 * 48 + 32, pair::FRAME_MAX - FRAME_HEADER - 32);
    assert!(bytes > 2 * room);
}

#[test]
fn a_mailbox_that_is_not_there_is_refused() {
    let mut pair = Pair::confirmed();
    let outlet = pair.sides[0].out.outlet(&name("nobody"), &mut 0);
    pair.settle();
    let refusal = Some(OpenRefusal::NoSuchMailbox);
    assert_eq!(pair.sides[0].notices, [Notice::Ended { outlet, mailbox: None, refusal }]);
}

#[test]
fn a_mailbox_of_another_kind_is_refused_with_the_name_of_its_kind() {
    let mut pair = Pair::confirmed();
    let outlet = pair.sides[0].out.outlet(&name("0"), &mut 0);
    pair.transmit(0);
    let refusal = OpenRefusal::WrongKind { found: "k".repeat(2 * KIND_NAME_BYTES_MAX).into() };
    pair.sides[1].link.open_refused(outlet.into(), &refusal).unwrap();
    pair.transmit(1);
    pair.receive(0).unwrap();
    let refusal = Some(OpenRefusal::WrongKind { found: "k".repeat(KIND_NAME_BYTES_MAX).into() });
    assert_eq!(pair.sides[0].notices, [Notice::Ended { outlet, mailbox: None, refusal }]);
}
