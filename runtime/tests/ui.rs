//! What the compiler says: each program in `ui/fail` must not compile, and what is said about it is
//! pinned in the `.stderr` file beside it; each in `ui/pass` must compile without a warning, and
//! run.
//!
//! After a change of a text: `TRYBUILD=overwrite cargo test -p ringpost ui`, then read the
//! difference as a user would.

#[test]
fn the_compiler_says_what_is_wrong() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}

#[test]
fn every_shape_compiles_and_runs() {
    trybuild::TestCases::new().pass("tests/ui/pass/*.rs");
}
