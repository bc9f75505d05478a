//! Every layer keeps to its own words and its own neighbours.

use crate::finding::Finding;
use crate::imports::{Scope, imports};
use crate::tokens::{Token, lines_with};
use crate::tree::{File, Rust, Tree};

/// Reports words of the layer above in the transport, and of the layer below in the runtime.
pub(crate) fn words(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if file.path.starts_with("transport/") {
            forbid(file, &[&["actor"], &["actors"]], &mut findings);
        }
        if file.path.starts_with("runtime/src/") {
            let words: &[&[&str]] = &[&["queue", "pair"], &["queue", "pairs"], &["qp"], &["qps"]];
            forbid(file, words, &mut findings);
        }
    }
    findings
}

/// Reports names of other crates in places that may not use them.
pub(crate) fn borders(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.parsed() {
        if file.path.starts_with("transport/src/proto") {
            protocol_without_io(file, rust, &mut findings);
        }
        if !below(&file.path, "transport/src/fabric/verbs") {
            let lines = lines_with(&rust.tokens, &["rdma_sys"]);
            let what = "`rdma_sys` outside `transport/src/fabric/verbs`";
            findings.extend(lines.map(|line| Finding::new(&file.path, line, what)));
        }
        if file.path.starts_with("runtime/src/") && !below(&file.path, "runtime/src/remote") {
            endpoint_only_in_remote(file, rust, &mut findings);
        }
    }
    findings
}

/// Returns true if `path` is the module `place` or lies below it.
pub(crate) fn below(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn protocol_without_io(file: &File, rust: &Rust, findings: &mut Vec<Finding>) {
    let banned: &[&[&str]] = &[&["std", "io"], &["std", "net"], &["tokio"], &["Instant", "now"]];
    for import in imports(&rust.ast.items, Scope::Everything) {
        let named = banned
            .iter()
            .find(|banned| import.segments.windows(banned.len()).any(|window| window == **banned));
        if let Some(named) = named {
            let what = format!("`{}` in the protocol", named.join("::"));
            findings.push(Finding::new(&file.path, import.line, what));
        }
    }
    for keyword in ["async", "await", "unsafe"] {
        let lines = lines_with(&rust.tokens, std::slice::from_ref(&keyword)).collect::<Vec<_>>();
        let what = format!("`{keyword}` in the protocol");
        findings.extend(lines.iter().map(|line| Finding::new(&file.path, *line, &*what)));
    }
}

fn endpoint_only_in_remote(file: &File, rust: &Rust, findings: &mut Vec<Finding>) {
    for import in imports(&rust.ast.items, Scope::Everything) {
        let [krate, rest @ ..] = import.segments.as_slice() else { continue };
        let named =
            rest.iter().find(|s| ["endpoint", "Endpoint", "RemoteSender"].contains(&s.as_str()));
        if let Some(named) = named.filter(|_| krate == "ringpost_transport") {
            let what = format!("`ringpost_transport`'s `{named}` outside `runtime/src/remote`");
            findings.push(Finding::new(&file.path, import.line, what));
        }
    }
}

/// Reports each of the word sequences where it occurs in the text: in code, comments and strings.
fn forbid(file: &File, sequences: &[&[&str]], findings: &mut Vec<Finding>) {
    let words = words_of(file);
    for sequence in sequences {
        for line in lines_with(&words, sequence) {
            let what = format!("says \"{}\"", sequence.join(" "));
            findings.push(Finding::new(&file.path, line, what));
        }
    }
}

/// The words of a text in lower case, names taken apart (`QueuePair`, `queue_pair`: two words), and
/// the punctuation that ends a thought. A manifest's description may name what the crate is for.
fn words_of(file: &File) -> Vec<Token> {
    let mut words = Vec::new();
    let described =
        |text: &str| file.path.ends_with("Cargo.toml") && text.starts_with("description");
    for (line, text) in file.lines().filter(|(_, text)| !described(text)) {
        let mut word = String::new();
        let mut after_lower = false;
        for c in text.chars().chain(['\n']) {
            let starts_word = c.is_uppercase() && after_lower;
            if (starts_word || !c.is_alphabetic()) && !word.is_empty() {
                words.push(Token { text: std::mem::take(&mut word), line });
            }
            if c.is_alphabetic() {
                word.extend(c.to_lowercase());
            } else if ".,;:(){}".contains(c) {
                words.push(Token { text: c.into(), line });
            }
            after_lower = c.is_lowercase();
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    #[test]
    fn a_word_of_another_layer_is_found_in_any_spelling() {
        let tree = [
            ("transport/src/a.rs", "//! A factor.\nstruct RemoteActor; // the ACTORS'\n"),
            ("transport/Cargo.toml", "description = \"for actors\"\n# for actors\n"),
            (
                "runtime/src/b.rs",
                "// A queue\n// pair. QpState, a_queue_pair; queue: pair, equip\n",
            ),
            ("docs/c.md", "Each actor has no queue pair.\n"),
        ];
        let expected = [
            "runtime/src/b.rs:1: says \"queue pair\"",
            "runtime/src/b.rs:2: says \"qp\"",
            "runtime/src/b.rs:2: says \"queue pair\"",
            "transport/Cargo.toml:2: says \"actors\"",
            "transport/src/a.rs:2: says \"actor\"",
            "transport/src/a.rs:2: says \"actors\"",
        ];
        expect(words, &tree, &expected);
    }

    #[test]
    fn a_protocol_that_does_io_is_found() {
        let text = "//! No async, no unsafe.\nuse std::{io, fmt};\nfn f() { tokio::spawn(g()) }\n\
                    fn t(now: Instant) { Instant::now() }\nasync fn g() { unsafe { h() } }";
        let expected = [
            "transport/src/proto/a.rs:2: `std::io` in the protocol",
            "transport/src/proto/a.rs:3: `tokio` in the protocol",
            "transport/src/proto/a.rs:4: `Instant::now` in the protocol",
            "transport/src/proto/a.rs:5: `async` in the protocol",
            "transport/src/proto/a.rs:5: `unsafe` in the protocol",
        ];
        expect(borders, &[("transport/src/proto/a.rs", text), ("transport/b.rs", text)], &expected);
    }

    #[test]
    fn a_neighbour_too_far_is_found() {
        let text = "use ringpost_transport::{RemoteSender, id::NodeId};\nfn f() { rdma_sys::g() }";
        let tree = [
            ("transport/src/fabric/verbs/a.rs", "use rdma_sys::*;"),
            ("runtime/src/remote.rs", "use ringpost_transport::RemoteSender;"),
            ("runtime/src/node.rs", text),
        ];
        let expected = [
            "runtime/src/node.rs:1: `ringpost_transport`'s `RemoteSender` outside \
             `runtime/src/remote`",
            "runtime/src/node.rs:2: `rdma_sys` outside `transport/src/fabric/verbs`",
        ];
        expect(borders, &tree, &expected);
    }
}
