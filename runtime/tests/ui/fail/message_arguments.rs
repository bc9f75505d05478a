//! Wrong arguments, all of which are reported in one build.
use ringpost::prelude::*;

#[message(nmae = "x")]
pub struct Misspelt;

#[message(name = "")]
pub struct Nameless;

#[message(version = "2")]
pub struct Versioned;

#[message]
pub struct Fields {
    #[message(opaqe)]
    pub misspelt: u8,
    #[message(opaque, recursive)]
    pub both: u8,
    #[cfg(unix)]
    pub conditional: u8,
}

fn main() {}
