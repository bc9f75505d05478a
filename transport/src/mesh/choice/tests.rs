//! Devices that take their time to make a queue pair.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use parking_lot::Mutex;

use super::*;
use crate::fabric::one_sided::{self, OneSidedConfig};
use crate::fabric::{Limits, Opening, QueuePairConfig};
use crate::memory::Region;

/// A device that makes no queue pair before it is let, and then says so.
struct Stuck {
    steps: Mutex<mpsc::Receiver<()>>,
    /// Threads that wait for it, and the most that ever did at one time.
    waiting: AtomicUsize,
    most: AtomicUsize,
}

impl fmt::Debug for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stuck")
    }
}

impl Fabric for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }

    fn limits(&self) -> Limits {
        Limits {
            send_queue_max: 64,
            recv_queue_max: 64,
            frame_bytes_max: 64 * 1024,
            inline_bytes_max: 0,
            tail_bytes_max: 0,
            acknowledges: true,
            lends: false,
        }
    }

    fn blocks(&self) -> bool {
        true
    }

    fn alloc(&self, bytes: usize) -> Result<Region, FabricError> {
        Ok(Region::heap(bytes))
    }

    fn open(&self, _: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError> {
        let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(waiting, Ordering::SeqCst);
        let _ = self.steps.lock().recv();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Err(FabricError::Offer("it was let go on"))
    }

    fn open_one_sided(
        &self,
        _: OneSidedConfig,
    ) -> Result<Box<dyn one_sided::Opening>, FabricError> {
        Err(FabricError::Offer("it has none"))
    }
}

/// A device that does not come back costs a link its patience, and one thread, however often the
/// link is tried; once it comes back a queue pair is made, or refused. Drawn: when it goes on.
/// Before, a link waited for such a device for ever.
#[tokio::test]
async fn a_device_that_does_not_come_back_is_waited_for_for_a_while() {
    let (mut late, mut told) = (0, 0);
    for seed in 0..20 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let (go_on, steps) = mpsc::channel();
        let stuck = Stuck { steps: Mutex::new(steps), waiting: 0.into(), most: 0.into() };
        let stuck = Arc::new(stuck);
        let (making, fabric) = (Arc::default(), stuck.clone() as Arc<dyn Fabric>);
        for _ in 0..10 {
            let goes_on = chance.u8(..4) == 0;
            if goes_on {
                // One for a thread that may be left over, one for the next attempt.
                (0..2).for_each(|_| go_on.send(()).unwrap());
            }
            let patience = Duration::from_millis(if goes_on { 20_000 } else { 2 });
            let demands = (Side::Acceptor, Vec::new(), Vec::new());
            let profile = Profile::default();
            let made = prepare(&making, &fabric, &profile, demands, patience).await;
            let why = made.err().unwrap();
            let is_late = why.contains("was made within");
            assert!(!is_late || !goes_on, "{why}");
            late += usize::from(is_late);
            told += usize::from(why.contains("it was let go on"));
        }
        assert_eq!(stuck.most.load(Ordering::SeqCst), 1, "seed {seed}");
        // The threads that are left end.
        drop(go_on);
    }
    println!("{late} given up, {told} answered");
    assert!(late > 50 && told > 20);
}
