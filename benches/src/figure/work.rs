//! The messages that measurements send, and their sizes.

/// The messages that a measurement sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Asks, one after the other, answered with the same bytes; median time and processor time.
    Ask(Size),
    /// Asks of 32 bytes by this number of tasks, one ask at a time each.
    Asks(usize),
    /// The same, each task asking an actor of its own.
    Spread(usize),
    /// Tells by one task.
    Tells(Size),
    /// Tells of 32 bytes by this number of tasks, which wait until each tell is taken.
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
    /// Bytes of a stream, by writes of this size.
    Stream(Size),
    /// 64 bytes on a stream, there and back; median time and processor time.
    StreamPing,
    /// Connections that wait: their memory.
    Connections(Face),
    /// Idle nodes of other processes, linked to one node: the memory of each.
    Peers(usize),
    /// A collective operation of four ranks, each a process.
    Ranks(Collective),
    /// The all-to-all of `rdma_lib.h` by three processes, 64 bytes.
    CAllToAll,
    /// Tells within a process, by this number of tasks.
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

/// The way in which a program of Ringpost has messages answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// By an actor.
    Actor,
    /// By the other end of a channel.
    Channel,
    /// By a function that is called.
    Rpc,
    /// By the other end of a byte stream.
    Stream,
}

/// A collective operation of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    /// Waits for all ranks.
    Barrier,
    /// Adds up the numbers of all ranks and gives all ranks the sums: the count of numbers of 8
    /// bytes.
    AllReduce(usize),
    /// Sends bytes of one rank to all ranks: the count.
    Broadcast(usize),
    /// Sends bytes of each rank to each rank: the count for each.
    AllToAll(usize),
}

impl Collective {
    /// Returns the operation in a few words.
    pub(super) fn text(self) -> String {
        match self {
            Collective::Barrier => "barrier".into(),
            Collective::AllReduce(numbers) => format!("all-reduce of {} B", 8 * numbers),
            Collective::Broadcast(bytes) => format!("broadcast of {bytes} B"),
            Collective::AllToAll(bytes) => format!("all-to-all of {bytes} B for each"),
        }
    }
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

impl Savina {
    /// Returns the name of the program.
    pub(super) fn text(self) -> &'static str {
        match self {
            Savina::Create => "fork-join create",
            Savina::Fib => "fib(23)",
            Savina::LogisticMap => "logistic map",
            Savina::Dictionary => "concurrent dictionary",
            Savina::Big => "big",
            Savina::Bank => "bank transaction",
        }
    }
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

impl Cost {
    /// Returns the message and the side in a few words.
    pub(super) fn text(self) -> String {
        let message = if self.message == CostOf::Tell { "tell" } else { "ask" };
        format!("{message} of 32 B, {} side", if self.serving { "receiving" } else { "sending" })
    }
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
    /// 4 KiB.
    KiB4,
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
            Size::KiB4 => 4 << 10,
            Size::KiB64 => 64 << 10,
            Size::MiB1 => 1 << 20,
            Size::MiB64 => 64 << 20,
        }
    }

    /// Returns the number as a reader has it.
    pub(super) fn text(self) -> &'static str {
        match self {
            Size::B32 => "32 B",
            Size::KiB1 => "1 KiB",
            Size::KiB4 => "4 KiB",
            Size::KiB64 => "64 KiB",
            Size::MiB1 => "1 MiB",
            Size::MiB64 => "64 MiB",
        }
    }
}
