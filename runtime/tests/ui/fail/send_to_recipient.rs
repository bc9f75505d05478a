//! A recipient is sent a message other than its own.
use ringpost::prelude::*;

#[message]
pub struct Ping;

#[message]
pub struct Other;

pub async fn go(recipient: Recipient<Ping>) {
    let _ = recipient.tell(Other).await;
}

fn main() {}
