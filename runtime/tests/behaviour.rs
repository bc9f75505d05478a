//! The promises about actors of other nodes, whatever fabric carries the link: one body of tests
//! for `sim`, `tcp`, `tcps` and `verbs`.
//!
//! A case takes a [`World`], which starts nodes on one fabric. It waits for events or for
//! [`until`](world::until), and never checks again without a pause: simulated time stands still
//! while any task can run. The laboratory runs the cases on `verbs`, and compares their names with
//! the cases that ran on the other fabrics. Elsewhere they say `SKIPPED` on `verbs`.

mod answering;
mod bank;
mod blocking;
mod depth;
mod ending;
mod gathering;
mod handing;
mod layouts;
mod leases;
mod lending;
mod naming;
mod protocols;
mod ranges;
mod regions;
mod sending;
mod spawning;
mod staying;
mod values;
mod versions;
mod watching;
mod withdrawing;
pub(crate) mod world;

use std::time::Duration;

use ringpost::test_kit;

use world::World;

/// Seeds of each case on `sim`, unless `RINGPOST_TEST_CASES` says how many. Each takes other
/// freedoms.
const SEEDS: u64 = 2;

/// Bounds a case that waits for something that never comes; also on a machine that is emulated.
const CASE_TIMEOUT: Duration = Duration::from_secs(120);

/// Calls the macro `$then` with all cases.
macro_rules! for_each_case {
    ($then:ident) => {
        $then! {
            answering: a_reference_that_comes_back_is_the_one_that_left;
            answering: an_answer_of_another_node_may_come_later_or_from_a_third_one;
            answering: an_inbox_is_told_by_another_node;
            answering: an_inbox_ends_after_the_last_message_of_the_actor_it_ends_with;
            answering: it_is_told_when_the_asker_gives_up;
            answering: many_asks_of_another_node_have_an_answer_each;
            answering: senders_that_wait_for_a_mailbox_of_another_node_lose_nothing;
            answering: sends_to_another_node_end_by_their_time_outs;
            answering: what_waits_for_an_actor_of_another_node_that_ends_is_accounted_for;
            blocking: a_region_is_reached_while_its_program_has_taken_all_threads;
            depth: a_value_that_is_too_deep_is_refused_where_it_is_written;
            ending: a_lookup_finds_what_has_the_name_now;
            ending: a_name_that_is_given_again_is_found_again;
            ending: a_node_that_leaves_is_reported_and_its_actors_are_out_of_reach;
            ending: a_panic_on_another_node_is_an_error_for_the_asker;
            ending: a_shutdown_from_a_handler_closes_the_links_too;
            ending: actors_of_another_node_are_stopped_drained_killed_and_waited_for;
            ending: an_end_is_waited_for_by_message_or_protocol;
            ending: ending_an_actor_of_another_node_that_has_ended_is_no_error;
            gathering: a_pool_is_used_from_another_node_by_its_router;
            gathering: a_pool_that_is_drained_answers_what_it_accepted_and_takes_nothing_more;
            gathering: an_asker_learns_by_way_of_a_router_why_it_has_no_answer;
            gathering: members_of_two_nodes_join_are_told_in_order_and_leave;
            layouts: builds_that_disagree_on_one_message_agree_on_the_others;
            layouts: references_with_names_that_are_none_are_no_archive;
            handing: memory_is_handed_over_to_an_actor_of_its_node;
            handing: a_region_that_is_not_shared_is_borrowed;
            leases: a_revocation_waits_for_one_that_is_under_way;
            leases: a_lease_ends_with_its_time_or_its_actor;
            leases: leases_are_renewed_together_and_end_apart;
            leases: the_holders_of_a_region_are_known;
            leases: a_node_gives_another_one_memory;
            leases: a_node_that_asks_for_too_much_takes_it_from_no_other;
            lending: messages_that_are_lent_arrive_whole_and_in_order;
            lending: what_is_lent_is_given_up_like_every_message;
            lending: nodes_lend_and_land_as_much_as_their_profiles_say;
            naming: a_client_that_comes_first_waits_for_what_it_knows_by_message_or_protocol;
            naming: a_name_of_an_actor_that_does_not_serve_is_told_by_the_wait_or_the_send;
            naming: references_that_follow_a_name_outlast_a_restart_of_its_node;
            protocols: a_client_knows_the_protocol_and_not_the_actor;
            protocols: a_lookup_names_the_first_message_that_is_not_served;
            ranges: many_ranges_are_written_before_one_message;
            regions: a_region_is_read_and_written_by_another_node;
            regions: a_part_of_a_region_is_shared_alone;
            regions: a_region_goes_on_from_node_to_node;
            regions: a_region_of_a_run_that_is_over_is_gone;
            regions: a_region_that_is_revoked_is_reached_no_more;
            regions: an_actor_is_told_after_the_write;
            regions: counters_of_a_region_are_shared_by_two_nodes;
            regions: elements_are_viewed_where_they_have_landed;
            regions: elements_are_drafted_and_written;
            regions: elements_of_any_plain_type_are_copied_whole;
            regions: what_a_region_does_not_allow_is_an_error_that_says_so;
            regions: what_has_returned_is_found_by_all_that_find_what_comes_after_it;
            sending: a_confirmed_tell_waits_for_its_fate;
            sending: an_actor_of_another_node_is_told_and_asked_like_one_of_this;
            sending: an_answer_larger_than_the_asker_takes_is_an_error_that_says_so;
            sending: lookups_on_another_node_say_what_is_wrong;
            sending: messages_of_all_sizes_keep_their_order_and_the_window_holds_the_sender_back;
            sending: references_cross_nodes_and_lead_back;
            sending: room_that_is_reserved_on_another_node_is_kept_for_its_message;
            sending: try_tell_says_that_an_actor_of_another_node_is_not_there;
            sending: without_a_link_try_tell_gives_the_message_back_and_says_so;
            spawning: a_node_that_shuts_down_ends_what_it_began_and_spawns_nothing_more;
            spawning: a_spawn_that_fails_says_why_and_leaves_no_actor;
            spawning: an_actor_is_spawned_on_another_node_that_offers_it;
            spawning: an_actor_that_is_held_ends_with_its_watcher_or_at_its_time;
            spawning: an_actor_that_is_watched_from_its_spawn_tells_how_it_ended;
            spawning: an_actor_whose_spawner_gave_up_while_it_started_lives;
            spawning: builds_that_disagree_on_the_arguments_spawn_nothing;
            spawning: of_two_nodes_that_spawn_under_one_name_one_does;
            staying: a_membership_that_cannot_be_says_why_and_one_without_a_place_waits;
            staying: a_membership_that_is_dropped_leaves_before_the_next_one_joins;
            staying: members_join_the_next_group_of_its_name_when_its_node_is_back;
            staying: members_stay_members_of_a_group_that_is_restarted;
            values: values_of_every_type_arrive_as_they_were_sent;
            versions: a_change_that_is_not_declared_is_a_mismatch_beside_versions_that_are;
            versions: a_group_tells_each_member_the_newest_form_that_its_node_knows;
            versions: a_new_node_sends_an_old_one_what_that_knows;
            versions: a_node_that_comes_back_newer_is_sent_the_new_fields;
            versions: a_protocol_leads_to_nodes_of_either_build;
            versions: an_offered_type_is_spawned_by_nodes_of_either_build;
            versions: an_old_node_is_understood_by_a_new_one;
            watching: a_watcher_of_another_node_is_told_each_kind_of_end;
            watching: an_actor_that_is_restarted_is_the_same_for_another_node;
            watching: an_actor_that_is_stopped_while_it_rests_has_stopped_for_another_node;
            watching: an_end_is_told_on_another_node_after_the_last_words;
            watching: a_watcher_is_told_how_an_actor_ended_whose_node_shuts_down;
            watching: watchers_of_two_nodes_are_told_once_and_one_that_watches_no_longer_is_not;
            withdrawing: a_type_that_is_withdrawn_is_spawned_no_more_until_it_is_offered_again;
        }
    };
}

async fn bounded(case: impl Future<Output = ()>) {
    tokio::time::timeout(CASE_TIMEOUT, case).await.expect("it waits for what never comes");
}

mod on_sim {
    use super::*;

    macro_rules! on_sim {
        ($($module:ident: $case:ident;)*) => { $(
            #[test]
            fn $case() {
                test_kit::check(0..SEEDS, |cluster| bounded(async {
                    $module::$case(&World::Sim(cluster)).await;
                }));
            }
        )* };
    }
    for_each_case!(on_sim);
}

mod on_tcp {
    use super::*;

    macro_rules! on_tcp {
        ($($module:ident: $case:ident;)*) => { $(
            #[tokio::test]
            async fn $case() {
                bounded($module::$case(&World::Tcp)).await;
            }
        )* };
    }
    for_each_case!(on_tcp);
}

mod on_tcps {
    use super::*;

    macro_rules! on_tcps {
        ($($module:ident: $case:ident;)*) => { $(
            #[tokio::test]
            async fn $case() {
                bounded($module::$case(&World::Tcps)).await;
            }
        )* };
    }
    for_each_case!(on_tcps);
}

#[cfg(feature = "verbs")]
mod on_verbs {
    use ringpost::net::{Entropy, VerbsConfig, VerbsFabric};

    use super::*;

    /// Says why there are no verbs, which must be there where the variable says so.
    fn skips(case: &str) -> bool {
        let Err(why) = VerbsFabric::new(VerbsConfig::default(), Entropy::os()) else {
            return false;
        };
        assert!(std::env::var_os("RINGPOST_REQUIRE_VERBS").is_none(), "{case}: {why}");
        eprintln!("SKIPPED {case}: {why}");
        true
    }

    macro_rules! on_verbs {
        ($($module:ident: $case:ident;)*) => { $(
            #[tokio::test]
            async fn $case() {
                if !skips(stringify!($case)) {
                    bounded($module::$case(&World::Verbs)).await;
                }
            }
        )* };
    }
    for_each_case!(on_verbs);
}

/// Prints how many cases each fabric has.
#[test]
fn every_fabric_has_every_case() {
    macro_rules! count {
        ($($module:ident: $case:ident;)*) => { [$(stringify!($case)),*].len() };
    }
    let cases = for_each_case!(count);
    let fabrics = if cfg!(feature = "verbs") { "sim, tcp, tcps, verbs" } else { "sim, tcp, tcps" };
    println!("behaviour: {cases} cases on each of {fabrics}, {SEEDS} seeds each on sim");
}
