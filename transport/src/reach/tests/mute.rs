//! A fabric for one-sided access by which nothing comes of itself.

use super::*;

/// A fabric whose one-sided access connects and brings nothing.
pub(super) struct Mute(pub(super) Arc<dyn Fabric>, pub(super) Posts);

impl fmt::Debug for Mute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mute")
    }
}

/// The way in which operations end there.
#[derive(Clone)]
pub(super) enum Posts {
    Kept,
    Refused,
    /// They are kept, and grants and much memory are made by this device.
    Slow(Arc<slow::Device>),
    /// They are kept, and queue pairs are connected and destroyed by this device.
    Connects(Arc<slow::Device>),
    /// They are kept, and queue pairs are destroyed by this device.
    Ends(Arc<slow::Device>),
    /// So they are, and of a batch only the first operation is taken.
    TakesOne(Arc<slow::Device>),
    /// They are done when the driver looks.
    Done,
    /// So many of them are.
    Lets(Arc<AtomicUsize>),
}

impl Fabric for Mute {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn blocks(&self) -> bool {
        matches!(self.1, Posts::Connects(_))
    }

    fn alloc(&self, bytes: usize) -> Result<Region, FabricError> {
        self.0.alloc(bytes)
    }

    fn open(&self, config: QueuePairConfig) -> Result<Box<dyn fabric::Opening>, FabricError> {
        self.0.open(config)
    }

    fn open_one_sided(&self, _: OneSidedConfig) -> Result<Box<dyn Opening>, FabricError> {
        Ok(Box::new(MuteSide(Vec::new(), self.1.clone())))
    }
}

struct MuteSide(Vec<Operation>, Posts);

impl Opening for MuteSide {
    fn offer(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::default()
    }

    fn ways(&self, _: &[u8]) -> Vec<u32> {
        Vec::new()
    }

    fn connect(
        self: Box<Self>,
        _: Zeroizing<Vec<u8>>,
        _: usize,
    ) -> BoxFuture<'static, Result<Box<dyn OneSided>, FabricError>> {
        async move {
            if let Posts::Connects(device) = &self.1 {
                device.wait_and("connected");
            }
            Ok(self as Box<dyn OneSided>)
        }
        .boxed()
    }
}

impl OneSided for MuteSide {
    fn grant(&mut self, _: &Arc<Words>, _: u64, _: u64, _: Access) -> Granting {
        match &self.1 {
            Posts::Slow(device) => slow::Device::lock(device),
            _ => Granting::Done(Ok(Grant::new(Key { number: 1, base: 0 }, ()))),
        }
    }

    fn executor(&self) -> Executor {
        Executor::Processor
    }

    fn lend(&mut self, _: &Arc<Buffer>) -> Granting {
        match &self.1 {
            Posts::Slow(device) => slow::Device::lock(device),
            _ => Granting::Done(Ok(Grant::new(Key { number: 2, base: 0 }, ()))),
        }
    }

    fn alloc(&self, bytes: usize) -> Making<Locked> {
        if let Posts::Slow(device) = &self.1
            && bytes > limits::ONE_SIDED_SLOTS as usize * limits::ONE_SIDED_SLOT_BYTES
        {
            return slow::Device::make(device, bytes);
        }
        let memory = Locked::plain(Region::heap(bytes), bytes);
        Making::Done(memory.ok_or(FabricError::Offer("no memory")))
    }

    fn post(&mut self, batch: &mut Vec<Operation>) -> Result<(), PostError> {
        match self.1 {
            Posts::Kept | Posts::Slow(_) | Posts::Connects(_) => self.0.append(batch),
            Posts::Ends(_) | Posts::Done | Posts::Lets(_) => self.0.append(batch),
            Posts::TakesOne(_) => {
                self.0.push(batch.remove(0));
                return Err(PostError::Device(12));
            }
            Posts::Refused => return Err(PostError::Full),
        }
        Ok(())
    }

    fn is_slow(&self) -> bool {
        matches!(self.1, Posts::Ends(_) | Posts::TakesOne(_) | Posts::Connects(_))
    }

    fn poll(&mut self, outcomes: &mut Vec<Outcome>, _: usize) -> usize {
        let count = match &self.1 {
            Posts::Done => self.0.len(),
            Posts::Lets(count) => count.swap(0, Ordering::SeqCst).min(self.0.len()),
            _ => 0,
        };
        let done = self.0.drain(..count).map(|operation| operation.slot);
        let before = outcomes.len();
        outcomes.extend(done.map(|slot| Outcome::Done { slot, status: Status::Success }));
        outcomes.len() - before
    }

    fn arm(&mut self) {}

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn close(&mut self) {}
}

impl Drop for MuteSide {
    fn drop(&mut self) {
        if let Posts::Ends(it) | Posts::TakesOne(it) | Posts::Connects(it) = &self.1 {
            let device = it;
            device.wait_and("destroyed");
        }
    }
}
