//! The modules of every crate, and what module a path means.
//!
//! A crate is read from its root along its `mod` items; a module in braces is a module like one in
//! a file. A name that a module re-exports means the module that defines it, so that re-exports
//! hide no dependency.

use std::collections::BTreeSet;

use crate::imports::{Import, Scope, imports, is_test_only};
use crate::tree::{File, Rust, Tree};

/// One crate: its modules, the root first.
pub(crate) struct Crate {
    /// The file of the root.
    pub(crate) root: String,
    pub(crate) modules: Vec<Module>,
}

/// One module of a crate that is not compiled for tests only.
pub(crate) struct Module {
    /// Names from the root, which is empty.
    pub(crate) path: Vec<String>,
    pub(crate) file: String,
    pub(crate) imports: Vec<Import>,
    /// The items that are defined here, other than modules.
    items: BTreeSet<String>,
}

/// The crates of the tree, by the path of the root.
pub(crate) fn crates(tree: &Tree) -> Vec<Crate> {
    let named: BTreeSet<&str> = tree
        .parsed()
        .flat_map(|(file, rust)| files_named(tree, &file.path, &rust.ast.items))
        .map(|(file, _)| file.path.as_str())
        .collect();
    let roots = tree.parsed().filter(|(file, _)| !named.contains(file.path.as_str()));
    roots
        .map(|(file, rust)| {
            let mut modules = Vec::new();
            read(tree, Vec::new(), &file.path, &rust.ast.items, &mut modules);
            Crate { root: file.path.clone(), modules }
        })
        .collect()
}

/// Returns true if cargo finds this file by its name.
pub(crate) fn is_root(path: &str) -> bool {
    ["lib.rs", "main.rs", "build.rs"].contains(&path.rsplit('/').next().unwrap_or(path))
}

impl Crate {
    /// The module that `import`, spelled in module `from`, takes something from; `None` when it is
    /// of another crate.
    pub(crate) fn resolve<'a>(&'a self, from: &'a Module, import: &Import) -> Option<&'a Module> {
        self.walk(from, &import.segments, 0)
    }

    fn walk<'a>(
        &'a self,
        from: &'a Module,
        segments: &[String],
        depth: usize,
    ) -> Option<&'a Module> {
        const REEXPORTS_MAX: usize = 8;
        if depth > REEXPORTS_MAX {
            return None;
        }
        let mut at = match segments.first()?.as_str() {
            "crate" => self.module(&[])?,
            "self" => from,
            "super" => self.module(from.path.split_last()?.1)?,
            name => self.child(from, name)?,
        };
        for (i, segment) in segments.iter().enumerate().skip(1) {
            let next = match segment.as_str() {
                "super" => self.module(at.path.split_last()?.1),
                name => self.child(at, name),
            };
            at = match next {
                Some(next) => next,
                None if at.items.contains(segment) => return Some(at),
                None => {
                    // Follows the re-export, with the rest of the path.
                    let origin = self.origin(at, segment, &segments[i + 1..], depth + 1);
                    return Some(origin.unwrap_or(at));
                }
            };
        }
        Some(at)
    }

    fn origin<'a>(
        &'a self,
        at: &'a Module,
        name: &str,
        rest: &[String],
        depth: usize,
    ) -> Option<&'a Module> {
        let named = at.imports.iter().find(|i| i.name.as_deref() == Some(name));
        if let Some(import) = named {
            return self.walk(at, &[&import.segments, rest].concat(), depth);
        }
        let globs = at.imports.iter().filter(|i| i.name.as_deref() == Some("*"));
        let mut sources = globs.filter_map(|i| self.walk(at, &i.segments, depth));
        sources.find(|module| module.items.contains(name))
    }

    fn child(&self, of: &Module, name: &str) -> Option<&Module> {
        self.module(&[of.path.as_slice(), &[name.to_string()]].concat())
    }

    fn module(&self, path: &[String]) -> Option<&Module> {
        self.modules.iter().find(|m| m.path == path)
    }
}

/// Reads the module `path`, whose items are `items`, and all below it.
fn read(
    tree: &Tree,
    path: Vec<String>,
    file: &str,
    items: &[syn::Item],
    modules: &mut Vec<Module>,
) {
    modules.push(Module {
        imports: imports(items, Scope::OneModule),
        items: items.iter().filter_map(item_name).collect(),
        file: file.into(),
        path: path.clone(),
    });
    for module in items.iter().filter_map(as_module).filter(|m| !is_test_only(&m.attrs)) {
        let path = [path.as_slice(), &[module.ident.to_string()]].concat();
        if let Some((_, items)) = &module.content {
            read(tree, path, file, items, modules);
        } else if let Some((file, rust)) = file_of(tree, file, module) {
            read(tree, path, &file.path, &rust.ast.items, modules);
        }
    }
}

/// The files that the `mod` items among `items` name.
fn files_named<'a>(tree: &'a Tree, file: &str, items: &[syn::Item]) -> Vec<(&'a File, &'a Rust)> {
    let modules = items.iter().filter_map(as_module);
    let files = modules.flat_map(|module| match &module.content {
        Some((_, items)) => files_named(tree, file, items),
        None => file_of(tree, file, module).into_iter().collect(),
    });
    files.collect()
}

/// The file that `mod x;` in `file` names: below it, beside it when it is a root, or as stated.
pub(crate) fn file_of<'a>(
    tree: &'a Tree,
    file: &str,
    module: &syn::ItemMod,
) -> Option<(&'a File, &'a Rust)> {
    let stated = stated_path(&module.attrs).map(|path| format!("{}{path}", folder(file)));
    let below = format!("{}/{}.rs", file.trim_end_matches(".rs"), module.ident);
    let beside = format!("{}{}.rs", folder(file), module.ident);
    let candidates = [stated, (!is_root(file)).then_some(below), Some(beside)];
    let files = candidates.into_iter().flatten().filter(|path| path != file);
    files.filter_map(|path| tree.file(&path)).find_map(|f| Some((f, f.rust.as_ref()?)))
}

fn as_module(item: &syn::Item) -> Option<&syn::ItemMod> {
    match item {
        syn::Item::Mod(module) => Some(module),
        _ => None,
    }
}

/// The folder of a file, with its final `/`.
fn folder(path: &str) -> String {
    path.rfind('/').map_or(String::new(), |at| path[..=at].into())
}

/// Returns the path in `#[path = "..."]`.
fn stated_path(attrs: &[syn::Attribute]) -> Option<String> {
    let meta = &attrs.iter().find(|attr| attr.path().is_ident("path"))?.meta;
    match &meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
        _ => None,
    }
}

fn item_name(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
