//! The pair of `rdmacomm.hpp`.

use std::net::TcpListener;

use crate::process::Program;
use crate::toolchain::{How, compile};

/// Returns a port that is free now. (The class takes a port and cannot choose one.)
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    listener.local_addr().expect("it is bound").port().to_string()
}

fn pair(how: How) {
    let (greeter, guest) = (compile("greeter.cpp", how), compile("guest.cpp", how));
    let port = free_port();
    let mut greeter = Program::start(&greeter, &["127.0.0.1", &port]);
    assert_eq!(greeter.line(), "serving");
    let guest = Program::start(&guest, &["127.0.0.1", &port]);
    assert_eq!(guest.finish(), "good evening\n");
    assert_eq!(greeter.finish(), "good morning\n");
}

#[test]
fn communicators_speak() {
    pair(How::default());
}

#[test]
fn communicators_speak_under_the_address_sanitizer() {
    pair(How { sanitized: true, ..How::default() });
}
