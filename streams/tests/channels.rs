//! Random schedules of channels on the simulated network, against a model.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringpost::prelude::*;
use ringpost::test_kit::{self, Cluster, Faults};
use ringpost_streams::channel::{Channel, Listener, Receiver, Sender};
use ringpost_streams::{EndCause, SendCause, SendError};

/// A message that says which one it is.
#[message]
#[derive(Debug, PartialEq)]
struct Parcel {
    number: u64,
    padding: Vec<u8>,
}

fn parcel(number: u64, size: usize) -> Parcel {
    Parcel { number, padding: vec![number as u8; size] }
}

/// One direction: how many messages were sent and received, and how it ended.
#[derive(Debug, Default)]
struct Model {
    sent: u64,
    received: u64,
    end: Option<EndCause>,
}

#[derive(Clone)]
struct Script {
    cluster: Cluster,
    is_troubled: bool,
}

impl Script {
    fn draw(&self, most: u64) -> u64 {
        self.cluster.random() % most.max(1)
    }

    /// Checks why a message was not sent, and that it came back.
    fn unsent(&self, error: SendError<Parcel>, number: u64) {
        assert_eq!(error.message.number, number, "another message came back");
        match error.cause {
            SendCause::Ended(EndCause::NotReading | EndCause::Gone(_)) => {}
            SendCause::Ended(EndCause::Lost | EndCause::Shutdown) if self.is_troubled => {}
            cause => panic!("an unexpected cause: {cause}"),
        }
    }

    async fn send(self, mut sender: Sender<Parcel>, model: Arc<Mutex<Model>>) {
        for _ in 0..self.draw(80) {
            let number = model.lock().unwrap().sent;
            let size = [0, 100, 20_000][self.draw(3) as usize];
            let message = parcel(number, size);
            let sent = match self.draw(6) {
                0 => {
                    self.cluster.sleep_up_to(Duration::from_millis(2)).await;
                    continue;
                }
                1 => match sender.try_send(message) {
                    Err(error) if error.cause == SendCause::Full => continue,
                    sent => sent,
                },
                2 => {
                    let time = Duration::from_micros(self.draw(200));
                    tokio::select! {
                        biased;
                        sent = sender.send(message) => sent,
                        () = self.cluster.sleep(time) => continue, // nothing was sent
                    }
                }
                _ => sender.send(message).await,
            };
            match sent {
                Ok(()) => model.lock().unwrap().sent += 1,
                Err(error) => return self.unsent(error, number),
            }
        }
        let mut model = model.lock().unwrap();
        if self.draw(2) == 0 {
            model.end = Some(EndCause::Closed);
            sender.close();
        } else {
            model.end = Some(EndCause::Dropped);
        }
    }

    async fn receive(self, mut receiver: Receiver<Parcel>, model: Arc<Mutex<Model>>) {
        let most = if self.draw(4) == 0 { self.draw(30) } else { u64::MAX };
        for _ in 0..most {
            let received = match self.draw(6) {
                0 => {
                    self.cluster.sleep_up_to(Duration::from_millis(2)).await;
                    continue;
                }
                1 => {
                    let time = Duration::from_micros(self.draw(200));
                    tokio::select! {
                        biased;
                        received = receiver.recv() => received,
                        () = self.cluster.sleep(time) => continue,
                    }
                }
                2 | 3 => receiver.recv_view().await.map(|view| view.to_owned()),
                _ => receiver.recv().await,
            };
            let mut model = model.lock().unwrap();
            match received {
                Ok(message) => {
                    let size = message.padding.len();
                    assert_eq!(message, parcel(model.received, size), "{model:?}");
                    model.received += 1;
                    assert!(model.received <= model.sent, "{model:?}");
                }
                Err(cause @ (EndCause::Closed | EndCause::Dropped)) => {
                    assert_eq!(model.end, Some(cause), "an end that nobody made: {model:?}");
                    assert_eq!(model.received, model.sent, "an end before the last message");
                    return;
                }
                Err(EndCause::Lost | EndCause::Gone(_) | EndCause::Shutdown)
                    if self.is_troubled =>
                {
                    return;
                }
                Err(cause) => panic!("an unexpected end: {cause}; {model:?}"),
            }
        }
    }

    async fn run(
        self,
        channel: Channel<Parcel, Parcel>,
        out: Arc<Mutex<Model>>,
        back: Arc<Mutex<Model>>,
    ) {
        let (sender, receiver) = channel.split();
        let sending = tokio::spawn(self.clone().send(sender, out));
        let receiving = tokio::spawn(self.receive(receiver, back));
        sending.await.unwrap();
        receiving.await.unwrap();
    }
}

async fn body(cluster: Cluster) {
    let [alpha, beta] = [cluster.node("alpha").await, cluster.node("beta").await];
    let trouble = cluster.random() % 4;
    let script = Script { cluster: cluster.clone(), is_troubled: trouble > 0 };
    let mut listener = Listener::<Parcel, Parcel>::bind(&beta, "parcels").await.unwrap();
    let mut ends = Vec::new();
    for _ in 0..1 + script.draw(3) {
        let near = Channel::connect(&alpha, "beta/parcels").await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let (out, back) = (Arc::default(), Arc::default());
        ends.push(tokio::spawn(script.clone().run(near, Arc::clone(&out), Arc::clone(&back))));
        ends.push(tokio::spawn(script.clone().run(far, back, out)));
    }
    match trouble {
        0 => {}
        1 => {
            let every = Duration::from_millis(5);
            cluster.shake(Faults { every, ..Faults::mild() }, Duration::from_millis(200)).await;
        }
        2 => {
            cluster.sleep_up_to(Duration::from_millis(20)).await;
            cluster.isolate("alpha");
            cluster.sleep_up_to(Duration::from_secs(30)).await;
            cluster.mend_all();
        }
        _ => {
            cluster.sleep_up_to(Duration::from_millis(20)).await;
            cluster.kill("alpha").await;
        }
    }
    for end in ends {
        end.await.unwrap();
    }
}

#[test]
fn channels_keep_order_and_tell_the_end_after_the_last_message() {
    test_kit::check(0..400, body);
}

/// A message that is the last one and is lost with its link is missed, although none follows.
#[test]
fn a_last_message_that_is_lost_ends_the_channel() {
    let lost = std::sync::atomic::AtomicUsize::new(0);
    test_kit::check(0..40, |cluster| {
        let lost = &lost;
        async move {
            let [alpha, beta] = [cluster.node("alpha").await, cluster.node("beta").await];
            let mut listener = Listener::<Parcel, Parcel>::bind(&beta, "parcels").await.unwrap();
            let near = Channel::<Parcel, Parcel>::connect(&alpha, "beta/parcels").await;
            let mut near = near.unwrap();
            let (mut far, _) = listener.accept().await.unwrap();
            near.send(parcel(0, 10)).await.unwrap();
            assert_eq!(far.recv().await, Ok(parcel(0, 10)));
            near.send(parcel(1, 10)).await.unwrap();
            cluster.sleep_up_to(Duration::from_micros(100)).await;
            cluster.world().sever_data("alpha", "beta");
            match far.recv().await {
                Ok(message) => assert_eq!(message, parcel(1, 10)),
                Err(cause) => {
                    assert_eq!(cause, EndCause::Lost);
                    assert_eq!(near.recv().await, Err(EndCause::Lost));
                    let unsent = near.send(parcel(2, 10)).await.unwrap_err();
                    assert_eq!(unsent.cause, SendCause::Ended(EndCause::Lost));
                    lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            }
        }
    });
    let is_usual = ["RINGPOST_TEST_CASES", "RINGPOST_TEST_SEED"]
        .iter()
        .all(|name| std::env::var(name).is_err());
    let lost = lost.into_inner();
    assert!(!is_usual || lost > 0, "no message was lost");
}

/// A channel that nobody reads holds up no other one, and its own peer only when it is full.
#[test]
fn a_channel_that_nobody_reads_blocks_no_other() {
    test_kit::run(1, |cluster| async move {
        let [alpha, beta] = [cluster.node("alpha").await, cluster.node("beta").await];
        let mut listener = Listener::<Parcel, Parcel>::bind(&beta, "parcels").await.unwrap();
        let connect = || Channel::<Parcel, Parcel>::connect(&alpha, "beta/parcels");
        let mut stuck = connect().await.unwrap();
        let (mut unread, _) = listener.accept().await.unwrap();
        let mut number = 0;
        loop {
            tokio::select! {
                biased;
                sent = stuck.send(parcel(number, 20_000)) => sent.unwrap(),
                () = cluster.sleep(Duration::from_secs(1)) => break,
            }
            number += 1;
            assert!(number < 10_000, "nothing holds the sender back");
        }
        let mut other = connect().await.unwrap();
        let (mut served, _) = listener.accept().await.unwrap();
        other.send(parcel(7, 0)).await.unwrap();
        assert_eq!(served.recv().await, Ok(parcel(7, 0)));
        // All messages are there, and then the end.
        stuck.close();
        for expected in 0..number {
            assert_eq!(unread.recv().await, Ok(parcel(expected, 20_000)));
        }
        assert_eq!(unread.recv().await, Err(EndCause::Closed));
    });
}
