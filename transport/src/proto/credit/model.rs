//! All interleavings of two ledgers and the frames between them.
//!
//! Both sides are the production [`Ledger`]; only the choice of what to send next is the model's:
//! any class that waits and may be sent, one record to a frame, or a credit-only frame by the rule
//! of [`Link::poll_transmit`](crate::proto::link::Link::poll_transmit); after one answer, further
//! ones wait for data that waits, as they do in `outbound/fill.rs` after a few. States are compared
//! by differences of counts, so that a cycle across the wrap-around is found as one.

use std::collections::{HashMap, VecDeque};

use super::{Class, CreditSettings, Ledger};

/// Where all counts start: every run passes the wrap-around.
const START: u32 = 0u32.wrapping_sub(3);

/// What waits, by lane; a probe is control that asks for an answer.
const LANES: [(Class, bool); 4] =
    [(Class::Data, false), (Class::Reply, false), (Class::Control, false), (Class::Control, true)];

#[derive(Debug, Clone, Copy)]
struct Flying {
    class: Class,
    count: u32,
    answer_now: bool,
}

#[derive(Debug, Clone)]
struct Side {
    ledger: Ledger,
    backlog: [u8; LANES.len()],
    /// Refusals to be written.
    refusing: bool,
    /// An answer was sent although data waited, and no data since.
    answered: bool,
    /// Frames are dispatched at any time after they arrived, not at once.
    slow: bool,
    /// Frames on their way to the peer.
    flying: VecDeque<Flying>,
}

impl Side {
    fn new(settings: CreditSettings, backlog: [u8; LANES.len()]) -> Self {
        let (sent, received) = (START, START);
        let (acknowledged, consumed, reported) = (START, START, START);
        let answer_now = false;
        let ledger =
            Ledger { settings, sent, acknowledged, received, consumed, reported, answer_now };
        let (refusing, answered, slow) = (false, false, false);
        Side { ledger, backlog, refusing, answered, slow, flying: VecDeque::new() }
    }

    fn sendable(&self) -> impl Iterator<Item = usize> {
        let held = |class| class == Class::Reply && self.answered && self.backlog[0] > 0;
        let may_send = |class| self.ledger.may_send(class) && !held(class);
        let waits = |lane: &usize| self.backlog[*lane] > 0 && may_send(LANES[*lane].0);
        (0..LANES.len()).filter(waits).collect::<Vec<_>>().into_iter()
    }

    fn send(&mut self, class: Class, answer_now: bool) {
        let count = self.ledger.post(class);
        self.refusing = false;
        match class {
            Class::Data => self.answered = false,
            Class::Reply => self.answered = self.backlog[0] > 0,
            Class::Control | Class::Credit => {}
        }
        self.flying.push_back(Flying { class, count, answer_now });
    }

    fn owes_credit(&self) -> bool {
        (self.refusing || self.ledger.credit_due()) && self.ledger.may_send(Class::Credit)
    }
}

type State = [Side; 2];

/// Everything that tells two states apart, without the absolute counts.
fn key(state: &State) -> Vec<u8> {
    let mut key = Vec::with_capacity(48);
    for (side, peer) in [(&state[0], &state[1]), (&state[1], &state[0])] {
        let Side { ledger, backlog, refusing, answered, flying, slow: _ } = side;
        key.extend(backlog);
        key.extend([ledger.in_flight() as u8, ledger.unreported() as u8]);
        key.push(ledger.received.wrapping_sub(ledger.consumed) as u8);
        key.extend([u8::from(ledger.answer_now), u8::from(*refusing), u8::from(*answered)]);
        key.push(flying.len() as u8);
        for frame in flying {
            let news = frame.count.wrapping_sub(peer.ledger.acknowledged) as u8;
            key.extend([u8::from(frame.class == Class::Data), news, u8::from(frame.answer_now)]);
        }
    }
    key
}

/// CR-1: each count is where the other side's counts and the frames between say it is.
fn check_conservation(state: &State) {
    for (side, peer) in [(&state[0], &state[1]), (&state[1], &state[0])] {
        let (ours, theirs) = (&side.ledger, &peer.ledger);
        let flying = side.flying.len() as u32;
        assert_eq!(ours.sent.wrapping_sub(theirs.received), flying, "CR-1 {state:?}");
        let told = peer.flying.back().map_or(ours.acknowledged, |frame| frame.count);
        assert_eq!(told, theirs.reported, "CR-1 {state:?}");
        assert_eq!(ours.credits() + ours.in_flight(), theirs.settings.ring, "CR-1 {state:?}");
        let posted = theirs.settings.ring - theirs.received.wrapping_sub(theirs.consumed);
        assert!(flying <= posted, "a frame without a slot: {state:?}");
    }
}

/// All next states; with each, whether the step was to send a credit-only frame.
fn successors(state: &State) -> Vec<(State, bool)> {
    let mut next = Vec::new();
    for i in 0..2 {
        let mut quiet = true;
        for lane in state[i].sendable() {
            quiet = false;
            let mut after = state.clone();
            after[i].backlog[lane] -= 1;
            after[i].send(LANES[lane].0, LANES[lane].1);
            next.push((after, false));
        }
        if quiet && state[i].owes_credit() {
            let mut after = state.clone();
            after[i].send(Class::Credit, false);
            next.push((after, true));
        }
        let Ledger { received, consumed, .. } = state[i].ledger;
        if received != consumed {
            let mut after = state.clone();
            after[i].ledger.consume_to(consumed.wrapping_add(1));
            next.push((after, false));
        }
        let Some(frame) = state[i].flying.front().copied() else { continue };
        for refused in [false, true] {
            // One side's refusals are enough: the two sides are alike.
            if refused && (i == 1 || frame.class != Class::Data) {
                continue;
            }
            let mut after = state.clone();
            after[i].flying.pop_front();
            let peer = &mut after[1 - i];
            peer.ledger.arrive(frame.count, frame.answer_now).expect("an honest peer");
            if !peer.slow {
                peer.ledger.consume_to(peer.ledger.received());
            }
            peer.refusing |= refused;
            next.push((after, false));
        }
    }
    next
}

#[derive(Debug)]
struct Explored {
    states: usize,
    dead: usize,
    endless: bool,
    /// Most credit-only frames on any path, where there is no endless exchange.
    credit_only_max: u32,
}

fn explore(start: State) -> Explored {
    let mut known = HashMap::from([(key(&start), 0u32)]);
    let mut waiting = VecDeque::from([start]);
    let mut edges: Vec<Vec<(u32, bool)>> = Vec::new();
    let mut dead = 0;
    while let Some(state) = waiting.pop_front() {
        check_conservation(&state);
        let next = successors(&state);
        if next.is_empty() {
            if state.iter().any(|side| side.backlog.iter().any(|left| *left > 0)) {
                dead += 1;
            } else {
                let done = |l: &Ledger| l.received == l.consumed;
                assert!(state.iter().all(|side| done(&side.ledger) && !side.refusing));
            }
        }
        let mut out = Vec::with_capacity(next.len());
        for (after, credit_only) in next {
            let new = known.len() as u32;
            let id = *known.entry(key(&after)).or_insert(new);
            if id == new {
                waiting.push_back(after);
            }
            out.push((id, credit_only));
        }
        edges.push(out);
    }
    let (ordered, credit_only_max) = order(&edges);
    Explored { states: edges.len(), dead, endless: ordered < edges.len(), credit_only_max }
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
        // One more than may ever fly. On larger rings only the first side has so much to say: both
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
    let start = pair(rings, reserve, thresholds).map(|side| Side { slow, ..side });
    for side in &start {
        side.ledger.settings.check().expect("accepted settings");
    }
    let found = explore(start);
    assert_eq!((found.dead, found.endless), (0, false), "{rings:?} {reserve} {thresholds:?}");
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

/// CR-1 to CR-4, for every accepted setting of small rings; and the refused ones stall or storm.
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
