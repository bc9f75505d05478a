//! The numbers of the tree that have a budget (`budget`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Item, UseTree, Visibility};

use crate::docs::documents;
use crate::english::hard_lines;
use crate::imports::{attributes, is_test_only};
use crate::invariants::stated;
use crate::modules::{crates, file_of};
use crate::promises::{SEMANTICS, numbered};
use crate::tree::{File, Rust, Tree};

/// The roots of the crates with an interface for users.
const RUNTIME: &str = "runtime/src/lib.rs";
const TRANSPORT: &str = "transport/src/lib.rs";

/// The share of each file in a number.
pub(crate) type Parts<'a> = BTreeMap<&'a str, usize>;

/// The numbers, by section and key.
#[derive(Default)]
pub(crate) struct Counts<'a>(pub(crate) BTreeMap<(&'static str, &'static str), Parts<'a>>);

impl<'a> Counts<'a> {
    /// Counts everything that has a budget.
    pub(crate) fn of(tree: &'a Tree) -> Self {
        let mut counts = Counts::default();
        counts.code(tree);
        counts.names(tree);
        if let Some(file) = tree.file(SEMANTICS) {
            counts.add("rules", "promises", file, numbered(&file.text).count());
        }
        for file in documents(tree) {
            let words = file.text.split_whitespace().count();
            counts.add("words", "all_documents", file, words);
            if file.path == "README.md" {
                counts.add("words", "readme", file, words);
            }
            counts.add("hard_lines", group(file), file, hard_lines(file).len());
        }
        for file in tree.rust_files() {
            counts.add("rules", "invariants", file, stated(file).count());
            counts.add("hard_lines", folder(file), file, hard_lines(file).len());
        }
        counts
    }

    fn add(&mut self, section: &'static str, key: &'static str, file: &'a File, count: usize) {
        *self.0.entry((section, key)).or_default().entry(&file.path).or_default() += count;
    }

    /// Counts lines of code by area; all that is compiled for tests only is in the area `tests`.
    fn code(&mut self, tree: &'a Tree) {
        let of_tests = |root: &str| root.starts_with("tests/") || root.contains("/tests/");
        let crates = crates(tree).into_iter().filter(|each| !of_tests(&each.root));
        let files = crates.flat_map(|each| each.modules).map(|module| module.file);
        let product: BTreeSet<String> = files.collect();
        for (file, rust) in tree.parsed() {
            let area = match folder(file) {
                _ if !product.contains(&file.path) => "tests",
                "macros" | "cli" => "macros_cli",
                "benches" | "examples" => "benches_examples",
                folder => folder,
            };
            let mut tests = TestOnly(Vec::new());
            tests.visit_file(&rust.ast);
            let code = file.lines().filter(|(_, text)| is_code(text));
            let in_tests = |line: &usize| tests.0.iter().any(|lines| lines.contains(line));
            let (inside, outside): (Vec<_>, Vec<_>) =
                code.map(|(line, _)| line).partition(in_tests);
            self.add("code_lines", "tests", file, inside.len());
            self.add("code_lines", area, file, outside.len());
        }
    }

    /// Counts the names that a user may import: of `ringpost` the root and the prelude, of the
    /// transport all.
    fn names(&mut self, tree: &'a Tree) {
        let parsed = |path| tree.file(path).and_then(|file| Some((file, file.rust.as_ref()?)));
        if let Some((file, rust)) = parsed(RUNTIME) {
            let prelude = rust.ast.items.iter().filter_map(|item| match item {
                Item::Mod(module) if module.ident == "prelude" => module.content.as_ref(),
                _ => None,
            });
            let prelude = prelude.flat_map(|(_, items)| items).map(own_names).sum();
            self.add("public_names", "prelude", file, prelude);
            self.add("public_names", "root", file, rust.ast.items.iter().map(own_names).sum());
        }
        if let Some((file, rust)) = parsed(TRANSPORT) {
            self.all_names(tree, file, &rust.ast.items);
        }
    }

    fn all_names(&mut self, tree: &'a Tree, file: &'a File, items: &[Item]) {
        self.add("public_names", "transport", file, items.iter().map(own_names).sum());
        for item in items.iter().filter(|item| own_names(item) > 0) {
            let Item::Mod(module) = item else { continue };
            match &module.content {
                Some((_, items)) => self.all_names(tree, file, items),
                None => {
                    if let Some((file, Rust { ast, .. })) = file_of(tree, &file.path, module) {
                        self.all_names(tree, file, &ast.items);
                    }
                }
            }
        }
    }
}

/// Returns the group of documents that a document is in.
fn group(file: &File) -> &'static str {
    match &*file.path {
        "README.md" | "CHANGELOG.md" | "SECURITY.md" => "readme_changelog_security",
        path if path.starts_with("docs/") => "docs",
        _ => "other_documents",
    }
}

/// Returns the crate, or the folder of crates, that a Rust file is in.
fn folder(file: &File) -> &'static str {
    match file.path.split('/').next() {
        Some("transport") => "transport",
        Some("runtime") => "runtime",
        Some("macros") => "macros",
        Some("streams") => "streams",
        Some("ranks") => "ranks",
        Some("cli") => "cli",
        Some("capi") => "capi",
        Some("benches") => "benches",
        Some("examples") => "examples",
        _ => "tests",
    }
}

/// Returns false for lines that are blank or a comment.
fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// The lines of items that are compiled for tests only.
struct TestOnly(Vec<RangeInclusive<usize>>);

impl<'ast> Visit<'ast> for TestOnly {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test_only(attributes(item)) {
            self.0.push(item.span().start().line..=item.span().end().line);
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_test_only(&item.attrs) {
            self.0.push(item.span().start().line..=item.span().end().line);
        }
    }
}

/// Returns how many public names an item itself adds to its module.
fn own_names(item: &Item) -> usize {
    let (visibility, names) = match item {
        Item::Const(item) => (&item.vis, 1),
        Item::Enum(item) => (&item.vis, 1),
        Item::Fn(item) => (&item.vis, 1),
        Item::Mod(item) => (&item.vis, 1),
        Item::Static(item) => (&item.vis, 1),
        Item::Struct(item) => (&item.vis, 1),
        Item::Trait(item) => (&item.vis, 1),
        Item::Type(item) => (&item.vis, 1),
        Item::Use(item) => (&item.vis, leaves(&item.tree)),
        _ => return 0,
    };
    let hidden = attributes(item).iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|ident| ident == "hidden")
    });
    if matches!(visibility, Visibility::Public(_)) && !hidden { names } else { 0 }
}

/// Returns how many names an import brings; all of another module count as one.
fn leaves(tree: &UseTree) -> usize {
    match tree {
        UseTree::Path(path) => leaves(&path.tree),
        UseTree::Group(group) => group.items.iter().map(leaves).sum(),
        UseTree::Name(_) | UseTree::Rename(_) | UseTree::Glob(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the counts above zero of a section, as `key path number`.
    fn counted(section: &str, files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files);
        let counts = Counts::of(&tree);
        let numbers = counts.0.iter().filter(|((of, _), _)| *of == section);
        let each = numbers.flat_map(|((_, key), parts)| {
            parts.iter().map(move |(path, count)| (*count, format!("{key} {path} {count}")))
        });
        each.filter(|(count, _)| *count > 0).map(|(_, text)| text).collect()
    }

    #[test]
    fn lines_of_code_are_those_that_a_product_compiles() {
        let lib = "//! A.\nmod part;\n#[cfg(test)]\nmod tests;\n\n    // b\nfn f() {\n}\n\
                   impl F {\n    #[cfg(test)]\n    fn c() {}\n}\n\
                   #[cfg(all(test, x))]\nmod d {\n}\n";
        let files = [
            ("runtime/src/lib.rs", lib),
            ("runtime/src/part.rs", "fn f() {}\n"),
            ("runtime/src/tests.rs", "fn t() {}\n\nfn u() {}\n"),
            ("runtime/tests/main.rs", "fn v() {} // w\n"),
            ("cli/src/main.rs", "/// x\nfn main() {}\n"),
            ("benches/bin/bench.rs", "fn main() {}\n"),
            ("README.md", "fn main() {}\n"),
        ];
        let expected = [
            "benches_examples benches/bin/bench.rs 1",
            "macros_cli cli/src/main.rs 1",
            "runtime runtime/src/lib.rs 5",
            "runtime runtime/src/part.rs 1",
            "tests runtime/src/lib.rs 7",
            "tests runtime/src/tests.rs 2",
            "tests runtime/tests/main.rs 1",
        ];
        assert_eq!(counted("code_lines", &files), expected);
    }

    #[test]
    fn names_are_those_that_a_user_can_import() {
        let runtime = "mod a;\npub mod b;\npub use a::{B, c::{D as E, F}};\npub(crate) use a::G;\n\
                       pub mod prelude {\n    pub use crate::{B, E};\n    use crate::F;\n}\n\
                       #[doc(hidden)]\npub mod private {}\npub struct H;\nstruct I;\n";
        let transport = "pub mod a;\nmod b;\n";
        let files = [
            (RUNTIME, runtime),
            ("runtime/src/b.rs", "pub fn not_in_the_root() {}"),
            (TRANSPORT, transport),
            ("transport/src/a.rs", "pub struct A;\nstruct B;\npub mod c {\n    pub fn d() {}\n}"),
            ("transport/src/b.rs", "pub struct C;"),
        ];
        let expected = [
            "prelude runtime/src/lib.rs 2",
            "root runtime/src/lib.rs 6",
            "transport transport/src/a.rs 3",
            "transport transport/src/lib.rs 1",
        ];
        assert_eq!(counted("public_names", &files), expected);
    }

    #[test]
    fn promises_and_invariants_are_those_that_are_stated() {
        let semantics = "| # | promise |\n| 1 | a |\n| 2 | b |\n| c | d |\n\n3 | e\n";
        let files = [
            (SEMANTICS, semantics),
            ("docs/SENDING.md", "| 1 | f |\n"),
            (
                "transport/src/a.rs",
                "//! **QQ-1 one**: QQ-2.\n//! - **QQ-2 two**.\n\nfn f() {} // **QQ-3**\n",
            ),
        ];
        let expected = ["invariants transport/src/a.rs 2", "promises docs/SEMANTICS.md 2"];
        assert_eq!(counted("rules", &files), expected);
    }

    #[test]
    fn words_and_hard_lines_are_counted_in_documents_and_comments() {
        let files = [
            ("README.md", "what is\nit\n"),
            ("docs/A.md", "a\n```\nwhat is\n```\n"),
            ("macros/README.md", "what was\n"),
            ("tests/data/corpus.md", "what is\n"),
            ("macros/src/lib.rs", "// what is\n"),
            ("runtime/tests/ui/a.rs", "// what is\n"),
        ];
        let words = [
            "all_documents README.md 3",
            "all_documents docs/A.md 5",
            "all_documents macros/README.md 2",
            "readme README.md 3",
        ];
        assert_eq!(counted("words", &files), words);
        let hard = [
            "macros macros/src/lib.rs 1",
            "other_documents macros/README.md 1",
            "readme_changelog_security README.md 1",
        ];
        assert_eq!(counted("hard_lines", &files), hard);
    }
}
