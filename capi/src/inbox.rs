//! Messages that have come and were not taken yet, and the receives that wait for them.
//!
//! The first receive that was posted takes the first message. If the message is too large for it,
//! the receive fails, and the message stays the first one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::failure::{Code, Failure};
use crate::ready::{Ready, Token};

/// Messages that wait in an inbox, at most; and their bytes, but for one message. Others wait
/// before it, and hold up their sender.
pub(crate) const MESSAGES_MAX: usize = 128;
const BYTES_MAX: usize = 8 << 20;

/// An outcome that comes later.
pub(crate) struct Pending<T> {
    outcome: Mutex<Outcome<T>>,
    changed: Notify,
    /// Is ready while the outcome is there and was not taken.
    ready: Option<Arc<Ready>>,
}

struct Outcome<T> {
    value: Option<Result<T, Failure>>,
    is_settled: bool,
    token: Option<Token>,
}

impl<T> Pending<T> {
    pub(crate) fn new(ready: Option<Arc<Ready>>) -> Self {
        let outcome = Mutex::new(Outcome { value: None, is_settled: false, token: None });
        Pending { outcome, changed: Notify::new(), ready }
    }

    /// Gives it its outcome. The first one counts.
    pub(crate) fn settle(&self, value: Result<T, Failure>) {
        let mut outcome = self.outcome.lock();
        if outcome.is_settled {
            return;
        }
        outcome.is_settled = true;
        outcome.value = Some(value);
        outcome.token = self.ready.as_ref().map(Ready::token);
        drop(outcome);
        self.changed.notify_waiters();
    }

    /// Waits for the outcome, which stays.
    pub(crate) async fn settled(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.outcome.lock().is_settled {
                return;
            }
            changed.await;
        }
    }

    /// Returns true if the outcome is there, or was taken.
    pub(crate) fn is_settled(&self) -> bool {
        self.outcome.lock().is_settled
    }

    /// Takes the outcome, once.
    pub(crate) fn take(&self) -> Option<Result<T, Failure>> {
        let mut outcome = self.outcome.lock();
        let value = outcome.value.take();
        let token = outcome.token.take();
        drop(outcome);
        drop(token);
        value
    }
}

/// A receive that waits for its message.
pub(crate) struct Receive {
    len_max: usize,
    pub(crate) pending: Pending<Vec<u8>>,
    /// The number of the message that it has got.
    number: AtomicU64,
}

impl Receive {
    pub(crate) fn new(len_max: usize, ready: Option<Arc<Ready>>) -> Arc<Self> {
        Arc::new(Receive { len_max, pending: Pending::new(ready), number: AtomicU64::new(0) })
    }
}

/// The messages of one peer.
pub(crate) struct Inbox {
    state: Mutex<State>,
    room: Notify,
    ready: Arc<Ready>,
}

struct State {
    /// The messages, with their numbers in the order in which they came.
    messages: VecDeque<(u64, Vec<u8>)>,
    arrived: u64,
    bytes: usize,
    receives: VecDeque<Arc<Receive>>,
    /// Nothing comes after the messages.
    end: Option<Failure>,
    /// There while a receive would not have to wait.
    token: Option<Token>,
}

impl State {
    fn has_room(&self) -> bool {
        self.messages.len() < MESSAGES_MAX && self.bytes < BYTES_MAX
    }
}

impl Inbox {
    pub(crate) fn new(ready: Arc<Ready>) -> Self {
        let state = State {
            messages: VecDeque::new(),
            arrived: 0,
            bytes: 0,
            receives: VecDeque::new(),
            end: None,
            token: None,
        };
        Inbox { state: Mutex::new(state), room: Notify::new(), ready }
    }

    /// Puts a message behind the others.
    pub(crate) fn arrive(&self, message: Vec<u8>) {
        let mut state = self.state.lock();
        state.bytes += message.len();
        let number = state.arrived;
        state.arrived += 1;
        state.messages.push_back((number, message));
        self.settle(&mut state);
    }

    /// Notes that nothing more comes. The first failure counts.
    pub(crate) fn end(&self, failure: Failure) {
        let mut state = self.state.lock();
        state.end.get_or_insert(failure);
        self.settle(&mut state);
    }

    /// Posts a receive behind the others.
    pub(crate) fn post(&self, receive: Arc<Receive>) {
        let mut state = self.state.lock();
        state.receives.push_back(receive);
        self.settle(&mut state);
    }

    /// Takes a receive back: no message comes to it from then on. A message that it has already
    /// stays with it.
    pub(crate) fn withdraw(&self, receive: &Arc<Receive>) {
        self.state.lock().receives.retain(|posted| !Arc::ptr_eq(posted, receive));
    }

    /// Gives the message of a receive back, which the program does not want: it has its place in
    /// the order again.
    pub(crate) fn give_back(&self, receive: &Receive) {
        let Some(Ok(message)) = receive.pending.take() else { return };
        let number = receive.number.load(Ordering::Relaxed);
        let mut state = self.state.lock();
        state.bytes += message.len();
        let place = state.messages.partition_point(|(other, _)| *other < number);
        state.messages.insert(place, (number, message));
        self.settle(&mut state);
    }

    /// Waits until there is room for one more message.
    pub(crate) async fn has_room(&self) {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            if self.state.lock().has_room() {
                return;
            }
            room.await;
        }
    }

    /// Gives receives what there is for them.
    fn settle(&self, state: &mut State) {
        while !state.receives.is_empty() {
            let outcome = match (state.messages.front(), &state.end, state.receives.front()) {
                (Some((_, message)), _, Some(receive)) if message.len() > receive.len_max => {
                    Err(larger(message.len(), receive.len_max))
                }
                (Some(_), _, Some(receive)) => {
                    let (number, message) = state.messages.pop_front().unwrap_or_default();
                    receive.number.store(number, Ordering::Relaxed);
                    Ok(message)
                }
                (_, Some(end), _) => Err(end.clone()),
                _ => break,
            };
            state.bytes -= outcome.as_ref().map_or(0, Vec::len);
            if let Some(receive) = state.receives.pop_front() {
                receive.pending.settle(outcome);
            }
        }
        let is_ready = !state.messages.is_empty() || state.end.is_some();
        if !is_ready {
            state.token = None;
        } else if state.token.is_none() {
            state.token = Some(self.ready.token());
        }
        self.room.notify_waiters();
    }
}

fn larger(message: usize, buffer: usize) -> Failure {
    let what = format!(
        "the message has {message} bytes, and there is room for {buffer}: it stays, receive it \
        with more room"
    );
    Failure::new(Code::TooLarge, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random calls, against a model: messages and receives meet in order.
    #[test]
    fn messages_and_receives_meet_in_order_and_the_descriptor_tells_of_them() {
        let cases = std::env::var("RINGPOST_TEST_CASES").ok().and_then(|it| it.parse().ok());
        for seed in 0..cases.unwrap_or(200_u64) {
            run(seed);
        }
    }

    /// Receives that are given up in any order leave the messages in theirs.
    #[test]
    fn messages_that_are_given_back_have_their_places() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let inbox = Inbox::new(Ready::new().unwrap());
            let receives = [0; 3].map(|_| Receive::new(8, None));
            receives.iter().for_each(|receive| inbox.post(receive.clone()));
            (0..4).for_each(|number| inbox.arrive(vec![number]));
            order.iter().for_each(|at: &usize| inbox.give_back(&receives[*at]));
            for number in 0..4 {
                let receive = Receive::new(8, None);
                inbox.post(receive.clone());
                assert_eq!(receive.pending.take().unwrap().unwrap(), [number]);
            }
        }
    }

    fn run(seed: u64) {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % below
        };
        let ready = Ready::new().unwrap();
        let inbox = Inbox::new(ready.clone());
        let (mut messages, mut receives) = (VecDeque::new(), VecDeque::new());
        for step in 0..60 {
            match random(3) {
                0 => {
                    let message = vec![step as u8; random(8)];
                    messages.push_back(message.clone());
                    inbox.arrive(message);
                }
                1 => {
                    let receive = Receive::new(random(8), None);
                    receives.push_back(receive.clone());
                    inbox.post(receive);
                }
                _ => {
                    if let Some(receive) = receives.pop_back() {
                        inbox.withdraw(&receive);
                    }
                }
            }
            while let (Some(message), Some(receive)) = (messages.front(), receives.front()) {
                let got = receive.pending.take().expect("there is a message for it");
                match got {
                    Ok(got) => assert_eq!(Some(got), messages.pop_front(), "seed {seed}"),
                    Err(failure) => {
                        assert_eq!(failure.code, Code::TooLarge);
                        assert!(message.len() > receive.len_max, "seed {seed}");
                    }
                }
                receives.pop_front();
            }
            assert!(receives.iter().all(|receive| receive.pending.take().is_none()));
            assert_eq!(ready.is_readable(), !messages.is_empty(), "seed {seed}");
        }
        inbox.end(Failure::failed("over"));
        assert!(ready.is_readable());
        for receive in receives {
            assert_eq!(receive.pending.take().unwrap().unwrap_err().text, "over");
        }
        drop(inbox);
        assert!(!ready.is_readable());
    }
}
