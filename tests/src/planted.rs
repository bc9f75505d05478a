//! Planted bugs that the random scenarios cannot show: each fails a named test of `nodes` in their
//! place. They are named by text, as a process is told which one to switch on.

/// The environment variable that names the bug which a process switches on.
pub const PLANTED: &str = "RINGPOST_PLANTED";

/// Such bugs, and the test that each fails. Memory, archives, the order of fragments, the runtime's
/// own asks and the number of frames are not seen by the judge of the scenarios.
pub const SHOWN_BY_NODES: [(&str, &str); 7] = [
    (
        "EndlessReplies",
        "pressure::replies::a_responder_whose_askers_give_up_stays_small_and_answers_others",
    ),
    ("ArchivedAgain", "pressure::archive::a_tell_that_waits_for_room_is_archived_once"),
    ("OneStream", "pressure::streams::a_reply_does_not_wait_for_the_end_of_a_large_tell"),
    (
        "HandledAbandoned",
        "pressure::abandoned::\
         asks_that_are_dropped_before_they_are_begun_are_not_handled_on_another_node",
    ),
    (
        "FreshDeadline",
        "pressure::abandoned::\
         asks_whose_deadline_passes_while_their_node_stands_still_are_not_handled",
    ),
    (
        "LinePerReference",
        "pressure::lines::\
         a_large_message_does_not_starve_behind_small_ones_of_another_reference",
    ),
    ("WakeAll", "pressure::waiters::a_thousand_waiting_senders_need_few_more_frames_than_one"),
];

/// Switches on the bug that [`PLANTED`] names, if any. Each node of a test calls it, in whatever
/// process it is; a build without planted bugs has nothing to switch on.
///
/// # Panics
/// When no bug has that name.
pub fn plant_named() {
    #[cfg(feature = "mutants")]
    if let Ok(name) = std::env::var(PLANTED) {
        let bug = ringpost_transport::mutants::ALL
            .into_iter()
            .find(|bug| format!("{bug:?}") == name)
            .unwrap_or_else(|| panic!("no planted bug is called {name}"));
        ringpost_transport::mutants::plant(Some(bug));
    }
}
