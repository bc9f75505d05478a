//! Two nodes over TCP
#![deny(warnings)]

fn main() {}
