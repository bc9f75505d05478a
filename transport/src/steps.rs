//! The steps of the protocol, at which a test has a process die. Compiled in only with the feature
//! `steps`; without it `step!` is nothing.
//!
//! A process that was started with `RINGPOST_STOP_AT=NAME` in its environment kills itself with
//! SIGKILL when it comes to that step for the first time, with `NAME:3` for the third time. So it
//! leaves everything as it was at that moment: no goodbye, no flush, no drop.

#[cfg(feature = "steps")]
pub use stop::{ALL, Step};
#[cfg(feature = "steps")]
pub(crate) use stop::{posted, reach, write};

/// Nothing.
#[cfg(not(feature = "steps"))]
macro_rules! step {
    ($($step:tt)*) => {{}};
}

/// A step of the protocol. A step that a frame makes is `written` when the frame is, and done when
/// the frame is `posted`; for a step that depends on a value, `any` gives one or none.
#[cfg(feature = "steps")]
macro_rules! step {
    (posted) => {
        $crate::steps::posted()
    };
    (written $step:expr) => {
        $crate::steps::write($step)
    };
    (any $step:expr) => {
        $crate::steps::reach($step)
    };
    ($step:ident) => {
        $crate::steps::reach(Some($crate::steps::Step::$step))
    };
}

pub(crate) use step;

#[cfg(feature = "steps")]
mod stop {
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    /// The variable that names the step.
    const VARIABLE: &str = "RINGPOST_STOP_AT";

    macro_rules! steps {
        ($($(#[$what:meta])* $name:ident,)*) => {
            /// A step of the protocol.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
            pub enum Step { $($(#[$what])* $name,)* }

            /// All of them, in the order of a link's life.
            pub const ALL: &[Step] = &[$(Step::$name),*];
        };
    }

    steps! {
        /// The dialler is connected and has said nothing.
        Dialled,
        /// The acceptor has a connection and read nothing.
        Accepted,
        /// The opening is sent.
        OpeningSent,
        /// The other's opening is read.
        OpeningReceived,
        /// A message of the Noise handshake is sent; the acceptor's together with its HELLO.
        NoiseSent,
        /// The other's message of the Noise handshake is read.
        NoiseReceived,
        /// HELLO is sent.
        HelloSent,
        /// The other's HELLO is read: it is proven.
        HelloReceived,
        /// The lower-named node has chosen the connection and not said so.
        CommitDue,
        /// COMMIT is sent.
        CommitSent,
        /// COMMIT is read.
        CommitReceived,
        /// The report on the last link is about to be sent.
        ResyncDue,
        /// RESYNC is sent.
        ResyncSent,
        /// RESYNC is read.
        ResyncReceived,
        /// The queue pair is prepared, its ring posted, and the offer not sent.
        OfferDue,
        /// OFFER is sent.
        OfferSent,
        /// OFFER is read.
        OfferReceived,
        /// The data connection is made and says nothing yet.
        DataDialled,
        /// The token is sent on the data connection.
        TokenSent,
        /// The token is read from the data connection.
        TokenReceived,
        /// The queue pair is connected, and this is not said.
        ConnectedDue,
        /// CONNECTED is sent.
        ConnectedSent,
        /// CONNECTED is read.
        ConnectedReceived,
        /// The first frame, a CONFIRM of full size, is posted.
        ConfirmSent,
        /// The other's first frame is read.
        ConfirmReceived,
        /// Frames went both ways, and this is not said.
        ReadyDue,
        /// READY is sent.
        ReadySent,
        /// READY is read.
        ReadyReceived,
        /// PASS is sent: the fabric could not be connected.
        PassSent,
        /// PASS is read.
        PassReceived,
        /// REJECT is sent on a proven connection.
        RejectSent,
        /// REJECT is read on a proven connection.
        RejectReceived,
        /// The link is there for all that waited.
        LinkUp,
        /// A heartbeat is sent.
        HeartbeatSent,
        /// A heartbeat is read.
        HeartbeatReceived,
        /// A heartbeat that asks for an answer is sent.
        QuestionSent,
        /// A heartbeat that asks for an answer is read.
        QuestionReceived,
        /// The answer to it is sent.
        AnswerSent,
        /// The answer to it is read.
        AnswerReceived,
        /// A heartbeat is sent of a node whose driver does not run.
        StalledSent,
        /// A heartbeat is read of a node whose driver does not run.
        StalledReceived,
        /// WHO_IS is sent.
        WhoIsSent,
        /// WHO_IS is read.
        WhoIsReceived,
        /// KNOWN is sent.
        KnownSent,
        /// KNOWN is read.
        KnownReceived,
        /// A tell is committed, and in no frame.
        TellCommitted,
        /// An ask is committed, and in no frame.
        AskCommitted,
        /// An answer is committed, and in no frame.
        ReplyCommitted,
        /// A frame with an OPEN is posted.
        OpenSent,
        /// An OPEN is read.
        OpenReceived,
        /// A frame with an OPENED is posted.
        OpenedSent,
        /// An OPENED is read.
        OpenedReceived,
        /// A frame with an OPEN_REFUSED is posted.
        OpenRefusedSent,
        /// An OPEN_REFUSED is read.
        OpenRefusedReceived,
        /// A frame with a whole TELL is posted.
        TellSent,
        /// A whole TELL is read.
        TellReceived,
        /// A frame with a whole ASK is posted.
        AskSent,
        /// A whole ASK is read.
        AskReceived,
        /// A message is queued in its mailbox, and this is not acknowledged.
        Queued,
        /// A frame with a whole REPLY is posted.
        ReplySent,
        /// A whole REPLY is read.
        ReplyReceived,
        /// The delivery of a tell is acknowledged, and its sender waits to hear so.
        Acknowledged,
        /// A frame with the first part of a large message is posted.
        FirstPartSent,
        /// The first part of a large message is read.
        FirstPartReceived,
        /// A frame with a part between the first and the last is posted.
        MiddlePartSent,
        /// A part between the first and the last is read.
        MiddlePartReceived,
        /// A frame with the last part is posted.
        LastPartSent,
        /// The last part is read.
        LastPartReceived,
        /// A frame with a LEND is posted.
        LendSent,
        /// A LEND is read, and nothing of the message.
        LendReceived,
        /// A read of bytes that were lent is posted, and has no outcome.
        FetchPosted,
        /// A part of what a peer reads is copied for it, and not sent. (An RDMA device does that by
        /// itself.)
        ReadExecuted,
        /// The bytes that were lent are here, and this is not said.
        Fetched,
        /// A frame with a FETCHED is posted.
        FetchedSent,
        /// A FETCHED is read: the message may be sent.
        FetchedReceived,
        /// A frame with an UNLENT is posted.
        UnlentSent,
        /// An UNLENT is read.
        UnlentReceived,
        /// A frame with a SIGNAL is posted.
        SignalSent,
        /// A SIGNAL is read.
        SignalReceived,
        /// A frame with a CLOSED is posted.
        ClosedSent,
        /// A CLOSED is read.
        ClosedReceived,
        /// A frame with a WINDOW is posted.
        WindowSent,
        /// A WINDOW is read.
        WindowReceived,
        /// A frame with a BLOCKED is posted.
        BlockedSent,
        /// A BLOCKED is read.
        BlockedReceived,
        /// A frame with a REFUSAL is posted.
        RefusalSent,
        /// A REFUSAL is read.
        RefusalReceived,
        /// A frame that only returns credits is posted.
        CreditSent,
        /// A frame that only returns credits is read.
        CreditReceived,
        /// A frame with a PROBE is posted.
        ProbeSent,
        /// A PROBE is read.
        ProbeReceived,
        /// The node takes no new links, and its links do not know.
        Leaving,
        /// A frame with a GOODBYE is posted.
        GoodbyeSent,
        /// A GOODBYE is read.
        GoodbyeReceived,
        /// The link has ended, and this is not said.
        LinkEnded,
        /// BYE is sent.
        ByeSent,
        /// BYE is read.
        ByeReceived,
    }

    /// Where to stop, and how many times to pass by before.
    static WANTED: OnceLock<Option<(Step, AtomicU32)>> = OnceLock::new();

    thread_local! {
        /// The wanted step is in a frame that this thread has written and not posted.
        static WRITTEN: Cell<bool> = const { Cell::new(false) };
    }

    fn wanted() -> Option<&'static (Step, AtomicU32)> {
        WANTED.get_or_init(|| parse(&std::env::var(VARIABLE).ok()?)).as_ref()
    }

    /// Reads where to stop. A name that is none stops nowhere, which its test finds.
    fn parse(text: &str) -> Option<(Step, AtomicU32)> {
        let (name, count) = text.split_once(':').unwrap_or((text, "1"));
        let step = ALL.iter().find(|step| format!("{step:?}") == name)?;
        Some((*step, AtomicU32::new(count.parse().ok()?)))
    }

    /// Returns true if this is the step, at the time that is wanted. (The count stays below zero
    /// then.)
    fn is_due(step: Option<Step>) -> bool {
        let due = |(wanted, left): &(Step, AtomicU32)| {
            Some(*wanted) == step && left.fetch_sub(1, Ordering::Relaxed) == 1
        };
        wanted().is_some_and(due)
    }

    pub(crate) fn reach(step: Option<Step>) {
        if is_due(step) {
            die();
        }
    }

    pub(crate) fn write(step: Option<Step>) {
        if is_due(step) {
            WRITTEN.set(true);
        }
    }

    pub(crate) fn posted() {
        if WRITTEN.get() {
            die();
        }
    }

    fn die() {
        // Nothing of this process runs after the call.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
