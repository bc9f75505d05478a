//! Every crate of the workspace states its licence, takes the workspace's lints, and depends only
//! on crates that it may use. A published crate describes itself and lists its files.

use std::path::Path;
use std::process::Command;

use crate::finding::Finding;
use crate::tree::{File, Tree};

const LOCK: &str = "Cargo.lock";
/// Parts of the names of licences under which nothing here can be used; a dependency that offers
/// another one beside it is fine.
const LICENCES_REFUSED: [&str; 3] = ["GPL", "SSPL", "BUSL"];

/// The keys that a published crate has to state.
const PUBLISHED: [&str; 5] = ["description", "readme", "keywords", "categories", "include"];

/// Reports what a member's manifest is missing, and dependencies that point the wrong way.
pub(crate) fn members(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let mut push = |line, what: String| findings.push(Finding::new(&file.path, line, what));
        let entries = entries(file);
        let has = |section, key, value| {
            entries.iter().any(|e| e.section == section && e.key == key && e.value == value)
        };
        if !has("lints", "workspace", "true") {
            push(1, "does not take the workspace's `[lints]`".into());
        }
        for key in ["license.workspace", "edition.workspace", "rust-version.workspace"] {
            if !has("package", key, "true") {
                push(1, format!("does not take the workspace's `{key} = true`"));
            }
        }
        let says = |key: &str| entries.iter().any(|e| e.section == "package" && e.key == key);
        let published = !has("package", "publish", "false");
        for key in PUBLISHED.into_iter().filter(|key| published && !says(key)) {
            push(1, format!("is published, and has no `{key}`"));
        }
        let lower: &[&str] = match file.path.split('/').next() {
            Some("transport" | "macros") => &["ringpost", "ringpost-transport", "ringpost-macros"],
            Some("runtime") => &["ringpost-tests", "ringpost-examples"],
            _ => &[],
        };
        for entry in entries.iter().filter(|entry| entry.section.ends_with("dependencies")) {
            let name = entry.key.split('.').next().unwrap_or_default();
            if lower.contains(&name) {
                push(entry.line, format!("depends on `{name}`, which lies above it"));
            }
        }
    }
    findings
}

/// Reports a lock file that is missing, stale or not committed.
pub(crate) fn lock_file(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !tree.has(LOCK) {
        findings.push(Finding::new(LOCK, 1, "does not exist"));
    }
    let ignored = tree.file(".gitignore").into_iter().flat_map(File::lines);
    for (line, text) in ignored.filter(|(_, text)| text.trim_matches('/') == LOCK) {
        findings.push(Finding::new(".gitignore", line, format!("keeps out {text}")));
    }
    findings
}

/// Reports dependencies whose licence does not allow what ours does. Asks cargo, without network.
pub(crate) fn licences(root: &Path) -> Vec<Finding> {
    let arguments = ["tree", "--workspace", "--locked", "--offline", "--prefix=none"];
    let format = ["--edges=normal,build,dev", "--format={p}\t{l}"];
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo).args(arguments).args(format).current_dir(root).output();
    match output {
        Ok(output) if output.status.success() => {
            licences_in(&String::from_utf8_lossy(&output.stdout))
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let what = format!("cargo cannot list the dependencies: {}", said.trim());
            vec![Finding::new(LOCK, 1, what)]
        }
        Err(error) => vec![Finding::new(LOCK, 1, format!("cargo cannot be started: {error}"))],
    }
}

/// Reads lines of package, tab, licence expression.
fn licences_in(list: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for line in list.lines().filter(|line| !line.trim().is_empty()) {
        let (package, licence) = line.split_once('\t').unwrap_or((line, ""));
        let licence = licence.trim_end_matches(" (*)").trim();
        let refused = |choice: &str| LICENCES_REFUSED.iter().any(|name| choice.contains(name));
        let mut choices = licence.split(" OR ").flat_map(|choice| choice.split('/'));
        if licence.is_empty() {
            findings.push(Finding::new(LOCK, 1, format!("{package} states no licence")));
        } else if choices.all(refused) {
            findings.push(Finding::new(LOCK, 1, format!("{package} is licensed {licence}")));
        }
    }
    findings.sort();
    findings.dedup();
    findings
}

/// One `key = value` of a manifest.
pub(crate) struct Entry<'a> {
    pub(crate) section: &'a str,
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
    pub(crate) line: usize,
}

/// The entries of a manifest, as far as they stand on one line each.
pub(crate) fn entries(file: &File) -> Vec<Entry<'_>> {
    let mut section = "";
    let mut entries = Vec::new();
    for (line, text) in file.lines() {
        let text = text.split('#').next().unwrap_or_default().trim();
        if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if let Some((key, value)) = text.split_once('=') {
            entries.push(Entry { section, key: key.trim(), value: value.trim(), line });
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    const COMPLETE: &str = "[package]\npublish = false\nlicense.workspace = true\n\
                            edition.workspace = true\nrust-version.workspace = true\n\
                            [lints]\nworkspace = true\n";

    #[test]
    fn a_manifest_that_misses_something_is_found() {
        let above = format!("{COMPLETE}[dev-dependencies]\nringpost.workspace = true\n");
        let tree = [
            ("runtime/Cargo.toml", COMPLETE),
            ("transport/Cargo.toml", &above),
            ("tests/Cargo.toml", "[package]\npublish = false\nlicense = \"MIT\"\n[lints.rust]\n"),
        ];
        let expected = [
            "tests/Cargo.toml:1: does not take the workspace's `edition.workspace = true`",
            "tests/Cargo.toml:1: does not take the workspace's `license.workspace = true`",
            "tests/Cargo.toml:1: does not take the workspace's `rust-version.workspace = true`",
            "tests/Cargo.toml:1: does not take the workspace's `[lints]`",
            "transport/Cargo.toml:9: depends on `ringpost`, which lies above it",
        ];
        expect(members, &tree, &expected);
    }

    #[test]
    fn a_published_crate_that_says_too_little_is_found() {
        let told = "description = \"d\"\nreadme = \"README.md\"\nkeywords = []\ninclude = []\n";
        let published = COMPLETE.replace("publish = false\n", told);
        let expected = ["macros/Cargo.toml:1: is published, and has no `categories`"];
        expect(members, &[("macros/Cargo.toml", &published)], &expected);
    }

    #[test]
    fn a_lock_file_that_is_not_kept_is_found() {
        let expected = [".gitignore:2: keeps out /Cargo.lock", "Cargo.lock:1: does not exist"];
        expect(lock_file, &[(".gitignore", "/target\n/Cargo.lock\n")], &expected);
    }

    #[test]
    fn a_licence_that_asks_for_more_is_found() {
        let list = "a v1.0.0\tMIT OR Apache-2.0\nb v2.0.0\tGPL-3.0-only\n\nc v3.0.0 (/x)\t\n\
                    d v4.0.0\tMPL-2.0 OR LGPL-2.1\nb v2.0.0\tGPL-3.0-only (*)\n";
        let found: Vec<String> = licences_in(list).iter().map(Finding::to_string).collect();
        let expected = [
            "Cargo.lock:1: b v2.0.0 is licensed GPL-3.0-only",
            "Cargo.lock:1: c v3.0.0 (/x) states no licence",
        ];
        assert_eq!(found, expected);
    }
}
