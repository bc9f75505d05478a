//! `docs/WIRE.md` agrees with the code: kinds, sizes, the preface, limits.

use super::{PREFACE_BYTES, Preface};
use crate::bootstrap::VERSIONS;
use crate::limits;
use crate::proto::header::{
    FRAME_HEADER, RECORD_HEADER, RECORD_HEADER_MAX, RECORD_HEADER_TIMED, RecordHeader,
};

const DOCUMENT: &str = include_str!("../../../docs/WIRE.md");

/// Returns the rows of the first table below this heading, as cells.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let below = DOCUMENT.split_once(heading).expect("the heading is there").1;
    let rows = below.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// `OpenRefused` as the document spells it: `OPEN_REFUSED`.
fn shouted(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(c.to_uppercase());
    }
    out
}

/// The name of a kind, if there is one.
fn kind(number: u8) -> Option<String> {
    let mut bytes = [0; RECORD_HEADER];
    bytes[0] = number;
    bytes[2] = RECORD_HEADER as u8;
    let (header, _) = RecordHeader::decode(&bytes).ok()?;
    Some(shouted(&format!("{:?}", header.kind)))
}

#[test]
fn the_document_names_every_kind_of_record() {
    let written: Vec<(u8, String)> = table("### 4.3 Kinds of records")
        .iter()
        .map(|row| (row[0].parse().expect("a number"), row[1].to_owned()))
        .collect();
    let known: Vec<_> = (0..=u8::MAX).filter_map(|n| Some((n, kind(n)?))).collect();
    assert_eq!(written, known);
}

#[test]
fn the_document_has_the_sizes_and_limits_of_the_code() {
    let mut written: Vec<(String, usize)> = Vec::new();
    for row in table("## 4. Frames and records") {
        written.push((row[2].to_owned(), row[1].parse().expect("a number")));
    }
    for row in table("## 8. Limits") {
        written.push((row[0].to_owned(), row[1].replace(',', "").parse().expect("a number")));
    }
    macro_rules! known {
        ($($name:ident)*) => {
            vec![$((format!("`{}`", stringify!($name)), $name as usize)),*]
        };
    }
    use limits::*;
    let known = known!(
        FRAME_HEADER RECORD_HEADER RECORD_HEADER_TIMED RECORD_HEADER_MAX
        PREFACE_BYTES UNPROVEN_BYTES_MAX
        UNPROVEN_CONNECTIONS_MAX NODE_NAME_BYTES_MAX MAILBOX_NAME_BYTES_MAX OFFER_BYTES_MAX
        RING_SLOTS_MIN RING_SLOTS_MAX SLOT_BYTES_MIN SLOT_BYTES_MAX ACCEPTED_MAX
        ARCHIVE_DEPTH_MAX OPENS_MAX KIND_NAME_BYTES_MAX
        PENDING_ASKS_MAX LINK_WINDOW_MESSAGES
        ONE_SIDED_FRAME_BYTES ONE_SIDED_WINDOW LOANS_MAX LENT_BYTES_MAX SHARING_UNANSWERED_MAX
        TCP_QUEUE_MAX TCP_FRAME_BYTES_MAX TCP_TAIL_BYTES_MAX WINDOW_BYTES_DUE WINDOW_DOUBLINGS_MAX
        TCPS_CHUNK_BYTES_MAX TCPS_REKEY_CHUNKS
    );
    assert_eq!(written, known);
}

/// The document says of which version of the protocol it is.
#[test]
fn the_document_is_of_the_version_that_is_spoken() {
    let holds = format!("holds for protocol version {VERSIONS};");
    assert!(DOCUMENT.contains(&holds), "{holds}");
}

/// The bytes of a field are where its offsets say, and no byte is left out or named twice.
#[test]
fn the_fields_of_the_document_cover_every_byte() {
    let whole = [
        ("## 1. Connections", PREFACE_BYTES),
        ("### 2.1 Opening, in plain", PREFACE_BYTES + 2),
        ("## 3. The tcp fabric", PREFACE_BYTES + 16),
        ("### 4.1 Frame header", FRAME_HEADER),
        ("### 4.2 Record header", RECORD_HEADER_MAX),
    ];
    for (heading, length) in whole {
        let mut at = 0;
        for row in table(heading) {
            let (from, to) = match row[0].split_once("..") {
                Some((from, to)) => {
                    (from.parse().expect("a number"), to.parse().expect("a number"))
                }
                None => row[0].parse().map(|from: usize| (from, from + 1)).expect("a number"),
            };
            assert_eq!((from, row[1].parse()), (at, Ok(to - from)), "{heading}: {row:?}");
            at = to;
        }
        assert_eq!(at, length, "{heading}");
    }
    assert_eq!(&Preface::Bootstrap.encode()[8..], [1, 1, 0, 0]);
    assert_eq!(&Preface::Data.encode()[8..], [1, 2, 0, 0]);
}
