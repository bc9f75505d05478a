//! Small rooms: how long a line, a function and a file, how wide a struct may be.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::finding::Finding;
use crate::markdown;
use crate::tree::Tree;

const FILE_LINES_MAX: usize = 500;
const TEST_FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 100;
/// Of documents; rows of tables have no limit.
const PROSE_COLUMNS_MAX: usize = 110;
const FIELDS_MAX: usize = 16;

/// Reports lines, functions, files and structs that are too large.
pub(crate) fn sizes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust_files() {
        let mut push = |line, what| findings.push(Finding::new(&file.path, line, what));
        let is_test = file.path.starts_with("tests/")
            || file.path.contains("/tests/")
            || file.path.ends_with("/tests.rs");
        let lines_max = if is_test { TEST_FILE_LINES_MAX } else { FILE_LINES_MAX };
        let lines = file.text.lines().count();
        if lines > lines_max {
            push(lines_max + 1, format!("the file has {lines} lines, over {lines_max}"));
        }
        for (line, text) in file.lines() {
            let columns = text.chars().count();
            if columns > LINE_COLUMNS_MAX {
                push(line, format!("the line has {columns} columns, over {LINE_COLUMNS_MAX}"));
            }
        }
    }
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, text) in markdown::prose(&file.text).filter(|(_, text)| !text.starts_with('|')) {
            let columns = text.chars().count();
            if columns > PROSE_COLUMNS_MAX && text.trim_start().contains(' ') {
                let what = format!("the line has {columns} columns, over {PROSE_COLUMNS_MAX}");
                findings.push(Finding::new(&file.path, line, what));
            }
        }
    }
    for (file, rust) in tree.parsed() {
        let mut rooms = Rooms { path: &file.path, findings: &mut findings };
        rooms.visit_file(&rust.ast);
    }
    findings
}

/// Looks at the functions and structs of one file.
struct Rooms<'a> {
    path: &'a str,
    findings: &'a mut Vec<Finding>,
}

impl Rooms<'_> {
    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.span().start().line;
        let lines = body.span().end().line - first + 1;
        if lines > FUNCTION_LINES_MAX {
            let name = &signature.ident;
            let what = format!("`fn {name}` has {lines} lines, over {FUNCTION_LINES_MAX}");
            self.findings.push(Finding::new(self.path, first, what));
        }
    }
}

impl<'ast> Visit<'ast> for Rooms<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let fields = item.fields.len();
        if fields > FIELDS_MAX {
            let name = &item.ident;
            let what = format!("`struct {name}` has {fields} fields, over {FIELDS_MAX}");
            self.findings.push(Finding::new(self.path, name.span().start().line, what));
        }
        visit::visit_item_struct(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    fn repeated(line: &str, times: usize) -> String {
        line.repeat(times)
    }

    #[test]
    fn a_file_too_long_is_found_and_a_test_file_may_be_longer() {
        let (allowed, long) = (repeated("//\n", 500), repeated("//\n", 501));
        let tree = [
            ("a/src/allowed.rs", &*allowed),
            ("a/src/long.rs", &*long),
            ("a/src/long/tests.rs", &*long),
            ("tests/src/long.rs", &*long),
        ];
        expect(sizes, &tree, &["a/src/long.rs:501: the file has 501 lines, over 500"]);
    }

    #[test]
    fn a_function_too_long_is_found_wherever_it_stands() {
        let body = repeated("\n", 70);
        let long = format!("impl X {{ fn a() {{{body}}} }}\ntrait Y {{ fn b() {{{body}}} }}\n");
        let allowed = format!("fn c() {{{}}}", repeated("\n", 69));
        let expected =
            ["a.rs:1: `fn a` has 71 lines, over 70", "a.rs:72: `fn b` has 71 lines, over 70"];
        expect(sizes, &[("a.rs", &(long + &allowed))], &expected);
    }

    #[test]
    fn a_line_too_long_and_a_struct_too_wide_are_found() {
        let text = format!("// {}\nstruct S({});", repeated("é", 98), repeated("u8,", 17));
        let expected = [
            "a.rs:1: the line has 101 columns, over 100",
            "a.rs:2: `struct S` has 17 fields, over 16",
        ];
        expect(sizes, &[("a.rs", &text)], &expected);
    }

    #[test]
    fn a_line_too_long_is_found_in_prose() {
        let long = "é ".repeat(56);
        let link = format!("[a](https://{})", "b".repeat(120));
        let text = format!("{long}\n| {long}\n```\n{long}\n```\n{link}\n");
        expect(sizes, &[("a.md", &text)], &["a.md:1: the line has 112 columns, over 110"]);
    }
}
