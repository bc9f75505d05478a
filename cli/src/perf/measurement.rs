//! The list of measurements.

/// A thing that is measured, in rows of one payload and one number of senders each.
#[derive(Debug)]
pub(crate) struct Measurement {
    /// The name, by which `--only` finds it.
    pub(crate) name: &'static str,
    /// A line above its table.
    pub(crate) about: &'static str,
    /// The payloads in bytes.
    pub(crate) sizes: &'static [usize],
    /// The numbers of tasks that send, each to an actor of its own, or use the region.
    pub(crate) senders: &'static [usize],
    /// The way in which it is measured, and with that the columns of its table.
    pub(crate) kind: Kind,
}

/// A way to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Asks, one after the other: times.
    Ask,
    /// Tells, as many as go through: rates.
    Tell,
    /// Operations on a region, one after the other: times.
    Region(Operation),
    /// Operations on a region, as many as go through: rates.
    RegionRate(Operation),
}

/// An operation on a region of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    FetchAdd,
    CompareExchange,
}

impl Operation {
    /// Returns true if it is done on one word, whatever sizes are asked for.
    fn is_atomic(self) -> bool {
        matches!(self, Operation::FetchAdd | Operation::CompareExchange)
    }
}

/// The name by which `--only` finds all measurements of the region.
pub(crate) const REGION: &str = "region";

/// Bytes of a word, which is what atomic operations change.
const WORD: &[usize] = &[size_of::<u64>()];

/// All measurements, in their order.
pub(crate) const MEASUREMENTS: [Measurement; 11] = [
    Measurement {
        name: "ask",
        about: "asks by one task, one after the other, each answered with the same bytes: whole \
                round trips",
        sizes: &[32, 1 << 10, 64 << 10],
        senders: &[1],
        kind: Kind::Ask,
    },
    Measurement {
        name: "rate",
        about: "tells of small messages, by the number of tasks that send, each to an actor of its \
                own",
        sizes: &[32, 1 << 10],
        senders: &[1, 4, 16],
        kind: Kind::Tell,
    },
    Measurement {
        name: "bandwidth",
        about: "tells of large messages",
        sizes: &[64 << 10, 1 << 20],
        senders: &[1],
        kind: Kind::Tell,
    },
    Measurement {
        name: "read",
        about: "reads of a region of the other side by one task, one after the other, each until \
                its bytes are here",
        sizes: &[8, 4 << 10, 64 << 10],
        senders: &[1],
        kind: Kind::Region(Operation::Read),
    },
    Measurement {
        name: "write",
        about: "writes to a region of the other side by one task, one after the other, each until \
                its bytes are in the memory there",
        sizes: &[8, 4 << 10, 64 << 10],
        senders: &[1],
        kind: Kind::Region(Operation::Write),
    },
    Measurement {
        name: "fetch_add",
        about: "atomic additions to a word of a region of the other side, one after the other",
        sizes: WORD,
        senders: &[1],
        kind: Kind::Region(Operation::FetchAdd),
    },
    Measurement {
        name: "compare_exchange",
        about: "atomic compare-and-swaps of a word of a region of the other side, one after the \
                other",
        sizes: WORD,
        senders: &[1],
        kind: Kind::Region(Operation::CompareExchange),
    },
    Measurement {
        name: "read_bandwidth",
        about: "reads of a region of the other side, by the number of tasks that read, one read \
                after the other each",
        sizes: &[4 << 10, 64 << 10, 1 << 20],
        senders: &[1, 4],
        kind: Kind::RegionRate(Operation::Read),
    },
    Measurement {
        name: "write_bandwidth",
        about: "writes to a region of the other side, by the number of tasks that write, one write \
                after the other each",
        sizes: &[4 << 10, 64 << 10, 1 << 20],
        senders: &[1, 4],
        kind: Kind::RegionRate(Operation::Write),
    },
    Measurement {
        name: "fetch_add_rate",
        about: "atomic additions to one word of a region of the other side, by the number of tasks \
                that add, one addition after the other each",
        sizes: WORD,
        senders: &[1, 4],
        kind: Kind::RegionRate(Operation::FetchAdd),
    },
    Measurement {
        name: "compare_exchange_rate",
        about: "atomic compare-and-swaps of one word of a region of the other side, by the number \
                of tasks, one after the other each; those that find the value of another task \
                count",
        sizes: WORD,
        senders: &[1, 4],
        kind: Kind::RegionRate(Operation::CompareExchange),
    },
];

/// Returns the names that `--only` takes.
pub(crate) fn names() -> Vec<&'static str> {
    let messages = MEASUREMENTS.iter().filter(|it| !it.is_of_region());
    let of_region = MEASUREMENTS.iter().filter(|it| it.is_of_region());
    let names = messages.map(|it| it.name).chain([REGION]);
    names.chain(of_region.map(|it| it.name)).collect()
}

impl Measurement {
    /// Returns true if the other side needs a region for it.
    pub(crate) fn is_of_region(&self) -> bool {
        matches!(self.kind, Kind::Region(_) | Kind::RegionRate(_))
    }

    /// Returns true if `only` names this measurement, or is empty.
    pub(crate) fn is_among(&self, only: &[String]) -> bool {
        let is_named = |name: &String| *name == self.name || self.is_of_region() && name == REGION;
        only.is_empty() || only.iter().any(is_named)
    }

    /// Returns its rows, a payload and a number of senders each, where the command line gives these
    /// sizes and numbers of senders, or none.
    pub(crate) fn rows(&self, sizes: &[usize], senders: &[usize]) -> Vec<(usize, usize)> {
        let sizes = match self.kind {
            Kind::Region(operation) | Kind::RegionRate(operation) if operation.is_atomic() => {
                self.sizes
            }
            _ if sizes.is_empty() => self.sizes,
            _ => sizes,
        };
        let senders = match self.kind {
            Kind::Ask | Kind::Region(_) => self.senders,
            _ if senders.is_empty() => self.senders,
            _ => senders,
        };
        let pairs =
            |bytes: &usize| senders.iter().map(|count| (*bytes, *count)).collect::<Vec<_>>();
        sizes.iter().flat_map(pairs).collect()
    }
}
