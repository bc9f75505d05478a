//! A group is told a message that is not its members'.
use ringpost::Group;
use ringpost::prelude::*;

#[message]
#[derive(Clone)]
pub struct Line;

#[message]
pub struct Other;

pub async fn go(room: ActorRef<Group<Line>>) {
    let _ = room.tell(Other).await;
}

fn main() {}
