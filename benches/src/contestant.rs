//! The contestants and the messages that each of them can send.

use crate::figure::{Beside, Face, Measurement, Savina, Work};

/// The part that a contestant has in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The contestant shows the least that messages could cost.
    Floor,
    /// The contestant is Ringpost.
    Ours,
    /// The contestant is Ringpost with every link encrypted, to be compared with Ringpost.
    Sealed,
    /// The contestant is Ringpost with links that spin, to be compared with Ringpost.
    Spinning,
    /// The contestant is another crate that does the same work.
    Peer,
    /// The contestant is a library for ranks in C that does the same work.
    Mpi,
}

/// A way to send messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contestant {
    /// The name in `--only` and in the results.
    pub name: &'static str,
    /// Its part in the comparison.
    pub role: Role,
    /// The messages that it can send between two processes.
    pub pair: Between,
    /// The programs that its actors can run within a process.
    pub local: Within,
}

/// The programs that actors can run within a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// None: it has none, or sends no messages there.
    None,
    /// None, but its tasks can be spawned, and wait: it is no actor crate.
    Spawning,
    /// Programs whose handlers never wait.
    Waitless,
    /// All.
    All,
}

/// The messages that a contestant can send between two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// No messages.
    None,
    /// Asks only: it has no message without an answer.
    Asks,
    /// Asks and tells.
    All,
    /// Asks and tells, on one blocking thread: there are no tasks that could wait.
    Blocking,
}

/// The floors that ratios are taken to: the one between two processes, the one within a process.
pub const FLOORS: [&str; 2] = ["tokio-tcp", "tokio-mpsc"];

/// Ringpost's name.
pub const OURS: &str = "ringpost";

/// The name of Ringpost with every link encrypted.
pub const SEALED: &str = "ringpost-tcps";

/// The name of Ringpost with the profile `latency`.
pub const SPINNING: &str = "ringpost-latency";

/// Returns every contestant, in the order in which they are measured.
pub fn contestants() -> Vec<Contestant> {
    let floor = |name, pair, local| Contestant { name, role: Role::Floor, pair, local };
    let peer = |name, pair, local| Contestant { name, role: Role::Peer, pair, local };
    let mpi = |name| Contestant { name, role: Role::Mpi, pair: Between::None, local: Within::None };
    vec![
        floor("tokio-tcp", Between::All, Within::None),
        floor("tokio-mpsc", Between::None, Within::All),
        floor("tcp", Between::Blocking, Within::None),
        floor("unix", Between::Blocking, Within::None),
        Contestant { name: OURS, role: Role::Ours, pair: Between::All, local: Within::All },
        Contestant { name: SEALED, role: Role::Sealed, pair: Between::All, local: Within::None },
        Contestant {
            name: SPINNING,
            role: Role::Spinning,
            pair: Between::All,
            local: Within::None,
        },
        peer("ractor", Between::All, Within::All),
        peer("kameo", Between::All, Within::All),
        peer("actix", Between::None, Within::Waitless),
        peer("xtra", Between::None, Within::All),
        peer("flume", Between::None, Within::Spawning),
        peer("tarpc", Between::Asks, Within::None),
        peer("tonic", Between::All, Within::None),
        mpi("mpich"),
        mpi("openmpi"),
    ]
}

impl Contestant {
    /// Returns true if it takes part in a measurement.
    pub fn takes_part(&self, measurement: &Measurement) -> bool {
        let peer = self.role == Role::Peer;
        match measurement.work {
            Work::Ranks(_) => return matches!(self.role, Role::Ours | Role::Mpi),
            Work::Connections(_) | Work::Peers(_) | Work::CAllToAll => {
                return self.role == Role::Ours;
            }
            // For peers the figures of asks are the same.
            _ if measurement.face() != Face::Actor => {
                return self.role == Role::Ours || self.is_floor_of(measurement);
            }
            _ => {}
        }
        if measurement.is_local() {
            return match measurement.work {
                // So many tasks wait: see below.
                Work::LocalTell(1000) if peer => false,
                Work::Savina(Savina::LogisticMap | Savina::Dictionary | Savina::Bank) => {
                    self.local == Within::All
                }
                Work::Spawn | Work::Idle { .. } => self.local != Within::None,
                _ => matches!(self.local, Within::Waitless | Within::All),
            };
        }
        match (self.pair, measurement.work) {
            (Between::None, _) => false,
            // The figures of the plain fabric, measured encrypted: latency, rates and bytes.
            (_, work) if self.role == Role::Sealed => matches!(
                work,
                Work::Ask(_)
                    | Work::Asks(_)
                    | Work::Tells(_)
                    | Work::LargeTell(_)
                    | Work::LargeAsk(_)
            ),
            // The works that show the gain and the cost of spinning.
            (_, work) if self.role == Role::Spinning => {
                matches!(work, Work::Ask(_) | Work::Asks(_) | Work::Tells(_))
            }
            // With peers this would measure their own limits, not their waiting.
            (_, Work::Waiting(_)) => self.pair == Between::All && !peer,
            // Peers are measured with one actor only.
            (_, Work::Spread(_)) => self.pair == Between::All && !peer,
            (_, Work::Path(_) | Work::Bulk(Beside::Nothing | Beside::Asks)) => {
                self.pair == Between::All && !peer
            }
            (_, Work::Reply(_) | Work::Bulk(Beside::Replies) | Work::Ticking) => {
                self.role == Role::Ours
            }
            (_, Work::Instructions(_) | Work::Allocations(_)) => self.pair == Between::All && !peer,
            (Between::Asks, Work::Tells(_) | Work::LargeTell(_)) => false,
            // A blocking floor has one thread on each side, for any number of workers.
            (Between::Blocking, _) => measurement.workers == 1,
            _ => true,
        }
    }

    /// Returns true if the ratios of this measurement are taken to it.
    pub fn is_floor_of(&self, measurement: &Measurement) -> bool {
        self.name == FLOORS[usize::from(measurement.is_local())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::measurements;

    #[test]
    fn every_measurement_has_ringpost_and_at_most_one_floor_that_ratios_are_to() {
        for measurement in measurements() {
            let taking: Vec<Contestant> =
                contestants().into_iter().filter(|c| c.takes_part(&measurement)).collect();
            let floors = taking.iter().filter(|c| c.is_floor_of(&measurement)).count();
            let is_compared = taking.len() > 1 && taking.iter().all(|c| c.role != Role::Mpi);
            assert_eq!(floors, usize::from(is_compared), "{}", measurement.name);
            assert_eq!(taking.iter().filter(|c| c.role == Role::Ours).count(), 1);
        }
    }
}
