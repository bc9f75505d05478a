//! An actor without a `#[handlers]` block is spawned.
use ringpost::prelude::*;

#[actor]
pub struct Teller;

pub async fn start(node: Node) {
    let _ = node.spawn("teller", Teller).await;
}

fn main() {}
