//! A rank as its program and its actor share it: its state, under one lock, and the other ranks.
//!
//! Any node of the cluster can send to the actor of a rank. So each rank has a key for each rank,
//! tells it to no one else, and believes only packets that have the key of the rank that they name.
//!
//! Packets and notes of a rank arrive in the order in which they were sent, and have the number of
//! those before them. If some were lost with a link, the rank is dead to their receiver before that
//! takes later ones. When a link is made again, both ends send a note, so that the loss of the last
//! packet is found, too. If nothing was lost, no rank is dead.

use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, ready};

use futures::future::join_all;
use parking_lot::Mutex;
use ringpost::Accepts;
use ringpost::prelude::*;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

use crate::calls::aborted;
use crate::error::WorldError;
use crate::limits::MESSAGE_OVERHEAD_BYTES;
use crate::packet::{Abort, Confirm, Control, Head, Note, Packet};
use crate::state::{Standing, State};
use crate::status::Source;

/// The references to the other ranks, known once all have joined.
pub(crate) struct Mesh {
    pub(crate) rank: usize,
    pub(crate) routes: Vec<Route>,
}

/// The way of messages to one rank.
pub(crate) struct Route {
    pub(crate) packets: Recipient<Packet>,
    controls: Recipient<Control>,
    confirms: Recipient<Confirm, bool>,
    /// The key of this rank for packets to that rank, which has told it.
    pub(crate) key: OnceLock<u64>,
    /// Room for messages at that rank, in bytes.
    pub(crate) room: Semaphore,
    /// One message is sent at a time, so that their parts are not mixed.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// Packets and notes that were committed. It is locked while one is, so a count that is read
    /// after a link was lost includes all that were lost with it.
    sent: Mutex<u64>,
}

impl Route {
    /// Returns how many packets and notes were committed.
    pub(crate) fn sent(&self) -> u64 {
        *self.sent.lock()
    }

    /// Commits a packet or note, and counts it.
    ///
    /// # Errors
    /// Those of the `tell`.
    pub(crate) async fn commit<E>(
        &self,
        tell: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        let mut tell = pin!(tell);
        poll_fn(|cx| {
            let mut sent = self.sent.lock();
            let told = ready!(tell.as_mut().poll(cx));
            *sent += u64::from(told.is_ok());
            Poll::Ready(told)
        })
        .await
    }
}

/// A rank of a world, shared by the handles of its program and its actor.
pub(crate) struct Core {
    pub(crate) node: Node,
    /// The name of the world in logs, and in the names of actors of worlds made of it.
    pub(crate) label: OnceLock<String>,
    pub(crate) window: usize,
    pub(crate) size: usize,
    /// By rank, the key that its packets need here.
    pub(crate) keys: Vec<u64>,
    pub(crate) state: Mutex<State>,
    /// Wakes tasks that wait for a change of the whole world.
    pub(crate) changed: Notify,
    mesh: OnceLock<Mesh>,
    runtime: Handle,
}

/// Draws a key for each rank, which no one can guess: `RandomState` hashes with a random secret.
pub(crate) fn draw_keys(size: usize) -> Vec<u64> {
    let secret = RandomState::new();
    (0..size).map(|rank| secret.hash_one(rank)).collect()
}

impl Core {
    pub(crate) fn new(node: &Node, keys: Vec<u64>, window: usize) -> Arc<Self> {
        let size = keys.len();
        Arc::new(Core {
            node: node.clone(),
            label: OnceLock::new(),
            window,
            size,
            keys,
            state: Mutex::new(State::new(size)),
            changed: Notify::new(),
            mesh: OnceLock::new(),
            runtime: Handle::current(),
        })
    }

    /// Gives the rank its number, the references to all ranks, and their keys as far as it was told
    /// them, once.
    pub(crate) fn begin<A>(
        &self,
        label: String,
        rank: usize,
        members: &[ActorRef<A>],
        keys: impl Iterator<Item = OnceLock<u64>>,
    ) where
        A: Accepts<Packet> + Accepts<Control> + Accepts<Confirm, Reply = bool>,
    {
        let route = |(member, key): (&ActorRef<A>, OnceLock<u64>)| Route {
            packets: member.recipient(),
            controls: member.recipient(),
            confirms: member.asker(),
            key,
            room: Semaphore::new(self.window),
            turn: tokio::sync::Mutex::new(()),
            sent: Mutex::new(0),
        };
        let routes = members.iter().zip(keys).map(route).collect();
        self.state.lock().me = Some(rank);
        drop(self.label.set(label));
        drop(self.mesh.set(Mesh { rank, routes }));
    }

    /// Returns the references to all ranks, once all have joined.
    pub(crate) fn begun(&self) -> Option<&Mesh> {
        self.mesh.get()
    }

    /// Returns the references to all ranks. A `World` has them.
    pub(crate) fn mesh(&self) -> &Mesh {
        self.mesh.get().expect("a world is given to the program when all ranks have joined")
    }

    /// Returns the cost of a message: its bytes and its overhead, and at most the window.
    pub(crate) fn cost(&self, bytes: usize) -> usize {
        bytes.saturating_add(MESSAGE_OVERHEAD_BYTES).min(self.window)
    }

    /// Tells a rank something, by a task of its own: the rank may be behind.
    pub(crate) fn note(self: &Arc<Self>, to: usize, what: Note) {
        let core = self.clone();
        self.runtime.spawn(async move { core.tell(to, what).await });
    }

    /// Tells a rank something. A rank that is gone, or has not told its key yet, is told nothing.
    pub(crate) async fn tell(&self, to: usize, what: Note) {
        let Some(mesh) = self.begun() else { return };
        let Some(route) = mesh.routes.get(to) else { return };
        if let Some(key) = route.key.get().copied() {
            let control = Control { from: mesh.rank as u32, key, sent: route.sent(), what };
            drop(route.commit(route.controls.tell(control)).await);
        }
    }

    /// Returns the number of the rank that has sent a packet or note, if the key is right, and
    /// counts it. `sent` came before it: if not as many arrived, the rank is dead. Those with
    /// another key are dropped; the log has the 1st, 2nd, 4th, 8th of them, and so on.
    pub(crate) fn sender(self: &Arc<Self>, from: u32, key: u64, sent: u64) -> Option<usize> {
        let sender = Some(from as usize).filter(|from| self.keys.get(*from) == Some(&key));
        let Some(sender) = sender else {
            self.strange(from);
            return None;
        };
        if self.state.lock().has_gap(sender, sent) {
            self.died(sender, "messages of it were lost with the link to its node");
        }
        Some(sender)
    }

    /// Tells the ranks of a node, or all ranks, how much they were sent: they find out whether some
    /// of it was lost. A rank that is dead here may not know: its process may have been stopped.
    pub(crate) fn check_with(self: &Arc<Self>, node: Option<&str>) {
        let Some(mesh) = self.begun() else { return };
        let at = |to: usize| mesh.routes[to].packets.address().node();
        let is_there = |to: &usize| *to != mesh.rank && node.is_none_or(|node| node == at(*to));
        for to in (0..self.size).filter(is_there) {
            let is_dead = self.state.lock().standing(to) == Standing::Died;
            self.note(to, if is_dead { Note::Died { rank: to as u32 } } else { Note::Check });
        }
    }

    fn strange(&self, rank: u32) {
        let mut state = self.state.lock();
        state.strange += 1;
        let times = state.strange;
        drop(state);
        if times.is_power_of_two() {
            let world = self.label.get().map_or("", String::as_str);
            tracing::warn!(
                world,
                rank,
                times,
                "dropped what was sent in the name of a rank, but not by it: look for a node of \
                the cluster that is no rank of this world, and sends to its actors"
            );
        }
    }

    /// Returns the key of a rank for an asker that names it. That rank has to confirm the ask.
    pub(crate) async fn key_of(&self, rank: u32, proof: u64) -> Option<u64> {
        let mesh = self.begun()?;
        let route = mesh.routes.get(rank as usize);
        let confirm = Confirm { rank: mesh.rank as u32, proof };
        let is_confirmed = match route {
            Some(route) => route.confirms.ask(confirm).await.ok()?,
            None => false,
        };
        if !is_confirmed {
            self.strange(rank);
        }
        self.keys.get(rank as usize).copied().filter(|_| is_confirmed)
    }

    /// Tells all other ranks that may live something, each by a task of its own.
    pub(crate) fn note_all(self: &Arc<Self>, what: &Note) {
        let Some(mesh) = self.begun() else { return };
        for to in (0..self.size).filter(|to| *to != mesh.rank) {
            self.note(to, what.clone());
        }
    }

    /// Tells all other ranks something, and returns when that is on its way.
    pub(crate) async fn tell_all(&self, what: &Note) {
        let Some(mesh) = self.begun() else { return };
        let others = (0..self.size).filter(|to| *to != mesh.rank);
        join_all(others.map(|to| self.tell(to, what.clone()))).await;
    }

    /// Ends a collective operation on all ranks.
    pub(crate) fn abort(self: &Arc<Self>, sequence: u64, cause: Abort) {
        self.state.lock().calls.fail(sequence, aborted(sequence, cause));
        self.note_all(&Note::Abort { sequence, cause });
    }

    /// Marks a rank as dead, fails all waits for it, and tells the other ranks.
    pub(crate) fn died(self: &Arc<Self>, rank: usize, why: &str) {
        let mut state = self.state.lock();
        let Some(other) = state.others.get_mut(rank) else { return };
        if other.standing != Standing::Living {
            return;
        }
        other.standing = Standing::Died;
        state.refresh();
        drop(state);
        let world = self.label.get().map_or("", String::as_str);
        tracing::warn!(world, rank, why, "a rank has died");
        self.note_all(&Note::Died { rank: rank as u32 });
        self.changed.notify_waiters();
    }

    /// Notes that a rank has left in order, and fails what needs more of it.
    pub(crate) fn left(self: &Arc<Self>, rank: usize, floor: u64) {
        let mut state = self.state.lock();
        let Some(other) = state.others.get_mut(rank) else { return };
        if other.standing == Standing::Living {
            other.standing = Standing::Left(floor);
            state.refresh();
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Revokes the world, here and on all other ranks.
    pub(crate) fn revoke(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.is_revoked, true) {
            state.refresh();
            drop(state);
            self.changed.notify_waiters();
            self.note_all(&Note::Revoked);
        }
    }

    /// Ends everything of this rank. Returns the number of the first collective operation that was
    /// not over.
    pub(crate) fn close(&self) -> u64 {
        let mut state = self.state.lock();
        let floor = state.calls.floor();
        let floor = *state.closed_at.get_or_insert(floor);
        state.refresh();
        drop(state);
        self.changed.notify_waiters();
        floor
    }

    /// Waits until a rank is gone, or this world has ended, and returns the error of that.
    pub(crate) async fn fate(&self, rank: usize) -> WorldError {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(error) = self.state.lock().trouble(Source::Rank(rank)) {
                return error;
            }
            changed.await;
        }
    }

    /// Begins a collective operation of this rank.
    pub(crate) fn enter(self: &Arc<Self>, head: Head) -> u64 {
        let mut state = self.state.lock();
        let (sequence, mismatch) = state.calls.enter(self.mesh().rank as u32, head);
        if let Some(error) = state.call_trouble(sequence) {
            state.calls.fail(sequence, error);
        }
        drop(state);
        if let Some(cause) = mismatch {
            self.abort(sequence, cause);
        }
        sequence
    }
}
