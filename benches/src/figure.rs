//! The figures, and the measurements that give them.

mod work;

use std::time::Duration;

pub use self::work::{ACTORS, Beside, Collective, Cost, CostOf, Face, Savina, Sharing, Size, Work};

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

/// A thing that is run and timed: it gives one figure, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// The name, which is also the name of its first figure.
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
const TIMED: [(&str, &str, Work, bool); 54] = [
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
    ("stream_4k", "stream", Work::Stream(Size::KiB4), false),
    ("stream_64k", "stream", Work::Stream(Size::KiB64), false),
    ("stream_1m", "stream", Work::Stream(Size::MiB1), false),
    ("stream_ping_64", "stream", Work::StreamPing, false),
    ("channel_32", "channel", Work::Ask(Size::B32), false),
    ("channel_64k", "channel", Work::Ask(Size::KiB64), false),
    ("rpc_32", "rpc", Work::Ask(Size::B32), false),
    ("rpc_64k", "rpc", Work::Ask(Size::KiB64), false),
    ("rpc_16", "rpc", Work::Asks(16), false),
    ("rpc_128", "rpc", Work::Asks(128), false),
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

/// Name, group and work of each measurement whose processes have one worker only.
const TIMED_WITH_ONE_WORKER: [(&str, &str, Work); 11] = [
    ("stream_idle_bytes", "connections", Work::Connections(Face::Stream)),
    ("channel_idle_bytes", "connections", Work::Connections(Face::Channel)),
    ("peers_64", "connections", Work::Peers(64)),
    ("peers_1000", "connections", Work::Peers(1000)),
    ("barrier", "ranks", Work::Ranks(Collective::Barrier)),
    ("all_reduce_8", "ranks", Work::Ranks(Collective::AllReduce(1))),
    ("all_reduce_64k", "ranks", Work::Ranks(Collective::AllReduce(8 << 10))),
    ("all_reduce_1m", "ranks", Work::Ranks(Collective::AllReduce(128 << 10))),
    ("broadcast_1m", "ranks", Work::Ranks(Collective::Broadcast(1 << 20))),
    ("all_to_all_4k", "ranks", Work::Ranks(Collective::AllToAll(4 << 10))),
    ("c_all_to_all", "ranks", Work::CAllToAll),
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
    let with_one_worker = TIMED_WITH_ONE_WORKER.map(|(name, group, work)| {
        let name = name.into();
        Measurement { name, group, work, workers: 1, awake: false }
    });
    let all = timed(2).into_iter().chain(timed(1)).chain(with_one_worker);
    let mut all: Vec<Measurement> = all.collect();
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
            Work::Ask(_) | Work::Reply(_) | Work::StreamPing => ("us", Better::Less),
            Work::Ranks(_) | Work::CAllToAll => ("us", Better::Less),
            Work::Stream(_) => ("MB/s", Better::More),
            Work::Connections(_) | Work::Peers(_) => ("B", Better::Less),
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
    /// `unit` is the unit of the first.
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
            Work::Ask(_) | Work::StreamPing => {
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

    /// Describes the measurement in a few words.
    fn what(&self) -> String {
        let mut what = match self.work {
            Work::Ask(of) => format!("{}, {}, median", self.ask(), of.text()),
            Work::Asks(tasks) => format!("{}s, {tasks} in flight", self.ask()),
            Work::Spread(tasks) => format!("asks, {tasks} in flight to as many actors"),
            Work::Tells(of) => format!("tells, {}", of.text()),
            Work::Waiting(1) => "tells, 1 waiting task".into(),
            Work::Waiting(tasks) => format!("tells, {tasks} waiting tasks"),
            Work::LargeTell(of) => format!("{} tells", of.text()),
            Work::LargeAsk(of) => format!("{} asks", of.text()),
            Work::Path(of) => format!("{} tells over a path of 10 ms", of.text()),
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
            Work::Stream(of) => format!("stream, writes of {}", of.text()),
            Work::StreamPing => "stream, 64 B there and back, median".into(),
            Work::Connections(Face::Channel) => "idle channel: memory, one of 10,000".into(),
            Work::Connections(_) => "idle stream: memory, one of 10,000".into(),
            Work::Peers(peers) => format!("linked node: memory, one of {peers}"),
            Work::Ranks(of) => format!("{}, 4 ranks, mean", of.text()),
            Work::CAllToAll => "all-to-all of 3 by rdma_lib.h, 64 B, mean".into(),
            Work::LocalTell(1) => "local tell, 1 producer".into(),
            Work::LocalTell(tasks) => format!("local tell, {tasks} producers"),
            Work::LocalAsk => "local ask".into(),
            Work::FanOut => "local tell to each of 10,000 actors".into(),
            Work::RingHop => "hop of a token, 1,000 actors".into(),
            Work::Spawn => "spawn of an actor".into(),
            Work::Savina(of) => format!("Savina: {}", of.text()),
            Work::Idle { supervised, actors } => {
                let of = if supervised { "supervised" } else { "idle" };
                format!("{of} actor: memory, one of {actors}")
            }
            Work::Instructions(of) => format!("instructions, {}", of.text()),
            Work::Allocations(of) => format!("allocations, {}", of.text()),
        };
        if self.awake {
            what += ", cores awake";
        }
        what
    }

    /// Returns the word for a message that is answered.
    fn ask(&self) -> &'static str {
        match self.face() {
            Face::Channel => "answer by a channel",
            Face::Rpc => "call",
            Face::Actor | Face::Stream => "ask",
        }
    }

    /// Returns the way in which Ringpost's messages are answered.
    pub fn face(&self) -> Face {
        match self.group {
            "channel" => Face::Channel,
            "rpc" => Face::Rpc,
            "stream" => Face::Stream,
            _ => Face::Actor,
        }
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

    /// Returns true if the contestant starts the processes between which its messages go.
    pub fn is_of_a_group(&self) -> bool {
        matches!(self.work, Work::Peers(_) | Work::Ranks(_) | Work::CAllToAll)
    }

    /// Returns the same measurement with `count` actors, if it measures actors that wait.
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
            Work::Connections(_) | Work::Peers(_) => START * 5,
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
