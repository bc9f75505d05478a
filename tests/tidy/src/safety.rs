//! Unsafe code stands where it may, gives its reason, and docs/SAFETY.md is its map.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::invariants::{Tag, stated};
use crate::layers::below;
use crate::markdown::{Row, code_spans, rows};
use crate::tokens::lines_with;
use crate::tree::{File, Tree};

pub(crate) const MAP: &str = "docs/SAFETY.md";
/// The modules that may hold unsafe code.
const PLACES: [&str; 10] = [
    "capi/src/entry",
    "capi/src/rdma/entries",
    "capi/src/rp",
    "transport/src/fabric/verbs",
    "transport/src/fabric/shm",
    "transport/src/memory",
    "runtime/src/mailbox",
    "runtime/src/actor/cell/turn",
    "runtime/src/actor/life/resting",
    "runtime/src/actor/life/running",
];

/// Reports where the map and the code differ, row by row: file, invariants, tests.
pub(crate) fn map(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mapped = mapped(tree, &mut findings);
    for (file, rust) in tree.parsed() {
        let Some(line) = lines_with(&rust.tokens, &["unsafe"]).next() else { continue };
        if !PLACES.iter().any(|place| below(&file.path, place)) {
            let what = format!("unsafe code outside {}", PLACES.join(", "));
            findings.push(Finding::new(&file.path, line, what));
        }
        if !mapped.contains_key(file.path.as_str()) {
            let what = format!("unsafe code in a file without a row in {MAP}");
            findings.push(Finding::new(&file.path, line, what));
        }
    }
    findings
}

/// Reports unsafe blocks and impls without a comment that says why they are sound.
pub(crate) fn reasons(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.parsed() {
        let uses = rust.tokens.windows(2).filter(|pair| {
            pair[0].text == "unsafe" && ["{", "impl"].contains(&pair[1].text.as_str())
        });
        for pair in uses.filter(|pair| !has_reason(file, pair[0].line)) {
            let what = format!("`unsafe {}` without a SAFETY comment above it", pair[1].text);
            findings.push(Finding::new(&file.path, pair[0].line, what));
        }
    }
    findings
}

/// Returns true if a SAFETY comment stands above `line`, inside its statement or item.
fn has_reason(file: &File, line: usize) -> bool {
    let lines: Vec<&str> = file.text.lines().collect();
    let above = lines[..line - 1].iter().rev().map(|line| line.trim());
    let ends_another = |line: &&str| !line.starts_with("//") && line.ends_with([';', '{', '}']);
    let own = above.take_while(|line| !line.is_empty() && !ends_another(line));
    own.into_iter().any(|line| line.starts_with("//") && line.contains("SAFETY:"))
}

/// Returns the line where the list of values shared without a lock begins, which ends the map.
pub(crate) fn list_of_shared(map: &File) -> usize {
    let heading = map.lines().find(|(_, line)| *line == "## What is shared without a lock");
    heading.map_or(usize::MAX, |(line, _)| line)
}

/// Returns the rows of the map by file; their faults go to `findings`.
fn mapped<'a>(tree: &'a Tree, findings: &mut Vec<Finding>) -> BTreeMap<&'a str, Row<'a>> {
    let mut mapped = BTreeMap::new();
    let map = tree.file(MAP).into_iter();
    let rows = map.flat_map(|map| rows(&map.text).filter(|row| row.line < list_of_shared(map)));
    for row in rows {
        let Some(path) = code_spans(row.cells[0]).find(|span| span.ends_with(".rs")) else {
            continue;
        };
        let mut push = |what| findings.push(Finding::new(MAP, row.line, what));
        let tokens = |path| Some(&tree.file(path)?.rust.as_ref()?.tokens);
        match tokens(path) {
            None => push(format!("`{path}` does not exist")),
            Some(tokens) if lines_with(tokens, &["unsafe"]).next().is_none() => {
                push(format!("`{path}` holds no unsafe code any more"));
            }
            Some(_) => row_is_true(tree, path, &row, push),
        }
        mapped.insert(path, row);
    }
    mapped
}

fn row_is_true(tree: &Tree, path: &str, row: &Row, mut push: impl FnMut(String)) {
    let [_, why, tags, tests] = row.cells.as_slice() else {
        return push("a row has four cells: file, why, invariants, tests".into());
    };
    if why.is_empty() {
        push(format!("no reason why `{path}` needs unsafe code"));
    }
    let mut tags = tags.split([',', ' ']).filter(|tag| !tag.is_empty()).peekable();
    if tags.peek().is_none() {
        push(format!("no invariant that makes `{path}` sound"));
    }
    for tag in tags {
        let named = |stated: Tag| format!("{}{}", stated.family, stated.number) == *tag;
        if !tree.rust_files().flat_map(stated).any(named) {
            push(format!("no module's `//!` states the invariant {tag}"));
        }
        if !tree.file(path).is_some_and(|file| file.text.contains(tag)) {
            push(format!("`{path}` does not cite {tag}"));
        }
    }
    let mut tests = code_spans(tests).peekable();
    if tests.peek().is_none() {
        push(format!("no test of `{path}`"));
    }
    let has_test = |name: &str| tree.parsed().any(|(_, rust)| rust.functions.contains(name));
    for test in tests.filter(|test| !has_test(test)) {
        push(format!("no function is called `{test}`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    const REGION: &str = "//! **ME-1 one owner**: only.\n// SAFETY: ME-1.\n\
                          unsafe impl Send for R {}\n#[test] fn owned_once() {}\n";

    #[test]
    fn a_map_that_tells_the_truth_passes() {
        let map = "| file | why | invariant | test |\n|---|---|---|---|\n\
                   | `transport/src/memory/r.rs` | raw | ME-1 | `owned_once` |\n";
        expect(super::map, &[("transport/src/memory/r.rs", REGION), (MAP, map)], &[]);
    }

    #[test]
    fn a_map_that_does_not_is_found() {
        let map = "| `transport/src/memory/r.rs` | | ME-2 | `owned_twice` |\n\
                   | `runtime/src/mailbox.rs` | raw | ME-1 | `owned_once` |\n\
                   | `runtime/src/gone.rs` | raw | ME-1 | `owned_once` |\n";
        let tree = [
            ("transport/src/memory/r.rs", REGION),
            ("runtime/src/mailbox.rs", "fn f() {}"),
            ("runtime/src/node.rs", "// unsafe?\nfn f() { m!(unsafe { g() }) }"),
            (MAP, map),
        ];
        let expected = [
            "docs/SAFETY.md:1: `transport/src/memory/r.rs` does not cite ME-2",
            "docs/SAFETY.md:1: no function is called `owned_twice`",
            "docs/SAFETY.md:1: no module's `//!` states the invariant ME-2",
            "docs/SAFETY.md:1: no reason why `transport/src/memory/r.rs` needs unsafe code",
            "docs/SAFETY.md:2: `runtime/src/mailbox.rs` holds no unsafe code any more",
            "docs/SAFETY.md:3: `runtime/src/gone.rs` does not exist",
            "runtime/src/node.rs:2: unsafe code in a file without a row in docs/SAFETY.md",
            "runtime/src/node.rs:2: unsafe code outside capi/src/entry, capi/src/rdma/entries, \
             capi/src/rp, transport/src/fabric/verbs, transport/src/fabric/shm, \
             transport/src/memory, runtime/src/mailbox, \
             runtime/src/actor/cell/turn, runtime/src/actor/life/resting, \
             runtime/src/actor/life/running",
        ];
        expect(super::map, &tree, &expected);
    }

    #[test]
    fn unsafe_code_without_its_reason_is_found() {
        let text = "// SAFETY: one.\nunsafe impl Send for R {}\nunsafe impl Sync for R {}\n\
                    fn f() {\n    // SAFETY: two.\n    let x =\n        unsafe { g() };\n    \
                    unsafe { h() }\n}\n";
        let expected = [
            "a.rs:3: `unsafe impl` without a SAFETY comment above it",
            "a.rs:8: `unsafe {` without a SAFETY comment above it",
        ];
        expect(reasons, &[("a.rs", text)], &expected);
    }
}
