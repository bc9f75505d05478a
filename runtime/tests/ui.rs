//! The compiler's messages: each program in `ui/fail` must not compile, and its messages are pinned
//! in the `.stderr` file beside it.
//!
//! After a change of a text: `TRYBUILD=overwrite cargo test -p ringpost ui`, then read the
//! difference as a user would.

use std::env;
use std::process::Command;

/// Set where the programs are compiled: in a process of its own, as the flags of its compiler are
/// variables of the process.
const INNER: &str = "RINGPOST_TEST_COMPILES";

/// The compiler's flags. With trybuild's own flags, which differ between the dependencies and the
/// programs, the dependencies are built twice.
const FLAGS: &[&str] =
    &["--cfg", "trybuild", "--verbose", "-A", "dead_code", "--diagnostic-width=140"];

#[test]
fn the_compiler_says_what_is_wrong() {
    if env::var_os(INNER).is_some() {
        return trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
    }
    let mut inner = Command::new(env::current_exe().unwrap());
    inner.args(["--exact", "ui::the_compiler_says_what_is_wrong", "--nocapture"]);
    inner.env(INNER, "1").env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"));
    // Set where a build looks for clippy's lints, too.
    inner.env_remove("RUSTC_WORKSPACE_WRAPPER");
    let ended = inner.output().unwrap();
    let [said, more] = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(ended.status.success(), "{said}{more}");
}
