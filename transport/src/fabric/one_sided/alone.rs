//! One-sided access without a link, for tests: its owner drives the queue pair, too.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use zeroize::Zeroizing;

use super::emulated::Unconnected;
use super::{
    Access, Executor, Granting, Joined, Locked, Making, OneSided, OneSidedConfig, Opening,
    Operation, Outcome,
};
use crate::fabric::{Fabric, FabricError, Notify, PostError, QueuePairConfig};
use crate::memory::{Buffer, Words};

/// Bytes of a frame.
pub(crate) const FRAME_BYTES: usize = 16 * 1024;

/// Opens one over a queue pair of `fabric`.
pub(crate) fn open(
    fabric: &dyn Fabric,
    config: &OneSidedConfig,
) -> Result<Box<dyn Opening>, FabricError> {
    let queue_pair = QueuePairConfig {
        send_queue: 0,
        recv_queue: 0,
        inline_bytes: 0,
        rnr_retry: 0,
        side: config.side.clone(),
        binding: config.binding.clone(),
        avoid: Vec::new(),
    };
    let frame_bytes = FRAME_BYTES.min(fabric.limits().frame_bytes_max as usize) & !15;
    Ok(Box::new(Alone(Unconnected::open(fabric, queue_pair, config, frame_bytes)?)))
}

struct Alone(Unconnected);

impl Opening for Alone {
    fn offer(&self) -> Zeroizing<Vec<u8>> {
        self.0.offer()
    }

    fn ways(&self, peer: &[u8]) -> Vec<u32> {
        self.0.ways(peer)
    }

    fn connect(
        self: Box<Self>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> BoxFuture<'static, Result<Box<dyn OneSided>, FabricError>> {
        let connecting = async move {
            let joined = self.0.connect(&peer, way).await?;
            Ok(Box::new(Driven(joined)) as Box<dyn OneSided>)
        };
        connecting.boxed()
    }
}

struct Driven(Joined);

impl Driven {
    fn drive(&mut self) {
        let mut frames = Vec::new();
        while self.0.queue_pair.poll(&mut frames, 16) > 0 {}
    }
}

impl OneSided for Driven {
    fn grant(&mut self, memory: &Arc<Words>, at: u64, bytes: u64, access: Access) -> Granting {
        self.0.one_sided.grant(memory, at, bytes, access)
    }

    fn executor(&self) -> Executor {
        self.0.one_sided.executor()
    }

    fn lend(&mut self, bytes: &Arc<Buffer>) -> Granting {
        self.0.one_sided.lend(bytes)
    }

    fn alloc(&self, bytes: usize) -> Making<Locked> {
        self.0.one_sided.alloc(bytes)
    }

    fn post(&mut self, batch: &mut Vec<Operation>) -> Result<(), PostError> {
        self.0.one_sided.post(batch)
    }

    fn poll(&mut self, out: &mut Vec<Outcome>, max: usize) -> usize {
        self.drive();
        self.0.one_sided.poll(out, max)
    }

    fn arm(&mut self) {
        self.0.queue_pair.arm(Notify::Any);
        self.0.one_sided.arm();
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.queue_pair.poll_ready(cx).is_ready() {
            self.drive();
            self.0.queue_pair.arm(Notify::Any);
            // For completions that came since.
            cx.waker().wake_by_ref();
        }
        self.0.one_sided.poll_ready(cx)
    }

    fn close(&mut self) {
        self.0.one_sided.close();
    }
}
