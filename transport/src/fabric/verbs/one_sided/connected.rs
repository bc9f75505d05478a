//! A connected queue pair for one-sided access, and what its owner still has to be told. Safe code.

use std::collections::VecDeque;
use std::io;
use std::mem::{replace, take};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::fabric::one_sided::{
    Access, Executor, Grant, Granting, Key, Locked, Making, OneSided, Operation, Outcome,
    check_grant,
};
use crate::fabric::verbs::completions::Ended;
use crate::fabric::verbs::ledger::Ledger;
use crate::fabric::verbs::live::{Alarm, Live};
use crate::fabric::verbs::memory::{self, OwnRegistration, OwnRegistrations, PageKind};
use crate::fabric::verbs::queue_pair::{QueuePair, SEND};
use crate::fabric::verbs::registration::{Domain, Granted};
use crate::fabric::{FabricError, Notify, PostError, Status};
use crate::limits::{POLL_BATCH, REGISTERED_AT_ONCE_MAX};
use crate::log_limiter::LogLimiter;
use crate::memory::{Buffer, Slot, Words};

/// A connected queue pair. Once it failed, the device's part is gone, and posts are flushed here
/// (VB-6).
pub(super) struct Connected {
    live: Option<Live>,
    /// The registrations of a queue pair that has ended: given back when this is dropped, by a
    /// thread that may block.
    left: OwnRegistrations,
    /// Where grants are registered: no other queue pair has it (VB-9).
    domain: Arc<Domain>,
    /// How many more operations can be posted. They count until they were polled (PV-9).
    room: u32,
    operation_bytes_max: u32,
    places: Places,
    /// To be polled: operations, notices, and the end at most.
    outcomes: VecDeque<Outcome>,
    alarm: Alarm,
    ended: Vec<Ended>,
}

/// The places for notices (PV-17): each is a receive of the device, or a notice that was not
/// polled, or owed to the device.
struct Places {
    posted: u32,
    owed: u32,
}

impl Connected {
    /// Takes over a queue pair that is connected, with a receive posted for each notice. `bounds`
    /// are operations, notices, and bytes of an operation. To be called on the runtime that will
    /// wait for it.
    pub(super) fn new(
        queue_pair: QueuePair,
        bounds: (u32, u32, u32),
        log: Arc<LogLimiter>,
    ) -> io::Result<Self> {
        let (operations, notices, operation_bytes_max) = bounds;
        Ok(Connected {
            left: OwnRegistrations::default(),
            domain: queue_pair.domain().clone(),
            live: Some(Live::new(queue_pair, log)?),
            room: operations,
            operation_bytes_max,
            places: Places { posted: notices, owed: 0 },
            outcomes: VecDeque::with_capacity((operations + notices) as usize + 1),
            alarm: Alarm::default(),
            ended: Vec::with_capacity(POLL_BATCH),
        })
    }
}

impl OneSided for Connected {
    fn grant(&mut self, memory: &Arc<Words>, at: u64, bytes: u64, access: Access) -> Granting {
        if let Err(error) = check_grant(memory, at, bytes) {
            return Granting::Done(Err(error));
        }
        if bytes == 0 {
            // No device registers nothing, and this is the key of nothing.
            return Granting::Done(Ok(Grant::new(Key { number: 0, base: 0 }, memory.clone())));
        }
        let (domain, memory, place) =
            (self.domain.clone(), memory.clone(), (at as usize, bytes as usize));
        Granting::Slow(Box::new(move || {
            let (granted, key) = Granted::new(&domain, &memory, place, access)?;
            Ok(Grant::slow(key, granted))
        }))
    }

    fn executor(&self) -> Executor {
        Executor::Device(self.domain.device.name().into())
    }

    fn lend(&mut self, bytes: &Arc<Buffer>) -> Granting {
        let (domain, bytes) = (self.domain.clone(), bytes.clone());
        Granting::Slow(Box::new(move || {
            let is_large = bytes.len() > REGISTERED_AT_ONCE_MAX;
            let (granted, key) = Granted::lend(&domain, &bytes)?;
            Ok(if is_large { Grant::slow(key, granted) } else { Grant::new(key, granted) })
        }))
    }

    fn alloc(&self, bytes: usize) -> Making<Locked> {
        let domain = self.domain.clone();
        Making::Slow(Box::new(move || {
            let region = memory::slab(Arc::new([]), bytes, PageKind::Ordinary)?;
            let limit = FabricError::Offer("no memory was asked for");
            let slot = Locked::whole(region, bytes).ok_or(limit)?;
            let registration = OwnRegistration::new(&domain, &slot)?;
            Ok(Locked::new(slot, registration))
        }))
    }

    fn adopt(&mut self, memory: Locked) -> Slot {
        let (slot, registered) = memory.into_parts();
        let registered = registered.and_then(|it| it.downcast::<OwnRegistration>().ok());
        if let Some(registration) = registered {
            self.own().add(*registration);
        }
        slot
    }

    fn take_unused(&mut self) -> Option<Box<dyn Send>> {
        let unused = self.own().take_unused();
        (!unused.is_empty()).then(|| Box::new(unused) as Box<dyn Send>)
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn post(&mut self, batch: &mut Vec<Operation>) -> Result<(), PostError> {
        let refused = batch.iter().enumerate().find_map(|(place, operation)| {
            operation.check().and(self.check(place, operation)).err().map(|why| (place, why))
        });
        let mut left = refused.map_or(batch.len(), |(place, _)| place);
        while left > 0 {
            let before = batch.len();
            let result = match &mut self.live {
                Some(live) => live.queue_pair.post_operations(batch, left),
                None => {
                    let slots = batch.drain(..left).map(|operation| operation.slot);
                    let status = Status::Flushed;
                    self.outcomes.extend(slots.map(|slot| Outcome::Done { slot, status }));
                    self.alarm.ring_and_wake();
                    Ok(())
                }
            };
            let taken = before - batch.len();
            (left, self.room) = (left - taken, self.room - taken as u32);
            if !self.fail_in_doubt() {
                result?;
            }
        }
        refused.map_or(Ok(()), |(_, why)| Err(why))
    }

    fn poll(&mut self, out: &mut Vec<Outcome>, max: usize) -> usize {
        let mut count = 0;
        loop {
            let taken = self.outcomes.len().min(max - count);
            for outcome in self.outcomes.drain(..taken) {
                match outcome {
                    Outcome::Done { .. } => self.room += 1,
                    Outcome::Notice(_) => self.places.owed += 1,
                    Outcome::Ended(_) => {}
                }
                out.push(outcome);
            }
            count += taken;
            if count == max || !self.gather() {
                break;
            }
        }
        self.post_notices();
        count
    }

    fn arm(&mut self) {
        if self.alarm.arm(Notify::Any)
            && let Some(live) = &mut self.live
            && !live.arm(Notify::Any)
        {
            self.fail(Status::Fatal);
        }
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(live) = &mut self.live {
            match live.poll_events(cx) {
                Poll::Ready(Ok(())) => {
                    self.alarm.disarm();
                    return Poll::Ready(());
                }
                Poll::Ready(Err(status)) => {
                    self.fail(status);
                    return Poll::Ready(());
                }
                Poll::Pending => {}
            }
        }
        self.alarm.poll(cx)
    }

    /// Moves to the error state (PV-10).
    fn close(&mut self) {
        if let Some(live) = &mut self.live {
            live.stop();
        }
        self.fail(Status::Flushed);
    }
}

impl Connected {
    /// Returns the registrations made for this queue pair alone.
    fn own(&mut self) -> &mut OwnRegistrations {
        let own = self.live.as_mut().and_then(|live| live.queue_pair.own());
        own.unwrap_or(&mut self.left)
    }

    /// Checks that this device can do an operation, at this place of a batch.
    fn check(&self, place: usize, operation: &Operation) -> Result<(), PostError> {
        if operation.bytes > self.operation_bytes_max {
            Err(PostError::TooLong)
        } else if place >= self.room as usize {
            Err(PostError::Full)
        } else {
            Ok(())
        }
    }

    /// Ends the device's part if a post left it unclear which work requests the device has; returns
    /// true if so.
    fn fail_in_doubt(&mut self) -> bool {
        let in_doubt = self.live.as_ref().is_some_and(|live| live.queue_pair.is_in_doubt());
        if in_doubt {
            self.fail(Status::Fatal);
            self.alarm.ring_and_wake();
        }
        in_doubt
    }

    /// Gives the places of notices that were polled to the device again.
    fn post_notices(&mut self) {
        let Some(live) = &mut self.live else { return };
        let count = take(&mut self.places.owed);
        if count == 0 {
            return;
        }
        let had_none = self.places.posted == 0;
        self.places.posted += count;
        if live.queue_pair.post_notices(count).is_err() {
            self.fail(Status::Fatal);
        } else if had_none && live.queue_pair.has_failed() {
            // There was no receive that rxe could flush, and it does not flush these (VB-7).
            self.fail(Status::Flushed);
        }
    }

    /// Takes a batch of what the device has completed; says whether anything waits to be polled.
    fn gather(&mut self) -> bool {
        let Some(live) = &mut self.live else { return false };
        if !live.poll(&mut self.ended) {
            self.fail(Status::Fatal);
        } else if let Some(failure) =
            settle(live, &self.ended, &mut self.places, &mut self.outcomes)
        {
            self.end(failure);
        }
        !self.outcomes.is_empty()
    }

    /// Ends, for a cause that none of its work requests has reported.
    fn fail(&mut self, status: Status) {
        self.end(Failure { status, is_told: false });
    }

    /// Ends the device's part: takes its last completions, destroys the queue pair, and flushes the
    /// rest (PV-7, VB-6). The oldest operation has the cause, unless another one was told it.
    fn end(&mut self, mut failure: Failure) {
        let Some(mut live) = self.live.take() else { return };
        while live.poll(&mut self.ended) && !self.ended.is_empty() {
            let later = settle(&mut live, &self.ended, &mut self.places, &mut self.outcomes);
            if let Some(later) = later {
                failure.add(later);
            }
        }
        // Registrations are given back later: that may take long, and others wait for this call.
        if let Some(own) = live.queue_pair.own() {
            self.left = take(own);
        }
        let [operations, _] = live.queue_pair.destroy();
        let mut next = if failure.is_told { Status::Flushed } else { failure.status };
        for slot in operations.into_slots() {
            let status = replace(&mut next, Status::Flushed);
            self.outcomes.push_back(Outcome::Done { slot, status });
        }
        self.outcomes.push_back(Outcome::Ended(failure.status));
        self.alarm.ring();
    }
}

/// Why a queue pair ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failure {
    status: Status,
    /// True if an operation has the status.
    is_told: bool,
}

impl Failure {
    /// Takes the failure of a later work request if it says more; a flushed one says nothing.
    fn add(&mut self, later: Failure) {
        if self.status == Status::Flushed || (!self.is_told && later.status != Status::Flushed) {
            *self = later;
        }
    }
}

/// Makes outcomes of completed work requests. Returns why the queue pair ends, if one failed.
fn settle(
    live: &mut Live,
    ended: &[Ended],
    places: &mut Places,
    outcomes: &mut VecDeque<Outcome>,
) -> Option<Failure> {
    let mut failure: Option<Failure> = None;
    for it in ended {
        if !matches!(it.status, Status::Success | Status::Flushed) {
            live.report(it);
        }
        let failed = if it.id & SEND == 0 {
            places.posted = places.posted.saturating_sub(1);
            on_receive(it, outcomes)
        } else {
            on_operation(it, &mut live.queue_pair.sends, outcomes)
        };
        match (&mut failure, failed) {
            (Some(failure), Some(later)) => failure.add(later),
            (failure @ None, failed) => *failure = failed,
            (Some(_), None) => {}
        }
    }
    failure
}

fn on_receive(ended: &Ended, outcomes: &mut VecDeque<Outcome>) -> Option<Failure> {
    let status = match (ended.status, ended.notice) {
        (Status::Success, Some(number)) => {
            outcomes.push_back(Outcome::Notice(number));
            return None;
        }
        // A peer must not send frames here.
        (Status::Success, None) => Status::Corrupt,
        // A write with a notice was refused: the refusal is for the peer.
        (Status::RemoteAccess, _) => Status::Flushed,
        (status, _) => status,
    };
    Some(Failure { status, is_told: false })
}

/// All operations are signaled, so that each completes separately, in order (PV-14). An operation
/// that the device left out was done if the next one was; else its fate is unknown.
fn on_operation(
    &Ended { id, status, .. }: &Ended,
    operations: &mut Ledger,
    outcomes: &mut VecDeque<Outcome>,
) -> Option<Failure> {
    let mut slots = operations.take_through(id & !SEND).peekable();
    while let Some(slot) = slots.next() {
        let is_it = slots.peek().is_none() || status == Status::Success;
        let status = if is_it { status } else { Status::Flushed };
        outcomes.push_back(Outcome::Done { slot, status });
    }
    (status != Status::Success).then_some(Failure { status, is_told: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Region;

    fn ended(id: u64, status: Status, notice: Option<u32>) -> Ended {
        Ended { id, status, bytes: 0, notice, vendor_code: 0 }
    }

    /// PV-18: the first status that says something is the cause of the end, whichever work request
    /// brings it, and an operation that has it keeps the others from it.
    #[test]
    fn the_first_cause_counts() {
        let failure = |status, is_told| Failure { status, is_told };
        let after = |mut first: Failure, later| {
            first.add(later);
            first
        };
        let [flushed, own] = [failure(Status::Flushed, false), failure(Status::RemoteAccess, true)];
        let port = failure(Status::PortDown, false);
        assert_eq!(after(flushed, own), own);
        assert_eq!(after(own, failure(Status::Flushed, true)), own);
        assert_eq!(after(own, port), own);
        assert_eq!(after(port, failure(Status::Flushed, true)), port);
        assert_eq!(after(port, own), own);
    }

    /// PV-17: a receive brings the number of a notice; what brings none, or fails, ends the queue
    /// pair, and a refusal is not this side's.
    #[test]
    fn receives_bring_notices_and_nothing_else() {
        let mut outcomes = VecDeque::new();
        assert_eq!(on_receive(&ended(0, Status::Success, Some(7)), &mut outcomes), None);
        assert!(matches!(outcomes.pop_front(), Some(Outcome::Notice(7))));
        for (status, cause) in [
            (Status::Success, Status::Corrupt),
            (Status::RemoteAccess, Status::Flushed),
            (Status::LocalLength, Status::LocalLength),
            (Status::Flushed, Status::Flushed),
        ] {
            let failure = on_receive(&ended(0, status, None), &mut outcomes);
            assert_eq!(failure, Some(Failure { status: cause, is_told: false }));
        }
        assert!(outcomes.is_empty());
    }

    /// VB-3: a device that reports an operation twice, or an operation that was never posted, gives
    /// no slot back.
    #[test]
    fn operations_end_once() {
        let mut operations = Ledger::default();
        let slots = Region::heap(64).into_slots(16).into_iter().take(4);
        slots.for_each(|slot| operations.push(slot));
        let mut outcomes = VecDeque::new();
        let mut told = |id, status| {
            let failure =
                on_operation(&ended(SEND | id, status, None), &mut operations, &mut outcomes);
            (failure.is_some(), outcomes.len())
        };
        assert_eq!(told(0, Status::Success), (false, 1));
        assert_eq!(told(0, Status::Success), (false, 1));
        assert_eq!(told(9, Status::Success), (false, 1));
        assert_eq!(told(1, Status::RemoteAccess), (true, 2));
        // The device leaves one out and refuses the next one: the former may have been done.
        assert_eq!(told(3, Status::RemoteAccess), (true, 4));
        let ended = outcomes.iter().map(|outcome| match outcome {
            Outcome::Done { status, .. } => *status,
            other => panic!("{other:?}"),
        });
        let refused = Status::RemoteAccess;
        assert_eq!(ended.collect::<Vec<_>>(), [Status::Success, refused, Status::Flushed, refused]);
    }
}
