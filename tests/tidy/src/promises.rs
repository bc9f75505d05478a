//! Each promise is checked, and each check of a promise says so.
//!
//! A numbered row in `docs/SEMANTICS.md` is a promise and in `docs/RDMA.md` a pitfall: its last
//! cell names the functions that check it. A pitfall may say instead why there is none: `none: ..`.
//! A function that a promise names is a test (or a rule of a judge, `judge_..`, or a case that is a
//! test on each fabric, in [`CASES`]) and has the line [`TAG`] above it, as a warning to editors of
//! the test; and each function with the line is named.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::markdown::{Row, code_spans, rows};
use crate::tree::Tree;

pub(crate) const SEMANTICS: &str = "docs/SEMANTICS.md";
pub(crate) const PITFALLS: &str = "docs/RDMA.md";
/// The line above a function that checks a promise.
const TAG: &str = "// Promised in docs/SEMANTICS.md.";

/// Where each public function is a test on each fabric.
const CASES: &str = "runtime/tests/behaviour/";

/// Reports promises and pitfalls that no test checks, whose test is gone, or whose number is wrong.
pub(crate) fn promises(tree: &Tree) -> Vec<Finding> {
    let mut findings = checked_rows(tree, SEMANTICS, "promise", |_| false);
    findings.extend(checked_rows(tree, PITFALLS, "pitfall", |last| last.starts_with("none: ")));
    findings.extend(tags(tree));
    findings
}

/// Reports functions that check a promise and do not say so, or say so and check none.
fn tags(tree: &Tree) -> Vec<Finding> {
    let Some(document) = tree.file(SEMANTICS) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut tagged = BTreeMap::new();
    for file in tree.rust_files() {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for at in (0..lines.len()).filter(|at| lines[*at] == TAG) {
            let mut below = lines[at + 1..].iter();
            let attributes = below.by_ref().take_while(|line| !has_fn(line));
            let test = attributes.filter(|line| line.contains("test")).count() > 0;
            let name = lines[at + 1..].iter().find_map(|line| function(line)).unwrap_or_default();
            let case = file.path.starts_with(CASES);
            if !test && !case && !name.starts_with("judge_") {
                let what = format!("`{name}` is no test, and said to check a promise");
                findings.push(Finding::new(&file.path, at + 1, what));
            }
            tagged.insert(name, (&file.path, at + 1));
        }
    }
    let mut named = BTreeMap::new();
    for row in numbered(&document.text) {
        let tests = code_spans(row.cells.last().copied().unwrap_or_default());
        named.extend(tests.map(|test| (test, row.line)));
    }
    for (test, line) in named.iter().filter(|(test, _)| !tagged.contains_key(*test)) {
        findings.push(Finding::new(SEMANTICS, *line, format!("`{test}` lacks the line `{TAG}`")));
    }
    for (test, (path, line)) in tagged.iter().filter(|(test, _)| !named.contains_key(*test)) {
        findings.push(Finding::new(path, *line, format!("no promise names `{test}`")));
    }
    findings
}

/// Returns the rows of the tables of `text` that begin with a number.
pub(crate) fn numbered(text: &str) -> impl Iterator<Item = Row<'_>> {
    rows(text).filter(|row| row.cells[0].parse::<usize>().is_ok())
}

fn has_fn(line: &str) -> bool {
    function(line).is_some()
}

/// The name of the function whose definition begins on this line.
fn function(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let head = before.split_whitespace().all(|w| w.starts_with("pub") || w == "async");
    head.then(|| after.split(['(', '<']).next())?
}

/// Checks the numbered rows of a document, each of which tells of one `thing`; `excused` takes the
/// last cell of a row that names no test.
fn checked_rows(tree: &Tree, path: &str, thing: &str, excused: fn(&str) -> bool) -> Vec<Finding> {
    let Some(document) = tree.file(path) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut count = 0;
    for row in rows(&document.text) {
        let Ok(number) = row.cells[0].parse::<usize>() else { continue };
        let mut push = |what| findings.push(Finding::new(path, row.line, what));
        count += 1;
        if number != count {
            push(format!("{thing} {number} stands where {count} should"));
        }
        let last = row.cells.last().copied().unwrap_or_default();
        let mut tests = code_spans(last).peekable();
        if tests.peek().is_none() && !excused(last) {
            push(format!("no test of {thing} {number}"));
        }
        let has_test = |name: &str| tree.parsed().any(|(_, rust)| rust.functions.contains(name));
        for test in tests.filter(|test| !has_test(test)) {
            push(format!("no function is called `{test}`"));
        }
    }
    if count == 0 {
        findings.push(Finding::new(path, 1, format!("names no {thing}")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    #[test]
    fn a_promise_without_its_test_is_found() {
        let text = "| # | promise | tests |\n| 1 | `a` holds | `checks_a` |\n\
                    | 3 | b | `checks_b` `gone` |\n| 3 | c | none |\n| x | `y` |\n";
        let tests = format!("{TAG}\n#[test]\nfn checks_a() {{}}\n{TAG}\nfn checks_b() {{}}\n");
        let tree = [(SEMANTICS, text), ("x/tests/t.rs", &tests)];
        let expected = [
            "docs/SEMANTICS.md:3: `gone` lacks the line `// Promised in docs/SEMANTICS.md.`",
            "x/tests/t.rs:4: `checks_b` is no test, and said to check a promise",
            "docs/SEMANTICS.md:3: no function is called `gone`",
            "docs/SEMANTICS.md:3: promise 3 stands where 2 should",
            "docs/SEMANTICS.md:4: no test of promise 3",
        ];
        expect(promises, &tree, &expected);
        expect(promises, &[(SEMANTICS, "")], &["docs/SEMANTICS.md:1: names no promise"]);
    }

    #[test]
    fn a_pitfall_without_its_test_says_why() {
        let text = "| 1 | a | `checks_a` |\n| 2 | b | none: there is no b |\n| 3 | c | none |\n";
        let tree = [(PITFALLS, text), ("x/tests/t.rs", "fn checks_a() {}")];
        expect(promises, &tree, &["docs/RDMA.md:3: no test of pitfall 3"]);
    }

    #[test]
    fn a_test_and_its_promise_know_of_each_other() {
        let text = "| 1 | a | `checks_a` `judge_b` |\n";
        let tests = format!("#[test]\nfn checks_a() {{}}\n{TAG}\npub(crate) fn judge_b() {{}}\n");
        let more = format!("{TAG}\n#[tokio::test]\nasync fn checks_c() {{}}\n");
        let cases = format!("{TAG}\npub async fn checks_d(world: &World) {{}}\n");
        let cases_in = format!("{CASES}v.rs");
        let tree = [
            (SEMANTICS, text),
            ("x/tests/t.rs", &tests),
            ("x/tests/u.rs", &more),
            (&cases_in, &cases),
        ];
        let expected = [
            "docs/SEMANTICS.md:1: `checks_a` lacks the line `// Promised in docs/SEMANTICS.md.`",
            "runtime/tests/behaviour/v.rs:1: no promise names `checks_d`",
            "x/tests/u.rs:1: no promise names `checks_c`",
        ];
        expect(promises, &tree, &expected);
    }
}
