//! The acts on the group of a scene.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures::future::{join, join4};
use ringpost::group::Group;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::spawn::{SpawnError, SpawnOptions};
use tokio::time::timeout;

use super::super::{MS, SECOND, Scene};
use super::book::{Book, Seat, What};
use super::judge::judge;
use super::line::Line;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// Chairs on each node: on each sits one member, and then another.
const CHAIRS: usize = 2;
/// Longer than an ask of a group takes: its slowest member is settled when its node is down.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longer than anything takes when the faults are over.
const SETTLED: Duration = Duration::from_secs(30);

/// Writes down the lines that it hears, one after the other.
struct Listener {
    /// Where it is joined, if that is by its name.
    seat: Option<Seat>,
    /// It has started.
    sits: bool,
    book: Book,
    pace: Duration,
}

#[actor(name = "models::Listener")]
impl Actor for Listener {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let seat = self.seat.get_or_insert_with(|| self.book.seat(cx.actor().address()));
        self.book.sits(*seat);
        self.sits = true;
        Ok(())
    }
}

#[handlers]
impl Listener {
    #[handler]
    async fn line(&mut self, msg: Line) {
        if let Some(seat) = self.seat {
            self.book.heard(seat, msg.number);
        }
        tokio::time::sleep(self.pace).await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.filter(|_| self.sits) {
            self.book.ended(seat);
        }
    }
}

/// A place for a listener.
struct Chair {
    node: usize,
    by_name: bool,
    pace: Duration,
    room: usize,
    listener: Option<ActorRef<Listener>>,
}

struct Stage {
    scene: Scene,
    book: Book,
    nodes: RefCell<Vec<Option<Node>>>,
    chairs: RefCell<Vec<Chair>>,
    lines: Cell<u64>,
    text: String,
}

/// Plays the scene of a seed, and judges it.
///
/// # Panics
/// When a rule was broken.
pub(in crate::models) async fn play(scene: Scene) {
    let stage = Stage::new(scene).await;
    let group = stage.node(0).unwrap().spawn("group", Group::<Line>::new()).await.unwrap();
    for chair in 0..NODES.len() * CHAIRS {
        stage.sit(chair).await;
        if stage.scene.below(3) > 0 {
            stage.join(0, chair).await;
        }
    }
    let faults = stage.scene.one_of(&[0, 0, 1, 3, 6]);
    let burst = stage.scene.one_in(4);
    let steps = async |at| {
        for _ in 0..stage.scene.below(10) {
            stage.scene.rest(stage.scene.one_of(&[MS, 20 * MS, 300 * MS])).await;
            stage.step(at).await;
        }
    };
    let bursts = async {
        if burst {
            stage.scene.rest(SECOND).await;
            stage.burst().await;
        }
    };
    let troubles = async {
        for _ in 0..faults {
            stage.scene.rest(2 * SECOND).await;
            stage.trouble().await;
        }
    };
    let asks = async {
        for _ in 0..4 {
            stage.scene.rest(SECOND).await;
            stage.ask(0).await;
        }
    };
    join(join4(steps(0), steps(1), steps(2), bursts), join(troubles, join(asks, steps(0)))).await;
    if stage.scene.one_in(4) {
        stage.book.trouble();
        let waiting = stage.ask(0);
        let stop = async {
            stage.scene.rest(50 * MS).await;
            group.stop().await.unwrap();
            group.wait_stopped().await;
            stage.book.over();
            stage.scene.note("the group ended");
        };
        join(waiting, stop).await;
    }
    stage.scene.cluster.mend_all();
    stage.scene.cluster.sleep(SETTLED).await;
    let members = group.members().await.ok();
    let members = members
        .map(|all| all.iter().map(|member| stage.book.seat(member.address())).collect::<Vec<_>>());
    judge(&stage.scene, stage.book.close(), members);
}

impl Stage {
    async fn new(scene: Scene) -> Self {
        let (book, mut nodes) = (Book::new(), Vec::new());
        for name in NODES {
            nodes.push(Some(scene.cluster.node(name).await));
        }
        if let Some(first) = &nodes[0] {
            let (mut events, book) = (first.events(), book.clone());
            tokio::spawn(async move {
                while let Ok(event) = events.recv().await {
                    if let NodeEvent::NodeDown { node, .. } = event {
                        book.down(node.name.as_str());
                    }
                }
            });
        }
        let chair = |number: usize| Chair {
            node: number / CHAIRS,
            by_name: scene.one_in(2),
            pace: scene.one_of(&[Duration::ZERO, MS, 20 * MS, 200 * MS]),
            room: scene.one_of(&[1, 2, 8]),
            listener: None,
        };
        let chairs: Vec<Chair> = (0..NODES.len() * CHAIRS).map(chair).collect();
        let text = "x".repeat(scene.one_of(&[0, 100, 20_000]));
        let (nodes, chairs) = (RefCell::new(nodes), RefCell::new(chairs));
        Stage { scene, book, nodes, chairs, lines: Cell::new(0), text }
    }

    fn node(&self, at: usize) -> Option<Node> {
        self.nodes.borrow()[at].clone()
    }

    fn group(&self, at: usize) -> Option<ActorRef<Group<Line>>> {
        self.node(at).map(|node| node.named("n1/group").unwrap())
    }

    fn line(&self) -> Line {
        self.lines.set(self.lines.get() + 1);
        Line { number: self.lines.get(), text: self.text.clone() }
    }

    fn begin(&self, at: usize, number: u64, is_try: bool) -> usize {
        self.book.begin(at, What::Line { number, is_try, outcome: None })
    }

    /// Has someone sit on a chair on which nobody does.
    async fn sit(&self, chair: usize) {
        let path = path(chair);
        let (listener, room, node) = {
            let chairs = self.chairs.borrow();
            let Chair { node, by_name, pace, room, .. } = chairs[chair];
            let Some(node) = self.node(node) else { return };
            let named = node.named::<Listener>(&path).unwrap();
            let seat = by_name.then(|| self.book.seat(named.address()));
            (Listener { seat, sits: false, book: self.book.clone(), pace }, room, node)
        };
        let options = SpawnOptions::named(format!("c{chair}")).mailbox_capacity(room);
        match node.spawn_with(options, listener).await {
            Ok(listener) => self.chairs.borrow_mut()[chair].listener = Some(listener),
            Err(SpawnError::NameTaken(_) | SpawnError::Shutdown) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns who sits on a chair, as a node calls it.
    async fn member(&self, at: usize, chair: usize) -> Option<Recipient<Line>> {
        let (node, path) = (self.node(at)?, path(chair));
        if self.chairs.borrow()[chair].by_name {
            return Some(node.named::<Listener>(&path).unwrap().recipient());
        }
        Some(node.actor::<Listener>(&path).await.ok()?.recipient())
    }

    async fn step(&self, at: usize) {
        let chair = self.scene.below(NODES.len() * CHAIRS);
        match self.scene.below(16) {
            0..4 => self.tell(at).await,
            4..7 => self.ask(at).await,
            7..9 => self.try_broadcast(at).await,
            9..11 => self.join(at, chair).await,
            11..13 => self.leave(at, chair).await,
            13 => self.drop_ask(at).await,
            _ => self.size().await,
        }
    }

    async fn tell(&self, at: usize) {
        let (Some(group), line) = (self.group(at), self.line()) else { return };
        let act = self.begin(at, line.number, false);
        match group.tell(line).await {
            Ok(()) => self.book.sent(act),
            Err(_) => self.book.refused(act),
        }
    }

    async fn ask(&self, at: usize) {
        let (Some(group), line) = (self.group(at), self.line()) else { return };
        let act = self.begin(at, line.number, false);
        let ask = group.ask(line).timeout(PATIENCE);
        // Sent so, it waits in the mailbox of an idle group, too.
        let told = match act.is_multiple_of(2) {
            true => match ask.try_send() {
                Ok(answer) => answer.await,
                Err(_) => return self.book.refused(act),
            },
            false => ask.await,
        };
        match told {
            Ok(told) => self.book.told(act, told),
            Err(error) if error.is_retryable() => self.book.refused(act),
            Err(error) => {
                let may_be_lost = at != 0 || self.book.is_troubled();
                assert!(may_be_lost, "an ask of the group's own node has no answer: {error}");
            }
        }
    }

    /// Asks, and waits no longer for the answer after a moment.
    async fn drop_ask(&self, at: usize) {
        let (Some(group), line) = (self.group(at), self.line()) else { return };
        self.begin(at, line.number, false);
        self.book.dropped(line.number);
        let patience = self.scene.one_of(&[Duration::ZERO, MS, 10 * MS]);
        let answered = timeout(patience, group.ask(line).into_ask()).await.is_ok();
        self.scene.note_if(!answered, "an ask was dropped");
    }

    async fn try_broadcast(&self, at: usize) {
        let (Some(group), message) = (self.group(at), self.line()) else { return };
        let act = self.begin(at, message.number, true);
        match group.try_broadcast(message).timeout(PATIENCE).await {
            Ok(told) => self.book.told(act, told),
            Err(error) if error.is_retryable() => self.book.refused(act),
            Err(_) => {}
        }
    }

    async fn join(&self, at: usize, chair: usize) {
        self.sit(chair).await;
        let Some(member) = self.member(at, chair).await else { return };
        let Some(group) = self.group(at) else { return };
        let seat = self.book.seat(member.address());
        let act = self.book.begin(at, What::Join(seat));
        match group.join(member).timeout(PATIENCE).await {
            Ok(joined) => {
                self.scene.cluster.log(&format!("chair {chair} is joined by {at}: seat {seat}"));
                joined.expect("there is room");
                self.book.answered(act);
            }
            Err(error) if error.is_retryable() => self.book.refused(act),
            Err(_) => {}
        }
    }

    async fn leave(&self, at: usize, chair: usize) {
        let Some(member) = self.member(at, chair).await else { return };
        let Some(group) = self.group(at) else { return };
        let seat = self.book.seat(member.address());
        let act = self.book.begin(at, What::Leave(seat, None));
        match group.leave(member).timeout(PATIENCE).await {
            Ok(was) => self.book.left(act, was),
            Err(error) if error.is_retryable() => self.book.refused(act),
            Err(_) => {}
        }
    }

    /// The group waits for no member, so it answers at once.
    async fn size(&self) {
        let (Some(group), begin) = (self.group(0), self.scene.cluster.now()) else { return };
        if group.size().await.is_ok() {
            let took = self.scene.cluster.now() - begin;
            assert!(took < MS, "the group took {took:?} to answer");
        }
    }

    /// Tells more lines than wait for a member.
    async fn burst(&self) {
        self.book.fill();
        for _ in 0..80 {
            self.tell(0).await;
        }
        self.ask(0).await;
    }

    async fn trouble(&self) {
        self.book.trouble();
        let chair = self.scene.below(NODES.len() * CHAIRS);
        let node = 1 + self.scene.below(NODES.len() - 1);
        match self.scene.below(8) {
            0..3 => self.end(chair).await,
            3 => self.restart(node).await,
            _ => {
                let (other, long) = (NODES[self.scene.below(node)], self.scene.one_in(2));
                self.scene.disturb(other, NODES[node], long).await;
            }
        }
    }

    /// Ends who sits on a chair; often another one follows at once, and joins.
    async fn end(&self, chair: usize) {
        let Some(listener) = self.chairs.borrow()[chair].listener.clone() else { return };
        let ended = match self.scene.below(3) {
            0 => listener.stop().await,
            1 => listener.drain().await,
            _ => listener.kill().await,
        };
        if ended.is_err() {
            return;
        }
        if self.scene.one_in(2) {
            listener.wait_stopped().await;
            self.sit(chair).await;
            if self.chairs.borrow()[chair].by_name {
                self.scene.note("a member came again under its name");
            }
            self.join(self.scene.below(NODES.len()), chair).await;
        }
    }

    async fn restart(&self, node: usize) {
        self.nodes.borrow_mut()[node] = None;
        self.book.down(NODES[node]);
        self.scene.cluster.kill(NODES[node]).await;
        self.scene.note("a node was killed");
        self.scene.rest(self.scene.one_of(&[MS, SECOND, 12 * SECOND])).await;
        let again = self.scene.cluster.node(NODES[node]).await;
        self.nodes.borrow_mut()[node] = Some(again);
        for chair in node * CHAIRS..(node + 1) * CHAIRS {
            self.join(node, chair).await;
        }
    }
}

fn path(chair: usize) -> String {
    format!("{}/c{chair}", NODES[chair / CHAIRS])
}
