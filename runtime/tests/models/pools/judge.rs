//! The rules of a pool, apart from its code:
//!
//! - **Once**: a job is begun at most once, by one worker. A job that was refused, or whose tell
//!   was dropped before it was ready, is never begun; an answered job was begun once.
//! - **Kept**: jobs that a worker has accepted are begun, even if it is removed or fails or its
//!   pool is drained, unless workers were stopped or not restarted: then each job that was told and
//!   is not begun is a dead letter. Jobs of the router are begun, unless the router was ended, a
//!   link was lost or all workers were closed.
//! - **Order**: of one sender, the jobs that a worker begins are in the order in which they were
//!   sent.
//! - **Keys**: jobs of one key go to one worker while the size stays; when workers are added, a key
//!   stays or goes to one of these, and when some are removed, only the keys of these go to others.

use std::collections::{BTreeMap, HashMap};

use ringpost::Address;

use super::super::Scene;
use super::book::{ASIDE, Begun, Fate, LATE, Pages, Sent};

pub(in crate::models) const STATES: [&str; 21] = [
    "a key changed its worker",
    "a key kept its worker when the size changed",
    "a pool was to have no workers",
    "a pool with jobs was made smaller",
    "a sender waited for a worker",
    "a tell was dropped while it waited",
    "a worker asked its pool and was answered",
    "a worker asked its pool for one that asked it again, and was answered",
    "a worker asked its pool in vain",
    "a worker was killed twice",
    "a worker with jobs was killed or stopped",
    "all workers were closed",
    "an ask of the pool had no answer in time",
    "an ask of the router had no answer",
    "no worker had room at once",
    "the fate of a job is unknown",
    "the pool ended while a sender waited",
    "the pool was drained with jobs that waited",
    "the router was ended",
    "the size changed while jobs waited",
    "what workers had was a dead letter",
];

/// # Panics
/// When a rule was broken.
pub(super) fn judge(scene: &Scene, pages: Pages, keyed: bool) {
    assert!(pages.breaches.is_empty(), "{:?}", pages.breaches);
    let mut begun: BTreeMap<u64, &Begun> = BTreeMap::new();
    for one in &pages.begun {
        let earlier = begun.insert(one.number, one);
        assert!(earlier.is_none(), "job {} was begun twice: {earlier:?}, {one:?}", one.number);
    }
    let mut lost = 0;
    for sent in &pages.sent {
        let is_begun = begun.contains_key(&sent.number);
        check_fate(scene, &pages, sent, is_begun);
        lost += u64::from(sent.fate == Fate::Taken && !is_begun);
    }
    scene.note_if(lost > 0, "what workers had was a dead letter");
    assert!(lost <= pages.letters, "{lost} jobs lost, and {} dead letters", pages.letters);
    let sent = pages.sent.iter().map(|sent| (sent.number, sent)).collect();
    check_order(&pages, &sent);
    if keyed {
        check_workers(scene, &pages, &sent);
    }
}

fn check_fate(scene: &Scene, pages: &Pages, sent: &Sent, is_begun: bool) {
    if sent.number >= ASIDE {
        let is_answered = sent.fate == Fate::Answered;
        scene.note_if(sent.fate == Fate::Refused, "a worker asked its pool in vain");
        scene.note_if(is_answered, "a worker asked its pool and was answered");
        let again = "a worker asked its pool for one that asked it again, and was answered";
        scene.note_if(is_answered && sent.number >= 2 * ASIDE, again);
    }
    match sent.fate {
        Fate::Unknown => scene.note("the fate of a job is unknown"),
        Fate::Refused => assert!(!is_begun, "refused, and begun: {sent:?}"),
        Fate::Answered => assert!(is_begun, "answered, and never begun: {sent:?}"),
        // The pool was stopped while these were sent.
        Fate::Taken if sent.sender >= LATE && !pages.is_drained => {}
        Fate::Taken if pages.loses_taken => {}
        Fate::Routed if pages.loses_taken || pages.loses_routed => {}
        Fate::Taken | Fate::Routed => assert!(is_begun, "accepted, and never begun: {sent:?}"),
    }
}

type ByNumber<'a> = BTreeMap<u64, &'a Sent>;

/// Jobs of one sender are begun by a worker in their order.
fn check_order(pages: &Pages, sent: &ByNumber<'_>) {
    let mut last: HashMap<(&Address, usize), u64> = HashMap::new();
    for Begun { number, worker, .. } in &pages.begun {
        let earlier = last.insert((worker, sent[number].sender), *number);
        assert!(earlier < Some(*number), "{worker} began {earlier:?} before {number}");
    }
}

fn check_workers(scene: &Scene, pages: &Pages, sent: &ByNumber<'_>) {
    // By stretch, the worker of each key of which a job was sent and begun in it.
    let mut of: BTreeMap<u64, BTreeMap<u64, &Address>> = BTreeMap::new();
    let workers = |number| pages.stretches.iter().find(|one| one.number == number);
    for begun in &pages.begun {
        let sent = sent[&begun.number];
        // A stretch is one of the workers, if they are known.
        let Some(stretch) = workers(begun.stretch) else { continue };
        if sent.stretch != begun.stretch || !stretch.workers.contains(&begun.worker) {
            continue;
        }
        let worker = of.entry(begun.stretch).or_default().entry(sent.key).or_insert(&begun.worker);
        assert_eq!(*worker, &begun.worker, "key {} of stretch {}", sent.key, begun.stretch);
    }
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
