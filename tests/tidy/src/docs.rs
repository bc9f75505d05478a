//! The documents name files and functions that exist.
//!
//! In every `README.md`, at the root and in `docs/*.md` each word between backticks that starts
//! with a folder of the workspace, or that ends in `.rs`, is a path; `a/{b,c}.rs` is two. (The
//! change log may name files that are gone.) Each link within the tree leads to a file, and with an
//! anchor to a heading of the file. A row of a table in `docs/ARCHITECTURE.md` that names Rust
//! files and, as `Mailbox::push` or `push()`, functions is a step of a walk: each of its functions
//! is defined in one of its files.

use crate::finding::Finding;
use crate::markdown::{Row, anchors, code_spans, link_targets, prose, rows};
use crate::promises::{PITFALLS, SEMANTICS};
use crate::tree::{File, Tree};

const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
const CHANGES: &str = "CHANGELOG.md";
/// Files that a reader expects to find.
const REQUIRED: [&str; 13] = [
    "README.md",
    CHANGES,
    "CONTRIBUTING.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    ARCHITECTURE,
    SEMANTICS,
    PITFALLS,
    "docs/GUIDE.md",
    "docs/COMING_FROM.md",
    "docs/WIRE.md",
    "docs/SAFETY.md",
    "tests/run",
];
/// A path in a document starts with one of these, or ends in `.rs`.
const FOLDERS: [&str; 10] = [
    "runtime",
    "transport",
    "macros",
    "ranks",
    "cli",
    "examples",
    "tests",
    "docs",
    "benches",
    ".ci",
];

/// Reports documents that are missing, and paths in them that name nothing.
pub(crate) fn files(tree: &Tree) -> Vec<Finding> {
    let missing = REQUIRED.iter().filter(|path| !tree.has(path));
    let mut findings: Vec<Finding> =
        missing.map(|path| Finding::new(path, 1, "does not exist")).collect();
    for file in documents(tree) {
        for (line, text) in prose(&file.text) {
            let paths = code_spans(text).flat_map(str::split_whitespace).flat_map(paths_of);
            let gone = |path: &String| file.path != CHANGES && !names_a_file(tree, path);
            for path in paths.filter(gone) {
                let what = format!("`{path}` does not exist");
                findings.push(Finding::new(&file.path, line, what));
            }
            let wrong = link_targets(text).filter_map(|target| wrong_link(tree, file, target));
            findings.extend(wrong.map(|what| Finding::new(&file.path, line, what)));
        }
    }
    findings
}

/// Returns the fault of the link `target` of a file, if it leads into the tree and has one.
fn wrong_link(tree: &Tree, file: &File, target: &str) -> Option<String> {
    if target.is_empty() || target.contains("://") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { file.path.clone() } else { joined(&file.path, path) };
    if !tree.has(&path) {
        return Some(format!("the link to {target} leads nowhere"));
    }
    let has_heading = |file: &File| anchors(&file.text).iter().any(|heading| heading == anchor);
    let found = anchor.is_empty() || tree.file(&path).is_some_and(has_heading);
    (!found).then(|| format!("the link to {target} leads to no heading"))
}

/// Reports steps of the walk in the architecture document that name a function no longer there.
pub(crate) fn walk(tree: &Tree) -> Vec<Finding> {
    let Some(document) = tree.file(ARCHITECTURE) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut steps = 0;
    for row in rows(&document.text) {
        let files = files_of(tree, &row);
        let functions: Vec<&str> = row.cells.iter().flat_map(|c| code_spans(c)).collect();
        let functions = functions.into_iter().filter_map(function_of);
        for (owner, name) in functions.filter(|_| !files.is_empty()) {
            let owned_by = owner.rsplit("::").nth(1).unwrap_or_default();
            steps += 1;
            let defined = files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)));
            let mut defined = defined.filter(|(_, rust)| rust.functions.contains(name));
            if !defined.any(|(file, _)| file.text.contains(owned_by)) {
                let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
                let what = format!("no function `{owner}{name}` in {}", names.join(", "));
                findings.push(Finding::new(ARCHITECTURE, row.line, what));
            }
        }
    }
    if steps == 0 {
        findings.push(Finding::new(ARCHITECTURE, 1, "no table walks through the code"));
    }
    findings
}

/// Returns the documents that readers of the project are led to.
pub(crate) fn documents(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_ours = folder.is_empty() || folder == "docs";
        file.path.ends_with("README.md") || (is_ours && file.path.ends_with(".md"))
    })
}

/// The paths that a word stands for; none when it is not a path.
fn paths_of(word: &str) -> Vec<String> {
    let word = word.trim_start_matches("./").trim_end_matches([',', ';', ':', '.']);
    let in_folder = word.split_once('/').is_some_and(|(folder, _)| FOLDERS.contains(&folder));
    let placeholder = word.contains(['*', '<', '$']) || word.contains("...");
    if placeholder || !(in_folder || word.ends_with(".rs")) {
        return Vec::new();
    }
    let Some((before, rest)) = word.split_once('{') else { return vec![word.into()] };
    let Some((choices, after)) = rest.split_once('}') else { return vec![word.into()] };
    choices.split(',').map(|choice| format!("{before}{}{after}", choice.trim())).collect()
}

/// Returns true if the path is of a file, a folder or a module, or ends a Rust file's path.
fn names_a_file(tree: &Tree, path: &str) -> bool {
    let end = format!("/{path}");
    tree.has(path)
        || tree.has(&format!("{path}.rs"))
        || (path.ends_with(".rs") && tree.files.iter().any(|f| f.path.ends_with(&end)))
}

/// The Rust files that a row names.
fn files_of<'a>(tree: &'a Tree, row: &Row) -> Vec<&'a File> {
    let spans = row.cells.iter().flat_map(|cell| code_spans(cell));
    let paths: Vec<String> =
        spans.flat_map(paths_of).filter(|path| path.ends_with(".rs")).collect();
    let named = |file: &&File| {
        paths.iter().any(|path| file.path == *path || file.path.ends_with(&format!("/{path}")))
    };
    tree.files.iter().filter(named).collect()
}

/// Owner (with its `::`, or empty) and name of a function that is spelled `Owner::name`,
/// `Owner::name(...)` or `name(...)`.
fn function_of(span: &str) -> Option<(&str, &str)> {
    let (path, called) = match span.split_once('(') {
        Some((path, _)) => (path, true),
        None => (span, false),
    };
    let start = path.rfind("::").map_or(0, |at| at + 2);
    let (owner, name) = path.split_at(start);
    let is_name = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':');
    let snake = name.starts_with(|c: char| c.is_lowercase() || c == '_');
    let function = snake && is_name(path) && (called || !owner.is_empty());
    function.then_some((owner, name))
}

/// The link `target` as seen from the root.
fn joined(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    fn required() -> Vec<(&'static str, &'static str)> {
        REQUIRED.map(|path| (path, "")).to_vec()
    }

    #[test]
    fn a_path_that_names_nothing_is_found() {
        let mut tree = required();
        tree.retain(|(path, _)| !["README.md", "LICENSE-MIT", "docs/WIRE.md"].contains(path));
        let readme = "`tests/run --quick`, `runtime/src/{a,b}.rs`, `beta/teller`, `src/a.rs`\n\
                      `c.rs`\n\
                      [x](docs/WIRE.md#frames) [y](docs/no.md) [z](https://a.b) `runtime/src/`\n";
        let wire = ("docs/WIRE.md", "# Frames\n");
        tree.extend([("README.md", readme), ("runtime/src/a.rs", ""), wire]);
        let expected = [
            "LICENSE-MIT:1: does not exist",
            "README.md:1: `runtime/src/b.rs` does not exist",
            "README.md:2: `c.rs` does not exist",
            "README.md:3: the link to docs/no.md leads nowhere",
        ];
        expect(files, &tree, &expected);
    }

    #[test]
    fn a_link_to_no_heading_is_found() {
        let mut tree = required();
        tree.retain(|(path, _)| *path != "README.md" && *path != "docs/GUIDE.md");
        let readme = "# First\n[a](#first) [b](#second) [c](docs/GUIDE.md#an-actor)\n\
                      [d](docs/GUIDE.md#another) [e](docs/GUIDE.md) [f](https://a.b#c)\n\
                      [g](docs#h)\n";
        let guide = "# Guide\n## An `actor`\n[i](../README.md#first)\n[j](../README.md#First)\n";
        tree.extend([("README.md", readme), ("docs/GUIDE.md", guide)]);
        let expected = [
            "README.md:2: the link to #second leads to no heading",
            "README.md:4: the link to docs#h leads to no heading",
            "README.md:3: the link to docs/GUIDE.md#another leads to no heading",
            "docs/GUIDE.md:4: the link to ../README.md#First leads to no heading",
        ];
        expect(files, &tree, &expected);
    }

    #[test]
    fn the_change_log_may_name_what_is_gone_but_not_link_to_it() {
        let mut tree = required();
        tree.retain(|(path, _)| *path != CHANGES && *path != "SECURITY.md");
        let changes = "`docs/a.md`\n[b](docs/b.md)\n";
        tree.extend([(CHANGES, changes), ("SECURITY.md", "`docs/c.md`\n")]);
        let expected = [
            "CHANGELOG.md:2: the link to docs/b.md leads nowhere",
            "SECURITY.md:1: `docs/c.md` does not exist",
        ];
        expect(files, &tree, &expected);
    }

    #[test]
    fn a_step_of_the_walk_that_is_gone_is_found() {
        let walk = "| 1 | `runtime/src/a.rs` | `A::push` then `pop()` | in `u8` |\n\
                    | 2 | `runtime/src/a.rs`, `b.rs` | `B::take(now)` `B::gone` | `A::Variant` |\n\
                    | 3 | no file | `C::other` | |\n";
        let tree = [
            (ARCHITECTURE, walk),
            ("runtime/src/a.rs", "impl A { fn push() {} fn gone() {} } // fn pop()"),
            ("runtime/src/b.rs", "impl B { fn take() {} }"),
        ];
        let expected = [
            "docs/ARCHITECTURE.md:1: no function `pop` in runtime/src/a.rs",
            "docs/ARCHITECTURE.md:2: no function `B::gone` in runtime/src/a.rs, runtime/src/b.rs",
        ];
        expect(super::walk, &tree, &expected);
        let empty = [(ARCHITECTURE, "")];
        expect(super::walk, &empty, &["docs/ARCHITECTURE.md:1: no table walks through the code"]);
    }
}
