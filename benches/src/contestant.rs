//! The contestants and what each of them can do.

use crate::figure::{Measurement, Work};

/// What a contestant is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Shows the least that messages could cost.
    Floor,
    /// Is what is measured.
    Ours,
    /// Is another crate that does the same.
    Peer,
}

/// A way to send messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contestant {
    /// Its name.
    pub name: &'static str,
    /// What it is there for.
    pub role: Role,
    /// What of messages between two processes it can do.
    pub pair: Between,
    /// Whether it can send messages within a process.
    pub local: bool,
}

/// What of messages between two processes a contestant can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// Nothing.
    None,
    /// Asks; it has no message without an answer.
    Asks,
    /// Asks and tells.
    All,
    /// As `All`, on one blocking thread: there are no tasks that could wait.
    Blocking,
}

/// The floor that ratios are to, between two processes and within one.
pub const FLOORS: [&str; 2] = ["tokio-tcp", "tokio-mpsc"];

/// Ringpost's name.
pub const OURS: &str = "ringpost";

/// Returns every contestant, in the order in which they are measured.
pub fn contestants() -> Vec<Contestant> {
    let floor = |name, pair, local| Contestant { name, role: Role::Floor, pair, local };
    let peer = |name, pair, local| Contestant { name, role: Role::Peer, pair, local };
    vec![
        floor("tokio-tcp", Between::All, false),
        floor("tokio-mpsc", Between::None, true),
        floor("tcp", Between::Blocking, false),
        floor("unix", Between::Blocking, false),
        Contestant { name: OURS, role: Role::Ours, pair: Between::All, local: true },
        peer("ractor", Between::All, true),
        peer("kameo", Between::All, true),
        peer("actix", Between::None, true),
        peer("xtra", Between::None, true),
        peer("tarpc", Between::Asks, false),
        peer("tonic", Between::All, false),
    ]
}

impl Contestant {
    /// Returns whether it takes part in a measurement.
    pub fn takes_part(&self, measurement: &Measurement) -> bool {
        if measurement.is_local() {
            return self.local;
        }
        let peer = self.role == Role::Peer;
        match (self.pair, measurement.work) {
            (Between::None, _) => false,
            // The peers' own limits would be measured, not their waiting.
            (_, Work::Waiting(_)) => self.pair == Between::All && !peer,
            (_, Work::Instructions(_) | Work::Allocations(_)) => self.pair == Between::All && !peer,
            (Between::Asks, Work::Tells(_) | Work::LargeTell(_)) => false,
            // One thread each, however many workers there are.
            (Between::Blocking, _) => measurement.workers == 1,
            _ => true,
        }
    }

    /// Returns whether ratios of this measurement are to it.
    pub fn is_floor_of(&self, measurement: &Measurement) -> bool {
        self.name == FLOORS[usize::from(measurement.is_local())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::measurements;

    #[test]
    fn every_measurement_has_ringpost_and_exactly_one_floor_that_ratios_are_to() {
        for measurement in measurements() {
            let taking: Vec<Contestant> =
                contestants().into_iter().filter(|c| c.takes_part(&measurement)).collect();
            assert_eq!(taking.iter().filter(|c| c.is_floor_of(&measurement)).count(), 1);
            assert_eq!(taking.iter().filter(|c| c.role == Role::Ours).count(), 1);
        }
    }
}
