//! The bytes of a scenario's message: they follow from its sender, its number and its length.

use ringpost_transport::host::MessageForms;

/// The only message of the scenarios.
pub(super) const MESSAGE: MessageForms = MessageForms { id: 77, layouts: &[1], replies: &[1] };

/// Bytes of a message before its filling.
pub(super) const HEAD: usize = 16;

/// A run of a node, by the node's place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) node: usize,
    /// From 1.
    pub(super) number: u16,
}

/// A message of `bytes` bytes: its sender and number first, then bytes that follow from them.
pub(super) fn write(from: Run, number: u64, bytes: usize, out: &mut impl Extend<u8>) {
    out.extend((from.node as u16).to_le_bytes());
    out.extend(from.number.to_le_bytes());
    out.extend((bytes as u32).to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend((HEAD..bytes).map(|at| filling(number, at)));
}

/// Sender and number of a message, and whether every byte is right.
pub(super) fn read(message: &[u8]) -> Option<(Run, u64, bool)> {
    let node = u16::from_le_bytes(message.get(..2)?.try_into().ok()?).into();
    let run = u16::from_le_bytes(message.get(2..4)?.try_into().ok()?);
    let bytes = u32::from_le_bytes(message.get(4..8)?.try_into().ok()?) as usize;
    let number = u64::from_le_bytes(message.get(8..HEAD)?.try_into().ok()?);
    let filled = message[HEAD..].iter().enumerate().all(|(i, b)| *b == filling(number, HEAD + i));
    Some((Run { node, number: run }, number, bytes == message.len() && filled))
}

fn filling(number: u64, at: usize) -> u8 {
    (number.wrapping_mul(31).wrapping_add(at as u64 ^ (at as u64 >> 8))) as u8
}
