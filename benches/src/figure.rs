//! The figures, and the measurements that give them.

use std::time::Duration;

/// A number that is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// The name in the table, with `_1` at its end for one worker on each side.
    pub name: String,
    /// The unit of its value.
    pub unit: &'static str,
    /// The direction in which it is better.
    pub better: Better,
    /// A description of a few words.
    pub what: String,
}

/// The direction in which a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The smaller one: times, instructions, allocations.
    Less,
    /// The larger one: rates.
    More,
}

/// The messages that a measurement sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Asks, one after the other, answered with the same bytes; median time and processor time.
    Ask(Size),
    /// Asks of 32 bytes by so many tasks, each with one on its way.
    Asks(usize),
    /// The same, each task asking an actor of its own.
    Spread(usize),
    /// Tells by one task.
    Tells(Size),
    /// Tells of 32 bytes by so many tasks, each waiting until its tell is taken.
    Waiting(usize),
    /// Tells of a large message, by one task.
    LargeTell(Size),
    /// Asks with a large message, one after the other, answered with a number.
    LargeAsk(Size),
    /// Tells of a large message by one task, over a [`Path`](crate::path::Path).
    Path(Size),
    /// Asks with a reply of 9 KiB, one after the other, beside tells of 60 MiB that come the same
    /// way; 99th percentile of the times.
    Reply(Sharing),
    /// Tells of 1 MiB by one task, beside asks.
    Bulk(Beside),
    /// A tell of 64 MiB that waits for room in a `select!` that ticks: processor time.
    Ticking,
    /// Tells within a process, by so many tasks.
    LocalTell(usize),
    /// Asks within a process, one after the other.
    LocalAsk,
    /// Tells to each of many actors by one task.
    FanOut,
    /// Steps of a token that goes round a ring of actors.
    RingHop,
    /// Starts of actors.
    Spawn,
    /// A program of the Savina suite.
    Savina(Savina),
    /// Actors that wait: their memory, and the times of their starts and ends.
    Idle {
        /// True where a supervisor has them as children.
        supervised: bool,
        /// Number of actors.
        actors: usize,
    },
    /// Instructions of one message, under valgrind.
    Instructions(Cost),
    /// Allocations of one message.
    Allocations(Cost),
}

/// The programs of the Savina suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Savina {
    /// Fork-join create.
    Create,
    /// Fibonacci.
    Fib,
    /// Logistic map.
    LogisticMap,
    /// Concurrent dictionary.
    Dictionary,
    /// Big.
    Big,
    /// Bank transaction.
    Bank,
}

/// The number of actors whose memory is measured, where no other is asked for.
pub const ACTORS: usize = 100_000;

/// The things that replies share with tells of 60 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Nothing: there are no tells.
    Nothing,
    /// The link. The tells are made and sent on a thread of their own.
    Link,
    /// The link, and the workers of the serving process.
    Workers,
    /// The server's port with [`Strangers`](crate::strangers::Strangers): there are no tells.
    Strangers,
}

/// The asks of 32 tasks beside which tells are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// None.
    Nothing,
    /// Asks with 100 KiB, answered with a number, on the way of the tells.
    Asks,
    /// Asks answered with 100 KiB, on the way of the tells.
    Replies,
}

/// The message and the side whose cost is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The message.
    pub message: CostOf,
    /// True where the serving process is counted, and not the sending one.
    pub serving: bool,
}

/// A message whose cost is counted; 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CostOf {
    /// A tell.
    Tell,
    /// An ask and its answer.
    Ask,
}

/// The number of bytes that a message carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// 32 bytes, in the message itself.
    B32,
    /// 1 KiB.
    KiB1,
    /// 64 KiB.
    KiB64,
    /// 1 MiB.
    MiB1,
    /// 64 MiB.
    MiB64,
}

impl Size {
    /// Returns the number.
    pub fn bytes(self) -> usize {
        match self {
            Size::B32 => 32,
            Size::KiB1 => 1 << 10,
            Size::KiB64 => 64 << 10,
            Size::MiB1 => 1 << 20,
            Size::MiB64 => 64 << 20,
        }
    }
}

/// A thing that is run and timed: it gives one figure, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// The name, which is also that of its first figure.
    pub name: String,
    /// The group by which `--only` finds it.
    pub group: &'static str,
    /// The messages that it sends.
    pub work: Work,
    /// Number of worker threads of each process.
    pub workers: usize,
    /// True where loops of the idle class keep the cores awake.
    pub awake: bool,
}

/// Name, group, work, and whether the cores are kept awake, of each measurement between two
/// processes or within one.
const TIMED: [(&str, &str, Work, bool); 44] = [
    ("ask_32", "ask", Work::Ask(Size::B32), false),
    ("ask_1k", "ask", Work::Ask(Size::KiB1), false),
    ("ask_32_awake", "awake", Work::Ask(Size::B32), true),
    ("ask_1k_awake", "awake", Work::Ask(Size::KiB1), true),
    ("asks_16", "asks", Work::Asks(16), false),
    ("asks_128", "asks", Work::Asks(128), false),
    ("asks_1024", "asks", Work::Asks(1024), false),
    ("asks_128_spread", "asks", Work::Spread(128), false),
    ("tells_32", "tells", Work::Tells(Size::B32), false),
    ("tells_1k", "tells", Work::Tells(Size::KiB1), false),
    ("echo_64k", "bulk", Work::Ask(Size::KiB64), false),
    ("tell_1m", "bulk", Work::LargeTell(Size::MiB1), false),
    ("ask_1m", "bulk", Work::LargeAsk(Size::MiB1), false),
    ("tell_64m", "bulk", Work::LargeTell(Size::MiB64), false),
    ("ask_64m", "bulk", Work::LargeAsk(Size::MiB64), false),
    ("waiting_1", "waiting", Work::Waiting(1), false),
    ("waiting_10", "waiting", Work::Waiting(10), false),
    ("waiting_100", "waiting", Work::Waiting(100), false),
    ("waiting_1000", "waiting", Work::Waiting(1000), false),
    ("waiting_10000", "waiting", Work::Waiting(10_000), false),
    ("path_10ms", "pressure", Work::Path(Size::MiB1), false),
    ("reply_quiet", "pressure", Work::Reply(Sharing::Nothing), false),
    ("reply_beside_bulk", "pressure", Work::Reply(Sharing::Link), false),
    ("reply_sharing_workers", "pressure", Work::Reply(Sharing::Workers), false),
    ("reply_beside_strangers", "pressure", Work::Reply(Sharing::Strangers), false),
    ("bulk_quiet", "pressure", Work::Bulk(Beside::Nothing), false),
    ("bulk_beside_asks", "pressure", Work::Bulk(Beside::Asks), false),
    ("bulk_beside_replies", "pressure", Work::Bulk(Beside::Replies), false),
    ("waiting_cpu", "pressure", Work::Ticking, false),
    ("local_tell", "local", Work::LocalTell(1), false),
    ("local_tell_8", "local", Work::LocalTell(8), false),
    ("local_tell_1000", "local", Work::LocalTell(1000), false),
    ("local_ask", "local", Work::LocalAsk, false),
    ("fan_out", "crowd", Work::FanOut, false),
    ("ring_hop", "crowd", Work::RingHop, false),
    ("spawn", "crowd", Work::Spawn, false),
    ("savina_create", "savina", Work::Savina(Savina::Create), false),
    ("savina_fib", "savina", Work::Savina(Savina::Fib), false),
    ("savina_logistic_map", "savina", Work::Savina(Savina::LogisticMap), false),
    ("savina_dictionary", "savina", Work::Savina(Savina::Dictionary), false),
    ("savina_big", "savina", Work::Savina(Savina::Big), false),
    ("savina_bank", "savina", Work::Savina(Savina::Bank), false),
    ("idle_bytes", "idle", Work::Idle { supervised: false, actors: ACTORS }, false),
    ("supervised_bytes", "idle", Work::Idle { supervised: true, actors: ACTORS }, false),
];

/// The end of the names of figures with one worker on each side.
pub const ONE_WORKER: &str = "_1";

/// Returns every measurement, in the order in which they are made.
pub fn measurements() -> Vec<Measurement> {
    let timed = |workers: usize| {
        TIMED.map(|(name, group, work, awake)| {
            let name = if workers == 1 { format!("{name}{ONE_WORKER}") } else { name.into() };
            Measurement { name, group, work, workers, awake }
        })
    };
    let mut all: Vec<Measurement> = timed(2).into_iter().chain(timed(1)).collect();
    for (kind, work) in [
        ("instructions", Work::Instructions as fn(Cost) -> Work),
        ("allocations", Work::Allocations),
    ] {
        for (message, word) in [(CostOf::Tell, "tell"), (CostOf::Ask, "ask")] {
            for (serving, side) in [(false, "send"), (true, "receive")] {
                let work = work(Cost { message, serving });
                let name = format!("{kind}_{word}_{side}");
                all.push(Measurement { name, group: "cost", work, workers: 1, awake: false });
            }
        }
    }
    all
}

/// Returns the measurement of this name.
pub fn find(name: &str) -> Option<Measurement> {
    measurements().into_iter().find(|measurement| measurement.name == name)
}

impl Measurement {
    /// Returns the figures that it gives, in the order of its values.
    pub fn figures(&self) -> Vec<Figure> {
        let (unit, better) = match self.work {
            Work::Ask(_) | Work::Reply(_) => ("us", Better::Less),
            Work::Asks(_) | Work::Spread(_) | Work::Tells(_) | Work::Waiting(_) | Work::Bulk(_) => {
                ("1/s", Better::More)
            }
            Work::LargeTell(_) | Work::LargeAsk(_) | Work::Path(_) => ("MB/s", Better::More),
            Work::Ticking => ("%", Better::Less),
            Work::LocalTell(_) | Work::LocalAsk => ("ns", Better::Less),
            Work::FanOut | Work::RingHop | Work::Spawn => ("ns", Better::Less),
            Work::Savina(_) => ("ms", Better::Less),
            Work::Idle { .. } => ("B", Better::Less),
            Work::Instructions(_) => ("instr", Better::Less),
            Work::Allocations(_) => ("allocs", Better::Less),
        };
        let figure = |(name, unit, what)| Figure { name, unit, better, what };
        let mut figures = vec![figure((self.name.clone(), unit, self.what()))];
        figures.extend(self.others(unit).into_iter().map(figure));
        figures
    }

    /// Returns name, unit and description of the figures after the first, where there are any.
    /// `unit` is that of the first.
    fn others(&self, unit: &'static str) -> Vec<(String, &'static str, String)> {
        let (short, end) = match self.name.strip_suffix(ONE_WORKER) {
            Some(short) if self.workers == 1 => (short, ONE_WORKER),
            _ => (self.name.as_str(), ""),
        };
        let (name, what) = match self.work {
            Work::Idle { supervised, .. } => {
                let of = if supervised { "supervised" } else { "idle" };
                let others = [
                    ("spawn", "ns", "spawn"),
                    ("end", "ns", "end"),
                    ("left", "B", "memory kept when all have ended"),
                    ("again", "B", "memory added by as many again"),
                ];
                let other = |(name, unit, what)| {
                    (format!("{of}_{name}{end}"), unit, format!("{of} actor: {what}"))
                };
                return others.map(other).to_vec();
            }
            Work::Ask(_) => {
                (format!("{short}_cpu"), format!("{}: processor time of both", self.what()))
            }
            Work::Bulk(Beside::Asks) => {
                ("asks_beside_bulk".into(), "those asks, 100 KiB, answered with a number".into())
            }
            Work::Bulk(Beside::Replies) => {
                ("replies_beside_bulk".into(), "those asks, answered with 100 KiB".into())
            }
            Work::Ticking => {
                ("ticking_cpu".into(), "processor time of such a select!, nothing waits".into())
            }
            _ => return Vec::new(),
        };
        vec![(name + end, unit, what)]
    }

    /// Describes what is measured, in a few words.
    fn what(&self) -> String {
        let size = |size: Size| match size {
            Size::B32 => "32 B",
            Size::KiB1 => "1 KiB",
            Size::KiB64 => "64 KiB",
            Size::MiB1 => "1 MiB",
            Size::MiB64 => "64 MiB",
        };
        let cost = |cost: Cost| {
            let message = if cost.message == CostOf::Tell { "tell" } else { "ask" };
            format!(
                "{message} of 32 B, {} side",
                if cost.serving { "receiving" } else { "sending" }
            )
        };
        let mut what = match self.work {
            Work::Ask(of) => format!("ask, {}, median", size(of)),
            Work::Asks(tasks) => format!("asks, {tasks} in flight"),
            Work::Spread(tasks) => format!("asks, {tasks} in flight to as many actors"),
            Work::Tells(of) => format!("tells, {}", size(of)),
            Work::Waiting(1) => "tells, 1 waiting task".into(),
            Work::Waiting(tasks) => format!("tells, {tasks} waiting tasks"),
            Work::LargeTell(of) => format!("{} tells", size(of)),
            Work::LargeAsk(of) => format!("{} asks", size(of)),
            Work::Path(of) => format!("{} tells over a path of 10 ms", size(of)),
            Work::Reply(Sharing::Nothing) => "ask, reply of 9 KiB, 99th percentile".into(),
            Work::Reply(Sharing::Link) => {
                "ask, reply of 9 KiB, 99th percentile, beside 60 MiB tells".into()
            }
            Work::Reply(Sharing::Workers) => {
                "the same, beside 60 MiB tells made by the same workers".into()
            }
            Work::Reply(Sharing::Strangers) => {
                "ask, reply of 9 KiB, 99th percentile, beside 1,000 strangers a second".into()
            }
            Work::Bulk(Beside::Nothing) => "1 MiB tells, alone".into(),
            Work::Bulk(Beside::Asks) => "1 MiB tells, beside asks by 32 tasks".into(),
            Work::Bulk(Beside::Replies) => "1 MiB tells, beside replies to 32 tasks".into(),
            Work::Ticking => "processor time while a 64 MiB tell waits in a select!".into(),
            Work::LocalTell(1) => "local tell, 1 producer".into(),
            Work::LocalTell(tasks) => format!("local tell, {tasks} producers"),
            Work::LocalAsk => "local ask".into(),
            Work::FanOut => "local tell to each of 10,000 actors".into(),
            Work::RingHop => "hop of a token, 1,000 actors".into(),
            Work::Spawn => "spawn of an actor".into(),
            Work::Savina(Savina::Create) => "Savina: fork-join create".into(),
            Work::Savina(Savina::Fib) => "Savina: fib(23)".into(),
            Work::Savina(Savina::LogisticMap) => "Savina: logistic map".into(),
            Work::Savina(Savina::Dictionary) => "Savina: concurrent dictionary".into(),
            Work::Savina(Savina::Big) => "Savina: big".into(),
            Work::Savina(Savina::Bank) => "Savina: bank transaction".into(),
            Work::Idle { supervised, actors } => {
                let of = if supervised { "supervised" } else { "idle" };
                format!("{of} actor: memory, one of {actors}")
            }
            Work::Instructions(of) => format!("instructions, {}", cost(of)),
            Work::Allocations(of) => format!("allocations, {}", cost(of)),
        };
        if self.awake {
            what += ", cores awake";
        }
        what
    }

    /// Returns true if it is timed, and so repeated in every round. The outcome of the others
    /// hardly varies.
    pub fn is_timed(&self) -> bool {
        !matches!(self.work, Work::Instructions(_) | Work::Allocations(_))
    }

    /// Returns true if its messages stay within one process.
    pub fn is_local(&self) -> bool {
        matches!(
            self.work,
            Work::LocalTell(_)
                | Work::LocalAsk
                | Work::FanOut
                | Work::RingHop
                | Work::Spawn
                | Work::Savina(_)
                | Work::Idle { .. }
        )
    }

    /// Returns the same measurement with so many actors, where it is of actors that wait.
    pub fn with_actors(mut self, count: usize) -> Self {
        if let Work::Idle { actors, .. } = &mut self.work {
            *actors = count;
        }
        self
    }

    /// Returns how long it may take before it counts as hung.
    pub fn patience(&self, time: Duration) -> Duration {
        const START: Duration = Duration::from_secs(60);
        const VALGRIND: Duration = Duration::from_secs(300);
        const ACTOR: Duration = Duration::from_micros(500);
        match self.work {
            Work::Instructions(_) | Work::Allocations(_) => VALGRIND,
            Work::Idle { actors, .. } => START + ACTOR * u32::try_from(actors).unwrap_or(u32::MAX),
            _ => START + time * 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_figures_share_a_name() {
        let figures: Vec<Figure> = measurements().iter().flat_map(Measurement::figures).collect();
        let names: BTreeSet<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names.len(), figures.len());
        assert!(names.contains("ask_32_cpu_1") && names.contains("waiting_1_1"));
    }

    #[test]
    fn a_measurement_is_found_by_its_name_and_gives_a_figure_of_it() {
        for measurement in measurements() {
            assert_eq!(find(&measurement.name).as_ref(), Some(&measurement));
            assert_eq!(measurement.figures()[0].name, measurement.name);
        }
        assert_eq!(find("ask"), None);
    }
}
