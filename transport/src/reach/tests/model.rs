//! Three links of one node over devices of a model. Their grants, the times of registration, and
//! the executed operations are drawn at random, and judged by the knowledge of the model.

mod devices;

use std::collections::VecDeque;
use std::mem::replace;

use futures::FutureExt;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, advance, sleep};

use devices::{Books, Half, Model, Place, STATES};

use super::slow::{Control, Device};
use super::*;
use crate::entropy::Entropy;
use crate::shares::NotDone;

/// Seeds, unless `RINGPOST_TEST_CASES` says how many.
const SEEDS: u64 = 60;
/// Steps of a seed, before all is brought to its end.
const STEPS: usize = 2_000;
const LINKS: usize = 3;
/// Bytes of a memory; each share of it has a word of its own.
const BYTES: usize = 8 * 1024;
/// Steps of a millisecond each, after which all that was begun has ended.
const END_ROUNDS: usize = 60_000;

/// A link: its two sides, what each has said and the other has not heard, and their devices.
struct Link {
    reaches: [Arc<Reach>; 2],
    said: [VecDeque<Sharing>; 2],
    devices: [(Arc<Device>, Control); 2],
    /// Its rooms, which the links after it have, too.
    rooms: [PeerRoom; 2],
    /// Links to the same peer before it.
    earlier: u8,
}

/// A share, by its place in its memory.
type Owned = (Share, (u64, u64));

struct Node {
    shares: Arc<Shares>,
    memories: Vec<(Arc<Words>, u64)>,
    owned: Vec<Owned>,
    /// The numbers of all shares that there ever were.
    ids: Vec<ShareId>,
}

impl Link {
    fn new(link: usize, books: &Arc<Mutex<Books>>, nodes: &[Node]) -> Self {
        let devices = [Device::new(), Device::new()];
        let rooms = [(); 2].map(|()| LendingRoom::new(&Lending::default()).of_peer());
        let (reaches, said) = ([Reach::new(), Reach::new()], Default::default());
        let new = Link { reaches, said, devices, rooms, earlier: 0 };
        new.attach(link, books, nodes);
        new
    }

    /// Gives both sides their means, for the link of this number.
    fn attach(&self, link: usize, books: &Arc<Mutex<Books>>, nodes: &[Node]) {
        for (side, reach) in self.reaches.iter().enumerate() {
            // Two of the first node's links are by one device.
            let name = if side == 0 { link / 2 } else { 10 + link };
            let fabric = Arc::new(Model {
                books: books.clone(),
                place: (link, side),
                executor: Executor::Device(format!("mlx5_{name}").into()),
                device: self.devices[side].0.clone(),
            });
            let shares = nodes[if side == 0 { 0 } else { link + 1 }].shares.clone();
            let (own, runtime) = (Handle::current(), Handle::current());
            let (room, binding) = (self.rooms[side].clone(), vec![self.earlier]);
            let side = if (link + side).is_multiple_of(2) {
                Side::Dialer { address: "there:1".into() }
            } else {
                Side::Acceptor
            };
            let (peer, way) = (peer(), None);
            reach.attach(Means { peer, fabric, way, side, binding, shares, room, runtime, own });
        }
    }
}

struct Scene {
    seed: u64,
    books: Arc<Mutex<Books>>,
    chance: fastrand::Rng,
    links: Vec<Link>,
    /// The first one has all links; each other one has one.
    nodes: Vec<Node>,
    tasks: Vec<JoinHandle<()>>,
    ends: Vec<JoinHandle<()>>,
    looked: Instant,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let books = Arc::new(Mutex::new(Books::default()));
        books.lock().chance = fastrand::Rng::with_seed(seed);
        let nodes: Vec<_> = (0..=LINKS as u64)
            .map(|number| {
                let shares = Shares::new(Entropy::seeded(100 * seed + number));
                let memory = || (Arc::new(Words::zeroed(BYTES).unwrap()), 0);
                let memories = vec![memory(), memory()];
                Node { shares, memories, owned: Vec::new(), ids: Vec::new() }
            })
            .collect();
        let links = (0..LINKS).map(|link| Link::new(link, &books, &nodes)).collect();
        let chance = fastrand::Rng::with_seed(seed + 1_000);
        let (tasks, ends, looked) = (Vec::new(), Vec::new(), Instant::now());
        Scene { seed, books, chance, links, nodes, tasks, ends, looked }
    }

    fn node_of(&self, (link, side): Place) -> usize {
        if side == 0 { 0 } else { link + 1 }
    }

    fn draw_place(&mut self) -> Place {
        (self.chance.usize(..LINKS), self.chance.usize(..2))
    }

    fn fault(&self, what: String) {
        self.books.lock().faults.push(what);
    }

    /// The other side hears the next thing that this side has said. Returns false if that is
    /// nothing.
    fn deliver(&mut self, (link, side): Place) -> bool {
        let link = &mut self.links[link];
        let next = || link.reaches[side].next_outgoing().now_or_never();
        link.said[side].extend(std::iter::from_fn(next));
        let Some(message) = link.said[side].pop_front() else { return false };
        let what = format!("{message:?}");
        let is_ask = matches!(message, Sharing::Ask(_));
        let reach = &link.reaches[1 - side];
        let before = reach.state.lock().grants.waiting_count();
        if reach.handle(message).is_err() {
            self.books.lock().faults.push(format!("an honest {what} is a breach"));
        }
        let waits = reach.state.lock().grants.waiting_count() > before;
        self.books.lock().note_if(STATES[5], is_ask && waits);
        true
    }

    /// Makes a device finish the registration at hand. Returns false if there is none.
    fn register(&mut self, (link, side): Place) -> bool {
        let link = &self.links[link];
        let (reach, (device, control)) = (&link.reaches[side], &link.devices[side]);
        let is_registering = || reach.state.lock().grants.is_registering();
        if !is_registering() {
            return false;
        }
        let granted = || reach.state.lock().grants.granted.len();
        let (count, before) = (Arc::strong_count(reach), granted());
        assert_eq!(control.step(), "locked");
        // Its thread ends, or the next one waits for the device: nothing else runs beside a step.
        loop {
            let now = Arc::strong_count(reach);
            let is_next = is_registering() && device.waiting.load(Ordering::SeqCst) > 0;
            if is_next || (now < count && !is_registering()) {
                break;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        self.books.lock().note_if(STATES[6], granted() == before);
        true
    }

    /// A device executes an operation that was posted. Returns false if there is none.
    fn execute(&mut self, at: usize) -> bool {
        let books = &mut *self.books.lock();
        let is_pending = |(_, half): &(&(Place, u32), &Arc<Mutex<Half>>)| {
            let half = half.lock();
            !half.has_ended && !half.pending.is_empty()
        };
        let pending: Vec<_> = books.halves.iter().filter(is_pending).collect();
        let Some((place, half)) = pending.get(at % pending.len().max(1)) else { return false };
        let (((link, side), number), half) = (**place, Arc::clone(half));
        let owner = books.halves.get(&((link, 1 - side), number));
        let has_owner = owner.is_some_and(|owner| !owner.lock().has_ended);
        let half = &mut *half.lock();
        let Some(Operation { slot, key, kind, .. }) = half.pending.pop_front() else {
            return false;
        };
        let live = books.live.get(&key.number).filter(|it| it.by == (link, 1 - side));
        let is_let = live.is_some_and(|it| it.access.allows(kind));
        let status = match (has_owner, is_let) {
            (false, _) => Status::RetryExceeded,
            (true, true) => Status::Success,
            (true, false) => Status::RemoteAccess,
        };
        match status {
            Status::Success => books.note_done(((link, side), number)),
            Status::RetryExceeded => half.in_doubt += 1,
            _ => {}
        }
        half.outcomes.push_back(Outcome::Done { slot, status });
        half.wake();
        if status != Status::Success {
            half.end(status);
        }
        if status == Status::RemoteAccess {
            books.note_if(STATES[8], true);
            // RE-2, RE-3.
            if !books.taken_back.contains(&key.number) {
                books.faults.push(format!("RE-2: {kind:?} without a grant"));
            }
        }
        true
    }

    /// A device executes an operation of which the side that posted it has an unknown end. Returns
    /// false if there is none.
    fn execute_late(&mut self, at: usize) -> bool {
        let books = &mut *self.books.lock();
        let is_there = |((link, side), number): (Place, u32)| {
            let owner = books.halves.get(&((link, 1 - side), number));
            owner.is_some_and(|owner| {
                let owner = owner.lock();
                owner.is_connected && !owner.is_gone
            })
        };
        let is_in_doubt = |(place, half): &(&(Place, u32), &Arc<Mutex<Half>>)| {
            half.lock().in_doubt > 0 && is_there(**place)
        };
        let in_doubt: Vec<_> = books.halves.iter().filter(is_in_doubt).collect();
        let Some((place, half)) = in_doubt.get(at % in_doubt.len().max(1)) else { return false };
        half.lock().in_doubt -= 1;
        let place = **place;
        books.note_done(place);
        books.note_if(STATES[13], true);
        true
    }

    /// A device destroys a queue pair. Returns false if there is none that is to be.
    fn destroy(&mut self, at: usize) -> bool {
        let (half, place, let_go) = {
            let books = &mut *self.books.lock();
            let at = at % books.ending.len().max(1);
            let Some(key) = books.ending.keys().nth(at).copied() else { return false };
            let ((link, side), _) = key;
            let next = {
                let state = self.links[link].reaches[side].state.lock();
                let is_next = matches!(state.stage, Stage::Opening { .. } | Stage::Connecting(..));
                is_next.then_some(10_000 * u32::from(self.links[link].earlier) + state.number)
            };
            let waits = next.is_some_and(|next| !books.halves.contains_key(&(key.0, next)));
            books.note_if(STATES[14], waits);
            let place = &self.links[link].rooms[side].place;
            (books.halves[&key].clone(), place, books.ending.remove(&key))
        };
        let before = Arc::strong_count(place);
        drop(let_go);
        // Its thread gives back its place, but where a bug is planted: nothing else runs beside a
        // step.
        let since = std::time::Instant::now();
        let is_late = || since.elapsed() > Duration::from_millis(50);
        let has = || Arc::strong_count(place) == before && !is_late();
        while !half.lock().is_gone || has() {
            std::thread::sleep(Duration::from_micros(20));
        }
        true
    }

    /// A link is lost, and another one to the same peer is there.
    fn lose_link(&mut self, link: usize) {
        while self.register((link, 0)) || self.register((link, 1)) {}
        let lost = &mut self.links[link];
        lost.reaches.iter().for_each(|reach| reach.end());
        (lost.reaches, lost.said) = ([Reach::new(), Reach::new()], Default::default());
        lost.earlier += 1;
        lost.attach(link, &self.books, &self.nodes);
        self.books.lock().note_if(STATES[12], true);
    }

    /// A node shares memory, or ends a share.
    fn change_shares(&mut self, ends: bool) {
        let node = self.chance.usize(..=LINKS);
        let Node { shares, memories, owned, ids } = &mut self.nodes[node];
        if ends || owned.len() > 4 {
            if owned.is_empty() {
                return;
            }
            let (share, place) = owned.swap_remove(self.chance.usize(..owned.len()));
            return self.end(share, place);
        }
        let (memory, at) = &mut memories[self.chance.usize(..2)];
        if *at >= BYTES as u64 {
            return;
        }
        let share = shares.share(memory, *at, 8, Access::ALL).unwrap();
        ids.push(share.id());
        owned.push((share, (memory.number(), *at)));
        *at += 8;
    }

    /// A share ends: when that has returned it is granted to nobody.
    fn end(&mut self, share: Share, place: (u64, u64)) {
        self.books.lock().ended.insert(place, Instant::now());
        let (ending, books) = (share.end(), self.books.clone());
        self.ends.push(tokio::spawn(async move {
            ending.await;
            let books = &mut *books.lock();
            if books.live.values().any(|it| it.memory == place) {
                books.faults.push(format!("SM-2: {place:?} has ended, and is granted"));
            }
        }));
    }

    /// A task of one side begins to use a share of the other one.
    fn use_share(&mut self) {
        let (link, side) = self.draw_place();
        let ids = &self.nodes[self.node_of((link, 1 - side))].ids;
        let lately = ids.len().saturating_sub(5);
        let Some(share) = ids.get(lately + self.chance.usize(..5)) else { return };
        let reach = self.links[link].reaches[side].clone();
        let kind = [Kind::Read, Kind::FetchAdd(1), Kind::FetchAdd(1)][self.chance.usize(..3)];
        let pause = Duration::from_millis(self.chance.u64(20..500));
        self.tasks.push(tokio::spawn(user(reach, *share, kind, pause, self.books.clone())));
    }

    /// Does an atomic operation of the first node on its own memory.
    fn act(&mut self) {
        let Node { shares, owned, .. } = &self.nodes[0];
        let Some((share, (memory, _))) = owned.get(self.chance.usize(..5)) else { return };
        let acted = shares.act(share.id(), |_| {
            let books = self.books.lock();
            books.live.values().any(|it| it.memory.0 == *memory && it.access.atomic)
        });
        let mut books = self.books.lock();
        match acted {
            Ok(false) => books.note_if(STATES[9], true),
            Ok(true) => panic!("seed {}: SM-3: the processor beside a device", self.seed),
            Err(NotDone::Elsewhere) => books.note_if(STATES[10], true),
            Err(NotDone::NotShared(_)) => panic!("it is shared"),
        }
    }

    /// Passes time; the sessions look once a second.
    async fn pass(&mut self, time: Duration) {
        advance(time).await;
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            for reach in self.links.iter().flat_map(|it| &it.reaches) {
                reach.look(true);
            }
        }
    }

    async fn step(&mut self) {
        let place = self.draw_place();
        match self.chance.u8(..100) {
            0..44 => drop(self.deliver(place)),
            44..58 => {
                let at = self.chance.usize(..100);
                self.execute(at);
            }
            58..63 => drop(self.register(place)),
            63..66 => {
                let at = self.chance.usize(..100);
                let _ = if self.chance.bool() { self.destroy(at) } else { self.execute_late(at) };
            }
            66..76 => {
                let most = [20, 20, 20, 20, 200, 200, 200, 3_000][self.chance.usize(..8)];
                let time = Duration::from_millis(self.chance.u64(..most));
                self.pass(time).await;
            }
            76..86 => self.use_share(),
            86..90 => self.change_shares(false),
            90..93 => self.change_shares(true),
            93..99 => self.act(),
            _ if self.chance.u8(..12) == 0 => self.lose_link(place.0),
            _ => {
                let reach = &self.links[place.0].reaches[place.1];
                let has_failed = reach.fail_queue_pair();
                self.books.lock().note_if(STATES[11], has_failed);
            }
        }
        settle().await;
    }

    /// Goes on until all that was begun has ended.
    async fn finish(&mut self) {
        for round in 0..END_ROUNDS {
            for place in (0..2 * LINKS).map(|it| (it / 2, it % 2)) {
                while self.deliver(place) {}
                self.register(place);
            }
            while self.execute(0) || self.execute_late(0) || self.destroy(0) {}
            self.pass(Duration::from_millis(1)).await;
            settle().await;
            if self.tasks.iter().all(JoinHandle::is_finished) {
                let owned = self.nodes.iter_mut().flat_map(|node| node.owned.drain(..));
                for (share, place) in owned.collect::<Vec<_>>() {
                    self.end(share, place);
                }
                if round > 0 && self.ends.iter().all(JoinHandle::is_finished) {
                    break;
                }
            }
        }
        let left = |tasks: &[JoinHandle<()>]| tasks.iter().filter(|it| !it.is_finished()).count();
        let (tasks, ends) = (left(&self.tasks), left(&self.ends));
        if tasks + ends > 0 {
            self.fault(format!("{tasks} tasks and {ends} ends of shares are stuck"));
        }
        for (at, reach) in self.links.iter().flat_map(|it| &it.reaches).enumerate() {
            let state = reach.state.lock();
            let asks = state.unanswered.iter().map(|it| it.count).sum::<usize>();
            let is_asked = state.grants.is_asked();
            if asks > 0 || is_asked || !state.outbox.is_empty() {
                let said = &state.outbox;
                self.fault(format!("side {at}: {asks} unanswered, asked: {is_asked}, {said:?}"));
            }
        }
    }
}

/// Yields until all tasks have gone on.
async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

/// Operates on a share once, and tries again where it may not yet.
async fn user(
    reach: Arc<Reach>,
    share: ShareId,
    kind: Kind,
    pause: Duration,
    books: Arc<Mutex<Books>>,
) {
    let met = |state: usize| books.lock().note_if(STATES[state], true);
    let mut again = false;
    for _ in 0..20 {
        let ready = match reach.access(share, again).await {
            Ok(ready) => ready,
            Err(Unready::NotShared(NotShared::Revoked)) => return met(2),
            Err(_) => {
                met(4);
                sleep(pause).await;
                continue;
            }
        };
        if !ready.terms.access.allows(kind) {
            assert!(ready.terms.is_elsewhere && kind.is_atomic());
            met(1);
            again = true;
            sleep(pause).await;
            continue;
        }
        let Ok(piece) = ready.piece(8).await else { continue };
        let act = Act::On { kind, at: 0, bytes: 8 };
        let Ok(mut posted) = ready.post(vec![Wanted { act, piece }]) else { continue };
        return match posted.remove(0).await {
            Ok((Status::Success, _)) => met(0),
            _ => met(3),
        };
    }
}

/// RE-1 to RE-3, RE-7, RE-13, SM-2, SM-3: of three links by two devices, each an executor of
/// atomics on the memory of their one node, one executor is granted them at a time, and the
/// processor acts beside none; nothing is executed without a grant, unless a peer did not let go in
/// time; messages of honest peers are no breach; an ended share is granted no more; each ASK has
/// its answer, and in the end nothing is stuck. RE-13: an operation of unknown end is done before
/// any operation of a later queue pair, even on a later link, or never.
#[test]
fn links_by_two_devices_do_what_a_model_says() {
    let first = std::env::var("RINGPOST_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let (seeds, first): (u64, u64) = (crate::cases(SEEDS), first.unwrap_or(0));
    let mut all: BTreeMap<_, usize> = STATES.map(|state| (state, 0)).into();
    for seed in first..first + seeds {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let met = runtime.block_on(async {
            let mut scene = Scene::new(seed);
            for _ in 0..8 {
                scene.change_shares(false);
            }
            for _ in 0..STEPS {
                scene.step().await;
            }
            scene.finish().await;
            let mut over = Books::default();
            over.is_over = true;
            let books = replace(&mut *scene.books.lock(), over);
            assert!(books.faults.is_empty(), "seed {seed}: {:?}", books.faults);
            scene.links.iter().flat_map(|it| &it.reaches).for_each(|it| it.end());
            books.met
        });
        met.into_iter().for_each(|(state, count)| *all.entry(state).or_default() += count);
    }
    println!("{all:#?} in {seeds} seeds");
    assert!(seeds < SEEDS || all.values().all(|count| *count > 10));
}
