//! Programs of `rdma_lib.h`.

use std::time::{Duration, Instant};

use crate::process::{Program, is_slow};
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

#[test]
fn a_client_that_is_killed_is_a_failure_at_once_and_the_others_go_on() {
    let path = compile("rdma_killed.c", How::default());
    let mut server = Program::start(&path, &[]);
    let port = server.line();
    let mut clients = ["idles", "idles", "works"].map(|what| {
        let mut client = Program::start(&path, &["127.0.0.1", &port, what]);
        assert_eq!((client.line(), server.line()), ("connected".into(), "accepted".into()));
        client
    });
    for (during, client) in ["receiving", "exchanging"].into_iter().zip(&mut clients) {
        assert_eq!(server.line(), during);
        let killed = Instant::now();
        client.kill();
        let text = server.line();
        let lasted = killed.elapsed();
        println!("{during}: {text}, after {lasted:?}");
        assert!(text.contains("lost") || text.contains("down"), "{text}");
        assert!(lasted < Duration::from_secs(1) || is_slow(), "{lasted:?}");
    }
    let [_, _, works] = clients;
    assert_eq!((works.finish(), server.finish()), (String::new(), "well\n".into()));
}
