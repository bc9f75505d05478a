//! The runs: for each step, the role in which the process that dies comes to it, and the work that
//! brings it there.

use ringpost_transport::steps::{ALL, Step};

/// The role of the process that dies when its link is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Dialler,
    Acceptor,
}

/// The order of the name of the process that dies among the names of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    Lower,
    Higher,
}

/// The work of a run, beside the link's coming up, and the asks and tells that are always sent to
/// the process that dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Nothing.
    Plain,
    /// Nothing, and it answers no ask: a link on which frames come is not probed.
    Quiet,
    /// The process gets this line as a command.
    Line(&'static str),
    /// It is asked something that takes several frames, and so does the answer.
    LargeAsk,
    /// It gets asks large enough to be lent, again and again.
    Lend,
    /// The same, and each ask is given up soon.
    Unlend,
    /// It is told more than half a window.
    Flood,
    /// It gets enough bytes of tells that credits have to return.
    Heavy,
    /// One of its actors is told until there is no room.
    Stuff,
    /// One of its actors after the other is stopped, and told more.
    Quit,
    /// It is asked where a node is.
    Search,
    /// An actor is looked up that it does not have.
    Miss,
    /// A second node with its name dials its peer.
    Namesake,
    /// A second node with its name was there before.
    Latecomer,
    /// Two other nodes with one name dial it.
    Twins,
    /// Its link is lost and made again.
    Relink,
    /// Its peer's side of the data connection is lost.
    HalfLost,
    /// No data connection comes about.
    NoData,
    /// All its threads are held.
    Block,
    /// All threads of a peer are held.
    PeerBlocks,
    /// It leaves.
    Leave,
    /// A peer of it leaves.
    PeerLeaves,
}

/// One process that dies at one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) step: Step,
    /// The occurrence of the step at which it dies.
    pub(super) nth: u32,
    pub(super) side: Side,
    pub(super) rank: Rank,
    pub(super) work: Work,
}

const SIDES: [Side; 2] = [Side::Dialler, Side::Acceptor];
const RANKS: [Rank; 2] = [Rank::Lower, Rank::Higher];

/// All runs, in the order of the steps.
pub(super) fn runs() -> Vec<Run> {
    ALL.iter().flat_map(|step| [joining(*step), working(*step)].concat()).collect()
}

/// The runs of a step on the way to a link; none for other steps.
fn joining(step: Step) -> Vec<Run> {
    let (sides, ranks) = match step {
        Step::Dialled | Step::DataDialled | Step::TokenSent => (&SIDES[..1], &RANKS[..]),
        // The acceptor's goes with its message of the Noise handshake.
        Step::HelloSent => (&SIDES[..1], &RANKS[..]),
        Step::Accepted | Step::TokenReceived => (&SIDES[1..], &RANKS[..]),
        step if step <= Step::HelloReceived => (&SIDES[..], &RANKS[..1]),
        Step::CommitDue | Step::CommitSent => (&SIDES[..], &RANKS[..1]),
        Step::CommitReceived => (&SIDES[..], &RANKS[1..]),
        step if step <= Step::ReadyReceived || step == Step::LinkUp => (&SIDES[..], &RANKS[..]),
        _ => return Vec::new(),
    };
    let work = Work::Plain;
    let all = sides.iter().flat_map(|side| ranks.iter().map(|rank| (*side, *rank)));
    all.map(|(side, rank)| Run { step, nth: 1, side, rank, work }).collect()
}

/// The runs of a step that takes work to come to it; none if a link is enough.
fn working(step: Step) -> Vec<Run> {
    use Step::*;
    use Work::*;
    let works: &[Work] = match step {
        ResyncDue | ResyncSent | ResyncReceived => &[Relink],
        PassSent | PassReceived => &[NoData],
        RejectSent | QuestionSent | AnswerReceived => &[Twins],
        RejectReceived => &[Latecomer],
        QuestionReceived | AnswerSent => &[Namesake],
        StalledSent => &[Block],
        StalledReceived => &[PeerBlocks],
        WhoIsSent | KnownReceived => &[Line("look mid-b/counter")],
        WhoIsReceived | KnownSent => &[Search],
        TellCommitted | TellSent | Acknowledged => &[Line("tell mid-a/counter 10 1")],
        AskCommitted | AskSent | ReplyReceived => &[Line("ask mid-a/counter 10")],
        OpenSent | OpenedReceived => &[Line("look mid-a/counter")],
        OpenRefusedSent => &[Miss],
        OpenRefusedReceived => &[Line("look mid-a/nobody")],
        FirstPartSent | MiddlePartSent | LastPartSent | FirstPartReceived | MiddlePartReceived
        | LastPartReceived => &[Line("ask mid-a/counter 90000"), LargeAsk],
        LendSent | FetchedReceived => &[Line("lend mid-a/counter")],
        LendReceived | FetchedSent => &[Lend],
        // Of an ask, and of an answer.
        FetchPosted | ReadExecuted | Fetched => &[Lend, Line("lend mid-a/counter")],
        UnlentSent => &[Line("unlend mid-a/counter")],
        UnlentReceived => &[Unlend],
        SignalSent | ClosedReceived => &[Line("stop mid-a/quitter0")],
        RefusalReceived => &[Line("quit mid-a")],
        SignalReceived | ClosedSent | RefusalSent => &[Quit],
        WindowSent => &[Flood],
        WindowReceived => &[Line("tell mid-a/counter 10 2000")],
        BlockedSent => &[Line("stuff mid-a/mute1")],
        BlockedReceived => &[Stuff],
        CreditSent => &[Heavy],
        CreditReceived => &[Line("tell mid-a/counter 5000 1000")],
        Leaving => &[Leave],
        GoodbyeSent | GoodbyeReceived => &[Leave, PeerLeaves],
        LinkEnded | ByeSent => &[Relink, Leave, PeerLeaves],
        ByeReceived => &[HalfLost],
        ProbeSent | ProbeReceived => &[Quiet],
        HeartbeatSent | HeartbeatReceived | OpenReceived | OpenedSent | TellReceived
        | AskReceived | Queued | ReplyCommitted | ReplySent => &[Plain],
        _ => &[],
    };
    let run = |(at, work): (usize, &Work)| {
        let accepts =
            matches!(work, Twins | PeerLeaves | PeerBlocks) || (step, *work) == (PassSent, NoData);
        let side = if accepts { Side::Acceptor } else { Side::Dialler };
        let again = (step < ConnectedDue && *work == Relink) || step == ReadExecuted;
        // A read is answered in parts: the first one is on its way.
        let nth = 1 + u32::from(again);
        // Each rank in turn: after the link is up nothing depends on it.
        Run { step, nth, side, rank: RANKS[(step as usize + at) % 2], work: *work }
    };
    works.iter().enumerate().map(run).collect()
}
