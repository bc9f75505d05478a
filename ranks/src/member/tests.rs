//! Packets, notes and greetings in the name of a rank that has not sent them.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use futures::future::{join, join_all};
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::test_kit::{self, Cluster};

use super::{Hello, Member};
use crate::operation::Sum;
use crate::packet::{Abort, Confirm, Control, Element, Head, Note, Packet, Target};
use crate::state::Standing;
use crate::world::World;

const RANKS: usize = 3;
/// The rounds of each rank while others forge.
const ROUNDS: u64 = 24;

/// Returns a note of each kind, each of which would do harm.
fn notes() -> Vec<Note> {
    let head = Head::new("barrier", 0, Element::of::<u8>(), 7);
    let mismatch = Abort::Mismatch { rank: 0, head, other: 1, other_head: head };
    let died: Vec<u32> = vec![0, 1, 2];
    let abort = |cause| (0..2 * ROUNDS).map(move |sequence| Note::Abort { sequence, cause });
    let mut notes: Vec<Note> = abort(mismatch).chain(abort(Abort::Abandoned { rank: 0 })).collect();
    notes.extend((0..RANKS as u32).map(|rank| Note::Died { rank }));
    notes.push(Note::Check);
    notes.push(Note::Credit { bytes: u64::MAX });
    notes.push(Note::Wanted);
    notes.push(Note::Circle { origin: 0, number: 1 });
    notes.push(Note::Revoked);
    notes.push(Note::Left { floor: 0 });
    notes.push(Note::Vote { number: 1, flag: false, died: died.clone() });
    notes.push(Note::Decided { number: 1, flag: false, died });
    notes
}

/// Returns packets of each kind: whole messages, parts that break one, and steps of operations.
fn packets(from: u32, key: u64) -> Vec<Packet> {
    let element = Element::of::<u64>();
    let message = Target::Message { tag: 7, element };
    let step = |sequence| Target::Step {
        sequence,
        step: 0,
        head: Head::new("gather", 1, Element::of::<u16>(), 3),
    };
    let packet = |to, at, total| Packet { bytes: vec![9; 8], from, key, sent: 0, at, total, to };
    let mut packets = vec![
        packet(message, 0, 8),
        packet(message, 0, 1 << 20),
        packet(message, 8, 16),
        packet(message, 0, u64::MAX),
        packet(step(u64::MAX), 0, 8),
    ];
    packets.extend((0..2 * ROUNDS).map(|sequence| packet(step(sequence), 0, 8)));
    packets
}

/// Sends everything that can be forged to the actor of a rank. Returns how much that was.
async fn forge(cluster: &Cluster, member: &ActorRef<Member>, keys: &[u64]) -> u64 {
    let mut sent = 0;
    for from in 0..=RANKS as u32 {
        for key in keys.iter().copied() {
            for packet in packets(from, key) {
                member.tell(packet).await.unwrap();
                sent += 1;
            }
            for what in notes() {
                member.tell(Control { from, key, sent: 9, what }).await.unwrap();
                sent += 1;
            }
            // The answers come after the other messages were handled.
            assert_eq!(member.ask(Hello { rank: from, proof: key }).await.unwrap(), None);
            assert!(!member.ask(Confirm { rank: from, proof: key }).await.unwrap());
            sent += 1;
            cluster.sleep_up_to(Duration::from_micros(200)).await;
        }
    }
    sent
}

/// Sends, receives and adds up, and finds that nothing is lost or changed.
async fn works(cluster: &Cluster, world: &World) {
    let (rank, size) = (world.rank() as u64, RANKS as u64);
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    for round in 0..ROUNDS {
        let len = if round % 8 == 0 { 100_000 } else { 3 };
        world.send(next as usize, 7, &vec![rank * ROUNDS + round; len]).await.unwrap();
        cluster.sleep_up_to(Duration::from_micros(500)).await;
        let (got, status) = world.recv::<u64>(before as usize, 7).await.unwrap();
        assert!(got == vec![before * ROUNDS + round; len] && status.tag == 7, "round {round}");
        let mut sum = [rank + round];
        world.all_reduce(&mut sum, Sum).await.unwrap();
        assert_eq!(sum, [size * (size - 1) / 2 + size * round]);
    }
    assert_eq!(world.try_probe(crate::Source::Any, crate::Tag::Any), None);
    assert_eq!(world.agree(true).await, Ok(true));
}

#[test]
fn what_comes_in_the_name_of_a_rank_and_not_from_it_is_dropped_and_counted() {
    test_kit::check(0..4, |cluster| async move {
        let nodes = cluster.nodes(RANKS + 1).await;
        let joins = nodes[..RANKS].iter().map(|node| World::join(node, "job", RANKS));
        let whole: Vec<World> = join_all(joins).await.into_iter().map(Result::unwrap).collect();
        // The actors of these worlds have names, by which any node finds them.
        let worlds = join_all(whole.iter().map(World::dup)).await;
        let worlds: Vec<World> = worlds.into_iter().map(Result::unwrap).collect();
        let path = |world: &World| {
            format!("{}/ranks.{}", world.node().name(), world.core().label.get().unwrap())
        };
        let claims = join_all(worlds.iter().map(async |world| {
            // A node that is no rank, and a rank that claims to be others.
            let member = nodes[RANKS].actor::<Member>(&path(world)).await.unwrap();
            let mut forged = forge(&cluster, &member, &[0, cluster.random()]).await;
            let liar = worlds.iter().find(|liar| liar.rank() != world.rank()).unwrap();
            let member = liar.node().actor::<Member>(&path(world)).await.unwrap();
            let key = *liar.core().mesh().routes[world.rank()].key.get().unwrap();
            for from in (0..=RANKS).filter(|from| *from != liar.rank()) {
                let from = from as u32;
                member.tell(Control { from, key, sent: 0, what: Note::Revoked }).await.unwrap();
                assert_eq!(member.ask(Hello { rank: from, proof: key }).await.unwrap(), None);
                forged += 2;
            }
            forged
        }));
        let work = join_all(worlds.iter().map(|world| works(&cluster, world)));
        let (_, forged) = join(work, claims).await;
        for (world, forged) in worlds.iter().zip(forged) {
            let state = world.core().state.lock();
            assert_eq!((state.gone(), state.strange), (Vec::new(), forged));
        }
    });
}

/// Returns packets of a rank that break the protocol, each row in another way.
fn breaches(from: u32, key: u64) -> Vec<Vec<Packet>> {
    let message = Target::Message { tag: 8, element: Element::of::<u8>() };
    let head = Head::new("gather", 1, Element::of::<u8>(), 3);
    let step = |sequence| Target::Step { sequence, step: 0, head };
    let packet =
        |to, len, at, total| Packet { bytes: vec![9; len], from, key, sent: 0, at, total, to };
    vec![
        vec![packet(message, 8, 8, 16)],
        vec![packet(message, 8, 0, u64::MAX)],
        vec![packet(message, 8, 0, 4)],
        vec![packet(message, 8, 0, 16), packet(message, 8, 9, 16)],
        vec![packet(message, 8, 0, 16), packet(message, 8, 8, 17)],
        vec![packet(message, 40 << 10, 0, 40 << 10), packet(message, 40 << 10, 0, 40 << 10)],
        vec![packet(step(u64::MAX), 8, 0, 8)],
        vec![packet(step(0), 8, 8, 16)],
        vec![packet(step(0), 8, 0, 4)],
        vec![packet(step(0), 8, 0, 8), packet(step(0), 8, 0, 8)],
    ]
}

#[test]
fn a_rank_that_breaks_the_protocol_is_dead_to_all_and_what_it_sent_before_is_received() {
    test_kit::run(1, |cluster| async move {
        let nodes = cluster.nodes(RANKS).await;
        for row in 0..breaches(0, 0).len() {
            let join = |node| World::builder("job").node(node).size(RANKS).window(1).join();
            let joined = join_all(nodes.iter().map(join)).await;
            let mut worlds: Vec<World> = joined.into_iter().map(Result::unwrap).collect();
            worlds.sort_by_key(World::rank);
            worlds[2].send(0, 7, &[5_u64]).await.unwrap();
            let route = &worlds[2].core().mesh().routes[0];
            for packet in breaches(2, *route.key.get().unwrap()).swap_remove(row) {
                route.packets.tell(packet).await.unwrap();
            }
            let died = crate::WorldError::Died { rank: 2 };
            let waits = worlds[..2].iter().map(|world| world.recv::<u8>(2, 9));
            for end in join_all(waits).await {
                assert_eq!(end.unwrap_err(), died, "breach {row}");
            }
            assert_eq!(worlds[0].recv::<u64>(2, 7).await.unwrap().0, [5]);
            let shrunk = join_all(worlds[..2].iter().map(World::shrink)).await;
            assert!(shrunk.iter().all(|smaller| smaller.as_ref().unwrap().size() == 2));
            drop(shrunk);
            join_all(worlds.into_iter().map(World::leave)).await;
        }
    });
}

/// Returns the worlds of three ranks, by rank.
async fn joined(cluster: &Cluster) -> Vec<World> {
    let nodes = cluster.nodes(RANKS).await;
    let joined = join_all(nodes.iter().map(|node| World::join(node, "job", RANKS))).await;
    let mut worlds: Vec<World> = joined.into_iter().map(Result::unwrap).collect();
    worlds.sort_by_key(World::rank);
    worlds
}

fn give_up(world: &World, rank: usize) {
    world.core().state.lock().others[rank].standing = Standing::Died;
}

/// A process that was stopped for long has seen nothing of its end in the world.
#[test]
fn a_rank_that_was_given_up_is_told_when_its_node_is_linked_again() {
    test_kit::run(1, |cluster| async move {
        let worlds = joined(&cluster).await;
        worlds[..2].iter().for_each(|world| give_up(world, 2));
        let waits = worlds[2].recv::<u8>(0, 9);
        cluster.world().sever_data(worlds[0].node().name(), worlds[2].node().name());
        assert_eq!(waits.await.unwrap_err(), crate::WorldError::Died { rank: 2 });
        assert_eq!(worlds[2].shrink().await.err(), Some(crate::WorldError::Died { rank: 2 }));
    });
}

#[test]
fn ranks_that_took_each_other_for_dead_do_not_end_each_other() {
    test_kit::run(1, |cluster| async move {
        let worlds = joined(&cluster).await;
        for world in &worlds[..2] {
            give_up(world, 2);
            give_up(&worlds[2], world.rank());
        }
        let mut events = worlds[0].node().events();
        cluster.world().sever_data(worlds[0].node().name(), worlds[2].node().name());
        while !matches!(events.recv().await, Ok(NodeEvent::LinkUp { .. })) {}
        cluster.settle().await;
        let agreed = join(worlds[0].agree(true), worlds[1].agree(true)).await;
        assert_eq!(agreed, (Ok(true), Ok(true)));
    });
}

#[test]
fn a_rank_whose_program_panics_has_died() {
    test_kit::run(1, |cluster| async move {
        let mut worlds = joined(&cluster).await;
        let panics = worlds.pop().unwrap();
        let task = tokio::spawn(async move {
            let _rank = panics;
            panic!("a bug of the program");
        });
        assert!(task.await.is_err());
        let waits = worlds.iter().map(|world| world.recv::<u8>(2, 9));
        for end in join_all(waits).await {
            assert_eq!(end.unwrap_err(), crate::WorldError::Died { rank: 2 });
        }
    });
}
