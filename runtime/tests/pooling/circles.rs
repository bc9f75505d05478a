//! Workers that send to their own pool, while others wait for them.

mod routed;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use ringpost::DeadLetterCause;
use ringpost::pool::{Pool, PoolBuilder, Router};
use ringpost::prelude::*;
use tokio::sync::Semaphore;

use super::{MINUTE, until_in_hand};
use crate::actors::node;

/// Sends to its own pool.
#[actor]
struct Member {
    pool: Arc<OnceLock<Pool<Member>>>,
}

#[handlers]
impl Member {
    /// Has the second worker tell the pool when the gate is open, and waits for that.
    #[handler(local)]
    async fn have_told(&mut self, gate: Arc<Semaphore>) -> Result<(), String> {
        let second = self.pool().workers().remove(1);
        let told = second.ask(TellPool { gate }).timeout(MINUTE).await;
        told.map_err(|error| error.to_string())?
    }

    /// Has the second worker ask the pool when the gate is open, and waits for that.
    #[handler(local)]
    async fn have_asked(&mut self, gate: Arc<Semaphore>) -> Result<String, String> {
        let second = self.pool().workers().remove(1);
        let asked = second.ask(AskPool { gate }).timeout(MINUTE).await;
        asked.map_err(|error| error.to_string())?
    }

    #[handler(local)]
    async fn ask_pool(&mut self, gate: Arc<Semaphore>) -> Result<String, String> {
        gate.acquire().await.unwrap().forget();
        let asked = self.pool().ask(WhoAnswers).timeout(MINUTE).await;
        asked.map_err(|error| error.to_string())
    }

    #[handler(local)]
    async fn tell_pool(&mut self, gate: Arc<Semaphore>) -> Result<(), String> {
        gate.acquire().await.unwrap().forget();
        self.pool().tell(WhoAnswers).await.map_err(|error| error.to_string())
    }

    /// Waits for the end of a router when the gate is open; `drains` it before.
    #[handler(local)]
    async fn wait_for_router(
        &mut self,
        router: ActorRef<Router<Member, WhoAnswers>>,
        drains: bool,
        gate: Arc<Semaphore>,
    ) -> String {
        gate.acquire().await.unwrap().forget();
        if drains {
            router.drain().await.unwrap();
        }
        router.wait_stopped().await.to_string()
    }

    /// Asks a router of its own pool when the gate is open.
    #[handler(local)]
    async fn ask_router(
        &mut self,
        router: ActorRef<Router<Member, WhoAnswers>>,
        gate: Arc<Semaphore>,
    ) -> String {
        gate.acquire().await.unwrap().forget();
        let asked = router.ask(WhoAnswers).timeout(MINUTE).await;
        asked.unwrap_or_else(|error| error.cause.to_string())
    }

    /// Asks the second worker when the gate is open.
    #[handler(local)]
    async fn ask_second(&mut self, gate: Arc<Semaphore>) -> Result<String, String> {
        gate.acquire().await.unwrap().forget();
        let second = self.pool().workers().remove(1);
        let asked = second.ask(WhoAnswers).timeout(MINUTE).await;
        asked.map_err(|error| error.to_string())
    }

    /// Returns the address of the worker.
    #[handler]
    fn who_answers(&self, cx: &mut Context<Self>) -> String {
        cx.actor().address().to_string()
    }

    /// Waits until the gate is open, and may take nothing more meanwhile.
    #[handler(local)]
    async fn wait_here(&mut self, gate: Arc<Semaphore>, stops: bool, cx: &mut Context<Self>) {
        if stops {
            cx.stop();
        }
        gate.acquire().await.unwrap().forget();
    }
}

impl Member {
    fn pool(&self) -> &Pool<Member> {
        self.pool.get().expect("it was spawned")
    }
}

/// A pool of three workers, with room for one message in each mailbox.
struct Team {
    node: Node,
    pool: Pool<Member>,
    workers: [ActorRef<Member>; 3],
}

impl Team {
    async fn new() -> Self {
        Team::of(|pool| pool).await
    }

    /// Has all messages with a key go to the worker in this place.
    async fn keyed(place: usize) -> Self {
        for key in 0_u64.. {
            let team = Team::of(|pool| pool.by_key(move |_: &WhoAnswers| key)).await;
            let answered = team.pool.ask(WhoAnswers).await.unwrap();
            if answered == team.workers[place].address().to_string() {
                return team;
            }
        }
        unreachable!("some key goes there")
    }

    async fn of(describe: impl FnOnce(PoolBuilder<Member>) -> PoolBuilder<Member>) -> Self {
        let node = node().await;
        let cell = Arc::new(OnceLock::new());
        let own = cell.clone();
        let pool = describe(Pool::builder(move || Member { pool: own.clone() }));
        let pool = pool.size(3).mailbox_capacity(1).spawn(&node, "pool").await.unwrap();
        assert!(cell.set(pool.clone()).is_ok());
        let workers = pool.workers().try_into().unwrap();
        Team { node, pool, workers }
    }

    /// Has a worker wait in a handler; returns its gate. It is full then, or takes nothing.
    async fn hold(&self, place: usize, stops: bool) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.workers[place].tell(WaitHere { gate: gate.clone(), stops }).await.unwrap();
        until_in_hand(&self.node, "WaitHere").await;
        if !stops {
            self.workers[place].tell(WhoAnswers).await.unwrap();
        }
        gate
    }
}

/// Lets all go on as far as it does.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// The first worker waits for the second one, which tells its pool; the first one is full, and the
/// third one takes the message when it was made anew.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_tells_its_pool_waits_for_one_that_is_made_anew() {
    let team = Team::new().await;
    let [first, second, _] = &team.workers;
    let third = team.hold(2, true).await;
    let gate = Arc::new(Semaphore::new(0));
    let mut asked = first.ask(HaveTold { gate: gate.clone() }).timeout(MINUTE);
    assert!(futures::poll!(&mut asked).is_pending());
    until_in_hand(&team.node, "TellPool").await;
    for full in [first, second] {
        full.tell(WhoAnswers).await.unwrap();
    }
    assert_eq!(team.pool.try_tell(WhoAnswers).unwrap_err().cause, Cause::MailboxFull);
    gate.add_permits(1);
    settle().await;
    third.add_permits(1);
    assert_eq!(asked.await, Ok(Ok(())));
}

/// The first worker waits for the second one, which asks its pool: it waits for the third one,
/// though the first one has room. That is full, or made anew.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_asks_its_pool_waits_for_one_that_does_not_wait_for_it() {
    for stops in [false, true] {
        let team = Team::new().await;
        let [first, _, third] = &team.workers;
        let held = team.hold(2, stops).await;
        let gate = Arc::new(Semaphore::new(0));
        let mut asked = first.ask(HaveAsked { gate: gate.clone() }).timeout(MINUTE);
        assert!(futures::poll!(&mut asked).is_pending());
        until_in_hand(&team.node, "AskPool").await;
        gate.add_permits(1);
        settle().await;
        assert!(futures::poll!(&mut asked).is_pending());
        held.add_permits(1);
        assert_eq!(asked.await, Ok(Ok(third.address().to_string())), "stops: {stops}");
    }
}

/// The second worker waits for room. The third one has some when it begins to ask the second one:
/// the first one answers.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_asks_its_pool_goes_on_when_the_one_with_room_waits_for_it() {
    let team = Team::new().await;
    let [first, second, third] = &team.workers;
    let held = team.hold(0, false).await;
    let [gate, busy, open] = [0, 0, 1].map(|permits| Arc::new(Semaphore::new(permits)));
    third.tell(WaitHere { gate: busy.clone(), stops: false }).await.unwrap();
    settle().await;
    let mut other = third.ask(HaveAsked { gate: open }).timeout(MINUTE);
    assert!(futures::poll!(&mut other).is_pending());
    let mut asked = second.ask(AskPool { gate: gate.clone() }).timeout(MINUTE);
    assert!(futures::poll!(&mut asked).is_pending());
    until_in_hand(&team.node, "AskPool").await;
    gate.add_permits(1);
    settle().await;
    busy.add_permits(1);
    settle().await;
    assert!(futures::poll!(&mut asked).is_pending());
    held.add_permits(1);
    assert_eq!(asked.await, Ok(Ok(first.address().to_string())));
    // The second one asks for the third one then.
    assert_eq!(other.await, Ok(Ok(first.address().to_string())));
}

/// The others take nothing any more, and are made anew later: it waits for that, but not when the
/// pool is stopped, which waits for it.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_for_one_that_is_made_anew_is_told_when_the_pool_is_stopped() {
    let team = Team::new().await;
    let [first, second, third] = &team.workers;
    let gates = [team.hold(1, true).await, team.hold(2, true).await];
    let gate = Arc::new(Semaphore::new(0));
    let mut asked = first.ask(TellPool { gate: gate.clone() }).timeout(MINUTE);
    assert!(futures::poll!(&mut asked).is_pending());
    until_in_hand(&team.node, "TellPool").await;
    first.tell(WhoAnswers).await.unwrap();
    gate.add_permits(1);
    settle().await;
    assert!(futures::poll!(&mut asked).is_pending());
    let mut outside = Box::pin(team.pool.tell(WhoAnswers));
    assert!(futures::poll!(&mut outside).is_pending());
    team.pool.supervisor().stop().await.unwrap();
    let told = asked.await.expect("its handler was not killed");
    assert!(told.unwrap_err().contains(&Cause::Stopped.to_string()));
    assert_eq!(outside.await.unwrap_err().cause, Cause::Stopped);
    for worker in [second, third] {
        assert!(futures::poll!(Box::pin(worker.wait_stopped())).is_pending());
    }
    gates.iter().for_each(|gate| gate.add_permits(1));
    assert_eq!(team.pool.supervisor().wait_stopped().await, ActorExit::Stopped);
}

/// Has all workers wait for the end of a router, which has messages that wait for room at them.
/// Returns what the first of them learns, and the answer of the last ask of the router.
async fn wait_for_router_of(team: &Team, is_late: bool) -> (String, Result<String, AskError>) {
    let router = team.node.spawn("router", team.pool.router::<WhoAnswers>()).await.unwrap();
    let gate = Arc::new(Semaphore::new(if is_late { 3 } else { 0 }));
    let wait_here = |(place, worker): (usize, &ActorRef<Member>)| {
        let (router, gate) = (router.clone(), gate.clone());
        // The last one drains it, when all of them wait.
        let msg = WaitForRouter { router, drains: place == 2 && !is_late, gate };
        worker.ask(msg).timeout(MINUTE).into_ask()
    };
    let waits: Vec<_> = team.workers.iter().enumerate().map(wait_here).collect();
    let waits = tokio::spawn(futures::future::join_all(waits));
    settle().await;
    for worker in &team.workers {
        worker.tell(WhoAnswers).await.unwrap();
    }
    router.tell(WhoAnswers).await.unwrap();
    let asked = tokio::spawn(router.ask(WhoAnswers).timeout(MINUTE).into_ask());
    settle().await;
    gate.add_permits(3);
    if is_late {
        router.drain().await.unwrap();
    }
    let exit = waits.await.unwrap().remove(0).expect("it does not wait for ever");
    (exit, asked.await.unwrap())
}

/// No worker takes what the router has before it has ended: it goes on without it, and is handled.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_router_does_not_wait_for_workers_that_wait_for_its_end() {
    for is_late in [false, true] {
        let log = crate::log::Log::default();
        let _listening = log.listen();
        let team = Team::new().await;
        let (exit, answer) = wait_for_router_of(&team, is_late).await;
        assert_eq!(exit, ActorExit::Stopped.to_string());
        let names = team.workers.each_ref().map(|worker| worker.address().to_string());
        assert!(names.contains(&answer.unwrap()), "is late: {is_late}");
        settle().await;
        assert_eq!(team.node.dead_letters().count(DeadLetterCause::Stopped), 0);
        assert_eq!(log.count("a router that is drained does not wait for its workers"), 1);
    }
}

/// Another worker takes them: the router waits for that, though one waits for its end.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_router_waits_for_a_worker_that_does_not_wait_for_its_end() {
    for stops in [false, true] {
        let team = Team::new().await;
        let [first, second, third] = &team.workers;
        let router = team.node.spawn("router", team.pool.router::<WhoAnswers>()).await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let gates = [team.hold(1, false).await, team.hold(2, stops).await];
        let wait = WaitForRouter { router: router.clone(), drains: true, gate: gate.clone() };
        let mut waits = first.ask(wait).timeout(MINUTE);
        assert!(futures::poll!(&mut waits).is_pending());
        settle().await;
        first.tell(WhoAnswers).await.unwrap();
        let asked = tokio::spawn(router.ask(WhoAnswers).timeout(MINUTE).into_ask());
        settle().await;
        gate.add_permits(1);
        settle().await;
        assert!(futures::poll!(&mut waits).is_pending(), "stops: {stops}");
        gates[1].add_permits(1);
        assert_eq!(waits.await, Ok(ActorExit::Stopped.to_string()));
        assert_eq!(asked.await.unwrap(), Ok(third.address().to_string()));
        drop((second.kill().await, &gates[0]));
    }
}

/// A router has an ask of a program when all workers wait for the router: for an answer, or for its
/// end. It does not wait for them, and the ask closes no circle: a worker answers it later.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_routed_ask_of_a_program_is_answered_by_a_worker_that_waits_for_the_router() {
    for ends in [false, true] {
        let team = Team::new().await;
        let router = team.node.spawn("router", team.pool.router::<WhoAnswers>()).await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let wait = |(place, worker): (usize, &ActorRef<Member>)| {
            let (router, gate) = (router.clone(), gate.clone());
            if ends {
                let msg = WaitForRouter { router, drains: place == 2, gate };
                worker.ask(msg).timeout(MINUTE).into_ask().boxed()
            } else {
                worker.ask(AskRouter { router, gate }).timeout(MINUTE).into_ask().boxed()
            }
        };
        let waits: Vec<_> = team.workers.iter().enumerate().map(wait).collect();
        let waits = tokio::spawn(futures::future::join_all(waits));
        settle().await;
        gate.add_permits(3);
        // The workers go on before the router does, which has this first.
        let mut asked = router.ask(WhoAnswers).timeout(MINUTE);
        assert!(futures::poll!(&mut asked).is_pending());
        let start = tokio::time::Instant::now();
        let names = team.workers.each_ref().map(|worker| worker.address().to_string());
        assert!(names.contains(&asked.await.unwrap()), "ends: {ends}");
        let waits: Vec<String> = waits.await.unwrap().into_iter().map(Result::unwrap).collect();
        // The first ask of a worker closes a circle.
        let circles = waits.iter().filter(|text| **text == AskCause::NoReply.to_string()).count();
        assert_eq!(circles, usize::from(!ends), "{waits:?}");
        assert!(start.elapsed() < MINUTE / 2, "ends: {ends}: {waits:?}");
    }
}

/// The first worker waited for the router when that took a message of a program, and the others are
/// full: when the first one has room again it has the message. So it has when another one waits for
/// the end of the router then.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn what_a_router_took_while_a_worker_waited_for_it_goes_to_that_one_when_it_has_room() {
    for (is_told, waits) in [(true, false), (false, false), (true, true), (false, true)] {
        let team = Team::new().await;
        let [first, second, _] = &team.workers;
        let router = team.node.spawn("router", team.pool.router::<WhoAnswers>()).await.unwrap();
        let [gate, end] = [0, 0].map(|permits| Arc::new(Semaphore::new(permits)));
        let wait = WaitForRouter { router: router.clone(), drains: true, gate: end.clone() };
        let wait = tokio::spawn(second.ask(wait).timeout(9 * MINUTE).into_ask());
        let held = team.hold(2, false).await;
        let ask = AskRouter { router: router.clone(), gate: gate.clone() };
        let late = tokio::spawn(first.ask(ask).timeout(9 * MINUTE).into_ask());
        settle().await;
        for full in [first, second] {
            full.tell(WhoAnswers).await.unwrap();
        }
        gate.add_permits(1);
        // The worker goes on before the router does, which has this first.
        let mut asked = router.ask(WhoAnswers).timeout(9 * MINUTE);
        if is_told {
            router.try_tell(WhoAnswers).unwrap();
        } else {
            assert!(futures::poll!(&mut asked).is_pending());
        }
        // It gives up its own ask, which came after that, and goes on.
        late.await.unwrap().unwrap();
        settle().await;
        if waits {
            end.add_permits(1);
            assert_eq!(wait.await.unwrap(), Ok(ActorExit::Stopped.to_string()), "{is_told}");
        } else {
            router.drain().await.unwrap();
            let ends = tokio::time::timeout(MINUTE, router.wait_stopped()).await;
            assert_eq!(ends, Ok(ActorExit::Stopped), "{is_told}");
        }
        if !is_told {
            assert_eq!(asked.await, Ok(first.address().to_string()));
        }
        drop(held);
    }
}

/// One of the routers has the number that the second worker has on its own node: the first worker,
/// which waits for the second one, does not wait for it.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_router_on_another_node_than_its_pool_is_taken_for_no_actor_there() {
    let team = Team::keyed(0).await;
    let [first, ..] = &team.workers;
    let other = Node::builder("beta").start().await.unwrap();
    let mut routers = Vec::new();
    for _ in 0..8 {
        routers.push(other.spawn_anonymous(team.pool.router::<WhoAnswers>()).await.unwrap());
    }
    let held = team.hold(1, false).await;
    let gate = Arc::new(Semaphore::new(1));
    let asked = tokio::spawn(first.ask(AskSecond { gate }).timeout(MINUTE).into_ask());
    settle().await;
    first.tell(WhoAnswers).await.unwrap();
    for router in &routers {
        router.tell(WhoAnswers).await.unwrap();
        router.drain().await.unwrap();
    }
    tokio::time::sleep(MINUTE / 2).await;
    for router in &routers {
        assert!(futures::poll!(Box::pin(router.wait_stopped())).is_pending());
    }
    held.add_permits(1);
    assert!(asked.await.unwrap().unwrap().is_ok());
    for router in &routers {
        assert_eq!(router.wait_stopped().await, ActorExit::Stopped);
    }
}

/// A pool with a router that is drained, whose message waits for room, and a worker that waits for
/// the router's end. Only then it comes about that all workers which may take the message do.
struct Drained {
    team: Team,
    router: ActorRef<Router<Member, WhoAnswers>>,
    /// Of the workers that wait for the router.
    gate: Arc<Semaphore>,
    waits: Vec<tokio::task::JoinHandle<Result<String, AskError>>>,
}

impl Drained {
    /// Has the workers in these places wait for the router when the gate is open; they are full.
    async fn new(team: Team, places: &[usize]) -> Self {
        let router = team.node.spawn("router", team.pool.router::<WhoAnswers>()).await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let mut waits = Vec::new();
        for place in places {
            let (router, gate) = (router.clone(), gate.clone());
            let wait = WaitForRouter { router, drains: false, gate };
            let worker = &team.workers[*place];
            waits.push(tokio::spawn(worker.ask(wait).timeout(MINUTE).into_ask()));
            settle().await;
            worker.tell(WhoAnswers).await.unwrap();
        }
        Drained { team, router, gate, waits }
    }

    /// Has the router have a message, and drains it.
    async fn drain(&self) {
        self.router.tell(WhoAnswers).await.unwrap();
        settle().await;
        self.router.drain().await.unwrap();
        settle().await;
    }

    /// Has the workers wait for the router, which waits for the others.
    async fn wait(&self) {
        self.gate.add_permits(self.waits.len());
        settle().await;
        let router = Box::pin(self.router.wait_stopped());
        assert!(futures::poll!(router).is_pending());
    }

    /// The router ends at once; its message goes on without it.
    async fn ends(self) {
        let start = tokio::time::Instant::now();
        for wait in self.waits {
            assert_eq!(wait.await.unwrap(), Ok(ActorExit::Stopped.to_string()));
        }
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        settle().await;
        assert_eq!(self.team.node.dead_letters().count(DeadLetterCause::Stopped), 0);
    }
}

/// The first worker asks the second one, which waits for the router already, or does then.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_router_does_not_wait_for_a_worker_that_waits_for_one_that_waits_for_its_end() {
    for is_late in [false, true] {
        let drained = Drained::new(Team::new().await, &[1, 2]).await;
        let [first, ..] = &drained.team.workers;
        let gate = Arc::new(Semaphore::new(0));
        let asked = first.ask(AskSecond { gate: gate.clone() }).timeout(MINUTE).into_ask();
        let asked = tokio::spawn(asked);
        settle().await;
        first.tell(WhoAnswers).await.unwrap();
        drained.drain().await;
        if is_late {
            gate.add_permits(1);
            settle().await;
            drained.gate.add_permits(2);
        } else {
            drained.wait().await;
            gate.add_permits(1);
        }
        drained.ends().await;
        assert!(asked.await.unwrap().unwrap().is_ok(), "is late: {is_late}");
    }
}

/// The others are removed; or the only one is that of the key, which goes to another one then.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_router_does_not_wait_for_workers_that_are_left_and_wait_for_its_end() {
    for is_keyed in [false, true] {
        let team = if is_keyed { Team::keyed(2).await } else { Team::new().await };
        let drained = Drained::new(team, &[0]).await;
        let gates = [drained.team.hold(1, false).await, drained.team.hold(2, false).await];
        drained.drain().await;
        drained.wait().await;
        drained.team.pool.resize(1).await.unwrap();
        drained.ends().await;
        gates.iter().for_each(|gate| gate.add_permits(1));
    }
}

/// The last room of the only worker is for a sender that takes it when the worker waits already.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_router_does_not_wait_for_a_worker_whose_room_others_take_and_that_waits_for_its_end() {
    let drained = Drained::new(Team::keyed(1).await, &[]).await;
    let worker = &drained.team.workers[1];
    let held = Arc::new(Semaphore::new(0));
    worker.tell(WaitHere { gate: held.clone(), stops: false }).await.unwrap();
    settle().await;
    let router = drained.router.clone();
    let wait = WaitForRouter { router, drains: false, gate: Arc::new(Semaphore::new(1)) };
    let waits = tokio::spawn(worker.ask(wait).timeout(MINUTE).into_ask());
    settle().await;
    let mut other = Box::pin(worker.tell(WhoAnswers));
    assert!(futures::poll!(&mut other).is_pending());
    drained.drain().await;
    held.add_permits(1);
    settle().await;
    other.await.unwrap();
    let drained = Drained { waits: vec![waits], ..drained };
    drained.ends().await;
}
