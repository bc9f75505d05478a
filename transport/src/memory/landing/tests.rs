//! Landing memory of one peer and of several.

use std::sync::Arc;

use super::super::budget::Budget;
use super::super::region::Region;
use super::*;
use crate::limits::VIEWED_BYTES_MAX;

const MIB: usize = 1024 * 1024;

/// With fewer seeds memory at random is seldom kept until it is too old.
const SEEDS_FOR_ALL: u64 = 800;

fn landing(budget: u64) -> Landing {
    of(&Account::new(&Arc::new(Budget::new(budget))))
}

/// The landing memory of a peer that views nothing.
fn of(account: &Account) -> Landing {
    Landing::new(account.clone(), Account::new(&Arc::new(Budget::new(0))))
}

fn made(room: Room) -> (Slot, usize) {
    let region = Region::heap(room.size).with_taken(room.taken);
    (region.into_slots(room.size).remove(0), room.size)
}

fn land(landing: &mut Landing, bytes: usize) -> Option<Runway> {
    loop {
        if let Some(runway) = landing.take(bytes) {
            return Some(runway);
        }
        let mut freed = Vec::new();
        if let Some(room) = landing.room(bytes, &mut freed) {
            let (slot, size) = made(room);
            return Some(landing.add(slot, size));
        }
        if freed.is_empty() {
            return None;
        }
    }
}

/// Memory that a link has: its number, its size, and what a view takes of its room.
type Had = (usize, usize, Lease, Option<BudgetShare>);

/// Bytes that the link of this number has, of views or of messages.
fn sum_of(held: &[Had], nth: usize, views: bool) -> usize {
    let of = held.iter().filter(|(of, _, _, view)| *of == nth && view.is_some() == views);
    of.map(|(_, size, ..)| size).sum()
}

/// A message of a link is refused where its peer would have too much, or not leave as much to
/// others, whatever is viewed.
fn check_refusal(held: &[Had], nth: usize, bytes: usize, budget: &Budget) {
    let [has, views] = [false, true].map(|views| {
        let of = [0, 1, 2].map(|of| sum_of(held, of, views));
        if views { of.iter().sum() } else { of[nth] }
    });
    // Unused memory of others is there until they hear of this.
    let others = budget.taken() as usize - views - has;
    let own = has + size_of(bytes);
    let fits = own <= LANDING_BYTES_MAX - VIEWED_BYTES_MAX;
    let leaves = (2 * own + others) as u64 <= budget.bytes() / 2;
    assert!(!fits || !leaves, "{has} of a message's, {views} viewed, {others} of others, {bytes}");
}

/// Takes memory for a task's view. Returns its size, its lease and its share of the budget of
/// views. New memory leaves as much to others as its peer has then.
fn view(
    landing: &mut Landing,
    viewed: &Account,
    bytes: usize,
) -> Option<(usize, Lease, BudgetShare)> {
    let size = size_of(bytes);
    let taken = viewed.take_spare(size as u64)?;
    if viewed.taken() > VIEWED_BYTES_MAX as u64 {
        return None;
    }
    let runway = landing.take_for_view(size).or_else(|| {
        let (slot, size) = made(landing.room_for_view(size)?);
        let budget = landing.account.budget();
        assert!(budget.bytes() - budget.taken() >= landing.account.taken());
        Some(landing.add(slot, size))
    })?;
    Some((size, landing.lease(runway, bytes)?, taken))
}

#[test]
fn sizes_waste_little() {
    for bytes in [1, 4096, 4097, 128 * 1024, 129 * 1024, MIB, MIB + 1, 72 * MIB + 7] {
        let size = size_of(bytes);
        assert!(size >= bytes && size.is_multiple_of(4096), "{bytes}: {size}");
        let waste = size - bytes;
        assert!(waste < SMALLEST || waste * STEPS <= bytes, "{bytes}: {size}");
    }
    assert_eq!(size_of(MIB), MIB);
}

/// ME-11.
#[tokio::test(start_paused = true)]
async fn memory_is_bounded_used_again_and_given_back() {
    let mut landing = landing(u64::MAX);
    let runway = land(&mut landing, MIB - 5).unwrap();
    let first = runway.slot.as_ptr();
    let lease = landing.lease(runway, 100).unwrap();
    assert_eq!((lease.len(), landing.bytes()), (100, MIB));
    let other = land(&mut landing, MIB).unwrap();
    assert_ne!(other.slot.as_ptr(), first, "the first one is read");
    drop(lease);
    let again = land(&mut landing, MIB * 3 / 4).unwrap();
    assert_eq!(again.slot.as_ptr(), first, "not twice too large");
    drop(landing.lease(again, 0));
    assert!(landing.take(MIB / 4).is_none(), "it would waste too much");

    // The bound; memory that is not in use makes room, memory in use does not.
    let large = land(&mut landing, LANDING_BYTES_MAX - 8 * MIB).unwrap();
    assert_eq!(landing.bytes(), LANDING_BYTES_MAX - 6 * MIB);
    assert!(land(&mut landing, 8 * MIB).is_none());
    drop((landing.lease(large, 0), landing.lease(other, 0)));
    let eight = land(&mut landing, 8 * MIB).unwrap();
    assert!(landing.bytes() <= LANDING_BYTES_MAX);

    let lost = land(&mut landing, 80 * 1024).unwrap();
    landing.lose(lost.size());
    drop(landing.lease(eight, 0));
    assert!(landing.take_unused().is_empty());
    tokio::time::advance(SPARE_KEPT).await;
    assert!(!landing.take_unused().is_empty());
    assert_eq!(landing.bytes(), 0);
}

/// ME-11: a slot that is not used is given back, though another one of its size is.
#[tokio::test(start_paused = true)]
async fn each_slot_has_its_own_time() {
    let mut landing = landing(u64::MAX);
    let two = [0; 2].map(|_| land(&mut landing, MIB).unwrap());
    drop(two.map(|runway| landing.lease(runway, 0)));
    for round in 0..30 {
        drop(land(&mut landing, MIB).map(|runway| landing.lease(runway, 0)));
        landing.take_unused();
        let kept = if round * 1_000 < SPARE_KEPT.as_millis() { 2 } else { 1 };
        assert_eq!(landing.bytes(), kept * MIB, "{round} s");
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
}

/// ME-11: however many peers there are, a node has no more than its budget; a peer takes no more
/// than it leaves, and a peer that has none takes the rest. Unused memory of others is given back
/// when a message finds no room.
#[tokio::test(start_paused = true)]
async fn the_links_of_a_node_share_its_landing_memory() {
    let budget = Arc::new(Budget::new(16 * MIB as u64));
    let mut links: Vec<_> = (0..8).map(|_| of(&Account::new(&budget))).collect();
    let mut held = Vec::new();
    for link in &mut links {
        while let Some(runway) = land(link, MIB) {
            held.push(link.lease(runway, 0).unwrap());
        }
    }
    let bytes: Vec<_> = links.iter().map(|link| link.bytes() / MIB).collect();
    assert_eq!(bytes, [8, 4, 2, 1, 1, 0, 0, 0]);
    assert_eq!(budget.taken(), 16 * MIB as u64);
    drop(held.drain(..8));
    assert!(land(&mut links[6], MIB).is_none(), "the first one keeps it for the next message");
    drop(links[0].take_unused());
    assert!(land(&mut links[6], MIB).is_some());
    // Leased memory counts beyond the end of its link.
    drop(links);
    assert_eq!(budget.taken(), 8 * MIB as u64);
    held.clear();
    assert_eq!(budget.taken(), 0);
}

/// ME-11, of any use by several links: the sum matches the memory there is, and memory unused for
/// too long is given back. Views take no room that is left to messages, and leave as much to other
/// peers as their own peer has.
#[tokio::test(start_paused = true)]
async fn landing_at_random() {
    let (mut refused, mut used_again, mut aged, mut pressed) = (0, 0, 0, 0);
    let (mut views, mut not_viewed) = (0, 0);
    let seeds = crate::cases(100);
    for seed in 0..seeds {
        let mut chance = fastrand::Rng::with_seed(seed);
        let budget = [chance.u64(1..64), 256, 1024][chance.usize(0..3)] * MIB as u64;
        let budget = Arc::new(Budget::new(budget));
        let views_budget = Arc::new(Budget::new(budget.bytes() / 2));
        let viewed: [_; 3] = std::array::from_fn(|_| Account::new(&views_budget));
        let new = |viewed: &Account| Landing::new(Account::new(&budget), viewed.clone());
        let mut links = viewed.each_ref().map(new);
        let mut held = Vec::new();
        for _ in 0..120 {
            let nth = chance.usize(..3);
            let link = &mut links[nth];
            match chance.u8(..11) {
                0..4 => {
                    let bytes = chance.usize(1..24 * MIB);
                    let before = budget.taken();
                    match land(link, bytes) {
                        Some(runway) if chance.u8(..8) == 0 => {
                            link.lose(runway.size());
                            drop(runway);
                        }
                        Some(runway) => {
                            used_again += usize::from(budget.taken() == before);
                            let size = runway.size();
                            let lease = link.lease(runway, bytes).unwrap();
                            held.push((nth, size, lease, None));
                        }
                        None => {
                            refused += 1;
                            check_refusal(&held, nth, bytes, &budget);
                        }
                    }
                }
                8.. => {
                    let bytes = chance.usize(64 * 1024..24 * MIB);
                    let found = view(link, &viewed[nth], bytes);
                    views += usize::from(found.is_some());
                    not_viewed += usize::from(found.is_none());
                    held.extend(found.map(|(size, it, taken)| (nth, size, it, Some(taken))));
                }
                4..6 if !held.is_empty() => drop(held.swap_remove(chance.usize(..held.len()))),
                6 => tokio::time::advance(SPARE_KEPT / 3).await,
                _ => {
                    let is_pressed = link.refused != budget.refused();
                    let freed = link.take_unused().len();
                    pressed += if is_pressed { freed } else { 0 };
                    aged += if is_pressed { 0 } else { freed };
                }
            }
            let sum: usize = links.iter().map(Landing::bytes).sum();
            assert_eq!(budget.taken(), sum as u64, "seed {seed}");
            assert!(links.iter().all(|link| link.bytes() <= LANDING_BYTES_MAX));
            let of_views = [0, 1, 2].map(|nth| sum_of(&held, nth, true) as u64);
            assert_eq!(viewed.each_ref().map(|it| it.taken()), of_views, "seed {seed}");
        }
        drop((links, held));
        assert_eq!(budget.taken(), 0, "seed {seed}");
    }
    println!("{used_again} used again, {refused} refused, {aged} aged, {pressed} given up");
    println!("{views} viewed, {not_viewed} not");
    assert!(views > 500 && not_viewed > 500);
    let all = used_again > 100 && refused > 100 && aged > 100 && pressed > 100;
    assert!(seeds < SEEDS_FOR_ALL || all);
}

/// ME-11, of peers whose queue pairs end while messages that came by them are read: these messages
/// still count, so that no peer has more than its bound, or keeps memory from others that it should
/// leave; and a peer that is refused has nothing unused.
#[tokio::test(start_paused = true)]
async fn what_came_by_earlier_queue_pairs_counts_on() {
    let (mut refused, mut made_room, mut full) = (0, 0, 0);
    for seed in 0..crate::cases(60) {
        let mut chance = fastrand::Rng::with_seed(seed);
        let budget = [chance.u64(32..256), 4096][chance.usize(0..2)] * MIB as u64;
        let budget = Arc::new(Budget::new(budget));
        let accounts: [Account; 2] = std::array::from_fn(|_| Account::new(&budget));
        let mut links = accounts.each_ref().map(of);
        let mut held: [Vec<Lease>; 2] = Default::default();
        for _ in 0..80 {
            let peer = chance.usize(..2);
            let (link, account) = (&mut links[peer], &accounts[peer]);
            let (before, left) = (account.taken(), budget.taken());
            match chance.u8(..8) {
                0..5 => {
                    let bytes = chance.usize(1..24 * MIB);
                    let sizes = link.bytes();
                    match land(link, bytes) {
                        Some(runway) => {
                            made_room += usize::from(link.bytes() < sizes);
                            held[peer].extend(link.lease(runway, bytes));
                        }
                        None => {
                            refused += 1;
                            assert!(link.sizes.values_mut().all(|at| at.take().is_none()));
                            let is_over = account.taken() as usize + bytes > LANDING_BYTES_MAX;
                            full += usize::from(is_over);
                        }
                    }
                }
                5 | 6 if !held[peer].is_empty() => {
                    drop(held[peer].swap_remove(chance.usize(..held[peer].len())));
                }
                _ => {
                    *link = of(account);
                    assert_eq!((account.taken() > before, budget.taken() > left), (false, false));
                }
            }
            assert!(accounts.iter().all(|it| it.taken() as usize <= LANDING_BYTES_MAX));
            let sum: u64 = accounts.iter().map(Account::taken).sum();
            assert_eq!(budget.taken(), sum, "seed {seed}");
        }
        drop((links, held));
        assert_eq!(budget.taken(), 0, "seed {seed}");
    }
    println!("{refused} refused, {full} of them by the bound, {made_room} made room");
    assert!(refused > 100 && full > 20 && made_room > 20);
}
