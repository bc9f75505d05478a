//! The rule of spinning against an oracle that remembers moments, and step by step.

use proptest::prelude::*;

use super::*;

const MOST: Duration = Duration::from_micros(20);

/// One step of one of two drivers of a thread, in which it found nothing more to do.
#[derive(Debug, Clone, Copy)]
struct Step {
    driver: usize,
    /// Nanoseconds since the step before.
    after: u64,
    sent: bool,
    received: bool,
}

/// A driver as the oracle sees it: the oracle keeps other points in time than the rule does.
#[derive(Default)]
struct Driver {
    carried: Carried,
    /// The last step that found messages carried, unless it has slept since.
    traffic: Option<Instant>,
    /// The first of the steps in a row that looked again at once.
    first: Option<Instant>,
    /// When it last looked again in place, it was to spin until then.
    seated: Option<Instant>,
}

impl Driver {
    fn spins_at(&self, now: Instant) -> bool {
        self.traffic.is_some_and(|traffic| now < traffic + MOST)
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let after = prop_oneof![0_u64..500, 0_u64..3_000, 15_000_u64..45_000];
    let rare = || prop::bool::weighted(0.1);
    let step = (0_usize..2, after, rare(), rare());
    let step =
        step.prop_map(|(driver, after, sent, received)| Step { driver, after, sent, received });
    prop::collection::vec(step, 1..200)
}

/// Runs the steps and gives what each said, with what the oracle knew just before and since.
fn run(fabric: Spins, steps: &[Step], mut check: impl FnMut(&[Driver; 2], Step, Instant, Next)) {
    let seat = Seat::default();
    let mut rules = [Spin::new(fabric, MOST), Spin::new(fabric, MOST)];
    let mut drivers = [Driver::default(), Driver::default()];
    let mut now = Instant::now();
    for &step in steps {
        now += Duration::from_nanos(step.after);
        let driver = &mut drivers[step.driver];
        driver.carried.sent += u64::from(step.sent);
        driver.carried.received += u64::from(step.received);
        if step.sent || step.received {
            driver.traffic = Some(now);
        }
        let carried = driver.carried;
        let next = rules[step.driver].next((step.driver, &seat), carried, || now);
        check(&drivers, step, now, next);
        let driver = &mut drivers[step.driver];
        match next {
            Next::Again => {
                driver.first.get_or_insert(now);
                driver.seated = driver.traffic.map(|traffic| traffic + MOST);
            }
            Next::Yield => driver.first = None,
            Next::Sleep => *driver = Driver { carried, ..Driver::default() },
        }
    }
}

proptest! {
    /// It spins as long after messages as it may, and neither longer nor at another time.
    #[test]
    fn a_driver_spins_for_its_time_after_messages_and_then_sleeps(steps in steps()) {
        for fabric in [Spins::ByTurns, Spins::InPlace] {
            run(fabric, &steps, |drivers, step, now, next| {
                let spins = drivers[step.driver].spins_at(now);
                assert_eq!(next != Next::Sleep, spins, "{fabric:?} {step:?}");
            });
        }
    }

    /// Other tasks run after messages were received, and after each stretch in place.
    #[test]
    fn a_driver_yields_after_what_it_received_and_after_two_microseconds(steps in steps()) {
        run(Spins::InPlace, &steps, |drivers, step, now, next| {
            if step.received {
                assert_eq!(next, Next::Yield, "{step:?}");
            }
            let first = drivers[step.driver].first;
            if next == Next::Again && let Some(first) = first {
                assert!(now < first + IN_PLACE, "{step:?}");
            }
        });
        run(Spins::ByTurns, &steps, |_, step, _, next| assert!(next != Next::Again, "{step:?}"));
    }

    /// None looks again in place before the other's time is over, or the other sleeps.
    #[test]
    fn of_two_drivers_of_a_thread_one_spins_in_place(steps in steps()) {
        run(Spins::InPlace, &steps, |drivers, step, now, next| {
            let seated = drivers[1 - step.driver].seated;
            let is_free = seated.is_none_or(|end| now >= end);
            assert!(next != Next::Again || is_free, "{step:?}");
        });
    }

    /// A simulated clock stands while a task runs; and no rule that is off reads the clock.
    #[test]
    fn a_driver_that_must_not_spin_sleeps_and_asks_for_no_time(steps in steps()) {
        let most = [(Spins::Never, MOST), (Spins::InPlace, Duration::ZERO)];
        for (fabric, most) in most {
            let (seat, mut carried) = (Seat::default(), Carried::default());
            let mut rule = Spin::new(fabric, most);
            for step in &steps {
                carried.sent += u64::from(step.sent);
                carried.received += u64::from(step.received);
                let next = rule.next((0, &seat), carried, || panic!("it asks for the time"));
                assert_eq!(next, Next::Sleep);
            }
        }
    }
}

/// In a row: a message received, a stretch in place, turns, and the end.
#[test]
fn a_spin_from_its_message_to_its_sleep() {
    let (seat, start) = (Seat::default(), Instant::now());
    let mut rule = Spin::new(Spins::InPlace, MOST);
    let mut at = |nanos, received| {
        let carried = Carried { sent: 0, received };
        rule.next((7, &seat), carried, || start + Duration::from_nanos(nanos))
    };
    assert_eq!(at(0, 0), Next::Sleep);
    assert_eq!(at(100, 1), Next::Yield, "the receiver runs first");
    assert_eq!(at(1_000, 1), Next::Again);
    assert_eq!(at(2_999, 1), Next::Again);
    assert_eq!(at(3_000, 1), Next::Yield);
    assert_eq!(at(19_000, 1), Next::Again);
    assert_eq!(at(20_099, 1), Next::Again);
    assert_eq!(at(20_100, 1), Next::Sleep);
    assert_eq!(at(20_200, 1), Next::Sleep);
    assert_eq!(seat.0.get(), None, "the seat is free");
}
