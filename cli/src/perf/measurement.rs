//! The list of what is measured.

/// A thing that is measured, in rows of one payload and one number of senders each.
#[derive(Debug)]
pub(crate) struct Measurement {
    /// The name, by which `--only` finds it.
    pub(crate) name: &'static str,
    /// A line above its table.
    pub(crate) about: &'static str,
    /// The payloads in bytes.
    pub(crate) sizes: &'static [usize],
    /// The numbers of tasks that send, each to an actor of its own.
    pub(crate) senders: &'static [usize],
    /// The way in which it is measured, and with that the columns of its table.
    pub(crate) kind: Kind,
}

/// A way to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One operation after the other: times.
    Latency,
    /// As many operations as go through: rates.
    Rate,
}

/// All measurements, in their order.
pub(crate) const MEASUREMENTS: [Measurement; 3] = [
    Measurement {
        name: "ask",
        about: "asks by one task, one after the other, each answered with the same bytes: whole \
                round trips",
        sizes: &[32, 1 << 10, 64 << 10],
        senders: &[1],
        kind: Kind::Latency,
    },
    Measurement {
        name: "rate",
        about: "tells of small messages, by the number of tasks that send, each to an actor of its \
                own",
        sizes: &[32, 1 << 10],
        senders: &[1, 4, 16],
        kind: Kind::Rate,
    },
    Measurement {
        name: "bandwidth",
        about: "tells of large messages",
        sizes: &[64 << 10, 1 << 20],
        senders: &[1],
        kind: Kind::Rate,
    },
];
