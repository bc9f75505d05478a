//! The age of a frame: how long it was on its way, beyond what frames usually take.
//!
//! Each frame carries the clock of its sender. The two clocks share no zero, but the fastest frame
//! of the last seconds shows their difference; what a frame took longer than that one, it spent
//! in queues: of the sender's kernel, of the path, or of a receiver that was stopped or blocked.
//! Deadlines age by it. Two windows are kept because clocks drift: a minimum that is never
//! forgotten would let every deadline age for nothing after a day.

use std::time::{Duration, Instant};

/// Time for which a minimum is kept at least; it is kept twice as long at most. Clocks of two
/// machines drift by less than 10 ms in that time (500 ppm, the most that NTP slews by), and after
/// a clock stood still asks are taken for older than they are for no longer than that.
const WINDOW: Duration = Duration::from_secs(10);

/// The differences between the receiver's clock and the sender's, in milliseconds.
#[derive(Debug)]
pub(crate) struct Age {
    start: Instant,
    /// The end of this window.
    window: Instant,
    /// The smallest difference of this window and of the one before.
    least: [Option<u32>; 2],
}

impl Age {
    pub(crate) fn new(start: Instant) -> Self {
        Age { start, window: start + WINDOW, least: [None; 2] }
    }

    /// Returns the clock that a frame written now carries.
    pub(crate) fn clock_ms(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.start).as_millis() as u32
    }

    /// Records a frame that arrived with this clock; returns how much longer it took than the
    /// fastest one.
    pub(crate) fn arrive(&mut self, clock_ms: u32, now: Instant) -> Duration {
        if now >= self.window {
            self.window = now + WINDOW;
            self.least = [None, self.least[0]];
        }
        let difference = self.clock_ms(now).wrapping_sub(clock_ms);
        let least = self.least.into_iter().flatten().fold(difference, earlier);
        self.least[0] = Some(self.least[0].map_or(difference, |own| earlier(own, difference)));
        Duration::from_millis(u64::from(difference.wrapping_sub(least)))
    }
}

/// Returns the smaller of two wrapping differences that are less than half the numbers apart.
fn earlier(a: u32, b: u32) -> u32 {
    if a.wrapping_sub(b) > u32::MAX / 2 { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn a_frame_ages_by_what_it_took_longer_than_the_fastest() {
        let start = crate::sync::some_moment();
        let at = |ms| start + Duration::from_millis(ms);
        let mut age = Age::new(start);
        // The sender's clock is 1,000 ms ahead, and wraps in between.
        let sent = |ms: u32| ms.wrapping_add(1000);
        assert_eq!(age.arrive(sent(5), at(15)), Duration::ZERO, "the first shows no age");
        assert_eq!(age.arrive(sent(20), at(22)), Duration::ZERO, "a faster one");
        assert_eq!(age.arrive(sent(30), at(20_032)), Duration::from_millis(20_000));
        let mut age = Age::new(start);
        assert_eq!(age.arrive(u32::MAX, at(0)), Duration::ZERO);
        assert_eq!(age.arrive(0, at(3)), Duration::from_millis(2), "across the wrap");
    }

    #[test]
    fn a_minimum_is_forgotten_after_two_windows_and_not_before() {
        let start = crate::sync::some_moment();
        let mut age = Age::new(start);
        age.arrive(0, start);
        let late = |windows: u64| start + WINDOW * windows as u32 + Duration::from_millis(50);
        let clock = |windows: u64| WINDOW.as_millis() as u32 * windows as u32;
        assert_eq!(age.arrive(clock(1), late(1)), Duration::from_millis(50));
        assert_eq!(age.arrive(clock(2), late(2)), Duration::ZERO, "the drift is taken for granted");
    }
}
