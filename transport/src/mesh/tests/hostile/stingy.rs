//! A peer that keeps to the protocol, but gives back as few credits as it likes.

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::peer::{Linked, RING, frame_of, framed, read_frame};
use crate::bootstrap::{Beat, Channel, Message};
use crate::limits;
use crate::proto::credit::FIRST_COUNT;
use crate::proto::frame::FrameReader;
use crate::proto::header::{RecordHeader, RecordKind};

/// A linked peer that counts credits of both sides.
pub(super) struct Stingy {
    writer: OwnedWriteHalf,
    /// Frames of the node.
    frames: mpsc::UnboundedReceiver<Vec<u8>>,
    /// The tasks that read the data connection and keep the bootstrap connection alive.
    _tasks: JoinSet<()>,
    received: u32,
    /// Frames of these that it never reports consumed.
    withheld: u32,
    reported: u32,
    sent: u32,
    /// Frames that may be sent to the node beyond the ones that it has reported.
    ring: u32,
    consumed: u32,
    /// The places of the mailboxes that it opened, in the order of the answers.
    pub(super) opened: Vec<(u32, u32)>,
    /// Reports of windows that the node sent while it had no more than the credits left to it.
    pub(super) reports: u32,
}

impl Stingy {
    /// A peer on a link whose two CONFIRMs were exchanged.
    pub(super) fn new(linked: Linked, ring: u32) -> Self {
        let Linked { channel, data, .. } = linked;
        let (reader, writer) = data.into_split();
        let (sender, frames) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(read(reader, sender));
        tasks.spawn(live(channel));
        Stingy {
            writer,
            frames,
            _tasks: tasks,
            received: 1,
            withheld: 0,
            reported: 0,
            sent: 1,
            ring,
            consumed: 0,
            opened: Vec::new(),
            reports: 0,
        }
    }

    /// Leaves the node at most `credits` credits from now on.
    pub(super) fn leave(&mut self, credits: u32) {
        self.withheld = RING - credits;
    }

    /// Sends a frame of these records when the node has a slot for it. Returns false when the node
    /// has closed the connection.
    pub(super) async fn send(&mut self, records: &[(RecordHeader, &[u8])]) -> bool {
        while self.ring - (self.sent - self.consumed) == 0 {
            if !self.hear().await {
                return false;
            }
        }
        // The frames that came meanwhile are reported with this one.
        while let Ok(frame) = self.frames.try_recv() {
            self.read(&frame);
        }
        self.reported = self.reported.max(self.received.saturating_sub(self.withheld));
        self.sent += 1;
        let frame = frame_of(records, FIRST_COUNT.wrapping_add(self.reported));
        self.writer.write_all(&framed(&frame)).await.is_ok()
    }

    /// Waits for a frame of the node. Returns false when it has closed the connection.
    pub(super) async fn hear(&mut self) -> bool {
        let Some(frame) = self.frames.recv().await else { return false };
        self.read(&frame);
        true
    }

    fn read(&mut self, frame: &[u8]) {
        // Its tail is not kept.
        let whole = u32::from_le_bytes(frame[8..12].try_into().unwrap());
        let (head, mut reader) = FrameReader::new(frame, whole as usize - frame.len()).unwrap();
        let scarce = self.withheld > 0 && self.received - self.reported >= self.withheld;
        self.received += 1;
        self.consumed = head.consumed.wrapping_sub(FIRST_COUNT);
        while let Some(record) = reader.read(head.records).unwrap() {
            let header = record.header;
            match header.kind {
                RecordKind::Opened => self.opened.push((header.mailbox, header.generation)),
                RecordKind::Window => self.reports += u32::from(scarce),
                RecordKind::Grant => self.ring += header.total,
                _ => {}
            }
        }
    }
}

/// Reads frames of a data connection until it ends.
async fn read(mut data: OwnedReadHalf, frames: mpsc::UnboundedSender<Vec<u8>>) {
    while let Ok(frame) = read_frame(&mut data).await {
        if frames.send(frame).is_err() {
            return;
        }
    }
}

/// Sends heartbeats until the node takes no more.
async fn live(mut channel: Channel) {
    while channel.send(&Message::Heartbeat(Beat::Plain)).await.is_ok() {
        tokio::time::sleep(limits::HEARTBEAT_INTERVAL).await;
    }
}
