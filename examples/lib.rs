//! Holds the examples of ringpost; see `examples/*.rs` and `cargo run --example NAME`.
