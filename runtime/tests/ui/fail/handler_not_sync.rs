//! An asynchronous `&self` handler of an actor that is not `Sync`.
use ringpost::prelude::*;

#[actor]
pub struct Odd {
    cell: std::cell::Cell<u64>,
}

#[handlers]
impl Odd {
    #[handler]
    pub async fn read(&self) -> u64 {
        self.cell.get()
    }
}

fn main() {}
