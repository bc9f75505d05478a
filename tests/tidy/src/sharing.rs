//! Values that threads share without a lock are listed: the last table of docs/SAFETY.md.
//!
//! Each file of the transport and the runtime that names an atomic, an `ArcSwapOption`, an
//! `UnsafeCell` or the primitives of `transport/src/sync.rs` has a row with one of [`KINDS`] and a
//! reason, and a protocol has a model. Tests and models are left out.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::layers::below;
use crate::markdown::{code_spans, rows};
use crate::safety::{MAP, list_of_shared};
use crate::tree::{File, Tree};

/// The kinds of values. Only the first needs a model: in all others no order of events matters.
const KINDS: [&str; 6] = ["protocol", "mirror", "counter", "note", "primitives", "tests"];
const PLACES: [&str; 2] = ["transport/src", "runtime/src"];

/// Reports files that share values and are not listed, and rows that are not true.
pub(crate) fn sharing(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut listed = BTreeMap::new();
    let map = tree.file(MAP);
    for row in
        map.into_iter().flat_map(|map| rows(&map.text).filter(|r| r.line > list_of_shared(map)))
    {
        let [file, kind, why, models] = row.cells.as_slice() else { continue };
        let Some(path) = code_spans(file).next() else { continue };
        let mut push = |what| findings.push(Finding::new(MAP, row.line, what));
        if !tree.file(path).is_some_and(shares) {
            push(format!("`{path}` shares nothing without a lock any more"));
        }
        if !KINDS.contains(kind) {
            push(format!("the kind of `{path}` is none of {}", KINDS.join(", ")));
        }
        if why.is_empty() {
            push(format!("no reason why nothing is lost in `{path}`"));
        }
        let has = |name: &str| tree.parsed().any(|(_, rust)| rust.functions.contains(name));
        let mut models = code_spans(models).peekable();
        if *kind == KINDS[0] && models.peek().is_none() {
            push(format!("no model of `{path}`"));
        }
        for model in models.filter(|model| !model.starts_with("model_of_") || !has(model)) {
            push(format!("no model is called `{model}`"));
        }
        listed.insert(path, row.line);
    }
    let shared = tree.rust_files().filter(|file| shares(file) && !listed.contains_key(&*file.path));
    let unlisted = shared.map(|file| {
        let what = format!("it shares a value without a lock, and has no row in {MAP}");
        Finding::new(&file.path, 1, what)
    });
    findings.extend(unlisted);
    findings
}

/// Returns true if a file of the two crates shares values without a lock.
fn shares(file: &File) -> bool {
    let Some(rust) = &file.rust else { return false };
    let tests = ["/tests/", "/tests.rs", "/model.rs"].iter().any(|part| file.path.contains(part));
    let names = |text: &str| {
        (text.starts_with("Atomic") && text != "Atomic")
            || ["UnsafeCell", "ArcSwapOption"].contains(&text)
    };
    let shares = rust.tokens.iter().any(|token| names(&token.text));
    let ours = PLACES.iter().any(|place| below(&file.path, place));
    ours && !tests && (shares || file.text.contains("use crate::sync::"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    const HEADING: &str = "## What is shared without a lock";

    #[test]
    fn what_is_shared_and_listed_passes() {
        let map = format!(
            "{HEADING}\n| `transport/src/a.rs` | protocol | b | `model_of_a` |\n\
             | `runtime/src/b.rs` | counter | c | |\n"
        );
        let tree = [
            (MAP, &*map),
            ("transport/src/a.rs", "use crate::sync::Flag; fn model_of_a() {}"),
            ("transport/src/a/model.rs", "static A: AtomicU8 = x;"),
            ("runtime/src/b.rs", "static B: AtomicU8 = x;"),
            ("tests/src/c.rs", "static C: AtomicU8 = x;"),
        ];
        expect(sharing, &tree, &[]);
    }

    #[test]
    fn what_is_not_listed_or_not_true_is_found() {
        let map = format!(
            "| `transport/src/a.rs` | above the list | x | |\n{HEADING}\n\
             | `transport/src/b.rs` | lucky | | `checks_b` |\n\
             | `transport/src/c.rs` | protocol | d | |\n"
        );
        let tree = [
            (MAP, &*map),
            ("transport/src/a.rs", "static A: AtomicWaker = x;"),
            ("transport/src/b.rs", "// AtomicU8\nfn checks_b() {}"),
            ("transport/src/c.rs", "struct C(UnsafeCell<u8>);"),
        ];
        let expected = [
            "docs/SAFETY.md:3: `transport/src/b.rs` shares nothing without a lock any more",
            "docs/SAFETY.md:3: the kind of `transport/src/b.rs` is none of protocol, mirror, \
             counter, note, primitives, tests",
            "docs/SAFETY.md:3: no reason why nothing is lost in `transport/src/b.rs`",
            "docs/SAFETY.md:3: no model is called `checks_b`",
            "docs/SAFETY.md:4: no model of `transport/src/c.rs`",
            "transport/src/a.rs:1: it shares a value without a lock, and has no row in \
             docs/SAFETY.md",
        ];
        expect(sharing, &tree, &expected);
    }
}
