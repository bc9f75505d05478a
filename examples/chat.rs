//! A chat over three nodes: rooms that are groups, guests that come, leave, panic and lose their
//! node.
//!
//! `cargo run --example chat` prints, beside the report of a panic:
//!
//! ```text
//! ada in tea: hello (told 4)
//! bob has left, eve has panicked: 2 guests are in tea
//! gamma has left: 1 guest is in tea
//! ada in tea: is anybody there? (told 1)
//! ada has heard 3 lines
//! ```
#![deny(warnings)]

use std::collections::BTreeMap;
use std::time::Duration;

use ringpost::group::{Group, Told};
use ringpost::prelude::*;
use ringpost::spawn::Child;

const PATIENCE: Duration = Duration::from_secs(5);

/// A line of talk, as all who are in the room hear it.
#[message]
#[derive(Debug, Clone, PartialEq)]
struct Line {
    from: String,
    text: String,
}

type Room = ActorRef<Group<Line>>;

/// Knows the rooms, which end with it.
#[actor]
#[derive(Default)]
struct Hall {
    rooms: BTreeMap<String, Room>,
}

#[handlers]
impl Hall {
    /// Returns the room of a name, which is opened for its first guest.
    #[handler]
    async fn open(&mut self, name: String, cx: &mut Context<Self>) -> Result<Room, String> {
        if let Some(room) = self.rooms.get(&name) {
            return Ok(room.clone());
        }
        let room = cx.spawn(Child::new(Group::<Line>::new)).await.map_err(|e| e.to_string())?;
        self.rooms.insert(name, room.clone());
        Ok(room)
    }

    #[handler]
    fn rooms(&self) -> Vec<String> {
        self.rooms.keys().cloned().collect()
    }
}

#[actor]
struct Guest {
    name: String,
    hall: ActorRef<Hall>,
    heard: Vec<Line>,
}

#[handlers]
impl Guest {
    #[handler]
    async fn enter(&mut self, room: String, cx: &mut Context<Self>) -> Result<(), String> {
        let room = self.find(room).await?;
        let joined = room.join(cx.actor().recipient()).await.map_err(|e| e.to_string())?;
        joined.map_err(|e| e.to_string())
    }

    #[handler]
    async fn exit(&mut self, room: String, cx: &mut Context<Self>) -> Result<bool, String> {
        let room = self.find(room).await?;
        room.leave(cx.actor().recipient()).await.map_err(|e| e.to_string())
    }

    /// Returns who was told, this guest too, and who has missed it.
    #[handler]
    async fn say(&mut self, room: String, text: String) -> Result<Told<Line>, String> {
        let room = self.find(room).await?;
        room.ask(Line { from: self.name.clone(), text }).await.map_err(|e| e.to_string())
    }

    /// Hears a line: another guest's, or its own.
    #[handler]
    fn line(&mut self, msg: Line) {
        assert!(self.name != "eve" || msg.text != "boo", "eve is frightened");
        self.heard.push(msg);
    }

    #[handler]
    fn heard(&self) -> Vec<String> {
        self.heard.iter().map(|line| format!("{}: {}", line.from, line.text)).collect()
    }
}

impl Guest {
    async fn find(&self, room: String) -> Result<Room, String> {
        self.hall.open(room).await.map_err(|e| e.to_string())?
    }
}

/// Spawns a guest on a node, and sends it into a room.
async fn guest(node: &Node, name: &str) -> Result<ActorRef<Guest>, BoxError> {
    let hall = node.actor("alpha/hall").await?;
    let guest = Guest { name: name.into(), hall, heard: Vec::new() };
    let guest = node.spawn(name, guest).await?;
    guest.enter("tea".into()).await??;
    Ok(guest)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let alpha = Node::builder("alpha").listen("127.0.0.1:0").start().await?;
    let seeds = alpha.addresses();
    let beta = Node::builder("beta").listen("127.0.0.1:0").seeds(seeds.clone()).start().await?;
    let gamma = Node::builder("gamma").listen("127.0.0.1:0").seeds(seeds).start().await?;
    alpha.ready(2).await?;
    let hall = alpha.spawn("hall", Hall::default()).await?;
    let ada = guest(&alpha, "ada").await?;
    let bob = guest(&beta, "bob").await?;
    let eve = guest(&beta, "eve").await?;
    let mallory = guest(&gamma, "mallory").await?;
    let room = hall.open("tea".into()).await??;

    let told = ada.say("tea".into(), "hello".into()).await??;
    println!("ada in tea: hello (told {})", told.told);
    check(told.told == 4 && told.missed.is_empty(), "not all were told")?;

    // One leaves, one panics, and one loses its node: all of them are guests no longer.
    check(bob.exit("tea".into()).await??, "bob was not in the room")?;
    mallory.say("tea".into(), "boo".into()).await??;
    check(eve.wait_stopped().await.is_failure(), "eve did not panic")?;
    // The room is told of ends, but not at once.
    room.when_size(2).await?;
    println!("bob has left, eve has panicked: 2 guests are in tea");
    gamma.shutdown(PATIENCE).await;
    room.when_size(1).await?;
    println!("gamma has left: 1 guest is in tea");

    let told = ada.say("tea".into(), "is anybody there?".into()).await??;
    println!("ada in tea: is anybody there? (told {})", told.told);
    let heard = ada.heard().await?;
    println!("ada has heard {} lines", heard.len());
    check(heard == ["ada: hello", "mallory: boo", "ada: is anybody there?"], "ada misheard")?;
    check(bob.heard().await? == ["ada: hello"], "bob heard what was said after he had left")?;
    check(hall.rooms().await? == ["tea"], "there is another room")?;

    beta.shutdown(PATIENCE).await;
    alpha.shutdown(PATIENCE).await;
    Ok(())
}

fn check(is_so: bool, otherwise: &str) -> Result<(), BoxError> {
    if is_so { Ok(()) } else { Err(otherwise.into()) }
}
