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

/// Starts four ranks, kills one of them when all collective operations are over, and waits for the
/// others.
fn four_ranks(how: How) {
    let program = compile("rp_ranks.c", how);
    let mut ranks = vec![Program::start(&program, &["0"])];
    let address = ranks[0].line();
    ranks.extend(["1", "2", "3"].map(|rank| Program::start(&program, &[rank, &address])));
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
