//! Programs of `ringpost.h`.

use crate::process::Program;
use crate::toolchain::{How, compile, is_slow};

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

/// Starts four ranks, kills one of them when all collective operations are over, and waits for the
/// others.
fn four_ranks(how: How) {
    let program = compile("rp_ranks.c", how);
    // Nodes of another test have the same names.
    let first = if how.sanitized { 7 } else { 100 };
    let secret: String = (first..first + 32).map(|byte: u8| format!("{byte:02x}")).collect();
    let mut ranks = vec![Program::start(&program, &["0", &secret])];
    let address = ranks[0].line();
    ranks.extend(["1", "2", "3"].map(|rank| Program::start(&program, &[rank, &secret, &address])));
    let mut victim = ranks.remove(2);
    // It prints its address first.
    victim.line();
    assert_eq!(victim.line(), "about to die");
    victim.kill();
    for (mut program, rank) in ranks.into_iter().zip([0, 1, 3]) {
        if rank > 0 {
            program.line();
        }
        assert_eq!(program.finish(), format!("rank {rank} is well\n"));
    }
}

#[test]
fn four_processes_are_ranks_of_a_world_of_which_one_is_killed() {
    four_ranks(How::default());
}

#[test]
fn four_processes_are_ranks_under_the_address_sanitizer() {
    four_ranks(How { sanitized: true, ..How::default() });
}

/// Rust's own programs ignore that signal, so only one in C shows it.
#[test]
fn a_write_to_a_killed_process_is_an_error_and_no_signal() {
    let program = compile("rp_broken.c", How::default());
    for _ in 0..if is_slow() { 1 } else { 20 } {
        let mut reader = Program::start(&program, &[]);
        let mut writer = Program::start(&program, &[&reader.line()]);
        assert_eq!(writer.line(), "writing");
        reader.kill();
        assert_eq!(writer.finish(), "told\n");
    }
}
