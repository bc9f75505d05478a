//! The paths that a piece of Rust names: in `use` items, in expressions and types, in macro bodies.

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::tokens::{flatten, paths};

/// A path, spelled as in the code (`["crate", "memory", "Slot"]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    /// The name a `use` item gives to it here, `*` for all that it holds.
    pub(crate) name: Option<String>,
}

/// The extent of a search for paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything in the file.
    Everything,
    /// Without items for tests only and inline modules, which are modules of their own.
    OneModule,
}

/// Every path named by `items`.
pub(crate) fn imports(items: &[syn::Item], scope: Scope) -> Vec<Import> {
    let mut collector = Collector { scope, found: Vec::new() };
    items.iter().for_each(|item| collector.visit_item(item));
    collector.found
}

/// Returns true if an item with these attributes is compiled for tests only.
pub(crate) fn is_test_only(attrs: &[syn::Attribute]) -> bool {
    let mut conditions = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    conditions.any(|attr| attr.parse_args().is_ok_and(|meta| needs_test(&meta)))
}

/// Returns true for `test` and `all(test, ..)`.
fn needs_test(condition: &syn::Meta) -> bool {
    match condition {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated)
            .is_ok_and(|all| all.iter().any(needs_test)),
        _ => false,
    }
}

struct Collector {
    scope: Scope,
    found: Vec<Import>,
}

impl Collector {
    fn use_tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let extend = |ident: &syn::Ident| [prefix, &[ident.to_string()]].concat();
        let (ident, name) = match tree {
            syn::UseTree::Path(path) => return self.use_tree(&extend(&path.ident), &path.tree),
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.use_tree(prefix, tree));
            }
            syn::UseTree::Glob(glob) => {
                let line = glob.span().start().line;
                let name = Some("*".into());
                return self.found.push(Import { segments: prefix.to_vec(), line, name });
            }
            syn::UseTree::Name(name) => (&name.ident, &name.ident),
            syn::UseTree::Rename(rename) => (&rename.ident, &rename.rename),
        };
        let (segments, name) = match prefix.last() {
            Some(last) if ident == "self" && name == "self" => (prefix.to_vec(), last.clone()),
            Some(_) if ident == "self" => (prefix.to_vec(), name.to_string()),
            _ => (extend(ident), name.to_string()),
        };
        self.found.push(Import { segments, line: ident.span().start().line, name: Some(name) });
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let module = match item {
            syn::Item::Mod(module) => Some(module),
            _ => None,
        };
        match self.scope {
            Scope::OneModule if module.is_some() || is_test_only(attributes(item)) => {}
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.use_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.found.push(Import { segments, line: path.span().start().line, name: None });
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in crate::x)` uses nothing.
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let makes_code = ["quote", "quote_spanned", "parse_quote"];
        if makes_code.iter().any(|name| item.path.is_ident(name)) {
            return; // The paths in it belong to the crate that the code is made for.
        }
        let named = paths(&flatten(item.tokens.clone()));
        let import = |(segments, line)| Import { segments, line, name: None };
        self.found.extend(named.into_iter().map(import));
        visit::visit_macro(self, item);
    }
}

/// The attributes of an item that can be left out of a build on its own.
pub(crate) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, scope: Scope) -> Vec<String> {
        let file = syn::parse_file(text).unwrap();
        imports(&file.items, scope).iter().map(|i| i.segments.join("::")).collect()
    }

    #[test]
    fn a_path_is_found_wherever_it_is_spelled() {
        let text =
            "use a::{b::{self, c}, d as e}; fn f(x: g::H) -> i::J { k!(l::m) + n::<o::P>() }";
        let mut found = names(text, Scope::Everything);
        found.sort();
        assert_eq!(found, ["a::b", "a::b::c", "a::d", "g::H", "i::J", "k", "l::m", "n", "o::P"]);
    }

    #[test]
    fn one_module_is_without_its_tests_and_its_inline_modules() {
        let text = "#[cfg(test)] use a::b; mod m { use c::d; } use e::f; \
                    #[cfg(all(unix, test))] use g::h; #[cfg(any(unix, test))] use i::j;";
        assert_eq!(names(text, Scope::OneModule), ["e::f", "i::j"]);
        assert_eq!(names(text, Scope::Everything), ["a::b", "c::d", "e::f", "g::h", "i::j"]);
    }
}
