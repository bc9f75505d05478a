//! The files of the workspace: their text, and for Rust files their tokens and syntax tree.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use proc_macro2::TokenStream;

use crate::tokens::{Token, flatten, functions};

/// Every text file that belongs to the source tree, in order of its path.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

/// One file. Its path is relative to the root and uses `/`.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
    /// Present for Rust files that parse.
    pub(crate) rust: Option<Rust>,
}

/// The parts of a Rust file that the checks use.
pub(crate) struct Rust {
    pub(crate) ast: syn::File,
    /// The file's tokens without comments, flat.
    pub(crate) tokens: Vec<Token>,
    /// The names of the functions that are defined in it.
    pub(crate) functions: HashSet<String>,
}

impl Tree {
    /// Reads every text file below `root`, except the build output and hidden files.
    ///
    /// # Errors
    /// When a directory or a file cannot be read.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    /// The files of the Rust crates that are held to the rules: all but the sources that
    /// compile-fail tests feed to the compiler.
    pub(crate) fn rust_files(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|f| f.path.ends_with(".rs") && !f.path.contains("/ui/"))
    }

    /// Returns the Rust files that parse, with their tokens and syntax tree.
    pub(crate) fn parsed(&self) -> impl Iterator<Item = (&File, &Rust)> {
        self.rust_files().filter_map(|f| Some((f, f.rust.as_ref()?)))
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|f| f.path == path)
    }

    /// Returns true if `path` names a file, or, with or without a final `/`, a folder.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.iter().any(|f| f.path == path || f.path.starts_with(&folder))
    }

    /// A tree for a test of a check.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Tree { files: files.iter().map(|(path, text)| File::new(path, (*text).into())).collect() }
    }
}

impl File {
    pub(crate) fn new(path: &str, text: String) -> Self {
        let rust = if path.ends_with(".rs") { Rust::parse(&text) } else { None };
        File { path: path.into(), text, rust }
    }

    /// The lines of the file with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

impl Rust {
    fn parse(text: &str) -> Option<Self> {
        let stream: TokenStream = text.parse().ok()?;
        let tokens = flatten(stream.clone());
        let functions = functions(&tokens);
        Some(Rust { ast: syn::parse2(stream).ok()?, tokens, functions })
    }
}

fn read_folder(root: &Path, folder: &str, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let hidden = name.starts_with('.') && name != ".ci" && name != ".gitignore";
        if hidden || (folder.is_empty() && name == "target") {
            continue;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            read_folder(root, &path, files)?;
        } else if let Ok(text) = String::from_utf8(fs::read(entry.path())?) {
            files.push(File::new(&path, text));
        }
    }
    Ok(())
}
