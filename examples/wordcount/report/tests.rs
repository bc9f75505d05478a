//! Tests of reports.

use std::io;
use std::path::PathBuf;

use super::*;
use crate::files::Source;
use crate::text::ReadError;

fn skipped(name: &str, why: Why) -> Skipped {
    Skipped { path: PathBuf::from(name), why }
}

fn run(skipped: Vec<Skipped>, losses: Vec<Loss>) -> Run {
    let sources = vec![Source { path: "text".into(), bytes: 0, named: true }];
    Run { fed: Fed { sources, skipped, ..Fed::default() }, losses, ..Run::default() }
}

#[test]
fn a_run_without_input_is_not_complete_and_says_so() {
    assert!(run(Vec::new(), Vec::new()).is_complete(), "a file may have no words");
    let run = Run::default();
    assert!(run.is_whole() && !run.is_complete());
    assert_eq!(run.gaps(), ["nothing was counted: there is no text file below the paths"]);
    assert!(run.to_string().contains("words  0, 0 different\nbytes  0 in 0 files\n"));
}

#[test]
fn files_that_are_no_text_are_said_and_no_loss() {
    let run = run(vec![skipped("a.png", Why::NotText), skipped("b.o", Why::NotText)], Vec::new());
    assert!(run.is_whole() && run.is_complete());
    assert_eq!(run.gaps(), ["passed over 2 files that are not UTF-8 text, first \"a.png\""]);
}

#[test]
fn what_was_asked_for_and_cannot_be_read_makes_a_run_incomplete() {
    let unreadable = |n| {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        skipped(&format!("f{n}"), Why::Unreadable(error))
    };
    let run = run((0..7).map(unreadable).collect(), Vec::new());
    assert!(run.is_whole() && !run.is_complete());
    let gaps = run.gaps();
    assert_eq!(gaps.len(), 6);
    assert_eq!(gaps[0], "not counted: \"f0\": it cannot be read: permission denied");
    assert_eq!(gaps[5], "not counted: 2 more that cannot be read");
    let named = super::tests::run(vec![skipped("x\u{1b}[m", Why::NamedButNotText)], Vec::new());
    assert_eq!(named.gaps(), ["not counted: \"x\\u{1b}[m\": it is not UTF-8 text"]);
    assert!(!named.is_complete());
}

#[test]
fn a_run_that_lost_text_is_not_whole() {
    let changed = run(vec![skipped("x", Why::Changed(ReadError::NotText))], Vec::new());
    assert!(!changed.is_whole() && !changed.is_complete());

    let mut lost = run(Vec::new(), vec![Loss::Bytes { read: 9, counted: 7 }]);
    lost.lose_node("n2", &io::Error::other("it left"));
    assert!(lost.has_lost("n2") && !lost.has_lost("n1"));
    lost.fed.unread = 3;
    assert!(!lost.is_whole() && !lost.is_complete());
    let expected = [
        "lost: 9 bytes were read and the nodes that answered counted 7",
        "lost: node n2 is lost: it left",
        "lost: 3 files were not read, as no node was left",
    ];
    assert_eq!(lost.gaps(), expected);
}

#[test]
fn the_result_names_words_nodes_and_links() {
    let mut run = Run { elapsed: Duration::from_secs(2), ..Run::default() };
    for n in 0..30_u64 {
        run.tally.add(format!("w{n}"), n + 1);
    }
    run.tally.bytes = 3_000_000;
    run.nodes.push(("n1".to_owned(), 4711));
    let traffic = Traffic {
        peer: "n1".to_owned(),
        messages_sent: 11,
        messages_received: 12,
        bytes_sent: 13,
        bytes_received: 14,
    };
    run.links.push(("driver".to_owned(), vec![traffic]));
    let text = run.to_string();
    assert!(text.starts_with("          30  w29\n          29  w28\n"), "{text}");
    assert!(text.contains("  w10\n") && !text.contains("  w9\n"), "20 words: {text}");
    assert!(text.contains("words  465, 30 different\n"), "{text}");
    assert!(text.contains("time   2.00 s, 1.5 MB/s\n"), "{text}");
    assert!(text.contains(", n1 pid 4711\n"), "{text}");
    let row: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(row, ["driver", "-", "n1", "11", "12", "13", "14"]);
}
