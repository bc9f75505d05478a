//! Budgets: numbers of the tree that may only shrink, held against [`BUDGET`].
//!
//! `tidy` prints them beside the numbers, and `tidy --tighten` lowers those above their number.
//! Only a person raises one, in the change that needs it.

use std::cmp::Reverse;

use crate::counts::{Counts, Parts};
use crate::finding::Finding;
use crate::manifests::{Entry, entries};
use crate::tree::Tree;

pub(crate) const BUDGET: &str = "tests/tidy/budget.toml";
/// How many files a finding names.
const NAMED_MAX: usize = 3;

/// Reports numbers over their budgets, numbers without one, and budgets of nothing.
pub(crate) fn budgets(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(BUDGET) else { return Vec::new() };
    let counts = Counts::of(tree);
    let mut findings = Vec::new();
    let budgets = entries(file);
    for entry in &budgets {
        let what = match (count_of(&counts, entry), entry.value.parse::<usize>()) {
            (_, Err(_)) => format!("`{}` is not a number", entry.value),
            (None, _) => format!("nothing counts {}.{}", entry.section, entry.key),
            (Some(parts), Ok(budget)) if total(parts) > budget => over(entry, parts),
            _ => continue,
        };
        findings.push(Finding::new(BUDGET, entry.line, what));
    }
    for (section, key) in counts.0.keys() {
        if !budgets.iter().any(|entry| entry.section == *section && entry.key == *key) {
            findings.push(Finding::new(BUDGET, 1, format!("no budget of {section}.{key}")));
        }
    }
    findings
}

/// Returns the numbers beside their budgets, one a line.
pub(crate) fn table(tree: &Tree) -> String {
    let counts = Counts::of(tree);
    let mut text = format!("\nnumbers, and what they may be at most ({BUDGET}):\n");
    for entry in tree.file(BUDGET).iter().flat_map(|file| entries(file)) {
        let number = count_of(&counts, &entry).map_or("-".into(), |parts| total(parts).to_string());
        let name = format!("{}.{}", entry.section, entry.key);
        text += &format!("  {name:36} {number:>7} {:>7}\n", entry.value);
    }
    text
}

/// Returns the text of [`BUDGET`] with each budget lowered to its number; none is raised.
pub(crate) fn tightened(tree: &Tree) -> Option<String> {
    let file = tree.file(BUDGET)?;
    let counts = Counts::of(tree);
    let mut lines: Vec<String> = file.text.lines().map(str::to_owned).collect();
    for entry in entries(file) {
        let (Some(parts), Ok(budget)) = (count_of(&counts, &entry), entry.value.parse()) else {
            continue;
        };
        if total(parts) < budget {
            lines[entry.line - 1] = format!("{} = {}", entry.key, total(parts));
        }
    }
    Some(lines.join("\n") + "\n")
}

/// Returns the number that an entry is the budget of.
fn count_of<'c, 'a>(counts: &'c Counts<'a>, entry: &Entry<'_>) -> Option<&'c Parts<'a>> {
    let named = |(section, key): &(&str, &str)| *section == entry.section && *key == entry.key;
    counts.0.iter().find(|(name, _)| named(name)).map(|(_, parts)| parts)
}

fn total(parts: &Parts<'_>) -> usize {
    parts.values().sum()
}

/// Returns by how much a number is too large, and the files that add most to it.
fn over(entry: &Entry<'_>, parts: &Parts<'_>) -> String {
    let mut largest: Vec<_> = parts.iter().filter(|(_, count)| **count > 0).collect();
    largest.sort_by_key(|(path, count)| (Reverse(**count), **path));
    let named: Vec<String> =
        largest.iter().take(NAMED_MAX).map(|(path, count)| format!("{path} ({count})")).collect();
    let (section, key, budget) = (entry.section, entry.key, entry.value);
    let number = total(parts);
    format!("{section}.{key} is {number}, over {budget}; most of it: {}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    const README: &str = "README.md";

    #[test]
    fn a_number_over_its_budget_is_found_with_the_largest_files() {
        let budget = "# Most.\n[words]\nreadme = 4\nall_documents = 9\n\
                      [hard_lines]\nreadme_changelog_security = 0\ndocs = 0\n";
        let tree = [
            (BUDGET, budget),
            (README, "one two three four\n"),
            ("docs/A.md", "five six\n"),
            ("docs/B.md", "what is it\n"),
            ("docs/C.md", ""),
        ];
        let expected =
            ["tests/tidy/budget.toml:7: hard_lines.docs is 1, over 0; most of it: docs/B.md (1)"];
        expect(budgets, &tree, &expected);
        let mut longer = tree;
        longer[4].1 = "eight";
        let expected = [
            expected[0],
            "tests/tidy/budget.toml:4: words.all_documents is 10, over 9; most of it: \
             README.md (4), docs/B.md (3), docs/A.md (2)",
        ];
        expect(budgets, &longer, &expected);
    }

    #[test]
    fn each_kind_of_number_is_held_to_its_budget() {
        let budget = "[code_lines]\nruntime = 1\n[public_names]\nroot = 0\nprelude = 0\n\
                      [rules]\npromises = 0\ninvariants = 0\n[hard_lines]\nruntime = 0\n\
                      [words]\nall_documents = 4\n";
        let lib = "//! **QQ-1 what is** it.\npub mod prelude {\n    pub use a::b;\n}\n";
        let tree = Tree::of(&[
            (BUDGET, budget),
            ("runtime/src/lib.rs", lib),
            ("docs/SEMANTICS.md", "| 1 | a |\n"),
        ]);
        let found: Vec<String> = budgets(&tree).iter().map(|each| each.what.clone()).collect();
        let over = |what: &str| found.iter().any(|each| each.starts_with(what));
        assert!(over("code_lines.runtime is 3, over 1"), "{found:?}");
        assert!(over("public_names.root is 1, over 0"), "{found:?}");
        assert!(over("public_names.prelude is 1, over 0"), "{found:?}");
        assert!(over("rules.promises is 1, over 0"), "{found:?}");
        assert!(over("rules.invariants is 1, over 0"), "{found:?}");
        assert!(over("hard_lines.runtime is 1, over 0"), "{found:?}");
        assert!(over("words.all_documents is 5, over 4"), "{found:?}");
    }

    #[test]
    fn a_budget_and_its_number_need_each_other() {
        let budget =
            "[words]\nreadme = some\npages = 7\n[hard_lines]\nreadme_changelog_security = 0\n";
        let expected = [
            "tests/tidy/budget.toml:1: no budget of words.all_documents",
            "tests/tidy/budget.toml:2: `some` is not a number",
            "tests/tidy/budget.toml:3: nothing counts words.pages",
        ];
        expect(budgets, &[(BUDGET, budget), (README, "")], &expected);
    }

    #[test]
    fn tightening_lowers_budgets_and_raises_none() {
        let budget = "# Most.\n[words]\nreadme = 1\n\nall_documents = 1_000\n";
        let tree = Tree::of(&[(BUDGET, budget), (README, "one two\n")]);
        let expected = "# Most.\n[words]\nreadme = 1\n\nall_documents = 2\n";
        assert_eq!(tightened(&tree).unwrap(), expected.replace("= 2", "= 1_000"));
        let tree = Tree::of(&[(BUDGET, &budget.replace("1_000", "1000")), (README, "one two\n")]);
        assert_eq!(tightened(&tree).unwrap(), expected);
        let table = table(&tree);
        let row = table.lines().find(|row| row.contains("words.readme")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["words.readme", "2", "1"]);
    }
}
