//! A data connection on which anything is written.

use super::input::{Event, Input};
use super::queues::Queues;
use crate::fabric::{QueuePairConfig, SendRequest, Side};
use crate::memory::Owner;

const SLOTS: u32 = 8;
const SLOT_BYTES: usize = 256;
const LONG_BYTES: usize = 8;

/// A queue pair's reading side reads `input`, so many bytes at once as its first byte says. A
/// receive that is filled is posted again unless the second byte says otherwise.
pub fn streams(input: &[u8]) {
    let Some((&[step, again], mut rest)) = input.split_first_chunk() else { return };
    let mut queues = queues();
    let mut input = Input::new(LONG_BYTES);
    let step = usize::from(step).max(1) * 8;
    while !rest.is_empty() && !queues.failed() {
        let lead = queues.posted() > queues.accepted();
        let fed = input.feed(&rest[..rest.len().min(step)], &mut queues, lead);
        rest = &rest[fed..];
        while let Some(event) = input.next(&mut queues) {
            match event {
                Event::Arrived { bytes, solicited, .. } => {
                    assert!(bytes as usize <= SLOT_BYTES, "TC-4");
                    queues.arrived(bytes, solicited);
                    if again & 1 == 0 {
                        repost(&mut queues);
                    }
                }
                // As if all that was posted had been written.
                Event::Accepted(count)
                    if u64::from(count) <= queues.posted() - queues.accepted() =>
                {
                    queues.accept(count.into());
                }
                Event::NotReady | Event::Asked => {}
                Event::Accepted(_) | Event::TooLong | Event::Refused(_) | Event::Garbage => return,
            }
        }
    }
}

fn queues() -> Queues {
    let config = QueuePairConfig {
        send_queue: SLOTS,
        recv_queue: SLOTS,
        inline_bytes: 0,
        rnr_retry: 0,
        side: Side::Acceptor,
        binding: Vec::new(),
    };
    let owner = Owner::new();
    let mut queues = Queues::new(&config, owner);
    let mut slots = owner.heap(2 * SLOTS as usize * SLOT_BYTES).into_slots(SLOT_BYTES);
    let sends = slots.split_off(SLOTS as usize);
    let send = |slot| SendRequest {
        slot,
        bytes: SLOT_BYTES as u32,
        splice: None,
        signaled: true,
        solicited: false,
        inline: false,
    };
    let posted = queues.post_send(&mut sends.into_iter().map(send).collect());
    posted.expect("there is room for them");
    queues.post_recv(&mut slots).expect("there is room for them");
    queues
}

/// Posts what was filled again.
fn repost(queues: &mut Queues) {
    let mut completions = Vec::new();
    queues.poll(&mut completions, SLOTS as usize);
    let mut slots = completions
        .into_iter()
        .filter(|completion| matches!(completion.work, crate::fabric::Work::Recv { .. }))
        .map(|completion| completion.slot)
        .collect();
    queues.post_recv(&mut slots).expect("they were taken out of it");
}
