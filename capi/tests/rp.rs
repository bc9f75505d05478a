//! Programs of `ringpost.h`.

use crate::process::Program;
use crate::toolchain::{How, compile};

#[test]
fn all_functions_do_what_the_header_says() {
    let program = Program::start(&compile("rp_all.c", How::default()), &[]);
    assert_eq!(program.finish(), "all is well\n");
}

#[test]
fn all_functions_do_so_under_the_address_sanitizer() {
    let how = How { sanitized: true, ..How::default() };
    assert_eq!(Program::start(&compile("rp_all.c", how), &[]).finish(), "all is well\n");
}
