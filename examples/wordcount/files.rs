//! The input: the regular files below some paths, in a fixed order.
//!
//! Symbolic links below a path are not followed; a path that is one itself is.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use crate::text::{Pieces, ReadError};

/// One file of the input.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// Its size when it was listed.
    pub(crate) bytes: u64,
    /// True if the command line names this file, false if it was found in a directory.
    pub(crate) named: bool,
}

impl Source {
    /// Opens it after having read it once to the end: nothing of a file that is not text is used.
    pub(crate) fn open(&self) -> Result<Pieces<File>, ReadError> {
        let mut pieces = Pieces::new(File::open(&self.path)?);
        while pieces.next_piece()?.is_some() {}
        let mut file = pieces.into_source();
        file.rewind()?;
        Ok(Pieces::new(file))
    }
}

/// The files that were found, and what could not be read.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) sources: Vec<Source>,
    pub(crate) skipped: Vec<Skipped>,
}

/// Something of the input that is not counted.
#[derive(Debug)]
pub(crate) struct Skipped {
    pub(crate) path: PathBuf,
    pub(crate) why: Why,
}

/// Why something is not counted.
#[derive(Debug)]
pub(crate) enum Why {
    /// It cannot be read.
    Unreadable(io::Error),
    /// A path on the command line is no UTF-8 text.
    NamedButNotText,
    /// A file that was found is no UTF-8 text, so it is not asked for.
    NotText,
    /// It was text at first, and its second half could not be read.
    Changed(ReadError),
}

impl Skipped {
    /// Skips `source` for an error met before anything of it was used.
    pub(crate) fn new(source: &Source, error: ReadError) -> Self {
        let why = match error {
            ReadError::Io(e) => Why::Unreadable(e),
            ReadError::NotText if source.named => Why::NamedButNotText,
            ReadError::NotText => Why::NotText,
        };
        Skipped { path: source.path.clone(), why }
    }

    /// Returns true if the result lacks something that was asked for.
    pub(crate) fn is_loss(&self) -> bool {
        !matches!(self.why, Why::NotText)
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: ", self.path)?;
        match &self.why {
            Why::Unreadable(error) => write!(f, "it cannot be read: {error}"),
            Why::NamedButNotText | Why::NotText => f.write_str("it is not UTF-8 text"),
            Why::Changed(error) => write!(f, "it changed while it was read, {error}"),
        }
    }
}

/// A path that is no input.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathError {
    #[error("cannot count the words of {path:?}: {error}")]
    Unusable { path: PathBuf, error: io::Error },
    #[error("cannot count the words of {path:?}: it is neither a file nor a directory")]
    Special { path: PathBuf },
}

impl Listing {
    /// Lists the files below `paths`, sorted by name in each directory. With a limit, it ends with
    /// the file that reaches it.
    ///
    /// # Errors
    /// A path that does not exist or is neither a file nor a directory.
    pub(crate) fn below(paths: &[PathBuf], bytes_max: Option<u64>) -> Result<Self, PathError> {
        let mut listing = Listing::default();
        for path in paths {
            let unusable = |error| PathError::Unusable { path: path.clone(), error };
            let metadata = fs::metadata(path).map_err(unusable)?;
            if metadata.is_dir() {
                listing.walk(path);
            } else if metadata.is_file() {
                let (path, bytes) = (path.clone(), metadata.len());
                listing.sources.push(Source { path, bytes, named: true });
            } else {
                return Err(PathError::Special { path: path.clone() });
            }
        }
        let mut room = bytes_max.unwrap_or(u64::MAX);
        listing.sources.retain(|source| {
            let wanted = room > 0;
            room = room.saturating_sub(source.bytes);
            wanted
        });
        Ok(listing)
    }

    /// How many bytes the files had when they were listed.
    pub(crate) fn bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.bytes).sum()
    }

    fn walk(&mut self, root: &Path) {
        let mut pending = vec![root.to_owned()];
        while let Some(path) = pending.pop() {
            // Only the directory that was named may be a link.
            let found =
                if path == root { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
            let visited = found.and_then(|metadata| self.visit(&path, metadata, &mut pending));
            if let Err(error) = visited {
                self.skipped.push(Skipped { path, why: Why::Unreadable(error) });
            }
        }
    }

    /// Adds a file; pushes a directory's entries on `pending`, the first name on top.
    fn visit(
        &mut self,
        path: &Path,
        metadata: Metadata,
        pending: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        if metadata.is_file() {
            let (path, bytes) = (path.to_owned(), metadata.len());
            self.sources.push(Source { path, bytes, named: false });
        } else if metadata.is_dir() {
            let entries: io::Result<Vec<_>> =
                fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect();
            let mut entries = entries?;
            entries.sort_unstable_by(|a, b| b.cmp(a));
            pending.append(&mut entries);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
