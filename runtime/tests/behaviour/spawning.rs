//! Actors that are spawned on another node.

use std::time::Duration;

use futures::poll;
use ringpost::Local;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::spawn::{OfferError, Offered, RemoteSpawnCause, RemoteSpawnError};
use tokio::sync::mpsc;

use super::world::{World, end};
use crate::remote::PATIENCE;

/// The limit of waits that an event ends.
const LONG: Duration = Duration::from_secs(60);

/// How a worker begins.
#[message]
#[derive(Clone)]
pub enum Plan {
    Work,
    /// `create` fails, or panics.
    Refuse,
    PanicAtOnce,
    /// `on_start` fails, or panics.
    Fail,
    Panic,
    /// It ends as soon as it has started.
    StopSoon,
    PanicSoon,
    /// `on_start` waits for this one.
    Wait(ActorRef<Gate>),
}

pub struct Worker {
    plan: Plan,
}

#[actor]
impl Actor for Worker {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match &self.plan {
            Plan::Fail => return Err("no tools".into()),
            Plan::Panic => panic!("the ladder fell"),
            Plan::StopSoon => cx.stop(),
            Plan::PanicSoon => cx.actor().try_tell(Fall {})?,
            Plan::Wait(gate) => gate.pass().timeout(LONG).await?,
            _ => {}
        }
        Ok(())
    }
}

#[handlers]
impl Worker {
    #[handler]
    fn work(&self, amount: u64) -> u64 {
        2 * amount
    }

    #[handler]
    fn fall(&self) {
        panic!("the ladder fell")
    }
}

impl Offered for Worker {
    type Arguments = Plan;

    fn create(plan: Plan) -> Result<Self, BoxError> {
        match plan {
            Plan::Refuse => Err("no work".into()),
            Plan::PanicAtOnce => panic!("no ladder"),
            plan => Ok(Worker { plan }),
        }
    }
}

/// One of a type of which one may live.
#[actor]
struct Hermit;

#[handlers]
impl Hermit {}

impl Offered for Hermit {
    type Arguments = ();
    const LIVING_MAX: usize = 1;

    fn create((): ()) -> Result<Self, BoxError> {
        Ok(Hermit)
    }
}

/// Holds callers back until it is opened.
#[actor]
pub struct Gate {
    waiting: Vec<ReplyTo<()>>,
    /// Is sent to for each.
    came: mpsc::UnboundedSender<()>,
}

#[handlers]
impl Gate {
    #[handler]
    fn pass(&mut self, reply: ReplyTo<()>) {
        self.waiting.push(reply);
        self.came.send(()).unwrap();
    }

    #[handler]
    fn open(&mut self) {
        self.waiting.drain(..).for_each(|reply| reply.send(()));
    }
}

async fn gate(node: &Node) -> (ActorRef<Gate>, mpsc::UnboundedReceiver<()>) {
    let (came, comes) = mpsc::unbounded_channel();
    (node.spawn("gate", Gate { waiting: Vec::new(), came }).await.unwrap(), comes)
}

/// Spawns workers that it watches, and passes their ends on.
#[actor]
pub struct Master {
    ends: mpsc::UnboundedSender<Down>,
}

#[message(local)]
struct Hire(&'static str, Plan);

/// An order to place a worker on the node, and to give it up before it has begun.
#[message(local)]
struct Tease(Node, Plan, Duration);

#[handlers]
impl Master {
    #[handler]
    async fn hire(
        &mut self,
        msg: Hire,
        cx: &mut Context<Self>,
    ) -> Local<Result<ActorRef<Worker>, RemoteSpawnCause>> {
        let beta = cx.node().peer("beta");
        let hired = beta.spawn(msg.0, msg.1).watched_by(cx).await;
        Local(hired.map_err(|error| error.cause))
    }

    #[handler]
    async fn tease(&mut self, msg: Tease, cx: &mut Context<Self>) {
        let Tease(beta, plan, timeout) = msg;
        let spawn = cx.node().peer("beta").spawn::<Worker>("held", plan).timeout(timeout);
        let mut spawn = spawn.watched_by(cx);
        while beta.actor::<Worker>("held").await.is_err() {
            assert!(poll!(&mut spawn).is_pending());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        self.ends.send(msg).unwrap();
    }
}

fn cause(spawned: Result<ActorRef<Worker>, RemoteSpawnError>) -> RemoteSpawnCause {
    spawned.unwrap_err().cause
}

// Promised in docs/SEMANTICS.md.
pub async fn an_actor_is_spawned_on_another_node_that_offers_it(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.offer::<Worker>().unwrap();
    beta.offer::<Worker>().unwrap();
    for node in [&alpha, &beta] {
        let peer = node.peer("beta");
        let worker: ActorRef<Worker> = peer.spawn("worker", Plan::Work).await.unwrap();
        assert_eq!(worker.address().to_string(), "beta/worker");
        assert_eq!(worker.work(4).await, Ok(8));
        let found = alpha.actor::<Worker>("beta/worker").await.unwrap();
        assert_eq!((found.work(5).await, found == worker), (Ok(10), true));
        let spawned = peer.spawn_anonymous::<Worker>(Plan::Work).mailbox_capacity(1).await;
        let nameless = spawned.unwrap();
        assert_eq!((nameless.address().node(), nameless.address().name()), ("beta", None));
        assert_eq!(nameless.work(6).await, Ok(12));
        // It ends as any actor of its node does.
        worker.stop().await.unwrap();
        assert_eq!(worker.wait_stopped().await, ActorExit::Stopped);
    }
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn a_spawn_that_fails_says_why_and_leaves_no_actor(world: &World) {
    let [alpha, beta] = world.pair().await;
    let peer = alpha.peer("beta");
    let refused = peer.spawn::<Worker>("worker", Plan::Work).await.unwrap_err();
    assert_eq!(refused.cause, RemoteSpawnCause::NotOffered);
    assert_eq!((refused.node(), refused.actor()), ("beta", Worker::NAME));
    assert!(refused.is_retryable() && !refused.may_be_spawned());
    beta.offer::<Hermit>().unwrap();
    let refused = cause(peer.spawn("worker", Plan::Work).await);
    assert_eq!(refused, RemoteSpawnCause::NotOffered);
    beta.offer::<Worker>().unwrap();
    let text = String::from;
    for (plan, expected) in [
        (Plan::Refuse, RemoteSpawnCause::Refused(text("no work"))),
        (Plan::PanicAtOnce, RemoteSpawnCause::Panicked(text("no ladder"))),
        (Plan::Fail, RemoteSpawnCause::Start(text("no tools"))),
        (Plan::Panic, RemoteSpawnCause::Panicked(text("the ladder fell"))),
    ] {
        assert_eq!(cause(peer.spawn("worker", plan).await), expected);
        // The name is free again.
        let nobody = alpha.actor::<Worker>("beta/worker").await.unwrap_err();
        assert_eq!(nobody.cause(), Some(&Cause::NoSuchActor));
    }
    peer.spawn::<Worker>("worker", Plan::Work).await.unwrap();
    let taken = cause(peer.spawn("worker", Plan::Work).await);
    assert_eq!(taken, RemoteSpawnCause::NameTaken(text("worker")));
    for name in ["", "a/b", "#offer"] {
        let invalid = cause(peer.spawn(name, Plan::Work).await);
        assert!(matches!(invalid, RemoteSpawnCause::InvalidName(_)), "{invalid}");
    }
    let nowhere = cause(alpha.peer("be ta").spawn("worker", Plan::Work).await);
    assert!(matches!(nowhere, RemoteSpawnCause::InvalidNode(_)), "{nowhere}");
    let hermit = peer.spawn_anonymous::<Hermit>(()).await.unwrap();
    let second = peer.spawn_anonymous::<Hermit>(()).await.unwrap_err();
    assert_eq!(second.cause, RemoteSpawnCause::TooMany(1));
    hermit.stop().await.unwrap();
    // The count of living actors falls some time after the end.
    while let Err(error) = peer.spawn_anonymous::<Hermit>(()).await {
        assert_eq!(error.cause, RemoteSpawnCause::TooMany(1));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    end([alpha, beta]).await;
}

/// However soon it ends: the watch was there before it began.
// Promised in docs/SEMANTICS.md.
pub async fn an_actor_that_is_watched_from_its_spawn_tells_how_it_ended(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.offer::<Worker>().unwrap();
    for node in [&alpha, &beta] {
        let (ends, mut ended) = mpsc::unbounded_channel();
        let master = node.spawn("master", Master { ends }).await.unwrap();
        for _ in 0..8 {
            let failed = master.ask(Hire("worker", Plan::Fail)).await.unwrap().0;
            assert_eq!(failed, Err(RemoteSpawnCause::Start("no tools".into())));
            let hired = master.ask(Hire("worker", Plan::StopSoon)).await.unwrap().0;
            let worker = hired.unwrap();
            let down = ended.recv().await.unwrap();
            assert_eq!((&down.actor, down.exit), (worker.address(), ActorExit::Stopped));
            let hired = master.ask(Hire("worker", Plan::PanicSoon)).await.unwrap().0;
            let down = ended.recv().await.unwrap();
            assert_eq!(&down.actor, hired.unwrap().address());
            assert_eq!(down.exit, ActorExit::Panicked("the ladder fell".into()));
        }
        let hired = master.ask(Hire("worker", Plan::Work)).await.unwrap().0.unwrap();
        let taken = master.ask(Hire("worker", Plan::Work)).await.unwrap().0;
        assert_eq!(taken, Err(RemoteSpawnCause::NameTaken("worker".into())));
        assert_eq!(hired.work(1).await, Ok(2));
        hired.kill().await.unwrap();
        assert_eq!(ended.recv().await.unwrap().exit, ActorExit::Killed);
        // It was told nothing of actors that were not spawned.
        assert!(ended.try_recv().is_err());
    }
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn an_actor_whose_spawner_gave_up_while_it_started_lives(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.offer::<Worker>().unwrap();
    let (gate, mut came) = gate(&alpha).await;
    let peer = alpha.peer("beta");
    let mut dropped = peer.spawn::<Worker>("dropped", Plan::Wait(gate.clone()));
    tokio::select! {
        biased;
        spawned = &mut dropped => panic!("{spawned:?}"),
        _ = came.recv() => drop(dropped),
    }
    let late = peer.spawn::<Worker>("late", Plan::Wait(gate.clone()));
    let late = late.timeout(Duration::from_millis(200)).await.unwrap_err();
    assert!(late.may_be_spawned() && !late.is_retryable(), "{late}");
    assert_eq!(late.cause, RemoteSpawnCause::Unanswered(AskCause::Timeout));
    came.recv().await.unwrap();
    // Actors that start hold up no others.
    let quick: ActorRef<Worker> = peer.spawn("quick", Plan::Work).await.unwrap();
    assert_eq!(quick.work(1).await, Ok(2));
    gate.open().await.unwrap();
    for path in ["beta/dropped", "beta/late"] {
        let found = alpha.actor::<Worker>(path).await.unwrap();
        assert_eq!(found.work(3).await, Ok(6));
    }
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn an_actor_that_is_held_ends_with_its_watcher_or_at_its_time(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.offer::<Worker>().unwrap();
    let (gate, mut came) = gate(&alpha).await;
    let (ends, mut ended) = mpsc::unbounded_channel();
    let master = alpha.spawn("master", Master { ends }).await.unwrap();
    let waits = || Plan::Wait(gate.clone());
    for timeout in [Duration::from_millis(500), LONG * 60] {
        master.ask(Tease(beta.clone(), waits(), timeout)).timeout(LONG).await.unwrap();
        if timeout > LONG {
            master.stop().await.unwrap();
        }
        // Its name is free, and it never ran.
        let held = beta.actor::<Worker>("held").await;
        if let Ok(held) = held {
            assert_eq!(held.wait_stopped().await, ActorExit::Killed);
        }
        assert!(came.try_recv().is_err());
        let next: ActorRef<Worker> = alpha.peer("beta").spawn("held", Plan::Work).await.unwrap();
        next.stop().await.unwrap();
        next.wait_stopped().await;
    }
    // A node that shuts down does not wait for an actor that is held.
    let (ends, _) = mpsc::unbounded_channel();
    let master = alpha.spawn("another", Master { ends }).await.unwrap();
    master.ask(Tease(beta.clone(), waits(), LONG * 60)).timeout(LONG).await.unwrap();
    assert!(ended.try_recv().is_err() && came.try_recv().is_err());
    end([beta, alpha]).await;
}

pub async fn a_node_that_shuts_down_ends_what_it_began_and_spawns_nothing_more(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.offer::<Worker>().unwrap();
    let (gate, mut came) = gate(&alpha).await;
    let begun = alpha.peer("beta").spawn::<Worker>("begun", Plan::Wait(gate.clone()));
    let begun = tokio::spawn(begun.timeout(LONG));
    came.recv().await.unwrap();
    let mut events = alpha.events();
    let leaves = tokio::spawn({
        let beta = beta.clone();
        async move { beta.shutdown(LONG).await }
    });
    while !matches!(events.recv().await.unwrap(), NodeEvent::NodeLeaving { .. }) {}
    let refused = alpha.peer("beta").spawn::<Worker>("late", Plan::Work).await.unwrap_err();
    assert_eq!((&refused.cause, refused.is_retryable()), (&RemoteSpawnCause::Leaving, true));
    let refused = cause(beta.peer("beta").spawn("late", Plan::Work).await);
    assert_eq!(refused, RemoteSpawnCause::NotSent(Cause::Shutdown));
    assert_eq!(beta.offer::<Hermit>(), Err(OfferError::Shutdown));
    gate.open().await.unwrap();
    let begun = begun.await.unwrap().unwrap();
    assert_eq!(begun.address().to_string(), "beta/begun");
    assert_eq!(leaves.await.unwrap(), vec![]);
    alpha.shutdown(PATIENCE).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn of_two_nodes_that_spawn_under_one_name_one_does(world: &World) {
    let [alpha, beta] = world.pair().await;
    let gamma = world.node("gamma", &[&beta]).await;
    gamma.ready(1).await.unwrap();
    beta.offer::<Worker>().unwrap();
    for round in 0..8 {
        let name = format!("worker-{round}");
        let spawn = |node: &Node| node.peer("beta").spawn::<Worker>(&*name, Plan::Work);
        let (here, there) = tokio::join!(spawn(&alpha), spawn(&gamma));
        let (worker, refused) = match (here, there) {
            (Ok(worker), Err(refused)) | (Err(refused), Ok(worker)) => (worker, refused),
            both => panic!("{both:?}"),
        };
        assert_eq!(refused.cause, RemoteSpawnCause::NameTaken(name.clone()));
        assert_eq!(worker.work(1).await, Ok(2));
    }
    gamma.shutdown(PATIENCE).await;
    end([alpha, beta]).await;
}

/// Types as other builds might have them, under the name of this one's.
mod builds {
    use ringpost::prelude::*;
    use ringpost::spawn::Offered;

    macro_rules! build {
        ($build:ident, $letter:ty) => {
            pub mod $build {
                use super::*;

                pub type Letter = $letter;

                #[message(name = "letter")]
                pub struct Arguments {
                    #[message(opaque)]
                    pub letter: Letter,
                }

                #[actor(name = "speller")]
                pub struct Speller {
                    letter: Letter,
                }

                #[handlers]
                impl Speller {
                    #[handler(name = Spell)]
                    pub fn spell(&self) -> String {
                        self.letter.to_string()
                    }
                }

                impl Offered for Speller {
                    type Arguments = Arguments;

                    fn create(arguments: Arguments) -> Result<Self, BoxError> {
                        Ok(Speller { letter: arguments.letter })
                    }
                }
            }
        };
    }
    build!(ours, char);
    build!(trusted, u32);

    /// Of other arguments.
    #[actor(name = "speller")]
    pub struct Counter;

    #[handlers]
    impl Counter {}

    #[message(name = "letter")]
    pub struct Count {
        pub letters: u64,
    }

    impl Offered for Counter {
        type Arguments = Count;

        fn create(_: Count) -> Result<Self, BoxError> {
            Ok(Counter)
        }
    }

    /// Of arguments with another name.
    #[actor(name = "speller")]
    pub struct Stranger;

    #[handlers]
    impl Stranger {}

    impl Offered for Stranger {
        type Arguments = u64;

        fn create(_: u64) -> Result<Self, BoxError> {
            Ok(Stranger)
        }
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn builds_that_disagree_on_the_arguments_spawn_nothing(world: &World) {
    use builds::{Count, Counter, Stranger, ours, trusted};
    let [alpha, beta] = world.pair().await;
    beta.offer::<ours::Speller>().unwrap();
    let other = beta.offer::<Counter>();
    assert_eq!(other, Err(OfferError::OtherType("speller")));
    let peer = alpha.peer("beta");
    let differs = peer.spawn::<Counter>("speller", Count { letters: 1 }).await.unwrap_err();
    assert_eq!(differs.cause, RemoteSpawnCause::OtherArguments);
    let differs = peer.spawn::<Stranger>("speller", 1).await.unwrap_err();
    assert_eq!(differs.cause, RemoteSpawnCause::OtherArguments);
    // Trusted layouts that are wrong are found by the check of the bytes.
    let invalid = trusted::Arguments { letter: u32::MAX };
    let invalid = peer.spawn::<trusted::Speller>("speller", invalid).await.unwrap_err();
    assert_eq!(invalid.cause, RemoteSpawnCause::InvalidArguments);
    let letter = ours::Arguments { letter: 'x' };
    let speller: ActorRef<ours::Speller> = peer.spawn("speller", letter).await.unwrap();
    assert_eq!(speller.spell().await, Ok("x".into()));
    end([alpha, beta]).await;
}
