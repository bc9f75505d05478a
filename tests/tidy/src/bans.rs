//! No file has unfinished work, names without meaning, or places of one machine.

use crate::finding::Finding;
use crate::tokens::{attributes, lines_with};
use crate::tree::Tree;

const UNFINISHED_MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
/// (Written apart, since this file is looked at, too.)
const CONFLICT_MARKERS: [&str; 2] = [concat!("<<<<", "<<< "), concat!(">>>>", ">>> ")];
const UNFINISHED_WORDS: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
const EMPTY_NAMES: [&str; 9] =
    ["manager", "managers", "helper", "helpers", "util", "utils", "common", "misc", "inner"];
const PLACES: [&str; 2] = [concat!("/wo", "rk/"), concat!("/tmp/", "wt")];

/// Reports modules that do not parse, or do not open with their purpose.
pub(crate) fn openings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust_files() {
        if file.rust.is_none() {
            findings.push(Finding::new(&file.path, 1, "is not valid Rust"));
        }
        if !file.text.starts_with("//! ") {
            findings.push(Finding::new(&file.path, 1, "does not open with `//! `"));
        }
    }
    findings
}

/// Reports work that was left for later, tests that do not run, and merges in the middle.
pub(crate) fn unfinished(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let marked = |text: &str| CONFLICT_MARKERS.iter().any(|marker| text.starts_with(marker));
        for (line, _) in file.lines().filter(|(_, text)| marked(text)) {
            findings.push(Finding::new(&file.path, line, "a conflict of a merge"));
        }
    }
    for (file, rust) in tree.parsed() {
        let mut push = |line, what| findings.push(Finding::new(&file.path, line, what));
        for name in UNFINISHED_MACROS {
            lines_with(&rust.tokens, &[name, "!"])
                .for_each(|line| push(line, format!("`{name}!`")));
        }
        for attribute in attributes(&rust.tokens) {
            let ignored = attribute.first().filter(|token| token.text == "ignore");
            ignored.into_iter().for_each(|token| push(token.line, "a test is ignored".into()));
        }
        for (line, text) in file.lines() {
            let found = UNFINISHED_WORDS.iter().find(|word| has_word(text, word));
            found.into_iter().for_each(|word| push(line, format!("`{word}`")));
        }
    }
    findings
}

/// Reports lints that are allowed without a reason.
pub(crate) fn allowances(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.parsed() {
        for attribute in attributes(&rust.tokens) {
            for lint in ["allow", "expect"] {
                let given = attribute.iter().any(|token| token.text == "reason");
                for line in lines_with(attribute, &[lint, "("]).filter(|_| !given) {
                    let what = format!("`{lint}` without `reason = \"...\"`");
                    findings.push(Finding::new(&file.path, line, what));
                }
            }
        }
    }
    findings
}

/// Reports files, modules and types with a name that says nothing.
pub(crate) fn names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust_files() {
        let stem = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        if stem == "mod" {
            let what = "a module `x` is the file `x.rs`, not `x/mod.rs`";
            findings.push(Finding::new(&file.path, 1, what));
        }
        if let Some(word) = empty_word(stem) {
            findings.push(Finding::new(&file.path, 1, format!("a file called `{word}`")));
        }
    }
    for (file, rust) in tree.parsed() {
        for pair in rust.tokens.windows(2) {
            let defines = ["struct", "enum", "trait", "type", "union", "mod"];
            if !defines.contains(&pair[0].text.as_str()) {
                continue;
            }
            if let Some(word) = empty_word(&pair[1].text) {
                let what = format!("`{}`: \"{word}\" says nothing", pair[1].text);
                findings.push(Finding::new(&file.path, pair[1].line, what));
            }
        }
    }
    findings
}

/// Reports paths of the machine on which a file was written.
pub(crate) fn places(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (line, text) in file.lines() {
            let found = PLACES.iter().find(|place| text.contains(*place));
            let what = |place| format!("names the place {place}");
            findings.extend(found.map(|place| Finding::new(&file.path, line, what(place))));
        }
    }
    findings
}

/// Returns the part of a name that says nothing.
fn empty_word(name: &str) -> Option<&'static str> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        words.last_mut()?.extend(c.to_lowercase().filter(|c| *c != '_'));
    }
    EMPTY_NAMES.into_iter().find(|empty| words.iter().any(|word| word == empty))
}

/// Returns true if `word` stands in the text and is not a part of a longer word.
fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|other| other == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    #[test]
    fn a_module_that_does_not_say_what_it_is_for_is_found() {
        let tree = [
            ("a.rs", "//! For this.\n"),
            ("b.rs", "// For that.\n"),
            ("c.rs", "//! Broken.\nfn {"),
            ("tests/ui/d.rs", "fn {"),
        ];
        let expected = ["b.rs:1: does not open with `//! `", "c.rs:1: is not valid Rust"];
        expect(openings, &tree, &expected);
    }

    #[test]
    fn unfinished_work_is_found() {
        let text = format!(
            "// {}: later. \"todo!()\"\nfn f() {{ m!(todo!()); dbg!(1); unimplemented! {{}} }}\n\
             #[test] #[ignore = \"slow\"] fn t() {{}}",
            UNFINISHED_WORDS[0]
        );
        let word = format!("a.rs:1: `{}`", UNFINISHED_WORDS[0]);
        let expected = [
            &word,
            "a.rs:2: `dbg!`",
            "a.rs:2: `todo!`",
            "a.rs:2: `unimplemented!`",
            "a.rs:3: a test is ignored",
        ];
        expect(unfinished, &[("a.rs", &text)], &expected);
        let [ours, theirs] = CONFLICT_MARKERS;
        let text = format!("a\n{ours}HEAD\nb\n=======\nc\n{theirs}d\n");
        let expected = ["a.md:2: a conflict of a merge", "a.md:6: a conflict of a merge"];
        expect(unfinished, &[("a.md", &text)], &expected);
    }

    #[test]
    fn a_lint_allowed_without_a_reason_is_found() {
        let text = "#![allow(a, reason = \"b\")]\n#[allow(c)] fn f() { x.allow(1) }\n\
                    #[cfg_attr(test, expect(d))] fn g() {}";
        let expected = [
            "a.rs:2: `allow` without `reason = \"...\"`",
            "a.rs:3: `expect` without `reason = \"...\"`",
        ];
        expect(allowances, &[("a.rs", text)], &expected);
    }

    #[test]
    fn a_name_that_says_nothing_is_found() {
        let tree = [
            ("a/string_utils.rs", "struct LinkInner; enum Communication {}"),
            ("a/mod.rs", "fn common() {} mod misc {}"),
        ];
        let expected = [
            "a/mod.rs:1: `misc`: \"misc\" says nothing",
            "a/mod.rs:1: a module `x` is the file `x.rs`, not `x/mod.rs`",
            "a/string_utils.rs:1: `LinkInner`: \"inner\" says nothing",
            "a/string_utils.rs:1: a file called `utils`",
        ];
        expect(names, &tree, &expected);
    }

    #[test]
    fn a_place_of_one_machine_is_found() {
        let text = format!("cd {}main\n", PLACES[0]);
        let what = format!("docs/a.md:1: names the place {}", PLACES[0]);
        expect(places, &[("docs/a.md", &text)], &[&what]);
    }
}
