//! Every line that a node writes to its log is explained.
//!
//! A row of `docs/OPERATING.md` whose first cell is a level explains the line whose text is in its
//! second cell. The text of a line is the last argument of its macro, and a literal: what changes
//! from line to line is in its fields. It is written by a macro of `transport/src/log.rs`.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::markdown::{code_spans, rows};
use crate::tokens::{Token, group};
use crate::tree::{File, Tree};

const OPERATING: &str = "docs/OPERATING.md";
/// The levels whose lines are explained one by one; lines of `debug` are for developers.
const LEVELS: [&str; 3] = ["error", "warn", "info"];
/// The files that run code of users so that its panics end nothing.
const SHIELD: [&str; 2] = ["transport/src/shield.rs", "transport/src/log.rs"];
/// Where the lines are written that users see.
const CRATES: [&str; 2] = ["transport/src/", "runtime/src/"];

/// Reports lines that the document does not explain, and rows of lines that are not written.
pub(crate) fn logs(tree: &Tree) -> Vec<Finding> {
    let Some(document) = tree.file(OPERATING) else { return Vec::new() };
    let mut findings = Vec::new();
    let explained: BTreeSet<_> =
        explained(document).map(|(level, text, _)| (level, text)).collect();
    let mut written = BTreeSet::new();
    for (file, rust) in tree.parsed().filter(|(file, _)| is_logging(&file.path)) {
        for (level, line, text) in lines(&rust.tokens) {
            let mut push = |what| findings.push(Finding::new(&file.path, line, what));
            match text {
                None => push("the text of a log line is not the literal at its end".to_owned()),
                Some(text) if !explained.contains(&(level, text.as_str())) => {
                    push(format!("{OPERATING} has no row `{level}` for the line `{text}`"));
                }
                Some(text) => drop(written.insert((level, text))),
            }
        }
    }
    for (level, text, line) in self::explained(document) {
        if !written.contains(&(level, text.to_owned())) {
            let what = format!("no code writes the line `{text}` at the level `{level}`");
            findings.push(Finding::new(OPERATING, line, what));
        }
    }
    findings
}

/// Reports code of users that is run without the shield: macros of `tracing` and `metrics`, and
/// panics that are caught elsewhere.
pub(crate) fn shield(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = tree.parsed().filter(|(file, _)| is_logging(&file.path));
    for (file, rust) in files.filter(|(file, _)| !SHIELD.contains(&file.path.as_str())) {
        let tokens = &rust.tokens[..];
        let tests = tokens.windows(5).position(|at| at[0].text == "#" && at[4].text == "test");
        let mut at = 0;
        while at < tests.unwrap_or(tokens.len()) {
            let is = |texts: &[&str]| {
                tokens[at..].iter().zip(texts).filter(|(token, text)| token.text == **text).count()
                    == texts.len()
            };
            if is(&["shield", ":", ":", "run", "("]) {
                at += 4 + group(&tokens[at + 4..]).len();
                continue;
            }
            let is_macro = |of| is(&[of, ":", ":"]) && tokens[at + 4].text == "!";
            if is_macro("tracing") || is_macro("metrics") || is(&["catch_unwind"]) {
                let what = format!("`{}` runs code of users outside `shield`", tokens[at].text);
                findings.push(Finding::new(&file.path, tokens[at].line, what));
            }
            at += 1;
        }
    }
    findings
}

fn is_logging(path: &str) -> bool {
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    CRATES.iter().any(|of| path.starts_with(of)) && !is_test
}

/// The level, the text and the row of each line that the document explains.
fn explained(document: &File) -> impl Iterator<Item = (&str, &str, usize)> {
    rows(&document.text).filter_map(|row| {
        let level = LEVELS.into_iter().find(|level| row.cells[0] == *level)?;
        Some((level, code_spans(row.cells.get(1)?).next()?, row.line))
    })
}

/// The level, the line and the text of each macro that writes to the log; no text where its last
/// argument is none.
fn lines(tokens: &[Token]) -> impl Iterator<Item = (&'static str, usize, Option<String>)> {
    let head = ["log", ":", ":", "", "!"];
    tokens.windows(6).enumerate().filter_map(move |(at, window)| {
        let level = LEVELS.into_iter().find(|level| window[3].text == *level)?;
        let fits =
            |(token, expected): (&Token, &&str)| expected.is_empty() || token.text == **expected;
        let is_macro = window.iter().zip(&head).all(fits);
        is_macro.then(|| {
            let arguments = group(&tokens[at + 5..]);
            let last = arguments.iter().rev().find(|token| token.text != ",");
            let text = last.and_then(|token| syn::parse_str::<syn::LitStr>(&token.text).ok());
            let text = text.map(|text| text.value()).filter(|text| !text.contains('{'));
            (level, window[0].line, text)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    #[test]
    fn code_of_users_without_the_shield_is_found() {
        let code = "fn f() {\n    tracing::warn!(\"a fire\");\n    \
                    shield::run(|| metrics::counter!(\"a\").increment(1));\n    \
                    metrics::counter!(\"b\").increment(1);\n    \
                    drop(std::panic::catch_unwind(f));\n}\n\
                    #[cfg(test)]\nmod tests { fn g() { catch_unwind(f); } }\n";
        let tree = [("runtime/src/f.rs", code), ("transport/src/shield.rs", code)];
        let expected = [
            "runtime/src/f.rs:2: `tracing` runs code of users outside `shield`",
            "runtime/src/f.rs:4: `metrics` runs code of users outside `shield`",
            "runtime/src/f.rs:5: `catch_unwind` runs code of users outside `shield`",
        ];
        expect(shield, &tree, &expected);
    }

    #[test]
    fn a_line_that_is_not_explained_and_a_row_without_a_line_are_found() {
        let document = "| level | line | what |\n| warn | `a fire` | run |\n\
                        | info | `a fire` | run |\n| error | `a flood` | swim |\n";
        let code = "fn f() {\n    log::warn!(at = 1, \"a fire\");\n    \
                    log::error!(%why, \"a storm\",);\n    log::info!(\"{what}\");\n    \
                    log::debug!(\"a cloud\");\n}\n";
        let tests = "fn f() { log::warn!(\"a test\"); }";
        let tree = [
            (OPERATING, document),
            ("runtime/src/f.rs", code),
            ("runtime/src/f/tests.rs", tests),
            ("examples/f.rs", tests),
        ];
        let expected = [
            "docs/OPERATING.md:3: no code writes the line `a fire` at the level `info`",
            "docs/OPERATING.md:4: no code writes the line `a flood` at the level `error`",
            "runtime/src/f.rs:3: docs/OPERATING.md has no row `error` for the line `a storm`",
            "runtime/src/f.rs:4: the text of a log line is not the literal at its end",
        ];
        expect(logs, &tree, &expected);
    }
}
