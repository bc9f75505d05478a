//! One body of tests for every fabric: the promises of the contract ([`PV-1` to `PV-12`](super),
//! and from [`PV-13`](super::one_sided) on), checked on a pair of connected queue pairs.
//!
//! A case relies on the contract alone: it allows spurious notifications, and no fabric may be
//! kinder than the others. It waits by arming, polling and waiting, never by time. A case that
//! google/rdma-unit-test has, too, has the same name there. The checked-in list
//! `tests/softroce/conformance.txt`, which may only grow, holds the names.
//!
//! A fabric takes part by implementing [`Pairs`] and by making tests of the cases:
//!
//! ```ignore
//! macro_rules! tests {
//!     ($($case:ident)*) => { $(
//!         #[tokio::test]
//!         async fn $case() {
//!             conformance::bounded(stringify!($case), conformance::$case(&MyPairs::new())).await;
//!         }
//!     )* };
//! }
//! conformance::for_each_case!(tests);
//! ```

mod bounds;
mod close;
mod errors;
mod notify;
mod one_sided;
mod one_sided_pair;
mod pair;
mod send;
mod tail;

use std::time::Duration;

pub(crate) use bounds::*;
pub(crate) use close::*;
pub(crate) use errors::*;
pub(crate) use notify::*;
pub(crate) use one_sided::*;
#[cfg(any(feature = "sim", feature = "verbs"))]
pub(crate) use one_sided_pair::OneSidedPair;
#[cfg(feature = "verbs")]
pub(crate) use one_sided_pair::{OneSidedEnd, contents};
#[cfg(feature = "verbs")]
pub(crate) use pair::End;
pub(crate) use pair::{Pair, Pairs, Plan};
pub(crate) use send::*;
pub(crate) use tail::*;

/// Bounds a case that waits for something that never comes.
const CASE_TIMEOUT: Duration = Duration::from_secs(20);

/// Calls the macro `$then` with the names of all cases.
macro_rules! for_each_case {
    ($then:ident) => {
        $then! {
            basic_send zero_length_send full_length_send inline_send unsignaled_send
            order_and_batches_larger_than_queue both_directions_at_once
            recv_posted_before_connect memory_kept_alive
            flush_error_poll_together post_in_error_state
            full_submission_queue full_receive_queue send_exceed_max_inline_data inline_limits
            frame_longer_than_its_slot frame_longer_than_the_fabric_sends
            foreign_memory_is_refused more_than_the_limits cq_counts cq_overrun
            poll_takes_at_most_max
            recv_solicited_notify recv_any_notify send_completion_notify arm_is_not_weakened
            one_shot_arm_missed_event error_completion_is_solicited last_waker_is_woken
            post_wakes_another_task post_while_the_poller_sleeps
            close_idle close_twice_with_work close_with_unpolled_completions
            both_sides_close drop_closes
            peer_close_fails_sends peer_gone_fails_sends unusable_offer connect_dropped
            drop_unconnected connect_to_dropped_peer
            tailed_send tailed_both_ways tailed_limits tailed_memory_is_let_go tail_without_room
            basic_read basic_write grant_of_a_part zero_length_read_and_write long_read_and_write
            operations_in_order fetch_add compare_and_swap unaligned_atomic
            write_imm_data write_imm_data_rnr
            beyond_the_grant invalid_key access_that_was_not_granted revoked_grant
            refusal_by_one_that_goes
            full_operation_queue operation_longer_than_its_slot both_sides_operate_at_once
            close_flushes_operations peer_gone_fails_operations
        }
    };
}
pub(crate) use for_each_case;

/// As `for_each_case!`, with the cases of fabrics that acknowledge each frame (PV-5, PV-6).
macro_rules! for_each_acknowledged_case {
    ($then:ident) => {
        $then! {
            send_rnr send_rnr_after_some send_rnr_retry_failure send_rnr_retry_success
            send_with_too_small_recv unsignaled_send_error close_after_error
        }
    };
}
pub(crate) use for_each_acknowledged_case;

/// Runs one case, bounded in time.
pub(crate) async fn bounded(name: &str, case: impl Future<Output = ()>) {
    tokio::time::timeout(CASE_TIMEOUT, case)
        .await
        .unwrap_or_else(|_| panic!("{name}: waited for something that never came"));
}

/// The checked-in list, which may only grow, names every case. The laboratory compares it with the
/// cases that have run there.
#[test]
fn the_checked_in_list_names_every_case() {
    macro_rules! names {
        ($($case:ident)*) => { vec![$(stringify!($case)),*] };
    }
    let mut acknowledged = for_each_acknowledged_case!(names);
    let mut names = [for_each_case!(names), acknowledged.clone()].concat();
    names.sort_unstable();
    acknowledged.sort_unstable();
    let listed = include_str!("../../../tests/softroce/conformance.txt");
    assert_eq!(names, listed.lines().collect::<Vec<_>>());
    let listed = include_str!("../../../tests/softroce/acknowledged.txt");
    assert_eq!(acknowledged, listed.lines().collect::<Vec<_>>());
}
