//! The pair of `rdmacomm.hpp`.

use ringpost_ranks::LocalHosts;

use crate::process::Program;
use crate::toolchain::{How, compile};

fn pair(how: How) {
    let (greeter, guest) = (compile("greeter.cpp", how), compile("guest.cpp", how));
    // The class takes a port and cannot choose one.
    let hosts = LocalHosts::reserve(1).expect("there is a port");
    let port = hosts.addresses()[0].strip_prefix("127.0.0.1:").expect("it is of this machine");
    let mut greeter = Program::start(&greeter, &["127.0.0.1", port]);
    assert_eq!(greeter.line(), "serving");
    let guest = Program::start(&guest, &["127.0.0.1", port]);
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
