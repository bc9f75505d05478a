//! The rules of a pool, apart from its code:
//!
//! - **Once** (PL-1): a job is begun once at most, by one worker; one that was refused, or whose
//!   tell was dropped before it was ready, never; one that was answered once.
//! - **Kept** (PL-4): what a worker has is begun, also where it was removed, its pool was drained,
//!   its node was shut down or it stops itself, unless workers were stopped by others or ended for
//!   good; what the router has, too, unless it was ended or a link was lost.
//! - **Keys**: jobs of one key go to one worker while the size stays, in the order of each sender;
//!   when workers are added, a key stays or goes to one of these, and when some are removed, only
//!   the keys of these go to others.

use std::collections::BTreeMap;

use ringpost::Address;

use super::super::Scene;
use super::book::{ASIDE, Begun, FOR_NONE, Fate, LATE, Pages, Sent};

pub(super) const STATES: [&str; 31] = [
    "a job was asked of the router for which no actor waits",
    "a key changed its worker",
    "a key kept its worker when the size changed",
    "a pool was to have no workers",
    "a pool with jobs was made smaller",
    "a sender waited for a worker",
    "a sender's node was killed",
    "a tell was dropped while it waited",
    "a worker asked its pool and was answered",
    "a worker asked its pool for one that asked it again, and was answered",
    "a worker asked its pool in vain",
    "a worker asked the router and was answered",
    "a worker asked the router and closed a circle",
    "a worker stopped itself while its node shut down",
    "a worker that was to end stopped itself",
    "a worker was killed twice",
    "a worker was killed with jobs that waited",
    "a worker was stopped with jobs that waited",
    "an ask of the pool had no answer in time",
    "an ask of the router had no answer",
    "jobs of a key came in order",
    "no worker had room at once",
    "the fate of a job is unknown",
    "the name of a pool was given to another one",
    "the pool ended while a sender waited",
    "the pool was drained with jobs that waited",
    "the node of a pool shut down with jobs that waited",
    "the router had jobs for the pool when their node shut down",
    "the router was ended",
    "the size changed while jobs waited",
    "what workers had was lost",
];

/// # Panics
/// When a rule was broken.
pub(super) fn judge(scene: &Scene, pages: Pages, keyed: bool) {
    assert!(pages.breaches.is_empty(), "{:?}", pages.breaches);
    scene.note_if(pages.last_stops > 0, "a worker that was to end stopped itself");
    let is_so = pages.shutdown_stops > 0;
    scene.note_if(is_so, "a worker stopped itself while its node shut down");
    scene.note_if(pages.router_answers > 0, "a worker asked the router and was answered");
    scene.note_if(pages.router_circles > 0, "a worker asked the router and closed a circle");
    let mut begun: BTreeMap<u64, &Begun> = BTreeMap::new();
    for one in &pages.begun {
        let earlier = begun.insert(one.number, one);
        assert!(earlier.is_none(), "job {} was begun twice: {earlier:?}, {one:?}", one.number);
    }
    for sent in &pages.sent {
        check_fate(scene, &pages, sent, begun.contains_key(&sent.number));
    }
    if keyed {
        check_workers(scene, &pages);
        check_order(scene, &pages);
    }
}

fn check_fate(scene: &Scene, pages: &Pages, sent: &Sent, is_begun: bool) {
    if (ASIDE..FOR_NONE).contains(&sent.number) {
        let is_refused = sent.fate == Fate::Refused;
        scene.note_if(is_refused, "a worker asked its pool in vain");
        let is_answered = sent.fate == Fate::Answered;
        scene.note_if(is_answered, "a worker asked its pool and was answered");
        let again = "a worker asked its pool for one that asked it again, and was answered";
        scene.note_if(is_answered && sent.number >= 2 * ASIDE, again);
    }
    let is_for_none = sent.number >= FOR_NONE && sent.fate == Fate::Answered;
    scene.note_if(is_for_none, "a job was asked of the router for which no actor waits");
    match sent.fate {
        Fate::Unknown => scene.note("the fate of a job is unknown"),
        Fate::Refused => assert!(!is_begun, "refused, and begun: {sent:?}"),
        Fate::Answered => assert!(is_begun, "answered, and never begun: {sent:?}"),
        // The pool was stopped while these were sent.
        Fate::Taken | Fate::Routed if sent.sender >= LATE && !pages.is_drained => {}
        Fate::Taken if pages.loses_taken => {
            scene.note_if(!is_begun, "what workers had was lost");
        }
        Fate::Routed if pages.loses_taken || pages.loses_routed => {}
        Fate::Taken | Fate::Routed => assert!(is_begun, "accepted, and never begun: {sent:?}"),
    }
}

fn key_of(pages: &Pages, begun: &Begun) -> (u64, usize) {
    let sent = pages.sent.iter().find(|sent| sent.number == begun.number);
    sent.map(|sent| (sent.key, sent.sender)).expect("it was sent")
}

fn check_workers(scene: &Scene, pages: &Pages) {
    // By stretch, the worker of each key of which a job was sent and begun in it.
    let mut of: BTreeMap<u64, BTreeMap<u64, &Address>> = BTreeMap::new();
    for begun in &pages.begun {
        let sent = pages.sent.iter().find(|sent| sent.number == begun.number);
        let Some(sent) = sent.filter(|sent| sent.stretch == begun.stretch) else { continue };
        // A stretch is one of the workers, if they are known.
        let Some(stretch) = pages.stretches.iter().find(|one| one.number == begun.stretch) else {
            continue;
        };
        if !stretch.workers.contains(&begun.worker) {
            continue;
        }
        let worker = of.entry(begun.stretch).or_default().entry(sent.key).or_insert(&begun.worker);
        assert_eq!(*worker, &begun.worker, "key {} of stretch {}", sent.key, begun.stretch);
    }
    let workers = |number| pages.stretches.iter().find(|one| one.number == number);
    for (number, keys) in &of {
        for (next, others) in of.range(number + 1..) {
            let (Some(before), Some(after)) = (workers(*number), workers(*next)) else { continue };
            let (before, after) = (&before.workers, &after.workers);
            let common = before.len().min(after.len());
            if before[..common] != after[..common] {
                continue;
            }
            for (key, worker) in keys {
                let Some(now) = others.get(key) else { continue };
                let keeps = now == worker;
                let is_new = !before.contains(now);
                let is_gone = !after.contains(worker);
                assert!(keeps || is_new || is_gone, "key {key} went from {worker} to {now}");
                scene.note_if(!keeps, "a key changed its worker");
                let differs = before.len() != after.len();
                scene.note_if(keeps && differs, "a key kept its worker when the size changed");
            }
        }
    }
}

/// Of each sender, jobs of one key are begun in their order while the size stays.
fn check_order(scene: &Scene, pages: &Pages) {
    for (place, later) in pages.begun.iter().enumerate() {
        let of = key_of(pages, later);
        for earlier in &pages.begun[..place] {
            if key_of(pages, earlier) != of || earlier.number < later.number {
                continue;
            }
            // It was sent later and begun earlier.
            let sent = pages.sent.iter().find(|sent| sent.number == later.number);
            let stays = sent.is_some_and(|sent| sent.stretch == later.stretch);
            assert!(!stays, "of key {of:?}, {earlier:?} before {later:?}");
        }
        scene.note("jobs of a key came in order");
    }
}
