//! Also a message that stays on its node moves between threads.
use ringpost::prelude::*;

#[message(local)]
pub struct Shared {
    pub count: std::rc::Rc<u8>,
}

fn main() {}
