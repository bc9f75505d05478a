//! Every breach of the protocol that a peer with the secret can commit on its link, and what the
//! link ends with.
//!
//! Before each, the node has sent OPEN number 0 to the peer. The peer's own first OPEN gets the
//! place 0 of generation 1.

use super::peer::{FRAME_MAX, confirm, frame_of, head};
use crate::bootstrap::{Message, Rejection};
use crate::cause::{LinkCause, Violation};
use crate::fabric::Status;
use crate::limits::{KIND_NAME_BYTES_MAX, LOANS_MAX};
use crate::proto::credit::FIRST_COUNT;
use crate::proto::header::{RecordHeader, RecordKind};

/// An act of the peer.
pub(super) enum Act {
    /// It writes these frames.
    Frames(fn() -> Vec<Vec<u8>>),
    /// It writes this to its data connection.
    Data(&'static [u8]),
    /// It says this on its bootstrap connection.
    Says(fn() -> Message),
    /// A byte of a message from it is changed on the way.
    Spoilt,
    /// It writes frames until the node takes no more.
    Overrun,
}

/// One breach.
pub(super) struct Breach {
    pub(super) what: &'static str,
    pub(super) act: Act,
    pub(super) cause: LinkCause,
}

type Records<'a> = &'a [(RecordHeader, &'a [u8])];

fn frames(what: &'static str, violation: Violation, frames: fn() -> Vec<Vec<u8>>) -> Breach {
    Breach { what, act: Act::Frames(frames), cause: LinkCause::Violation(violation) }
}

fn frame(records: Records<'_>) -> Vec<u8> {
    frame_of(records, FIRST_COUNT)
}

/// Returns a frame of one record, with bytes changed from `at` on.
fn patched(record: RecordHeader, at: usize, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frame = frame(&[(record, &[7; 32])]);
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    vec![frame]
}

/// Returns a frame of one record without a payload.
fn only(record: RecordHeader) -> Vec<Vec<u8>> {
    vec![frame(&[(record, &[])])]
}

pub(super) fn at(kind: RecordKind, mailbox: u32, generation: u32) -> RecordHeader {
    RecordHeader { mailbox, generation, ..head(kind) }
}

pub(super) fn open(name: &[u8]) -> Vec<u8> {
    frame(&[(head(RecordKind::Open), &[&[0; 17], name].concat())])
}

/// Returns the refusal of the node's OPEN, for the kind of the mailbox.
fn kind_refused() -> RecordHeader {
    RecordHeader { ordinal: 2, ..head(RecordKind::OpenRefused) }
}

/// Opens the mailbox `stuck`, then says this.
fn to_stuck(records: Records<'_>) -> Vec<Vec<u8>> {
    vec![open(b"stuck0"), frame(records)]
}

/// Returns a message of a small and one of 8,000 bytes to the mailbox at this place.
fn big(place: u32) -> [Vec<u8>; 3] {
    let tell = at(RecordKind::Tell, place, 1);
    let first = RecordHeader { total: 8000, ..tell };
    let part = &[1; 4000][..];
    [frame(&[(tell, &[1])]), frame(&[(first, part)]), frame(&[(head(RecordKind::Fragment), part)])]
}

/// Returns the answer to the node's OPEN, with this description.
fn opened(window: [u32; 4]) -> Vec<u8> {
    let numbers = window.iter().flat_map(|number| number.to_le_bytes());
    // Nothing waits from earlier links.
    let description: Vec<u8> = numbers.chain([0; 16]).collect();
    frame(&[(at(RecordKind::Opened, 0, 1), &description)])
}

/// Returns the table.
pub(super) fn all() -> Vec<Breach> {
    [headers(), counts(), mailboxes(), fragments(), loans(), openings(), ends(), beside()]
        .into_iter()
        .flatten()
        .collect()
}

fn headers() -> Vec<Breach> {
    use Violation::{Frame, Record};
    vec![
        frames("a frame with another first byte", Frame, || {
            patched(head(RecordKind::Probe), 0, &[3])
        }),
        frames("a frame that lies about its length", Frame, || {
            patched(head(RecordKind::Probe), 8, &[0xff; 4])
        }),
        frames("a frame shorter than its header", Frame, || vec![vec![1; 15]]),
        frames("a frame of nothing", Frame, || vec![Vec::new()]),
        frames("a frame with fewer records than said", Record, || {
            patched(head(RecordKind::Probe), 2, &[2])
        }),
        frames("a frame with more records than said", Frame, || {
            patched(head(RecordKind::Probe), 2, &[0])
        }),
        frames("a record of kind 0", Record, || patched(head(RecordKind::Probe), 16, &[0])),
        frames("a record of kind 21", Record, || patched(head(RecordKind::Probe), 16, &[21])),
        frames("a header that is not aligned", Record, || {
            patched(head(RecordKind::Probe), 18, &[40])
        }),
        frames("a header beyond the frame", Record, || {
            patched(head(RecordKind::Probe), 18, &[0xf0, 0xff])
        }),
        frames("a header too short for its deadline", Record, || {
            patched(head(RecordKind::Probe), 17, &[1])
        }),
        frames("a payload beyond the frame", Record, || {
            patched(head(RecordKind::Probe), 20, &[33])
        }),
        frames("a payload of four gigabytes", Record, || {
            patched(head(RecordKind::Probe), 20, &[0xff; 4])
        }),
        frames("an ask without a number", Record, || only(head(RecordKind::Ask))),
        frames("a tell with one", Record, || {
            only(RecordHeader { correlation: 1, ..head(RecordKind::Tell) })
        }),
    ]
}

fn counts() -> Vec<Breach> {
    use Violation::{Count, Refusal};
    fn consumed(count: u32) -> Vec<Vec<u8>> {
        vec![frame_of(&[(head(RecordKind::Probe), &[])], FIRST_COUNT.wrapping_add(count))]
    }
    let overrun = LinkCause::Violation(Violation::CreditOverrun);
    vec![
        frames("a count that goes back", Count, || {
            [consumed(1), consumed(0)].into_iter().flatten().collect()
        }),
        frames("a count below the first", Count, || consumed(u32::MAX)),
        frames("a count beyond what was sent", Count, || consumed(9)),
        Breach { what: "frames without credit", act: Act::Overrun, cause: overrun },
        frames("a ring that grows by nothing", Count, || only(head(RecordKind::Grant))),
        frames("a ring that grows without an end", Count, || {
            only(RecordHeader { total: u32::MAX, ..head(RecordKind::Grant) })
        }),
        frames("a refusal of what was never sent", Refusal, || {
            only(RecordHeader { ordinal: 1, ..at(RecordKind::Refusal, FIRST_COUNT, 0) })
        }),
        frames("a refusal at an impossible place", Refusal, || {
            only(RecordHeader { ordinal: 1, ..at(RecordKind::Refusal, FIRST_COUNT, 1 << 16) })
        }),
        frames("a refusal without a cause", Refusal, || only(head(RecordKind::Refusal))),
    ]
}

fn mailboxes() -> Vec<Breach> {
    use Violation::{Unknown, WindowOverrun, WindowReport};
    vec![
        frames("a tell to a place never given", Unknown, || only(at(RecordKind::Tell, 7, 1))),
        frames("a tell to a generation to come", Unknown, || {
            to_stuck(&[(at(RecordKind::Tell, 0, 2), &[])])
        }),
        frames("a tell to generation 0", Unknown, || {
            to_stuck(&[(at(RecordKind::Tell, 0, 0), &[])])
        }),
        frames("an unknown ordinal", Unknown, || {
            to_stuck(&[(RecordHeader { ordinal: 1, ..at(RecordKind::Tell, 0, 1) }, &[])])
        }),
        frames("a signal to nobody", Unknown, || only(at(RecordKind::Signal, 7, 1))),
        frames("a wait for nobody", Unknown, || only(at(RecordKind::Blocked, 7, 1))),
        frames("the end of nobody", Unknown, || only(at(RecordKind::Closed, 7, 1))),
        frames("a report about nobody", Unknown, || only(at(RecordKind::Window, 7, 1))),
        frames("an end of another generation", Unknown, || {
            vec![opened([1, 1, 0, 0]), frame(&[(at(RecordKind::Closed, 0, 2), &[])])]
        }),
        frames("more messages than the window", WindowOverrun, || {
            to_stuck(&[(at(RecordKind::Tell, 0, 1), &[1][..]); 33])
        }),
        frames("more signals in order than the window", WindowOverrun, || {
            let signal = RecordHeader { correlation: 1, ..at(RecordKind::Signal, 0, 1) };
            let tells = vec![(at(RecordKind::Tell, 0, 1), &[1][..]); 32];
            to_stuck(&[&tells[..], &[(signal, &[])]].concat())
        }),
        frames("more bytes than the window", WindowOverrun, || {
            [open(b"stuck0")].into_iter().chain(big(0)).chain(big(0)).collect()
        }),
        frames("more bytes than the link's window", WindowOverrun, || {
            let opens = [open(b"stuck0"), open(b"stuck1"), open(b"stuck2")];
            opens.into_iter().chain((0..3).flat_map(big)).collect()
        }),
        frames("more taken than was sent", WindowReport, || {
            let report = RecordHeader { total: 1, ..at(RecordKind::Window, 0, 1) };
            vec![opened([1, 1, 0, 0]), frame(&[(report, &[])])]
        }),
        frames("fewer taken than before", WindowReport, || {
            let total = u32::MAX;
            let report = RecordHeader { total, ..at(RecordKind::Window, 0, 1) };
            vec![opened([1, 1, 0, 0]), frame(&[(report, &[])])]
        }),
    ]
}

fn fragments() -> Vec<Breach> {
    use Violation::Fragment;
    fn first(total: u32) -> RecordHeader {
        RecordHeader { total, ..at(RecordKind::Tell, 0, 1) }
    }
    vec![
        frames("a part of nothing", Fragment, || only(head(RecordKind::Fragment))),
        frames("a message beyond the limit", Fragment, || to_stuck(&[(first(1 << 30), &[1])])),
        frames("a first part that is the whole", Fragment, || to_stuck(&[(first(1), &[1])])),
        frames("a second message before the first is whole", Fragment, || {
            to_stuck(&[(first(9), &[1]), (first(9), &[1])])
        }),
        frames("an empty part", Fragment, || {
            to_stuck(&[(first(9), &[1]), (head(RecordKind::Fragment), &[])])
        }),
        frames("more parts than the whole", Fragment, || {
            to_stuck(&[(first(9), &[1]), (head(RecordKind::Fragment), &[1; 9])])
        }),
        frames("a goodbye between two parts", Fragment, || {
            to_stuck(&[(first(9), &[1]), (head(RecordKind::Goodbye), &[])])
        }),
    ]
}

fn loans() -> Vec<Breach> {
    use Violation::Loan;
    fn lend(ordinal: u16, total: u32) -> (RecordHeader, &'static [u8]) {
        (RecordHeader { ordinal, total, ..head(RecordKind::Lend) }, &[])
    }
    vec![
        frames("the answer to no loan", Loan, || only(head(RecordKind::Fetched))),
        frames("the end of no loan", Loan, || only(head(RecordKind::Unlent))),
        frames("a loan of nothing", Loan, || vec![frame(&[lend(0, 0)])]),
        frames("a loan beyond the limit", Loan, || vec![frame(&[lend(0, 1 << 30)])]),
        frames("a loan twice", Loan, || vec![frame(&[lend(7, 9), lend(7, 9)])]),
        frames("too many loans", Loan, || {
            let loans: Vec<_> = (0..=LOANS_MAX as u16).map(|it| lend(it, 9)).collect();
            vec![frame(&loans)]
        }),
        frames("loans of too many bytes", Loan, || {
            vec![frame(&[lend(0, 60 << 20), lend(1, 60 << 20)])]
        }),
        frames("a goodbye with a loan", Loan, || {
            vec![frame(&[lend(0, 9), (head(RecordKind::Goodbye), &[])])]
        }),
        frames("a message that was not fetched", Loan, || {
            let lent = RecordHeader { lent: true, total: 3, ..at(RecordKind::Tell, 0, 1) };
            to_stuck(&[(lent, &[])])
        }),
    ]
}

fn openings() -> Vec<Breach> {
    use Violation::{Flood, Opening};
    vec![
        frames("an opening of nothing", Opening, || only(head(RecordKind::Open))),
        frames("an opening by an empty name", Opening, || vec![open(b"")]),
        frames("an opening by a name too long", Opening, || vec![open(&[b'x'; 513])]),
        frames("an opening by a name that is no text", Opening, || vec![open(&[0xff])]),
        frames("an opening by half an identity", Opening, || {
            vec![frame(&[(head(RecordKind::Open), &[[0; 16], [1; 16]].concat())])]
        }),
        frames("an answer to no opening", Opening, || {
            only(RecordHeader { correlation: 99, ..head(RecordKind::Opened) })
        }),
        frames("a second answer", Opening, || vec![opened([1, 1, 0, 0]), opened([1, 1, 0, 0])]),
        frames("a refusal of no opening", Opening, || {
            only(RecordHeader { correlation: 99, ordinal: 1, ..head(RecordKind::OpenRefused) })
        }),
        frames("a refusal of an opening without a cause", Opening, || {
            only(head(RecordKind::OpenRefused))
        }),
        frames("a refusal of an opening with a kind whose name is too long", Opening, || {
            vec![frame(&[(kind_refused(), &[b'x'; KIND_NAME_BYTES_MAX + 1])])]
        }),
        frames("a refusal of an opening with a kind whose name is no text", Opening, || {
            vec![frame(&[(kind_refused(), &[0xff])])]
        }),
        frames("a description cut short", Opening, || only(head(RecordKind::Opened))),
        frames("a description of no window", Opening, || vec![opened([0, 1, 0, 0])]),
        frames("a description with fewer rows than said", Opening, || {
            vec![opened([1, 1, u32::MAX, 0])]
        }),
        frames("a description without an end", Opening, || {
            let more = RecordHeader { more: true, ..at(RecordKind::Opened, 0, 1) };
            vec![frame(&[(more, &[0; FRAME_MAX - 64])]); 47]
        }),
        frames("openings without an end", Flood, || {
            let request = [&[0; 17][..], b"x"].concat();
            vec![frame(&[(head(RecordKind::Open), &request[..]); 67]); 33]
        }),
    ]
}

fn ends() -> Vec<Breach> {
    use Violation::{Confirm, Goodbye};
    vec![
        frames("a second confirmation", Confirm, || vec![confirm(FRAME_MAX)]),
        frames("a message after the goodbye", Goodbye, || {
            vec![frame(&[(head(RecordKind::Goodbye), &[]), (head(RecordKind::Probe), &[])])]
        }),
        frames("a second goodbye", Goodbye, || vec![frame(&[(head(RecordKind::Goodbye), &[])]); 2]),
    ]
}

/// Beside the frames: on the data connection itself, and on the bootstrap connection.
fn beside() -> Vec<Breach> {
    let says = |what, says| {
        let cause = LinkCause::Violation(Violation::Bootstrap);
        Breach { what, act: Act::Says(says), cause }
    };
    // TC-3, TC-4.
    let data = |what, bytes, status| Breach {
        what,
        act: Act::Data(bytes),
        cause: LinkCause::Fabric(status),
    };
    let spoilt = LinkCause::Violation(Violation::Bootstrap);
    vec![
        says("a second COMMIT", || Message::Commit { epoch: 1 }),
        says("an OFFER for a link that is up", super::peer::offer),
        says("a RESYNC on a link that is up", super::peer::silence),
        Breach { what: "a message changed on the way", act: Act::Spoilt, cause: spoilt },
        Breach {
            what: "a rejection of a link that is up",
            act: Act::Says(|| Message::Reject(Rejection::Garbage)),
            cause: LinkCause::Closed,
        },
        data("a frame longer than any", &[0xff; 8], Status::Corrupt),
        data("a frame longer than its slot", &[0, 0, 8, 0], Status::LocalLength),
    ]
}
