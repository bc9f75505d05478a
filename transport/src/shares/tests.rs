//! Executors that take turns.

use std::time::Duration;

use super::*;
use crate::limits::{EXECUTOR_KEPT, EXECUTOR_RESERVED};

/// Asks as a peer that wants atomics does. Returns the holder, if it may do them.
fn ask(
    shares: &Arc<Shares>,
    id: ShareId,
    executor: &Executor,
    grantee: Arc<dyn Grantee>,
) -> Option<Holder> {
    let (piece, holder) = shares.open_for(id, executor, &grantee).unwrap();
    if piece.is_elsewhere {
        drop(holder);
        shares.recall(id, executor);
        return None;
    }
    Some(holder)
}

/// A link by one executor, whose peer lets go when it is told, or ignores that.
struct Link {
    executor: Executor,
    held: Mutex<Option<Holder>>,
    is_deaf: bool,
    recalls: Mutex<usize>,
}

impl Grantee for Link {
    fn revoke(&self, _: ShareId) {
        if !self.is_deaf {
            drop(self.held.lock().take());
        }
    }

    fn recall(&self, _: ShareId, executor: &Executor) {
        *self.recalls.lock() += 1;
        if self.executor != *executor && !self.is_deaf {
            drop(self.held.lock().take());
        }
    }

    fn holder(&self, _: ShareId) -> Option<ShareHolder> {
        None
    }
}

impl Link {
    fn new(name: &str, is_deaf: bool) -> Arc<Self> {
        let executor = Executor::Device(name.into());
        Arc::new(Link { executor, held: Mutex::default(), is_deaf, recalls: Mutex::default() })
    }

    /// Asks as a peer that wants atomics does. Returns true if it may do them.
    fn asks(self: &Arc<Self>, shares: &Arc<Shares>, id: ShareId) -> bool {
        if self.held.lock().is_some() {
            return true;
        }
        let held = ask(shares, id, &self.executor, self.clone());
        let may = held.is_some();
        *self.held.lock() = held;
        may
    }
}

/// SM-3: of executors that want a memory at random none gets it twice while another one waits and
/// asks again soon, and a busy one gets it when nobody else does. At each moment one has it.
/// Before, the right that was taken from a busy device went back to it.
#[tokio::test(start_paused = true)]
async fn who_was_refused_has_its_turn() {
    let (mut turns, mut kept_from) = (0, 0);
    for seed in 0..200 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let shares = Shares::new(Entropy::seeded(seed));
        let words = Arc::new(Words::zeroed(64).unwrap());
        let share = shares.share(&words, 0, 64, Access::ALL).unwrap();
        let [busy, other] = ["mlx5_0", "mlx5_1"].map(|name| Link::new(name, false));
        assert!(busy.asks(&shares, share.id()));
        assert!(!other.asks(&shares, share.id()), "it is recalled");
        // The busy one asks all the time, and the other one again after a pause.
        let pause = chance.u64(..2 * EXECUTOR_RESERVED.as_millis() as u64);
        let mut got_back = false;
        for _ in 0..pause {
            got_back |= busy.asks(&shares, share.id());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let is_soon = pause <= EXECUTOR_RESERVED.as_millis() as u64;
        assert_eq!(got_back, !is_soon, "seed {seed}, {pause} ms");
        assert_eq!(other.asks(&shares, share.id()), is_soon, "seed {seed}, {pause} ms");
        assert!(other.asks(&shares, share.id()), "it had to be let go of");
        turns += usize::from(is_soon);
        // Operations of this node are of the same order.
        let act = || shares.act(share.id(), |_| ());
        assert_eq!(act(), Err(NotDone::Elsewhere), "one of them has it");
        if act().is_err() {
            assert!(busy.asks(&shares, share.id()), "it was refused before the node was");
            assert_eq!(act(), Err(NotDone::Elsewhere), "it has its turn");
        }
        assert!(act().is_ok(), "it had to let go");
        kept_from += usize::from(!busy.asks(&shares, share.id()));
        tokio::time::advance(EXECUTOR_RESERVED + EXECUTOR_KEPT).await;
        assert!(busy.asks(&shares, share.id()));
        drop(share);
        drop((busy.held.lock().take(), other.held.lock().take()));
        assert!(shares.state.lock().memories.is_empty(), "seed {seed}");
        // A right that is kept for who was refused ends with its memory, and other memory in
        // its place is of nobody.
        let share = shares.share(&words, 0, 64, Access::ALL).unwrap();
        assert!(busy.asks(&shares, share.id()) && !other.asks(&shares, share.id()));
        drop(share);
        let held = busy.held.lock().take();
        drop((held, words));
        for _ in 0..4 {
            let words = Arc::new(Words::zeroed(64).unwrap());
            let share = shares.share(&words, 0, 64, Access::ALL).unwrap();
            assert_eq!(shares.act(share.id(), |_| ()), Ok(()));
        }
    }
    println!("{turns} turns, {kept_from} times a device waited for the node");
    assert!(turns > 50 && kept_from > 50);
}

/// SM-3, SM-2: a peer that ignores a recall keeps the right, whoever else asks however often; the
/// end of the share waits until its link has taken it back (RE-3).
#[tokio::test(start_paused = true)]
async fn a_peer_that_ignores_a_recall_keeps_what_it_has_until_the_share_ends() {
    let shares = Shares::new(Entropy::seeded(1));
    let words = Arc::new(Words::zeroed(64).unwrap());
    let share = shares.share(&words, 0, 64, Access::ALL).unwrap();
    let (deaf, other) = (Link::new("mlx5_0", true), Link::new("mlx5_1", false));
    assert!(deaf.asks(&shares, share.id()));
    for _ in 0..50 {
        assert!(!other.asks(&shares, share.id()));
        assert_eq!(shares.act(share.id(), |_| ()), Err(NotDone::Elsewhere));
        tokio::time::advance(EXECUTOR_KEPT).await;
    }
    assert_eq!(*deaf.recalls.lock(), 100);
    let end = share.end();
    let mut end = std::pin::pin!(end);
    assert!(futures::poll!(end.as_mut()).is_pending());
    drop(deaf.held.lock().take());
    end.await;
    assert!(shares.state.lock().memories.is_empty());
}

/// A busy user: a link whose peer asks again and again and lets go late when it is recalled, or a
/// task of this node.
struct User {
    executor: Executor,
    /// Time from one attempt to the next, and from a recall until the peer answers it.
    pause: Duration,
    lag: Duration,
    /// Time from that answer until the grant has ended: a device takes it.
    ending: Duration,
    is_local: bool,
    state: Mutex<Use>,
}

#[derive(Default)]
struct Use {
    held: Option<(Holder, Instant)>,
    /// Time at which the peer answers the recall.
    answers: Option<Instant>,
    ending: Option<(Holder, Instant)>,
    next: Option<Instant>,
    /// Time of the first of the refusals without a success between them.
    refused: Option<Instant>,
    longest: Duration,
    turns: usize,
}

impl Grantee for User {
    fn revoke(&self, _: ShareId) {}

    fn recall(&self, _: ShareId, executor: &Executor) {
        let user = &mut *self.state.lock();
        let Some((_, since)) = &user.held else { return };
        if self.executor != *executor && since.elapsed() >= EXECUTOR_KEPT {
            user.answers.get_or_insert(Instant::now() + self.lag);
        }
    }

    fn holder(&self, _: ShareId) -> Option<ShareHolder> {
        None
    }
}

impl User {
    /// Returns a user that lets go within 50 ms.
    fn new(
        (executor, pause, is_local): (Executor, u64, bool),
        chance: &mut fastrand::Rng,
    ) -> Arc<Self> {
        let lag = chance.u64(..=50);
        let ending = chance.u64(..=50 - lag);
        let [pause, lag, ending] = [pause, lag, ending].map(Duration::from_millis);
        Arc::new(User { executor, pause, lag, ending, is_local, state: Mutex::default() })
    }

    /// Does the steps that are due now.
    fn step(self: &Arc<Self>, shares: &Arc<Shares>, id: ShareId) {
        let now = Instant::now();
        let (over, asks) = {
            let user = &mut *self.state.lock();
            let over = user.ending.take_if(|(_, until)| now >= *until);
            if user.answers.take_if(|at| now >= *at).is_some() {
                user.ending = user.held.take().map(|(holder, _)| (holder, now + self.ending));
            }
            let asks = user.held.is_none() && user.next.is_none_or(|at| now >= at);
            (over, asks)
        };
        drop(over);
        if asks {
            let done = self.asks(shares, id);
            self.note(done, now);
        }
    }

    fn asks(self: &Arc<Self>, shares: &Arc<Shares>, id: ShareId) -> bool {
        if self.is_local {
            return shares.act(id, |_| ()).is_ok();
        }
        let Some(holder) = ask(shares, id, &self.executor, self.clone()) else { return false };
        self.state.lock().held = Some((holder, Instant::now()));
        true
    }

    fn note(&self, done: bool, now: Instant) {
        let user = &mut *self.state.lock();
        user.next = Some(now + self.pause);
        user.turns += usize::from(done);
        if !done {
            user.longest = user.longest.max(user.refused.get_or_insert(now).elapsed());
        } else if let Some(since) = user.refused.take() {
            user.longest = user.longest.max(since.elapsed());
        }
    }
}

/// Has users at it for some seconds, all of which wanted it from the beginning on.
async fn run(users: &[Arc<User>], seed: u64) {
    let shares = Shares::new(Entropy::seeded(seed));
    let words = Arc::new(Words::zeroed(64).unwrap());
    let share = shares.share(&words, 0, 64, Access::ALL).unwrap();
    for _ in 0..8_000 {
        users.iter().for_each(|user| user.step(&shares, share.id()));
        let holds = |user: &&Arc<User>| {
            let user = user.state.lock();
            user.held.is_some() || user.ending.is_some()
        };
        let mut executors: Vec<_> = users.iter().filter(holds).map(|it| &it.executor).collect();
        executors.dedup();
        assert!(executors.len() <= 1, "seed {seed}: {executors:?}");
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    for user in users {
        let (held, ending) = {
            let user = &mut *user.state.lock();
            (user.held.take(), user.ending.take())
        };
        drop((held, ending));
    }
}

fn devices() -> [Executor; 3] {
    [Executor::Device("mlx5_0".into()), Executor::Device("mlx5_1".into()), Executor::Processor]
}

/// SM-3: two links by one device that ask again at once, and let go late and one after the other,
/// or a link whose grant ends after it has asked again, do not keep another executor from its turn.
/// Before, one of them was granted it again as long as the other one had it.
#[tokio::test(start_paused = true)]
async fn who_lets_go_late_does_not_get_it_back_first() {
    let mut turns = [0; 2];
    for seed in 0..200 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let [first, second, processor] = devices();
        let is_local = chance.bool();
        let other = if is_local { processor } else { second };
        let mut users = vec![User::new((other, 20, is_local), &mut chance)];
        for _ in 0..chance.usize(1..=3) {
            users.push(User::new((first.clone(), 1, false), &mut chance));
        }
        let later = Duration::from_millis(chance.u64(..1_500));
        users[0].state.lock().next = Some(Instant::now() + later);
        run(&users, seed).await;
        for (user, turns) in users.iter().zip(&mut turns) {
            *turns += user.state.lock().turns;
        }
        let longest = users[0].state.lock().longest;
        assert!(longest <= EXECUTOR_KEPT + Duration::from_millis(200), "seed {seed}: {longest:?}");
    }
    println!("{turns:?} turns");
    assert!(turns.iter().all(|turns| *turns > 500));
}

/// SM-3, of up to six links by three executors, and tasks of the node, that try again within
/// half a second: each is refused for as long as the two others have their turns, and no longer.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn all_that_want_it_have_their_turns() {
    let (mut longest, mut turns) = (Duration::ZERO, 0);
    for seed in 0..200 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let users: Vec<_> = (0..chance.usize(2..8))
            .map(|_| {
                let executor = devices()[chance.usize(..3)].clone();
                let is_local = executor == Executor::Processor && chance.bool();
                let pause = [chance.u64(1..50), chance.u64(50..=450)][chance.usize(..2)];
                User::new((executor, pause, is_local), &mut chance)
            })
            .collect();
        run(&users, seed).await;
        for user in &users {
            let user = user.state.lock();
            assert!(
                user.longest <= Duration::from_millis(3_500),
                "seed {seed}: {:?}",
                user.longest
            );
            longest = longest.max(user.longest);
            turns += user.turns;
        }
    }
    println!("{turns} turns, refused for {longest:?} at most");
    assert!(turns > 5_000 && longest > EXECUTOR_KEPT);
}

/// SM-3: repeated requests for a share cost only its holders anything, however much else the node
/// shares, even of the same memory.
#[tokio::test(start_paused = true)]
async fn a_recall_reaches_those_alone_that_hold_what_is_atomic() {
    let shares = Shares::new(Entropy::seeded(1));
    let words = Arc::new(Words::zeroed(64).unwrap());
    let readers = Link::new("mlx5_0", true);
    let read = Access { atomic: false, ..Access::ALL };
    let read: Vec<_> = (0..1_000)
        .map(|_| {
            let share = shares.share(&words, 0, 64, read).unwrap();
            let held = ask(&shares, share.id(), &readers.executor, readers.clone());
            (share, held.expect("it may read"))
        })
        .collect();
    let share = shares.share(&words, 0, 64, Access::ALL).unwrap();
    let [holder, other] = ["mlx5_0", "mlx5_1"].map(|name| Link::new(name, true));
    assert!(holder.asks(&shares, share.id()));
    for _ in 0..3 {
        assert!(!other.asks(&shares, share.id()));
    }
    assert_eq!((*holder.recalls.lock(), *readers.recalls.lock()), (3, 0));
    drop((share, read));
    drop(holder.held.lock().take());
    assert!(
        shares.state.lock().memories.is_empty(),
        "nothing is kept of memory that is not shared"
    );
}

/// The state of a share in the model of the next test.
enum Fate {
    Live { share: Share, ends: Option<Instant>, term: Option<Term> },
    Ended { is_lease: bool, was_over: bool },
}

/// The shares of a node as its users see them, beside the ones under test.
struct Model {
    chance: fastrand::Rng,
    shares: Arc<Shares>,
    words: Arc<Words>,
    fates: BTreeMap<ShareId, Fate>,
    /// The leases that were revoked before their time, the last one last.
    early: Vec<ShareId>,
    seen: [usize; 4],
}

impl Model {
    fn share(&mut self) -> ShareId {
        let time = Duration::from_millis(1 + 2 * self.chance.u64(..100));
        let is_renewable = self.chance.bool();
        let term = self.chance.bool().then_some(Term { time, is_renewable });
        let share = self.shares.lease(&self.words, (0, 64), Access::ALL, term).unwrap();
        if term.is_some() {
            tokio::spawn(share.expire());
        }
        let (id, ends) = (share.id(), term.map(|term| Instant::now() + term.time));
        let earlier = self.fates.insert(id, Fate::Live { share, ends, term });
        assert!(earlier.is_none(), "a number was given twice");
        id
    }

    fn revoke(&mut self, id: ShareId) {
        let ended = Fate::Ended { is_lease: false, was_over: false };
        let (share, ends) = match self.fates.insert(id, ended) {
            Some(Fate::Live { share, ends, .. }) => (share, ends),
            ended => return drop(ended.and_then(|ended| self.fates.insert(id, ended))),
        };
        let was_over = ends.is_some_and(|ends| ends <= Instant::now());
        if ends.is_some() && !was_over {
            self.early.push(id);
        }
        if self.chance.bool() {
            drop(share.end());
        }
        self.fates.insert(id, Fate::Ended { is_lease: ends.is_some(), was_over });
    }

    fn renew(&mut self, id: ShareId) {
        let wanted = self.wanted(id);
        let renewed = self.shares.renew(id);
        match (wanted, self.fates.get_mut(&id)) {
            (None, Some(Fate::Live { ends, term: Some(term), .. })) if term.is_renewable => {
                assert_eq!(renewed, Ok(true));
                *ends = Some(Instant::now() + term.time);
            }
            (None, _) => assert_eq!(renewed, Ok(false)),
            (Some(why), _) => assert_eq!(renewed, Err(why)),
        }
    }

    fn wanted(&self, id: ShareId) -> Option<NotShared> {
        match self.fates.get(&id) {
            None => Some(NotShared::Unknown),
            Some(Fate::Live { ends, .. }) => {
                let is_over = ends.is_some_and(|ends| ends <= Instant::now());
                is_over.then_some(NotShared::Expired)
            }
            Some(Fate::Ended { was_over: true, .. }) => Some(NotShared::Expired),
            Some(Fate::Ended { is_lease: false, .. }) => Some(NotShared::Revoked),
            Some(Fate::Ended { .. }) => {
                let is_kept = self.early.iter().rev().take(1024).any(|early| *early == id);
                Some(if is_kept { NotShared::Revoked } else { NotShared::Expired })
            }
        }
    }

    fn check(&mut self, id: ShareId) {
        let wanted = self.wanted(id);
        assert_eq!(self.shares.not_shared(id), wanted);
        assert_eq!(self.shares.open(id).map(drop).err(), wanted);
        self.seen[wanted.map_or(3, |why| why as usize)] += 1;
    }
}

/// SM-4: a number tells what became of its share, by a model that forgets nothing: whether it was
/// revoked, its time is over, or it never was one, also of another run, or with another bit.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_number_tells_what_became_of_its_share() {
    let mut seen = [0; 4];
    for seed in 0..20 {
        let (chance, words) = (fastrand::Rng::with_seed(seed), Words::zeroed(64).unwrap());
        let [shares, others] = [seed, seed + 100].map(|seed| Shares::new(Entropy::seeded(seed)));
        let (fates, early, words) = (BTreeMap::new(), Vec::new(), Arc::new(words));
        let mut model = Model { chance, shares, words, fates, early, seen };
        for _ in 0..300 {
            let known: Vec<ShareId> = model.fates.keys().copied().collect();
            let one = |chance: &mut fastrand::Rng| known.get(chance.usize(..=known.len())).copied();
            match (model.chance.u8(..8), one(&mut model.chance)) {
                (0..3, _) => drop(model.share()),
                (3, Some(id)) => model.revoke(id),
                (4 | 5, Some(id)) => model.renew(id),
                (6, _) => {
                    // Leases have odd times: none ends just when a pause does.
                    tokio::time::sleep(Duration::from_millis(2 * model.chance.u64(1..20))).await;
                }
                _ if model.chance.u8(..20) == 0 => {
                    for _ in 0..400 {
                        let id = model.share();
                        model.revoke(id);
                    }
                }
                _ => {}
            }
            let one = one(&mut model.chance).unwrap_or(ShareId(7));
            model.check(one);
            let bit = model.chance.u32(..128);
            model.check(ShareId(one.0 ^ 1 << bit));
            model.check(others.lease(&model.words, (0, 64), Access::ALL, None).unwrap().id());
        }
        model.fates.keys().copied().collect::<Vec<_>>().into_iter().for_each(|id| model.check(id));
        let early = model.early.len();
        assert!(early > 0 && model.shares.state.lock().by_id.len() <= model.fates.len());
        seen = model.seen;
    }
    println!("unknown, revoked, expired, shared: {seen:?}");
    assert!(seen.iter().all(|seen| *seen > 500), "{seen:?}");
}
