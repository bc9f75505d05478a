//! An actor without a `#[handlers]` block is looked up.
use ringpost::prelude::*;

#[actor]
pub struct Teller;

pub async fn find(node: Node) {
    let _ = node.actor::<Teller>("alpha/teller").await;
}

fn main() {}
