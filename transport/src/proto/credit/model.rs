//! All interleavings of two ledgers and the frames between them.
//!
//! Both sides are the production [`Ledger`](super::Ledger); only the choice of what to send next is
//! the model's: any class that waits and may be sent, one record to a frame, or a credit-only frame
//! by the rule of `LinkProtocol::poll_transmit`; after one answer, further ones wait for data that
//! waits, as they do in `send_queue/fill.rs` after a few. A ring may grow and a side may leave in
//! any state where a link could; nothing that waits may depend on either. States are compared by
//! differences of counts, so that a cycle across the wrap-around is found as one.

mod growth;
mod side;

use std::collections::{HashMap, VecDeque};

use super::CreditSettings;
use side::Side;

type State = [Side; 2];

/// A step from one state to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A step that happens on its own.
    Forced,
    /// A credit-only frame, which is forced as well.
    CreditOnly,
    /// A ring grows, or a side begins to leave: this may never happen.
    Free,
}

/// Everything that tells two states apart.
fn key(state: &State) -> Box<[u8]> {
    let mut key = Vec::with_capacity(64);
    state[0].key(&state[1], &mut key);
    state[1].key(&state[0], &mut key);
    key.into()
}

/// Returns what breaks a rule, wherever it happens.
fn amiss(state: &State) -> Option<&'static str> {
    state[0].amiss(&state[1]).or_else(|| state[1].amiss(&state[0]))
}

/// Returns true if everything was sent that waited, in a state from which no step is forced.
fn is_finished(state: &State) -> bool {
    let left = state.iter().any(|side| side.goodbye.leave);
    state.iter().all(|side| !side.has_backlog() && side.grant == 0 && (side.is_done() || !left))
}

/// Returns all next states.
fn successors(state: &State) -> Vec<(State, Step)> {
    let mut next = Vec::new();
    for i in 0..2 {
        let mut add = |step, change: &dyn Fn(&mut Side)| {
            let mut after = state.clone();
            change(&mut after[i]);
            next.push((after, step));
        };
        let side = &state[i];
        let mut quiet = true;
        for lane in side.sendable() {
            quiet = false;
            add(Step::Forced, &|side| side.send_lane(lane));
        }
        if quiet && side.may_send_last() {
            quiet = false;
            add(Step::Forced, &Side::send_last);
        }
        if quiet && side.owes_credit() {
            add(Step::CreditOnly, &Side::send_credit);
        }
        if side.may_dispatch() {
            add(Step::Forced, &Side::dispatch);
        }
        if side.may_post() {
            add(Step::Forced, &Side::post);
        }
        if side.may_grow() {
            add(Step::Free, &Side::grow);
        }
        if side.may_leave() {
            add(Step::Free, &Side::leave);
        }
        let Some(frame) = side.flying.front().copied() else { continue };
        for refused in [false, true] {
            // One side's refusals are enough: the two sides are alike.
            if refused && (i == 1 || !Side::is_refusable(&frame)) {
                continue;
            }
            let mut after = state.clone();
            after[i].flying.pop_front();
            after[1 - i].arrive(&frame, refused);
            next.push((after, Step::Forced));
        }
    }
    next
}

#[derive(Debug, Default)]
struct Explored {
    states: usize,
    dead: usize,
    endless: bool,
    /// The first rule that was broken; the search ends there.
    wrong: Option<&'static str>,
    /// Most credit-only frames on any path, where there is no endless exchange.
    credit_only_max: u32,
}

fn explore(start: State) -> Explored {
    let mut known = HashMap::from([(key(&start), 0u32)]);
    let mut waiting = VecDeque::from([start]);
    let mut edges: Vec<Vec<(u32, bool)>> = Vec::new();
    let (mut dead, mut wrong) = (0, None);
    while let Some(state) = waiting.pop_front() {
        wrong = amiss(&state);
        if wrong.is_some() {
            break;
        }
        let next = successors(&state);
        if next.iter().all(|(_, step)| *step == Step::Free) {
            dead += usize::from(!is_finished(&state));
            assert!(!is_finished(&state) || state.iter().all(|side| !side.refusing));
        }
        let mut out = Vec::with_capacity(next.len());
        for (after, step) in next {
            let new = known.len() as u32;
            let id = *known.entry(key(&after)).or_insert(new);
            if id == new {
                waiting.push_back(after);
            }
            out.push((id, step == Step::CreditOnly));
        }
        edges.push(out);
    }
    if wrong.is_some() {
        return Explored { states: edges.len(), dead, wrong, ..Explored::default() };
    }
    let (ordered, credit_only_max) = order(&edges);
    let endless = ordered < edges.len();
    Explored { states: edges.len(), dead, endless, wrong, credit_only_max }
}

/// States that a topological order reaches (all, unless there is a cycle), and the most credit-only
/// frames on a path through them.
fn order(edges: &[Vec<(u32, bool)>]) -> (usize, u32) {
    let mut before = vec![0u32; edges.len()];
    for (to, _) in edges.iter().flatten() {
        before[*to as usize] += 1;
    }
    let mut most = vec![0u32; edges.len()];
    let mut ready: Vec<usize> = (0..edges.len()).filter(|i| before[*i] == 0).collect();
    let mut ordered = 0;
    while let Some(at) = ready.pop() {
        ordered += 1;
        for (to, credit_only) in &edges[at] {
            let to = *to as usize;
            most[to] = most[to].max(most[at] + u32::from(*credit_only));
            before[to] -= 1;
            if before[to] == 0 {
                ready.push(to);
            }
        }
    }
    (ordered, most.into_iter().max().unwrap_or(0))
}

/// Two sides with rings of these sizes; not checked, so that refused settings can be explored.
fn pair(rings: [u32; 2], reserve: u32, thresholds: [u32; 2]) -> State {
    let others = [[1, 0, 0], [0, 0, 1]];
    [0, 1].map(|i| {
        let (ring, peer_ring, threshold) = (rings[i], rings[1 - i], thresholds[i]);
        let settings = CreditSettings { peer_ring, ring, reserve, threshold };
        let [reply, control, probe] = others[i];
        // One frame more than may ever fly. On larger rings only the first side has this many: both
        // sides at their limits are explored on rings of four.
        let most = match ring {
            4 => u32::MAX,
            _ if i == 0 => u32::MAX,
            8 => 1,
            _ => 2,
        };
        let data = (peer_ring - reserve + 1).min(most) as u8;
        Side::new(settings, [data, reply, control, probe])
    })
}

fn accept(rings: [u32; 2], reserve: u32, thresholds: [u32; 2], slow: bool) -> Explored {
    let start = pair(rings, reserve, thresholds).map(|side| side.dispatching(slow));
    for side in &start {
        side.ledger.settings.check().expect("accepted settings");
    }
    let found = explore(start);
    let Explored { dead, endless, wrong, .. } = found;
    assert_eq!((dead, endless, wrong), (0, false, None), "{rings:?} {reserve} {thresholds:?}");
    println!(
        "model credit ring {rings:?} reserve {reserve} threshold {thresholds:?}{}: {} states, no \
         dead state, no endless exchange, at most {} credit-only frames",
        if slow { ", slow dispatch" } else { "" },
        found.states,
        found.credit_only_max
    );
    found
}

fn refuse(rings: [u32; 2], reserve: u32, thresholds: [u32; 2]) -> Explored {
    let start = pair(rings, reserve, thresholds);
    assert!(start.iter().any(|side| side.ledger.settings.check().is_err()));
    let found = explore(start);
    println!(
        "model credit ring {rings:?} reserve {reserve} threshold {thresholds:?} (refused): {} \
         states, \
         {} dead, endless exchange: {}",
        found.states, found.dead, found.endless
    );
    found
}

/// CR-1, CR-2, and nothing stalls or storms, for every accepted setting of small rings; and the
/// refused ones stall or storm.
#[test]
fn model_of_the_credit_ledger() {
    let (mut settings, mut states) = (0, 0);
    let mut add = |found: Explored| {
        settings += 1;
        states += found.states;
    };
    for (ring, reserve) in [(4, 1), (4, 2), (5, 1), (5, 2), (6, 1), (6, 2), (6, 4)] {
        for threshold in 2..=ring - reserve {
            add(accept([ring, ring], reserve, [threshold, threshold], false));
        }
    }
    for (rings, reserve, thresholds) in
        [([4, 6], 1, [2, 2]), ([4, 6], 1, [3, 5]), ([4, 6], 2, [2, 4]), ([5, 6], 2, [3, 2])]
    {
        add(accept(rings, reserve, thresholds, false));
    }
    for (reserve, threshold) in [(1, 2), (1, 3), (2, 2)] {
        add(accept([4, 4], reserve, [threshold, threshold], true));
    }
    // The values that a link chooses, on the smallest ring it may have.
    let chosen = CreditSettings::new(8, 8, 4).expect("accepted settings");
    add(accept([8, 8], chosen.reserve, [chosen.threshold; 2], false));
    println!("model credit: {states} states in {settings} accepted settings");
    // This takes two sides that both have enough to say to run out of credits.
    assert!(refuse([4, 4], 0, [2, 2]).dead > 0, "no reserve");
    for ring in [4, 6] {
        let rings = [ring, ring];
        assert!(refuse(rings, 1, [1, 1]).endless, "a lone credit frame is answered");
        assert!(refuse(rings, 2, [ring - 1; 2]).dead > 0, "credit comes too late");
    }
}
