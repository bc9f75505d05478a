//! Times of a trip over the path, and of a lap of the ring: more slots help only where the peer
//! goes through all that it has in about the time of a trip.
//!
//! Each report of this side lets the peer send frames that it could not send before. The first of
//! them comes a trip later, at the earliest. On a long path a whole ring of frames arrives in that
//! time, and then the path is empty: twice the slots carry twice as much. Where a lap of the ring
//! takes much longer than a trip, the path or the program is slow. More slots would then be a
//! queue, behind which all later messages and answers wait. (The product of bandwidth and delay, as
//! TCP's receivers and BBR reckon it.)

use std::time::{Duration, Instant};

/// Laps that are measured as one: what the kernel kept of a burst is read in no time.
const LAPS: u32 = 4;
/// They may take as many trips as this for the ring to be what limits. With reports at each quarter
/// of a ring a lap takes a trip and a third.
const TRIPS: u32 = 6;

/// Times of one link. Frames have numbers that wrap around.
#[derive(Debug, Default)]
pub(crate) struct Trip {
    /// A frame that could not be sent before a report, and when that was written.
    timed: Option<(u32, Instant)>,
    fastest: Option<Duration>,
    /// The frame that began these laps, and when it arrived.
    begun: Option<(u32, Instant)>,
    laps: Option<Duration>,
    /// The peer's last frame said that messages wait for credits there.
    short: bool,
}

impl Trip {
    /// Records a report, before which the peer could not send the frame with this number.
    pub(crate) fn reported(&mut self, frame: u32, now: Instant) {
        self.timed.get_or_insert((frame, now));
    }

    /// Records the arrival of the frame with this number, in a ring of `ring` slots, and whether
    /// the peer is short of credits after it.
    pub(crate) fn arrived(&mut self, frame: u32, short: bool, ring: u32, now: Instant) {
        self.short = short;
        let reached = |other: u32| frame.wrapping_sub(other) < u32::MAX / 2;
        if let Some((_, written)) = self.timed.take_if(|(timed, _)| reached(*timed)) {
            let trip = now.saturating_duration_since(written);
            self.fastest = Some(self.fastest.map_or(trip, |fastest| fastest.min(trip)));
        }
        let (first, began) = *self.begun.get_or_insert((frame, now));
        if frame.wrapping_sub(first) >= ring * LAPS {
            self.laps = Some(now.saturating_duration_since(began));
            self.begun = Some((frame, now));
        }
    }

    /// Records that the ring grew: laps of the smaller one say nothing any more.
    pub(crate) fn grown(&mut self) {
        (self.begun, self.laps) = (None, None);
    }

    /// Returns true if the peer is short of credits, and more slots would let it send more in the
    /// same time; said once. A small ring is given the benefit of the doubt.
    pub(crate) fn take_shortage(&mut self, small: bool) -> bool {
        std::mem::take(&mut self.short) && (small || self.limits())
    }

    /// Returns true if the last laps took about as long as trips.
    fn limits(&self) -> bool {
        let within = |(laps, trip): (Duration, Duration)| laps <= trip * TRIPS;
        self.laps.zip(self.fastest).is_some_and(within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::credit::FIRST_COUNT;
    use std::collections::VecDeque;

    /// A peer that always has more, on a path on which a frame takes `each` and the way `path`,
    /// both there and back. Its ring is doubled from 16 slots to 1,024 as long as that helps.
    /// Returns the slots at the end.
    fn grown(each: Duration, path: Duration) -> u32 {
        let mut now = crate::sync::some_moment();
        let mut trip = Trip::default();
        let (mut ring, mut granted, mut reported) = (16_u32, 16_u32, 0_u32);
        let (mut sent, mut arrived, mut free) = (0_u32, 0_u32, now);
        let mut frames = VecDeque::new();
        let mut reports = VecDeque::new();
        for _ in 0..100_000 {
            while reports.pop_front_if(|(_, at)| *at <= now).is_some_and(|(to, _)| {
                granted = to;
                true
            }) {}
            while sent < granted {
                free = now.max(free) + each;
                frames.push_back(free + path);
                sent += 1;
            }
            // The next thing that happens.
            let next = frames.front().into_iter().chain(reports.front().map(|(_, at)| at)).min();
            now = *next.expect("something is under way");
            while frames.pop_front_if(|at| *at <= now).is_some() {
                trip.arrived(FIRST_COUNT.wrapping_add(arrived), sent == granted, ring, now);
                arrived += 1;
            }
            if arrived - reported >= ring / 4 {
                trip.reported(FIRST_COUNT.wrapping_add(reported + ring), now);
                reported = arrived;
                reports.push_back((reported + ring, now + path));
            }
            let idle = sent == granted && frames.front().is_none_or(|at| *at > now + each);
            if idle && ring < 1024 && trip.take_shortage(false) {
                ring *= 2;
                trip.grown();
                reports.push_back((reported + ring, now + path));
            }
        }
        ring
    }

    #[test]
    fn a_long_path_gets_the_slots_that_fill_it() {
        let each = Duration::from_micros(10);
        assert_eq!(grown(each, Duration::from_millis(5)), 1024, "1,000 frames take a trip");
        let few = grown(each, Duration::from_micros(500));
        assert!((128..=256).contains(&few), "100 frames take a trip: {few} slots");
    }

    #[test]
    fn a_slow_path_gets_no_queue() {
        let slow = grown(Duration::from_millis(1), Duration::from_millis(1));
        assert!(slow <= 32, "2 frames take a trip: {slow} slots");
    }

    #[test]
    fn nothing_is_said_before_a_lap_and_a_trip_were_measured() {
        let start = crate::sync::some_moment();
        let mut trip = Trip::default();
        let arrive = |trip: &mut Trip, frame: u32, ms| {
            let at = start + Duration::from_millis(ms);
            trip.arrived(FIRST_COUNT.wrapping_add(frame), true, 16, at);
            trip.take_shortage(false)
        };
        assert!(!arrive(&mut trip, 0, 0) && !arrive(&mut trip, 64, 4), "laps alone");
        trip.reported(FIRST_COUNT.wrapping_add(70), start + Duration::from_millis(4));
        assert!(!arrive(&mut trip, 69, 5), "an earlier frame than the one that is timed");
        assert!(arrive(&mut trip, 70, 5));
        assert!(!trip.take_shortage(false), "a shortage counts once");
        trip.grown();
        assert!(!arrive(&mut trip, 71, 6), "of a larger ring nothing was measured");
    }
}
