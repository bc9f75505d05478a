//! A device that takes its time to lock memory, and to let go of it.

use std::sync::mpsc;

use super::*;
use crate::shares::Share;

/// A device that waits until it is let.
pub(super) struct Device {
    steps: Mutex<mpsc::Receiver<()>>,
    done: mpsc::Sender<&'static str>,
}

/// Lets it go on, and sees what it has done.
struct Control {
    steps: mpsc::Sender<()>,
    done: mpsc::Receiver<&'static str>,
}

impl Control {
    /// Lets the device do one thing more, and waits for that.
    fn step(&self) -> &'static str {
        self.steps.send(()).unwrap();
        self.done.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

impl Device {
    fn new() -> (Arc<Self>, Control) {
        let ((steps, taken), (telling, done)) = (mpsc::channel(), mpsc::channel());
        let device = Device { steps: Mutex::new(taken), done: telling };
        (Arc::new(device), Control { steps, done })
    }

    fn wait_and(&self, what: &'static str) {
        // A test that has ended lets everything go on.
        let _ = self.steps.lock().recv();
        let _ = self.done.send(what);
    }

    /// Locks memory, when it is let.
    pub(super) fn lock(device: &Arc<Self>) -> Granting {
        let device = device.clone();
        Granting::Slow(Box::new(move || {
            device.wait_and("locked");
            Ok(Grant::slow(Key { number: 1, base: 0 }, Locked(device)))
        }))
    }
}

struct Locked(Arc<Device>);

impl Drop for Locked {
    fn drop(&mut self) {
        self.0.wait_and("let go");
    }
}

/// A connected side over such a device, its shares, and what controls the device.
async fn slow_side(world: &World) -> (Arc<Reach>, Arc<Shares>, Control) {
    let (device, control) = Device::new();
    let shares = Shares::new(world.entropy());
    let reach = Reach::new();
    let fabric = Arc::new(Mute(world.network("alpha").1, Posts::Slow(device)));
    let (binding, runtime) = (Vec::new(), Handle::current());
    let (way, side) = (None, Side::Acceptor);
    reach.attach(Means { fabric, way, side, binding, shares: shares.clone(), runtime });
    offer(&reach, 1).await;
    (reach, shares, control)
}

async fn offer(reach: &Arc<Reach>, number: u32) {
    reach.handle(Sharing::Offer { number, queue_pair: Zeroizing::default() }).unwrap();
    while !format!("{:?}", reach.outgoing().await).contains("Connected") {}
    reach.handle(Sharing::Connected { number, fence: None }).unwrap();
}

fn share(shares: &Arc<Shares>) -> Share {
    shares.share(&Arc::new(Words::zeroed(64).unwrap()), 0, 64, Access::ALL).unwrap()
}

/// RE-7: while a device locks memory the session goes on: it says so now and then, hears other
/// questions, which have their turn, and answers when it is done.
#[test]
fn nothing_waits_for_a_device_that_locks_memory() {
    sim::run(1, |world| async move {
        let (reach, shares, device) = slow_side(&world).await;
        let [first, second] = [share(&shares), share(&shares)];
        for share in [&first, &second, &first] {
            reach.handle(Sharing::Ask(share.id())).unwrap();
        }
        reach.look();
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Later]");
        reach.look();
        assert!(timeout(Duration::ZERO, reach.outgoing()).await.is_err(), "not so often");
        assert!(!reach.rest(), "RE-5: the peer waits");
        reach.handle(Sharing::Ask(ShareId(5))).unwrap();
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Denied]");
        for _ in 0..2 {
            assert_eq!(device.step(), "locked");
            assert_eq!(format!("{:?}", reach.outgoing().await), "[Granted]");
        }
        assert!(reach.rest());
        // SM-2: the end of a share waits for the device, and nothing else does.
        let id = first.id();
        let end = tokio::spawn(first.end());
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Revoke]");
        reach.handle(Sharing::Revoked(id)).unwrap();
        sleep_a_moment().await;
        assert!(!end.is_finished(), "the device may still write");
        assert_eq!(device.step(), "let go");
        end.await.unwrap();
        drop(device);
    });
}

/// RE-7: a share that ends, or a queue pair, while a device locks memory for it, leaves nothing
/// locked, and the peer has its one answer. There is one share at the device at a time, however
/// many queue pairs the peer opens.
#[test]
fn what_ends_while_a_device_locks_memory_is_let_go() {
    sim::run(1, |world| async move {
        let (reach, shares, device) = slow_side(&world).await;
        let [first, second] = [share(&shares), share(&shares)];
        reach.handle(Sharing::Ask(first.id())).unwrap();
        let end = tokio::spawn(first.end());
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Denied]");
        assert_eq!(device.step(), "locked");
        sleep_a_moment().await;
        assert!(!end.is_finished());
        assert_eq!(device.step(), "let go");
        end.await.unwrap();
        assert!(timeout(Duration::ZERO, reach.outgoing()).await.is_err(), "one answer");

        reach.handle(Sharing::Ask(second.id())).unwrap();
        for number in 2..5 {
            offer(&reach, number).await;
            reach.handle(Sharing::Ask(second.id())).unwrap();
        }
        assert_eq!(device.step(), "locked");
        assert_eq!(device.step(), "let go");
        assert_eq!(device.step(), "locked");
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Granted]");
        let end = tokio::spawn(second.end());
        reach.end();
        assert_eq!(device.step(), "let go");
        end.await.unwrap();
        drop(device);
    });
}

async fn sleep_a_moment() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
