//! Programs of `rdma_lib.h`.

use crate::process::Program;
use crate::toolchain::{How, compile};

/// Runs the server and its two clients, and compares their output.
fn star(how: How) {
    let (hub, spoke) = (compile("hub.c", how), compile("spoke.c", how));
    let mut hub = Program::start(&hub, &[]);
    let port = hub.line();
    let spokes = ["1", "2"].map(|name| Program::start(&spoke, &["127.0.0.1", &port, name]));
    for spoke in spokes {
        assert_eq!(spoke.finish(), "go\nhub\n");
    }
    let all = hub.finish();
    let mut greetings: Vec<&str> = all.lines().collect();
    greetings.sort_unstable();
    assert_eq!(greetings, ["spoke 1", "spoke 2"], "in the order in which they were accepted");
}

#[test]
fn a_server_and_two_clients_exchange() {
    star(How::default());
}

#[test]
fn a_server_and_two_clients_exchange_under_the_address_sanitizer() {
    star(How { sanitized: true, ..How::default() });
}

#[test]
fn a_program_may_have_the_static_library() {
    star(How { is_static: true, ..How::default() });
}

#[test]
fn wrong_use_is_a_failure_with_its_text() {
    let how = How { sanitized: true, ..How::default() };
    let program = Program::start(&compile("rdma_wrong.c", how), &[]);
    assert_eq!(program.finish(), "all failed as they should\n");
}

#[test]
fn a_server_has_64_peers() {
    let program = Program::start(&compile("rdma_many.c", How::default()), &[]);
    assert_eq!(program.finish(), "64 peers\n");
}
