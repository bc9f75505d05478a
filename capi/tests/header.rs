//! The committed header is the generated one.

use std::collections::HashMap;

use cbindgen::{Builder, Config, DocumentationStyle, EnumConfig, Language};

use crate::toolchain::here;

const TOP: &str = "\
/*
 * Ringpost for C: nodes, channels of messages, byte streams, shared memory, ranks and collective
 * operations, over RDMA, or TCP where there is no RDMA device.
 *
 * This file is generated from the comments of `src/rp`: do not change it by hand.
 *
 * Handles. What a function returns as a pointer is no address: it is only given to other functions.
 * Each handle is closed by a function of its kind. NULL, a handle that is closed and a handle of
 * another kind are failures, and never crash the program.
 *
 * Errors. A function that fails returns -1, or NULL; rp_last_error() says why, and rp_last_code()
 * what kind of failure it is, both for the calling thread.
 *
 * Threads. Every function may be called by any thread at any time; two threads may use one handle.
 * A call that waits ends with a failure when another thread closes the handle. A program that forks
 * calls nothing of this library in the child unless it executes another program there.
 *
 * Texts are UTF-8 and end with a null.
 */";

fn generated() -> String {
    let config = Config {
        language: Language::C,
        header: Some(TOP.into()),
        include_guard: Some("RINGPOST_H".into()),
        cpp_compat: true,
        documentation_style: DocumentationStyle::C99,
        usize_is_size_t: true,
        line_length: 100,
        tab_width: 4,
        enumeration: EnumConfig::default(),
        defines: HashMap::new(),
        ..Config::default()
    };
    let sources = ["node", "channel", "stream", "region", "world"];
    let builder = sources.iter().fold(Builder::new().with_config(config), |builder, source| {
        builder.with_src(here().join(format!("src/rp/{source}.rs")))
    });
    let mut header = Vec::new();
    builder.generate().expect("the sources have a form that it reads").write(&mut header);
    String::from_utf8(header).expect("the sources are UTF-8")
}

#[test]
fn the_header_is_that_of_the_sources() {
    let generated = without_safety(&generated());
    let path = here().join("include/ringpost.h");
    if std::env::var_os("RINGPOST_WRITE_HEADER").is_some() {
        std::fs::write(&path, &generated).expect("it can be written");
    }
    let committed = std::fs::read_to_string(&path).expect("it is there");
    assert!(generated == committed, "run this test with RINGPOST_WRITE_HEADER=1 and commit");
}

/// Leaves out the parts of comments that are for Rust.
fn without_safety(header: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut is_left_out = false;
    for line in header.lines() {
        is_left_out = (is_left_out || line == "// # Safety") && line.starts_with("//");
        if is_left_out {
            if kept.last() == Some(&"//") {
                kept.pop();
            }
            continue;
        }
        kept.push(line);
    }
    kept.join("\n") + "\n"
}
