//! Tests of which files are found and read.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// The folders so far: tests that run at once may give theirs the same name.
static FOLDERS: AtomicUsize = AtomicUsize::new(0);

/// A directory that is removed at the end of a test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let path = std::env::temp_dir().join(format!("wordcount-{name}-{process}-{number}"));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Lists the files in a folder.
pub(crate) fn list(folder: &Folder) -> Listing {
    Listing::below(std::slice::from_ref(&folder.0), None).unwrap()
}

fn names(listing: &Listing) -> Vec<&str> {
    listing.sources.iter().map(|s| s.path.file_name().unwrap().to_str().unwrap()).collect()
}

#[test]
fn files_are_listed_in_order_and_links_are_not_followed() {
    let folder = Folder::new("order");
    folder.write("b", "two");
    folder.write("a/2", "2");
    folder.write("a/1", "");
    folder.write("c", "three");
    std::os::unix::fs::symlink(&folder.0, folder.0.join("loop")).unwrap();
    std::os::unix::fs::symlink("/nowhere", folder.0.join("dangling")).unwrap();
    let listing = list(&folder);
    assert_eq!(names(&listing), ["1", "2", "b", "c"]);
    assert_eq!(listing.bytes(), 9);
    assert!(listing.skipped.is_empty());

    let outside = Folder::new("link");
    let link = outside.0.join("link");
    std::os::unix::fs::symlink(&folder.0, &link).unwrap();
    let named = Listing::below(&[link], None).unwrap();
    assert_eq!(names(&named), ["1", "2", "b", "c"], "a path that is a link is followed");

    let limited = Listing::below(std::slice::from_ref(&folder.0), Some(2)).unwrap();
    assert_eq!(names(&limited), ["1", "2", "b"], "the file that reaches the limit is the last");
    assert!(Listing::below(std::slice::from_ref(&folder.0), Some(0)).unwrap().sources.is_empty());
}

#[test]
fn a_path_that_is_no_input_is_named() {
    let missing = Listing::below(&["/no/such/path".into()], None).unwrap_err().to_string();
    assert!(
        missing.starts_with("cannot count the words of \"/no/such/path\": No such file"),
        "{missing}"
    );
    let device = Listing::below(&["/dev/null".into()], None).unwrap_err().to_string();
    assert!(device.ends_with("/dev/null\": it is neither a file nor a directory"), "{device}");
}

#[test]
fn what_is_no_text_is_a_loss_only_when_it_was_asked_for() {
    let folder = Folder::new("no-text");
    let binary = folder.write("binary", [b'a', 0xff]);
    let found = list(&folder);
    let named = Listing::below(&[binary], None).unwrap();
    let skip = |listing: &Listing| {
        let source = &listing.sources[0];
        Skipped::new(source, source.open().err().unwrap()).is_loss()
    };
    assert!(!skip(&found));
    assert!(skip(&named));
}

#[test]
fn a_file_that_went_away_is_a_loss() {
    let folder = Folder::new("gone");
    let path = folder.write("file", "text");
    let listing = list(&folder);
    fs::remove_file(path).unwrap();
    let source = &listing.sources[0];
    let skipped = Skipped::new(source, source.open().err().unwrap());
    assert!(skipped.is_loss() && matches!(skipped.why, Why::Unreadable(_)));
}
