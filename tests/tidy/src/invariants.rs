//! An invariant that other code relies on has a tag, is stated once, and is cited there.
//!
//! A tag is two or three capital letters, a hyphen and a number. It is stated in bold, with the
//! name of the invariant, in the opening comment of a module, and cited anywhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// A tag and the line that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag<'a> {
    /// The letters and the hyphen.
    pub(crate) family: &'a str,
    pub(crate) number: u32,
    pub(crate) line: usize,
}

/// Reports invariants stated twice, cited but not stated, and stated but not cited.
pub(crate) fn invariants(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut places: BTreeMap<(&str, u32), (&File, usize)> = BTreeMap::new();
    for file in tree.rust_files() {
        for tag in stated(file) {
            let (family, number) = (tag.family, tag.number);
            if let Some((other, _)) = places.insert((family, number), (file, tag.line)) {
                let what = format!("{family}{number} is stated in {} too", other.path);
                findings.push(Finding::new(&file.path, tag.line, what));
            }
        }
    }
    let mut cited = BTreeSet::new();
    let readable = |file: &&File| file.path.ends_with(".rs") || file.path.ends_with(".md");
    for file in tree.files.iter().filter(readable) {
        for tag in file.lines().flat_map(|(line, text)| tags(text, line)) {
            let known = (tag.family, tag.number);
            if places
                .get(&known)
                .is_some_and(|(at, line)| at.path == file.path && *line == tag.line)
            {
                continue;
            }
            if file.path.ends_with(".rs") {
                cited.insert(known);
            }
            let family = places.keys().any(|(family, _)| *family == tag.family);
            if family && !places.contains_key(&known) {
                let what = format!("{}{} is stated nowhere", tag.family, tag.number);
                findings.push(Finding::new(&file.path, tag.line, what));
            }
        }
    }
    for (known, (file, line)) in places.iter().filter(|(known, _)| !cited.contains(*known)) {
        let what = format!("no code and no test cites {}{}", known.0, known.1);
        findings.push(Finding::new(&file.path, *line, what));
    }
    findings
}

/// The invariants that the opening comment of a file states.
pub(crate) fn stated(file: &File) -> impl Iterator<Item = Tag<'_>> {
    let opening = file.lines().take_while(|(_, text)| text.starts_with("//!"));
    opening.flat_map(|(line, text)| {
        text.split("**").skip(1).step_by(2).filter_map(move |bold| {
            tags(bold, line).next().filter(|tag| bold.starts_with(tag.family))
        })
    })
}

/// The tags in a line of text.
fn tags(text: &str, line: usize) -> impl Iterator<Item = Tag<'_>> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
    words.filter_map(move |word| {
        let (letters, number) = word.split_once('-')?;
        let named =
            (2..=3).contains(&letters.len()) && letters.bytes().all(|c| c.is_ascii_uppercase());
        let number = number.parse().ok().filter(|_| named)?;
        Some(Tag { family: &word[..=letters.len()], number, line })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    #[test]
    fn an_invariant_out_of_place_is_found() {
        let tree = [
            ("a.rs", "//! - **QQ-1 one**: UTF-8.\n//! - **QQ-2 two**: QQ-1.\n//! **QQ-30** x\n"),
            ("b.rs", "//! **QQ-1 again**.\nfn f() {} // QQ-3, see ZZ-3.\n"),
            ("docs/a.md", "By QQ-2 and QQ-4.\n"),
        ];
        let expected = [
            "a.rs:2: no code and no test cites QQ-2",
            "a.rs:3: no code and no test cites QQ-30",
            "b.rs:1: QQ-1 is stated in a.rs too",
            "b.rs:2: QQ-3 is stated nowhere",
            "docs/a.md:1: QQ-4 is stated nowhere",
        ];
        expect(invariants, &tree, &expected);
    }
}
