//! A cycle of two messages that no field is marked in.
use ringpost::prelude::*;

#[message]
pub struct Folder {
    pub files: Vec<File>,
}

#[message]
pub struct File {
    pub parent: Option<Box<Folder>>,
}

fn main() {}
