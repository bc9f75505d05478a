//! The rules of a group, apart from its code. Of a member they say:
//!
//! - **Once**: it hears a line once, a refused line never.
//! - **Invited**: it hears a line only if it may have been a member when the group handled it.
//! - **Accounted**: an answer tells of each member of that moment, and of no other. A member that
//!   missed a line does not hear it; where nothing is lost, as many hear it as were told.
//! - **In order**: any two hear the lines that both hear in one order, and the lines of one sender
//!   in the sender's.
//! - **Gone**: in the end an actor that has ended is no member, and a member that has not ended and
//!   did not leave still is one.
//!
//! And of the group: a line is archived once for all members, and it answers at once.

use std::collections::BTreeMap;

use ringpost::group::{Miss, Told};

use super::super::Scene;
use super::book::{Act, Moment, NEVER, Pages, Seat, What};
use super::line::Line;

pub(in crate::models) const STATES: [&str; 16] = [
    "a `try_broadcast` was missed",
    "a calm scene",
    "a line was told on several nodes",
    "a line was refused",
    "a member came again under its name",
    "a member heard a line after it joined again",
    "a member left",
    "a member that was none left",
    "a node was killed",
    "an ask was dropped",
    "missed: full",
    "missed: it has ended",
    "missed: it left, or the group ended",
    "missed: unreachable",
    "nobody was told",
    "the group ended",
];

/// # Panics
/// When a rule was broken. `members` are the members at the end, if the group lives.
pub(super) fn judge(scene: &Scene, pages: Pages, members: Option<Vec<Seat>>) {
    let judge = Judge { scene, pages };
    scene.note_if(!judge.pages.is_troubled, "a calm scene");
    judge.check_once();
    judge.check_invited();
    for act in &judge.pages.acts {
        if let What::Line { number, is_try, outcome } = &act.what {
            judge.check_line(act, *number, *is_try, outcome.as_ref());
        }
        if let What::Leave(_, Some(was)) = act.what {
            scene.note(if was { "a member left" } else { "a member that was none left" });
        }
    }
    judge.check_order();
    if let Some(members) = members {
        judge.check_members(&members);
    }
}

struct Judge<'a> {
    scene: &'a Scene,
    pages: Pages,
}

impl Judge<'_> {
    fn joins(&self, seat: Seat) -> impl Iterator<Item = &Act> {
        let joins = move |act: &&Act| matches!(act.what, What::Join(of) if of == seat);
        self.pages.acts.iter().filter(joins).filter(|act| !act.is_refused)
    }

    fn leaves(&self, seat: Seat) -> impl Iterator<Item = &Act> {
        let leaves = move |act: &&Act| matches!(act.what, What::Leave(of, _) if of == seat);
        self.pages.acts.iter().filter(leaves).filter(|act| !act.is_refused)
    }

    /// Returns true if the group may have handled a line from `begin` to `end` with this member.
    fn may_be(&self, seat: Seat, begin: Moment, end: Moment) -> bool {
        self.joins(seat).any(|join| {
            let is_over = |leave: &Act| join.end < leave.begin && leave.end < begin;
            join.begin < end && !self.leaves(seat).any(is_over)
        })
    }

    /// Returns true if the group certainly handled a line from `begin` to `end` with this member.
    fn must_be(&self, seat: Seat, begin: Moment, end: Moment) -> bool {
        self.joins(seat).any(|join| {
            let within = |at: Moment| join.begin < at && at < end;
            let node = self.pages.seats[seat].node();
            join.end < begin
                && !self.leaves(seat).any(|leave| leave.end > join.begin && leave.begin < end)
                && !self.pages.ends.iter().any(|ended| ended.seat == seat && within(ended.at))
                && !self.pages.downs.iter().any(|(down, at)| down == node && *at > join.begin)
                && self.lives_before(seat, join)
        })
    }

    /// Returns true if somebody sits there when it joins.
    fn lives_before(&self, seat: Seat, join: &Act) -> bool {
        let before = self.pages.ends.iter().filter(|end| end.seat == seat && end.at < join.begin);
        let begun = self.pages.sits.iter().filter(|(of, at)| *of == seat && *at < join.begin);
        begun.count() > before.count()
    }

    fn hearers(&self, number: u64) -> Vec<Seat> {
        let heard = self.pages.heard.iter().filter(|heard| heard.number == number);
        heard.map(|heard| heard.seat).collect()
    }

    fn check_once(&self) {
        let mut counts: BTreeMap<(Seat, u64), u64> = BTreeMap::new();
        for heard in &self.pages.heard {
            let count = counts.entry((heard.seat, heard.number)).or_default();
            *count += 1;
            assert_eq!(*count, 1, "{} heard line {} again", self.name(heard.seat), heard.number);
        }
    }

    fn check_invited(&self) {
        for heard in &self.pages.heard {
            let line = self.line(heard.number);
            let end = heard.at.min(line.end);
            assert!(
                self.may_be(heard.seat, line.begin, end),
                "{} was no member and heard line {}",
                self.name(heard.seat),
                heard.number
            );
            let mut joins = self.joins(heard.seat).filter(|join| join.end < line.begin);
            let again = joins.nth(1).is_some();
            self.scene.note_if(again, "a member heard a line after it joined again");
        }
    }

    fn line(&self, of: u64) -> &Act {
        let is_it = |act: &&Act| matches!(act.what, What::Line { number, .. } if number == of);
        self.pages.acts.iter().find(is_it).expect("it was sent")
    }

    fn check_line(&self, act: &Act, number: u64, is_try: bool, outcome: Option<&Told<Line>>) {
        let hearers = self.hearers(number);
        self.scene.note_if(act.is_refused, "a line was refused");
        assert!(!act.is_refused || hearers.is_empty(), "line {number} was refused, and heard");
        let seats = || 0..self.pages.seats.len();
        let is_far = |seat: &Seat| self.pages.seats[*seat].node() != "n1";
        let for_members = seats().any(|seat| is_far(&seat) && self.may_be(seat, act.begin, NEVER));
        let most = u64::from(act.from != 0) + u64::from(for_members);
        let archived = self.pages.archived.get(&number).copied().unwrap_or_default();
        assert!(archived <= most, "line {number} was archived {archived} times, not {most}");
        let mut nodes: Vec<&str> = hearers.iter().map(|at| self.pages.seats[*at].node()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        self.scene.note_if(nodes.len() > 1, "a line was told on several nodes");
        if let Some(told) = outcome {
            return self.check_outcome(act, (number, is_try), told, &hearers);
        }
        if act.is_refused || self.pages.is_troubled || self.pages.is_full {
            return;
        }
        // Nothing of a calm scene is lost, and messages from the group's node are handled.
        for seat in seats().filter(|seat| act.from == 0 && self.must_be(*seat, act.begin, NEVER)) {
            let heard = hearers.contains(&seat) || act.end == NEVER && self.was_dropped(number);
            assert!(heard, "{} did not hear line {number}", self.name(seat));
        }
    }

    fn check_outcome(
        &self,
        act: &Act,
        (number, is_try): (u64, bool),
        told: &Told<Line>,
        hearers: &[Seat],
    ) {
        let what = format!("line {number}: {told:?}, heard by {hearers:?}");
        let seat = |place: usize| self.pages.seat(told.missed[place].member.address());
        let missed: Vec<Seat> = (0..told.missed.len()).map(|at| seat(at).expect(&what)).collect();
        for (place, seat) in missed.iter().enumerate() {
            assert!(!missed[..place].contains(seat), "missed twice, {what}");
            assert!(self.may_be(*seat, act.begin, act.end), "none missed it, {what}");
            assert!(!hearers.contains(seat), "missed and heard, {what}");
            self.note_miss(&told.missed[place].why, is_try);
        }
        let seats = || 0..self.pages.seats.len();
        let must = seats().filter(|seat| self.must_be(*seat, act.begin, act.end));
        let must: Vec<Seat> = must.collect();
        let may = seats().filter(|seat| self.may_be(*seat, act.begin, act.end)).count();
        let all = told.told as usize + missed.len();
        if must.len() > all || all > may {
            panic!("{must:?} to {may} members, {what}; {:#?}", self.pages);
        }
        let told = told.told as usize;
        self.scene.note_if(told == 0, "nobody was told");
        assert!(hearers.len() <= told, "too few were told, {what}");
        assert!(self.pages.is_troubled || hearers.len() == told, "some lost it, {what}");
    }

    fn note_miss(&self, why: &Miss, is_try: bool) {
        self.scene.note_if(is_try, "a `try_broadcast` was missed");
        self.scene.note(match why {
            Miss::Full => "missed: full",
            Miss::Ended => "missed: it has ended",
            Miss::Left => "missed: it left, or the group ended",
            Miss::Unreachable(_) => "missed: unreachable",
            why => panic!("a line was refused: {why}"),
        });
    }

    fn check_order(&self) {
        let of = |seat: Seat| {
            let heard = self.pages.heard.iter().filter(move |heard| heard.seat == seat);
            heard.map(|heard| heard.number).collect::<Vec<u64>>()
        };
        let all: Vec<Vec<u64>> = (0..self.pages.seats.len()).map(of).collect();
        for (one, lines) in all.iter().enumerate() {
            for (other, others) in all.iter().enumerate().skip(one + 1) {
                let common = |of: &[u64], with: &[u64]| -> Vec<u64> {
                    of.iter().filter(|line| with.contains(line)).copied().collect()
                };
                let (a, b) = (common(lines, others), common(others, lines));
                assert_eq!(a, b, "{} and {} differ", self.name(one), self.name(other));
            }
            for (place, line) in lines.iter().enumerate() {
                let first = self.line(*line);
                for number in &lines[place + 1..] {
                    let later = self.line(*number);
                    let is_before = later.end < first.begin
                        || later.from == first.from && later.sent < first.begin;
                    assert!(!is_before, "{} heard {line} before {number}", self.name(one));
                }
            }
        }
    }

    fn check_members(&self, members: &[Seat]) {
        for seat in 0..self.pages.seats.len() {
            let (is_member, name) = (members.contains(&seat), self.name(seat));
            let begun = self.pages.sits.iter().filter(|(of, _)| *of == seat).count();
            let ended = self.pages.ends.iter().filter(|end| end.seat == seat).count();
            assert!(!is_member || begun > ended, "{name} has ended and is a member");
            assert!(!is_member || self.may_be(seat, NEVER, NEVER), "{name} is a member");
            let must = self.must_be(seat, NEVER, NEVER);
            assert!(is_member || !must, "{name} is no member");
        }
    }

    fn was_dropped(&self, number: u64) -> bool {
        self.pages.dropped.contains(&number)
    }

    fn name(&self, seat: Seat) -> String {
        format!("{} (seat {seat})", self.pages.seats[seat])
    }
}
