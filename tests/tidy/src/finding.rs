//! The report of a check, and the rule that it belongs to.

use std::fmt;

use crate::tree::Tree;

/// A rule of the house and the check that holds the tree to it.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// Why the rule exists; printed above its findings.
    pub(crate) why: &'static str,
    pub(crate) check: fn(&Tree) -> Vec<Finding>,
}

/// One place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Finding { path: path.into(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Fails unless `check` reports exactly these lines of text, in any order.
#[cfg(test)]
#[track_caller]
pub(crate) fn expect(check: fn(&Tree) -> Vec<Finding>, tree: &[(&str, &str)], expected: &[&str]) {
    let mut found: Vec<String> = check(&Tree::of(tree)).iter().map(Finding::to_string).collect();
    found.sort();
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(found, expected);
}
