//! Planted bugs: each is switched on alone, to show that the random tests would catch it. Compiled
//! in only with the feature `mutants`; without it `planted!` is the constant `false`.

#[cfg(feature = "mutants")]
pub use switch::{ALL, Mutant, plant};

/// Returns true if this bug is switched on.
#[cfg(not(feature = "mutants"))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

/// Returns true if this bug is switched on.
#[cfg(feature = "mutants")]
macro_rules! planted {
    ($bug:ident) => {
        $crate::mutants::is_planted($crate::mutants::Mutant::$bug)
    };
}

pub(crate) use planted;

#[cfg(feature = "mutants")]
pub(crate) use switch::is_planted;

#[cfg(all(test, feature = "mutants"))]
mod tests;

#[cfg(feature = "mutants")]
mod switch {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A planted bug.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(usize)]
    pub enum Mutant {
        /// Data takes the reserve too (R = 0).
        NoReserve = 1,
        /// A window report does not wake the sender that waits for it.
        SkippedWake,
        /// Some refusals are forgotten; their frames count as consumed.
        LostRefusal,
        /// Some frames are dispatched twice.
        DoubleDispatch,
        /// Some taken messages are not given back to the window.
        WindowLeak,
        /// Some consumed frames are not counted.
        CreditLeak,
        /// Two parts of a fragmented message change places.
        ReorderedFragments,
        /// A message's generation is not looked at.
        StaleGeneration,
        /// A small message overtakes a large one of its own mailbox.
        Overtaking,
        /// A message in flight when a link ends gets no fate.
        ForgottenFate,
        /// A sender that waits for a window does not say so.
        SilentBlock,
        /// Some consumed frames are counted although no slot was posted in their place.
        UnpostedSlot,
        /// The report on the last link counts a frame too many.
        OverstatedWord,
        /// The report on the last link counts a frame too few.
        UnderstatedWord,
        /// The report on the last link leaves out refusals.
        WordWithoutRefusals,
        /// A node that is down takes the messages in doubt with it.
        LostDoubts,
        /// A tell that was refused is told delivered.
        RefusedIsDelivered,
        /// A peer that has a connection is given a second one.
        SharedConnection,
        /// Of two connections that were dialled at once neither is refused.
        AnyRaceWins,
        /// A second node of a name replaces the first, which answers.
        SilencedDuplicate,
        /// Asks that wait when their link ends are not told.
        OpenAsks,
        /// Another run of a node is taken for the one before.
        StaleRun,
        /// A sender without credits does not heed the peer's count.
        DeafWithoutCredit,
        /// The messages sent ahead have no bound.
        NoWindows,
        /// A frame counts as consumed before all its refusals are written.
        EarlyAcknowledgement,
        /// A frame that arrived when a link ends is counted and not dispatched.
        DroppedAtEnd,
        /// The receiver counts the link's window in the order of arrivals, idle mailboxes too.
        LinkWindowByArrival,
        /// Neither asks nor the bytes of answers that wait are bounded at the node that answers.
        EndlessReplies,
        /// The messages that wait in a mailbox when a link ends are forgotten by the next one.
        FreshWindows,
        /// A message is archived again at each wake-up of its sender.
        ArchivedAgain,
        /// A large answer waits until the large message is sent that was begun before it.
        OneStream,
        /// An ask whose asker is gone is handled nevertheless.
        HandledAbandoned,
        /// An ask's deadline starts over where it arrives.
        FreshDeadline,
        /// A sender of a large message lets all others pass, as if each reference to a mailbox had
        /// a line of its own.
        LinePerReference,
        /// Room wakes every sender that waits.
        WakeAll,
        /// A ring grows although its side has said goodbye and cannot tell the peer.
        GrowsAfterGoodbye,
        /// A ring grows and the peer is not told.
        LostGrant,
        /// The peer is granted slots of which only half are posted.
        UnpostedGrant,
        /// A window report that an answer to an OPEN kept from its frame waits for a later wake.
        LateReport,
        /// Of the room that senders wait for, only the first part is granted.
        LostPart,
        /// A side whose last message left the queue unwritten believes that it waits for credits:
        /// no commit wakes its driver.
        StaleStall,
        /// A name that leads to this node, too, is not dialled again.
        OwnNameEnds,
        /// Peers are asked where a node is only where no address of it is known.
        NeverAsks,
        /// An address is dialled when the one before has failed, however long that takes.
        InTurn,
        /// A link that fails at once is made again at once.
        Unsettled,
        /// A node that is down is not dialled until a sender wants it.
        Forsaken,
        /// A link commits messages while both nodes say that it is to be closed.
        RestlessLink,
        /// A node whose link was closed because neither side used it is missed.
        MissedIdle,
        /// A node that is linked to be asked for another counts as wanted by a sender.
        AskedIsWanted,
        /// An address that was met at a seed is forgotten where an answer leaves it out.
        ForgottenSeed,
        /// A silence that no clock can add up is taken as the one after which nodes are down.
        UncheckedSilence,
        /// The length of a record's payload is not held against its frame. No node that keeps the
        /// protocol shows it: it is for the fuzzer to find.
        UncheckedLength,
        /// A chunk that does not open is left out, and its data connection goes on. That, too, is
        /// for the fuzzer to find.
        SkippedForgery,
        /// The fence of any queue pair is taken for the fence of the queue pair that wrote.
        FenceOfAnyPair,
        /// A write is done without its fence.
        UnfencedWrite,
        /// An operation is posted by the key of a grant that has ended.
        KeyOfEarlierGrant,
        /// A share is let go of while operations on it are under way.
        EarlyRevoked,
        /// An ended share is not taken back from a peer that does not let go of it.
        KeptAfterEnd,
        /// A peer that asked again for a share is not answered when that is taken back.
        SilentTakeBack,
        /// Peers join the turn of an executor while another one waits.
        NoTurn,
        /// The end of an operation is unknown before its queue pair is gone.
        EarlyUnknown,
        /// Time counts in which the peer's driver stands still.
        StalledCounts,
        /// Views have no bound.
        ViewsUnbounded,
        /// The turn of an executor ends while an ASK of its waits for a device.
        ForgottenAsk,
        /// A queue pair does not wait until the one before is gone.
        NoPlace,
    }

    /// Those of one-sided access, each of which a test of this crate shows.
    #[cfg(test)]
    pub(crate) const ONE_SIDED: [Mutant; 12] = [
        Mutant::FenceOfAnyPair,
        Mutant::UnfencedWrite,
        Mutant::KeyOfEarlierGrant,
        Mutant::EarlyRevoked,
        Mutant::KeptAfterEnd,
        Mutant::SilentTakeBack,
        Mutant::NoTurn,
        Mutant::EarlyUnknown,
        Mutant::StalledCounts,
        Mutant::ViewsUnbounded,
        Mutant::ForgottenAsk,
        Mutant::NoPlace,
    ];

    /// All planted bugs that a network of honest nodes can show.
    pub const ALL: [Mutant; 51] = [
        Mutant::NoReserve,
        Mutant::SkippedWake,
        Mutant::LostRefusal,
        Mutant::DoubleDispatch,
        Mutant::WindowLeak,
        Mutant::CreditLeak,
        Mutant::ReorderedFragments,
        Mutant::StaleGeneration,
        Mutant::Overtaking,
        Mutant::ForgottenFate,
        Mutant::SilentBlock,
        Mutant::UnpostedSlot,
        Mutant::OverstatedWord,
        Mutant::UnderstatedWord,
        Mutant::WordWithoutRefusals,
        Mutant::LostDoubts,
        Mutant::RefusedIsDelivered,
        Mutant::SharedConnection,
        Mutant::AnyRaceWins,
        Mutant::SilencedDuplicate,
        Mutant::OpenAsks,
        Mutant::StaleRun,
        Mutant::DeafWithoutCredit,
        Mutant::NoWindows,
        Mutant::EarlyAcknowledgement,
        Mutant::DroppedAtEnd,
        Mutant::LinkWindowByArrival,
        Mutant::EndlessReplies,
        Mutant::FreshWindows,
        Mutant::ArchivedAgain,
        Mutant::OneStream,
        Mutant::HandledAbandoned,
        Mutant::FreshDeadline,
        Mutant::LinePerReference,
        Mutant::WakeAll,
        Mutant::GrowsAfterGoodbye,
        Mutant::LostGrant,
        Mutant::UnpostedGrant,
        Mutant::LateReport,
        Mutant::LostPart,
        Mutant::StaleStall,
        Mutant::OwnNameEnds,
        Mutant::NeverAsks,
        Mutant::InTurn,
        Mutant::Unsettled,
        Mutant::Forsaken,
        Mutant::RestlessLink,
        Mutant::MissedIdle,
        Mutant::AskedIsWanted,
        Mutant::ForgottenSeed,
        Mutant::UncheckedSilence,
    ];

    static PLANTED: AtomicUsize = AtomicUsize::new(0);

    /// The environment variable that names the bug which a process of tests switches on.
    #[cfg(test)]
    pub(crate) const PLANTED_NAME: &str = "RINGPOST_PLANTED";

    /// Switches on the bug that the environment names.
    #[cfg(test)]
    fn plant_named() {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            if let Ok(name) = std::env::var(PLANTED_NAME) {
                plant(ONE_SIDED.into_iter().find(|bug| format!("{bug:?}") == name));
            }
        });
    }

    /// Switches one bug on, and every other off.
    pub fn plant(bug: Option<Mutant>) {
        PLANTED.store(bug.map_or(0, |bug| bug as usize), Ordering::SeqCst);
    }

    pub(crate) fn is_planted(bug: Mutant) -> bool {
        #[cfg(test)]
        plant_named();
        PLANTED.load(Ordering::Relaxed) == bug as usize
    }
}
