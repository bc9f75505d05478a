//! A channel of whole messages between two programs, for several threads of each.

use std::sync::Arc;
use std::time::Duration;

use ringpost_streams::channel::{Channel, Receiver, Sender};
use ringpost_streams::rpc::Bytes;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use crate::driver::{Closing, wait};
use crate::failure::{Code, Failure};
use crate::inbox::{Inbox, Pending, Receive};
use crate::ready::Ready;

/// Sends that are under way and that no thread waits for, at most.
pub(crate) const SENDS_MAX: usize = 128;
/// The longest time for which the end of a line waits for earlier sends.
pub(crate) const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// One end of such a channel.
pub(crate) struct Line {
    /// `None` when it has ended. Locks are given in the order in which they are asked for, and with
    /// them messages are sent in the order of the calls.
    sender: Arc<Mutex<Option<Sender<Bytes>>>>,
    sends: Arc<Semaphore>,
    pub(crate) inbox: Arc<Inbox>,
    /// Ends what runs in the background.
    over: Arc<Closing>,
}

impl Line {
    /// Takes a channel. Must be called on the runtime.
    pub(crate) fn new(channel: Channel<Bytes, Bytes>, ready: Arc<Ready>) -> Self {
        let (sender, receiver) = channel.split();
        let inbox = Arc::new(Inbox::new(ready));
        let over = Arc::new(Closing::default());
        let (to, until) = (inbox.clone(), over.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = until.closed() => {}
                () = fill(receiver, &to) => {}
            }
        });
        let sender = Arc::new(Mutex::new(Some(sender)));
        Line { sender, sends: Arc::new(Semaphore::new(SENDS_MAX)), inbox, over }
    }

    /// Sends a message, when the peer has room for it.
    ///
    /// # Errors
    /// The line has ended, or the message is too large.
    pub(crate) async fn send(&self, message: Vec<u8>) -> Result<(), Failure> {
        send(&self.sender, message).await
    }

    /// Begins to send a message, which is sent after those before.
    ///
    /// # Errors
    /// There are [`SENDS_MAX`] such sends under way.
    pub(crate) fn begin_send(
        &self,
        message: Vec<u8>,
        sent: Arc<Pending<usize>>,
    ) -> Result<(), Failure> {
        let permit = self.sends.clone().try_acquire_owned().map_err(|_| {
            let what =
                format!("{SENDS_MAX} sends to this peer are under way: wait for one of them");
            Failure::new(Code::WouldBlock, what)
        })?;
        let sending = begun(self.sender.clone(), message, sent, permit, self.over.clone());
        wait(async move {
            let mut sending = Box::pin(sending);
            // From its first poll on it has its place in the line for the lock.
            if futures::poll!(&mut sending).is_pending() {
                tokio::spawn(sending);
            }
            Ok(())
        })
    }

    /// Receives a message of up to `len_max` bytes.
    ///
    /// # Errors
    /// The message is larger, and stays; the peer has ended; or an error of [`Closing::wait`].
    pub(crate) fn recv(
        &self,
        len_max: usize,
        time: Option<Duration>,
        closing: &Closing,
    ) -> Result<Vec<u8>, Failure> {
        let receive = Receive::new(len_max, None);
        self.inbox.post(receive.clone());
        let waited = closing.wait(time, async {
            receive.pending.settled().await;
            Ok(())
        });
        self.inbox.withdraw(&receive);
        receive.pending.take().unwrap_or_else(|| Err(waited.err().unwrap_or_else(Failure::closed)))
    }

    /// Ends the line in order: the peer receives all messages, and then the end. Messages that are
    /// not handed over within the time are dropped.
    pub(crate) async fn close(&self, time: Duration) {
        let taken = tokio::time::timeout(time, self.sender.lock()).await;
        if let Ok(Some(sender)) = taken.map(|mut sender| sender.take()) {
            sender.close();
        }
        self.inbox.end(Failure::invalid("this end of the connection is closed"));
        self.over.close();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.over.close();
    }
}

async fn send(sender: &Mutex<Option<Sender<Bytes>>>, message: Vec<u8>) -> Result<(), Failure> {
    let mut sender = sender.lock().await;
    let ended = || Failure::invalid("this end of the connection is closed");
    let sender = sender.as_mut().ok_or_else(ended)?;
    sender.send(Bytes(message)).await.map_err(|error| error.cause.into())
}

/// Sends a message that no thread waits for.
async fn begun(
    sender: Arc<Mutex<Option<Sender<Bytes>>>>,
    message: Vec<u8>,
    sent: Arc<Pending<usize>>,
    permit: OwnedSemaphorePermit,
    over: Arc<Closing>,
) {
    let len = message.len();
    let outcome = tokio::select! {
        biased;
        outcome = send(&sender, message) => outcome,
        () = over.closed() => Err(Failure::failed("the connection was closed before it was sent")),
    };
    drop(permit);
    sent.settle(outcome.map(|()| len));
}

/// Moves messages to the inbox, until the peer ends.
async fn fill(mut receiver: Receiver<Bytes>, inbox: &Inbox) {
    loop {
        inbox.has_room().await;
        match receiver.recv_view().await {
            Ok(message) => inbox.arrive(message.to_vec()),
            Err(cause) => return inbox.end(cause.into()),
        }
    }
}
