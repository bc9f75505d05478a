//! The methods of references are names that handlers cannot have.
//!
//! A reference dereferences to the client of its actor, whose methods are named by the handlers. A
//! method of the reference itself wins over one of the client without a word. So the macros refuse
//! such names, by the list `REFERENCE_METHODS` in [`NAMES`]; they cannot see the references, which
//! are in the crate above them.

use syn::{GenericArgument, ImplItem, Item, ItemImpl, PathArguments, Type, Visibility};

use crate::finding::Finding;
use crate::layers::below;
use crate::tree::Tree;

/// Where the list is.
const NAMES: &str = "macros/src/names.rs";
/// Below which the references are.
const REFERENCES: &str = "runtime/src/actor";

/// Reports public methods of `ActorRef<A>` and `Ref<P>` that a handler could be called.
pub(crate) fn reserved(tree: &Tree) -> Vec<Finding> {
    let Some(names) = tree.file(NAMES) else { return Vec::new() };
    let Some(list) = list_in(&names.text) else {
        return vec![Finding::new(NAMES, 1, "has no list `REFERENCE_METHODS`")];
    };
    let (mut findings, mut seen) = (Vec::new(), 0);
    for (file, rust) in tree.parsed().filter(|(file, _)| below(&file.path, REFERENCES)) {
        for item in &rust.ast.items {
            let Item::Impl(item) = item else { continue };
            let Some(of) = reference(item) else { continue };
            for member in &item.items {
                let ImplItem::Fn(method) = member else { continue };
                let name = &method.sig.ident;
                let is_public = matches!(method.vis, Visibility::Public(_));
                if !is_public || method.sig.receiver().is_none() {
                    continue;
                }
                seen += 1;
                if !list.contains(&name.to_string()) {
                    let what =
                        format!("`{of}` has a method `{name}`, which {NAMES} does not reserve");
                    findings.push(Finding::new(&file.path, name.span().start().line, what));
                }
            }
        }
    }
    if seen == 0 {
        let what = format!("there is no reference below {REFERENCES}");
        findings.push(Finding::new(NAMES, 1, what));
    }
    findings
}

/// Returns the words of the list.
fn list_in(text: &str) -> Option<Vec<String>> {
    let list = text.split_once("const REFERENCE_METHODS: &[&str] = &[")?.1.split_once("];")?.0;
    Some(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Returns of which reference these are methods: of one to any actor, or to any protocol.
fn reference(item: &ItemImpl) -> Option<String> {
    let Type::Path(path) = &*item.self_ty else { return None };
    let last = path.path.segments.last()?;
    let name = last.ident.to_string();
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let is_any = arguments.args.iter().all(|argument| match argument {
        GenericArgument::Type(Type::Path(of)) => {
            item.generics.type_params().any(|parameter| of.path.is_ident(&parameter.ident))
        }
        _ => true,
    });
    (item.trait_.is_none() && is_any && ["ActorRef", "Ref"].contains(&&*name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::expect;

    const LIST: &str = "const REFERENCE_METHODS: &[&str] = &[\n    \"ask\",\n    \"tell\",\n];\n";

    #[test]
    fn a_method_that_a_handler_could_hide_behind_is_found() {
        let references = "impl<A: Handlers> ActorRef<A> {\n    pub fn tell(&self) {}\n    \
                          pub fn halt(&self) {}\n    pub(crate) fn cell(&self) {}\n    \
                          pub fn new() -> Self {}\n}\n\
                          impl<M> ActorRef<Group<M>> {\n    pub fn size(&self) {}\n}\n";
        let tree = [(NAMES, LIST), ("runtime/src/actor/reference/near.rs", references)];
        let expected =
            ["runtime/src/actor/reference/near.rs:3: `ActorRef` has a method `halt`, which \
                         macros/src/names.rs does not reserve"];
        expect(reserved, &tree, &expected);
    }

    #[test]
    fn a_list_that_is_gone_is_found() {
        let expected = ["macros/src/names.rs:1: has no list `REFERENCE_METHODS`"];
        expect(reserved, &[(NAMES, "const METHODS: &[&str] = &[];\n")], &expected);
    }
}
