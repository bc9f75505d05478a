//! Public errors read as sentences: their `Debug`, which a `main` prints that returns one, too.

use syn::visit::{self, Visit};
use syn::{Attribute, Ident, ItemEnum, ItemImpl, ItemMacro, ItemStruct, Type, Visibility};

use crate::finding::Finding;
use crate::layers::below;
use crate::tokens::flatten;
use crate::tree::Tree;

/// The crates whose errors users get.
const PLACES: [&str; 3] = ["transport/src", "runtime/src", "streams/src"];
/// The macro that implements `Debug` by `Display`.
const MACRO: &str = "debug_by_display";

/// The types of a file that matter here.
#[derive(Default)]
struct Types {
    public: Vec<Ident>,
    errors: Vec<String>,
    readable: Vec<String>,
}

/// Reports public types that implement `Error` and whose `Debug` is another text than `Display`.
pub(crate) fn errors(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.parsed() {
        if !PLACES.iter().any(|place| below(&file.path, place)) {
            continue;
        }
        let mut types = Types::default();
        types.visit_file(&rust.ast);
        for name in &types.public {
            let text = name.to_string();
            if types.errors.contains(&text) && !types.readable.contains(&text) {
                let what = format!("`{name}` is a public error and not in a `{MACRO}!`");
                findings.push(Finding::new(&file.path, name.span().start().line, what));
            }
        }
    }
    findings
}

impl Types {
    fn add(&mut self, name: &Ident, is_public: &Visibility, attributes: &[Attribute]) {
        if !matches!(is_public, Visibility::Public(_)) {
            return;
        }
        self.public.push(name.clone());
        let derives = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
        let mut tokens = derives
            .filter_map(|derive| Some(flatten(derive.meta.require_list().ok()?.tokens.clone())))
            .flatten();
        if tokens.any(|token| token.text == "Error") {
            self.errors.push(name.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.add(&item.ident, &item.vis, &item.attrs);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.add(&item.ident, &item.vis, &item.attrs);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let is_error = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if let (true, Type::Path(of)) =
            (is_error.is_some_and(|it| it.ident == "Error"), &*item.self_ty)
        {
            self.errors.extend(of.path.segments.last().map(|name| name.ident.to_string()));
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        if item.mac.path.segments.last().is_some_and(|name| name.ident == MACRO) {
            let names = flatten(item.mac.tokens.clone());
            self.readable.extend(names.into_iter().map(|token| token.text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    #[test]
    fn an_error_whose_debug_is_no_sentence_is_found() {
        let error = "runtime/src/error.rs";
        let text = "#[derive(Debug, thiserror::Error)]\npub enum Odd {}\n\
                    #[derive(thiserror::Error)]\npub enum Read<M> {}\n\
                    #[derive(Debug)]\npub struct Own;\nimpl std::error::Error for Own {}\n\
                    #[derive(Debug, Error)]\nenum Inner {}\n\
                    #[derive(Debug)]\npub struct Plain;\n\
                    other::debug_by_display!(Read<M>);\n";
        let expected = [(2, "Odd"), (6, "Own")].map(|(line, name)| {
            format!("{error}:{line}: `{name}` is a public error and not in a `debug_by_display!`")
        });
        let expected = expected.each_ref().map(|line| &**line);
        expect(errors, &[(error, text), ("examples/hello.rs", text)], &expected);
    }
}
