//! No two modules of one folder need each other, and every file is part of a crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::modules::{Crate, crates, is_root};
use crate::tree::Tree;

/// The modules of one folder and the modules that each uses, with the first place that says so.
type Uses<'a> = BTreeMap<&'a str, BTreeMap<&'a str, (&'a str, usize)>>;

/// Reports each use that is part of a cycle.
pub(crate) fn no_cycles(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for krate in &crates(tree) {
        for uses in folders(krate).values() {
            for (user, used) in uses {
                let circular = used.iter().filter(|(used, _)| reachable(uses, used).contains(user));
                for (used, (file, line)) in circular {
                    let what = format!("`{user}` uses `{used}`, which needs `{user}`");
                    findings.push(Finding::new(file, *line, what));
                }
            }
        }
    }
    findings
}

/// Reports files in a `src` folder that no `mod` item names.
pub(crate) fn no_orphans(tree: &Tree) -> Vec<Finding> {
    let roots = crates(tree).into_iter().map(|krate| krate.root);
    let lost = roots.filter(|root| {
        let in_src = root.contains("/src/") && !root.contains("/src/bin/");
        in_src && !is_root(root)
    });
    lost.map(|path| Finding::new(&path, 1, "no `mod` item names this file")).collect()
}

/// Returns the modules of each folder that has several, each after the modules that it uses.
pub(crate) fn order(tree: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    for krate in &crates(tree) {
        for (folder, uses) in &folders(krate) {
            if uses.len() < 2 {
                continue;
            }
            let mut modules: Vec<&str> = uses.keys().copied().collect();
            modules.sort_by_key(|module| reachable(uses, module).len());
            let place = [std::slice::from_ref(&krate.root), folder].concat().join("::");
            lines.push(format!("{place}: {}", modules.join(" < ")));
        }
    }
    lines
}

/// Returns, by the path of a module, the uses between its children.
fn folders(krate: &Crate) -> BTreeMap<Vec<String>, Uses<'_>> {
    let mut folders: BTreeMap<Vec<String>, Uses> = BTreeMap::new();
    for module in &krate.modules {
        if let Some((name, folder)) = module.path.split_last() {
            folders.entry(folder.to_vec()).or_default().entry(name).or_default();
        }
    }
    for module in &krate.modules {
        for import in &module.imports {
            let Some(target) = krate.resolve(module, import) else { continue };
            let shared = module.path.iter().zip(&target.path).take_while(|(a, b)| a == b).count();
            // Where one holds the other there is no order to keep.
            let (Some(user), Some(used)) = (module.path.get(shared), target.path.get(shared))
            else {
                continue;
            };
            let uses = folders.entry(module.path[..shared].to_vec()).or_default();
            let place = (module.file.as_str(), import.line);
            uses.entry(user).or_default().entry(used).or_insert(place);
        }
    }
    folders
}

/// Returns all modules that `module` uses, directly or not; itself only if there is a cycle.
fn reachable<'a>(uses: &Uses<'a>, module: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = vec![module];
    while let Some(next) = open.pop() {
        for used in uses.get(next).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(*used) {
                open.push(used);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    #[test]
    fn modules_that_use_each_other_are_found() {
        let tree = [
            ("x/src/lib.rs", "mod a; mod b; mod c;"),
            ("x/src/a.rs", "use crate::b::B;"),
            ("x/src/b.rs", "fn f() -> super::a::A { crate::c::g() }"),
            ("x/src/c.rs", "fn g() {}"),
        ];
        let expected = [
            "x/src/a.rs:1: `a` uses `b`, which needs `a`",
            "x/src/b.rs:1: `b` uses `a`, which needs `b`",
        ];
        expect(no_cycles, &tree, &expected);
    }

    #[test]
    fn a_cycle_is_found_through_a_third_module_and_through_re_exports() {
        let tree = [
            ("x/src/lib.rs", "mod f; pub use f::Three;"),
            ("x/src/f.rs", "mod a; mod b; mod c; pub use a::One; pub use b::*; pub use c::Three;"),
            ("x/src/f/a.rs", "use super::Two; pub struct One;"),
            ("x/src/f/b.rs", "m!(crate::Three); pub struct Two;"),
            ("x/src/f/c.rs", "use crate::f::One as Uno; pub struct Three;"),
        ];
        let expected = [
            "x/src/f/a.rs:1: `a` uses `b`, which needs `a`",
            "x/src/f/b.rs:1: `b` uses `c`, which needs `b`",
            "x/src/f/c.rs:1: `c` uses `a`, which needs `c`",
        ];
        expect(no_cycles, &tree, &expected);
    }

    #[test]
    fn tests_may_use_what_they_like_and_parents_their_children() {
        let tree = [
            ("x/src/main.rs", "mod a; mod b; use a::A;"),
            ("x/src/a.rs", "mod part; use part::P; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("x/src/a/part.rs", "use super::A; #[cfg(test)] use crate::b::B;"),
            ("x/src/b.rs", "use crate::a::A; #[cfg(test)] mod tests;"),
            ("x/src/b/tests.rs", "use crate::a::A;"),
        ];
        expect(no_cycles, &tree, &[]);
        expect(no_orphans, &tree, &[]);
        assert_eq!(order(&Tree::of(&tree)), ["x/src/main.rs: a < b"]);
    }

    #[test]
    fn a_file_that_no_module_names_is_found() {
        let tree = [("x/src/lib.rs", "mod a;"), ("x/src/a.rs", ""), ("x/src/b.rs", "")];
        expect(no_orphans, &tree, &["x/src/b.rs:1: no `mod` item names this file"]);
    }
}
