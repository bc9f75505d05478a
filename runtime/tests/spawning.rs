//! Links and nodes that are lost while an actor is spawned on another node: at each moment of it.

mod keeping;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::poll;
use ringpost::Local;
use ringpost::observe::ActorState;
use ringpost::prelude::*;
use ringpost::spawn::{Offered, RemoteSpawnCause, RemoteSpawnError};
use ringpost::test_kit::{self, Cluster};
use tokio::sync::mpsc;

/// A spawn takes less than all of them on a link of the test kit.
const MOMENTS: u32 = 40;
const MOMENT: Duration = Duration::from_micros(50);

/// As long as a spawn waits, and longer than a lost node takes to be found down.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Answers once it runs.
#[actor]
struct Worker;

#[handlers]
impl Worker {
    #[handler]
    fn work(&self, amount: u64) -> u64 {
        2 * amount
    }
}

impl Offered for Worker {
    type Arguments = ();

    fn create((): ()) -> Result<Self, BoxError> {
        Ok(Worker)
    }
}

/// Spawns a worker on beta, and passes on how the one ended that it watches.
#[actor]
struct Master {
    ends: mpsc::UnboundedSender<Down>,
}

#[message(local)]
struct Hire {
    watched: bool,
}

type Hired = Result<ActorRef<Worker>, RemoteSpawnError>;

#[handlers]
impl Master {
    #[handler]
    async fn hire(&mut self, msg: Hire, cx: &mut Context<Self>) -> Local<Hired> {
        let spawn = cx.node().peer("beta").spawn::<Worker>("worker", ()).timeout(TIMEOUT);
        Local(if msg.watched { spawn.watched_by(cx).await } else { spawn.await })
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        self.ends.send(msg).unwrap();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// The connection of the messages.
    Data,
    /// All connections.
    Streams,
    /// Nothing passes until beta has found alpha down, and the other way round.
    Cut,
}

impl Loss {
    fn happen(self, cluster: &Cluster) {
        match self {
            Loss::Data => cluster.world().sever_data("alpha", "beta"),
            Loss::Streams => cluster.world().sever_streams("alpha", "beta"),
            Loss::Cut => cluster.cut("alpha", "beta"),
        }
    }
}

/// Spawns a worker, loses the link at this moment, and checks the remains when all time-outs have
/// passed. Returns the outcome for the spawner.
async fn lose(cluster: Cluster, loss: Loss, moment: Duration, watched: bool) -> &'static str {
    let [alpha, beta] = [cluster.node("alpha").await, cluster.node("beta").await];
    beta.offer::<Worker>().unwrap();
    let (ends, mut ended) = mpsc::unbounded_channel();
    let master = alpha.spawn("master", Master { ends }).await.unwrap();
    let hired = async { master.ask(Hire { watched }).timeout(3 * TIMEOUT).await.unwrap().0 };
    let lost = async {
        cluster.sleep(moment).await;
        loss.happen(&cluster);
    };
    let (hired, ()) = tokio::join!(hired, lost);
    cluster.sleep(2 * TIMEOUT).await;
    cluster.mend_all();
    cluster.settle().await;
    let runs = runs(&beta).await;
    let down = ended.try_recv().ok();
    match hired {
        Ok(worker) => {
            assert!(runs, "it lives where it was spawned, whatever becomes of the link");
            if let Some(down) = down {
                assert!(watched && down.actor == *worker.address(), "{down:?}");
            }
            assert_eq!(worker.work(2).await, Ok(4));
            "spawned"
        }
        Err(error) => {
            assert!(down.is_none(), "of what it was not given it is told nothing: {down:?}");
            assert!(!runs || error.may_be_spawned(), "{error}");
            match error.cause {
                RemoteSpawnCause::NotSent(_) => "not sent",
                RemoteSpawnCause::NotBegun(_) => "not begun",
                RemoteSpawnCause::Unanswered(_) if runs => "unanswered, and it runs",
                RemoteSpawnCause::Unanswered(_) => "unanswered",
                other => panic!("{other}"),
            }
        }
    }
}

/// Returns true if a worker runs there. None is held any more.
async fn runs(beta: &Node) -> bool {
    let workers = beta.snapshot().actors.into_iter();
    let states: Vec<_> =
        workers.filter(|actor| actor.kind == Worker::NAME).map(|actor| actor.state).collect();
    assert!(states.iter().all(|state| *state == ActorState::Running), "{states:?}");
    !states.is_empty()
}

/// Returns how often the spawner got what, over all moments and losses.
fn outcomes(watched: bool) -> BTreeMap<&'static str, usize> {
    let mut outcomes = BTreeMap::new();
    for loss in [Loss::Data, Loss::Streams, Loss::Cut] {
        for moment in 0..MOMENTS {
            let lose = |cluster| lose(cluster, loss, moment * MOMENT, watched);
            *outcomes.entry(test_kit::run(u64::from(moment), lose)).or_default() += 1;
        }
        println!("watched: {watched}, up to {loss:?}: {outcomes:?}");
    }
    outcomes
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_lost_at_any_step_of_a_spawn_leaves_what_the_spawner_was_told() {
    let outcomes = outcomes(false);
    let found: Vec<_> = outcomes.keys().copied().collect();
    assert_eq!(found, ["not sent", "spawned", "unanswered", "unanswered, and it runs"]);
}

/// An actor that is held ends without having run, unless it was told to begin.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_lost_at_any_step_of_a_watched_spawn_leaves_what_the_spawner_was_told() {
    let outcomes = outcomes(true);
    let found: Vec<_> = outcomes.keys().copied().collect();
    let all = ["not begun", "not sent", "spawned", "unanswered", "unanswered, and it runs"];
    assert_eq!(found, all);
}

/// The node of the spawner is killed: no actor is held for it for ever.
#[test]
fn a_spawner_whose_node_is_lost_at_any_step_leaves_no_actor_that_is_held() {
    for watched in [false, true] {
        let mut living = 0;
        for moment in 0..MOMENTS {
            living += usize::from(test_kit::run(u64::from(moment), |cluster| async move {
                let [alpha, beta] = [cluster.node("alpha").await, cluster.node("beta").await];
                beta.offer::<Worker>().unwrap();
                let (ends, _ended) = mpsc::unbounded_channel();
                let master = alpha.spawn("master", Master { ends }).await.unwrap();
                let mut hired = Box::pin(async { master.ask(Hire { watched }).await.is_ok() });
                assert!(poll!(&mut hired).is_pending());
                cluster.sleep(moment * MOMENT).await;
                cluster.kill("alpha").await;
                drop(hired);
                cluster.sleep(2 * TIMEOUT).await;
                runs(&beta).await
            }));
        }
        // In all but the first moments it was told to begin.
        assert!((1..MOMENTS as usize).contains(&living), "{living} of {MOMENTS}");
    }
}
