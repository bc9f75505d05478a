//! Snapshots and metrics of groups, pools, actors that other nodes spawned, and of actors that are
//! restarted together or were killed.

use std::any::type_name;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use ringpost::group::Group;
use ringpost::limits;
use ringpost::observe::{ActorState, ActorView};
use ringpost::pool::Pool;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Offered, Restart, Strategy, Supervisor};

use super::sums;
use crate::actors::{Hold, Note, Notebook, held, node};
use crate::remote::{end, pair};

/// Blocks its thread when it is told to, until the test comes to the barrier.
#[actor(name = "app::Guest")]
struct Guest;

static GATE: Barrier = Barrier::new(2);

#[handlers]
impl Guest {
    #[handler]
    fn block(&self) {
        GATE.wait();
    }
}

impl Offered for Guest {
    type Arguments = u64;
    const LIVING_MAX: usize = 1;

    fn create(number: u64) -> Result<Self, BoxError> {
        if number == 0 { Err("nobody".into()) } else { Ok(Guest) }
    }
}

/// Looks until an actor is so.
async fn until(node: &Node, path: &str, is_so: impl Fn(&ActorView) -> bool) -> ActorView {
    loop {
        let mut actors = node.snapshot().actors.into_iter();
        let of_path = |actor: &ActorView| actor.address.to_string() == path && is_so(actor);
        match actors.find(of_path) {
            Some(actor) => return actor,
            None => tokio::task::yield_now().await,
        }
    }
}

/// Writes T for each time in a drawing.
fn without_times(drawing: &str) -> String {
    let is_time = |word: &&str| word.parse::<f64>().is_ok() && word.contains('.');
    let words = drawing.split(' ').map(|word| if is_time(&word) { "T" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_snapshot_shows_groups_pools_and_actors_that_other_nodes_spawned() {
    let (alpha, beta) = pair().await;
    beta.offer::<Guest>().unwrap();
    alpha.peer("beta").spawn::<Guest>("guest", 1).await.unwrap();
    let pool = Pool::builder(Notebook::new).size(2).spawn(&beta, "pool").await.unwrap();
    let [first, second] = [0, 1].map(|worker| pool.workers()[worker].clone());
    second.fail().await.unwrap_err();
    let path = second.address().to_string();
    until(&beta, &path, |worker| worker.restarts == 1 && worker.state == ActorState::Running).await;
    let group: ActorRef<Group<Note>> = beta.spawn("room", Group::new()).await.unwrap();
    let member = held(&beta, 1).await;
    group.join(member.actor.recipient()).await.unwrap().unwrap();
    // One lies in the mailbox of its member, the other waits with the group.
    for number in 0..2 {
        group.tell(Note { number }).await.unwrap();
    }
    until(&beta, "beta/room", |room| room.tasks == 1 && room.in_hand.is_none()).await;

    until(&beta, "beta/held", |held| held.mailbox.senders == 1).await;
    let drawing = without_times(&beta.snapshot().tree().to_string());
    let (offer, rest) = drawing.split_once('\n').unwrap();
    assert!(offer.starts_with("beta/#offer-app::Guest-"), "{offer}");
    let spawner = format!("Spawner<{}>): running", type_name::<Guest>());
    assert!(offer.ends_with(&spawner), "{offer}");
    let (notebook, hold) = (Notebook::NAME, Hold::NAME);
    let worker = |worker: &ActorRef<Notebook>| {
        worker.address().to_string().replace("beta/", &format!("beta/{notebook}"))
    };
    let expected = format!(
        "beta/guest (app::Guest): running\n\
         beta/held ({notebook}): running, 1 message waiting, 1 sender waiting for room, \
         {hold} in hand for T s\n\
         beta/pool (ringpost::Pool): running\n\
         \x20 {}: running\n\
         \x20 {}: running, 1 restart\n\
         beta/room ({}): running, 1 task\n",
        worker(&first),
        worker(&second),
        type_name::<Group<Note>>(),
    );
    assert_eq!(rest, expected);
    member.gate.add_permits(1);
    end([alpha, beta]).await;
}

/// The clock that notes the beginning may be late, and so shows it too early.
#[tokio::test]
async fn the_age_of_a_message_in_hand_is_never_less_than_it_is() {
    let node = node().await;
    let member = held(&node, 1).await;
    let since = Instant::now();
    for _ in 0..100 {
        let known = since.elapsed();
        let age = node.snapshot().actors[0].in_hand.as_ref().unwrap().age;
        assert!(age >= known, "{age:?} is less than {known:?}");
        tokio::task::yield_now().await;
    }
    member.gate.add_permits(1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_counts_restarts_together_and_says_who_was_killed() {
    let node = node().await;
    let child = |name: &str| Child::new(Notebook::new).named(name);
    let both = Supervisor::new(Strategy::OneForAll).child(child("one")).child(child("two"));
    node.spawn("both", both).await.unwrap();
    node.actor::<Notebook>("two").await.unwrap().fail().await.unwrap_err();
    for path in ["alpha/one", "alpha/two"] {
        let restarted = |actor: &ActorView| actor.state == ActorState::Running;
        let actor = until(&node, path, |actor| actor.restarts == 1 && restarted(actor)).await;
        assert_eq!(actor.parent.map(|parent| parent.to_string()), Some("alpha/both".into()));
    }
    assert_eq!(until(&node, "alpha/both", |_| true).await.restarts, 0);
    let guest = node.spawn("guest", Guest).await.unwrap();
    guest.tell(Block).await.unwrap();
    let blocks = until(&node, "alpha/guest", |guest| guest.in_hand.is_some()).await;
    assert_eq!((blocks.state, blocks.mailbox.local), (ActorState::Running, 0));
    guest.kill().await.unwrap();
    until(&node, "alpha/guest", |guest| guest.state == ActorState::Killed).await;
    tokio::task::block_in_place(|| GATE.wait());
    assert_eq!(guest.wait_stopped().await, ActorExit::Killed);
}

#[tokio::test]
async fn metrics_count_what_members_of_groups_missed_and_what_others_had_spawned() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let node = node().await;
    let group: ActorRef<Group<Note>> = node.spawn("room", Group::new()).await.unwrap();
    let member = held(&node, 1).await;
    group.join(member.actor.recipient()).await.unwrap().unwrap();
    // One is in its mailbox, and as many wait for it as may.
    for number in 0..limits::GROUP_WAITING_MAX as u64 + 10 {
        group.tell(Note { number }).await.unwrap();
    }
    assert_eq!(group.size().await, Ok(1));
    node.offer::<Guest>().unwrap();
    let peer = node.peer("alpha");
    peer.spawn::<Guest>("guest", 0).await.unwrap_err();
    peer.spawn::<Guest>("held", 1).await.unwrap_err();
    peer.spawn::<Guest>("guest", 1).await.unwrap();
    peer.spawn::<Guest>("another", 1).await.unwrap_err();
    let sums = sums(&snapshotter);
    assert!((9..=10).contains(&sums["ringpost_group_missed_total full"]), "{sums:?}");
    let spawned = |outcome: &str| sums[&format!("ringpost_spawned_for_others_total {outcome}")];
    assert_eq!(["started", "refused", "name_taken", "too_many"].map(spawned), [1, 1, 1, 1]);
    member.gate.add_permits(1);
    node.shutdown(Duration::from_secs(5)).await;
}

/// Fails when it is told to.
#[actor(name = "app::Fuse")]
struct Fuse<T: Send + 'static>(PhantomData<T>);

#[handlers]
impl<T: Send + 'static> Fuse<T> {
    #[handler]
    fn blow(&mut self) {
        panic!("as it was told")
    }
}

/// Its arguments would make a series of each type of a program.
#[tokio::test]
async fn metrics_name_a_generic_actor_without_its_arguments() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let node = node().await;
    let one = node.supervise(Child::new(|| Fuse::<u8>(PhantomData))).await.unwrap();
    let two = node.spawn_anonymous(Fuse::<u16>(PhantomData)).await.unwrap();
    let never = Child::new(|| Fuse::<u32>(PhantomData)).restart(Restart::never());
    let three = node.supervise(never).await.unwrap();
    one.blow().await.unwrap_err();
    two.blow().await.unwrap_err();
    three.blow().await.unwrap_err();
    two.wait_stopped().await;
    three.wait_stopped().await;
    let _restarted = until(&node, &one.address().to_string(), |one| one.restarts == 1).await;
    node.shutdown(Duration::from_secs(5)).await;
    let mut counts = BTreeMap::new();
    for (key, (_, _, value)) in snapshotter.snapshot().into_hashmap() {
        let actor = key.key().labels().find(|label| label.key() == "actor");
        if let (Some(actor), DebugValue::Counter(count)) = (actor, value) {
            let series = (key.key().name().to_owned(), actor.value().to_owned());
            assert_eq!(counts.insert(series, count), None, "it is one series");
        }
    }
    let fuse = |name: &str, count| ((format!("ringpost_{name}_total"), "app::Fuse".into()), count);
    let wanted = [("actor_failures", 2), ("actor_restarts", 1), ("handlers_ended", 3)];
    assert_eq!(counts, wanted.map(|(name, count)| fuse(name, count)).into());
}
