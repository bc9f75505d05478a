//! Collective operations against a serial model: random sizes, lengths, roots and types, calls that
//! differ, and a rank that is killed at a random moment.

use std::time::Duration;

use futures::future::{join, join_all};
use ringpost::test_kit::{self, Cluster};
use ringpost_ranks::{Exchange, Max, Operation, Ordered, Plain, Sum, World, WorldError};

use super::{below, joined};

/// Worlds of each seed, and schedules of each world: the first links of nodes take most time. Two
/// tests have 20 seeds each, so 400 schedules; `RINGPOST_TEST_CASES` changes the number of seeds.
const WORLDS: usize = 5;
const SCHEDULES: usize = 4;

/// One collective operation, the same for all ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    kind: usize,
    root: usize,
    len: usize,
    /// The type of the elements.
    element: usize,
    reduction: usize,
    salt: u64,
}

const KINDS: usize = 20;

impl Step {
    fn draw(cluster: &Cluster, size: usize) -> Self {
        let kind = below(cluster, KINDS);
        let len = match below(cluster, 60) {
            // Segments of a broadcast down a chain of up to nine ranks.
            0 if kind == 1 => 80_000 + below(cluster, 10),
            0 => 17_000 + below(cluster, 10),
            1 if kind == 1 => 17_000 + below(cluster, 10),
            1..=3 => 2_500 + below(cluster, 100),
            4..=9 => below(cluster, 2),
            _ => below(cluster, 40),
        };
        // Of these each rank gives a block for each.
        let len = if [2, 12, 15, 16].contains(&kind) && len > 100 { len / size } else { len };
        Step {
            kind,
            root: below(cluster, size),
            len,
            element: below(cluster, 3),
            reduction: below(cluster, 4),
            salt: cluster.random() % 1_000,
        }
    }

    /// Draws another call, which all ranks have to be told of.
    fn differing(self, cluster: &Cluster, size: usize) -> Self {
        loop {
            let mut other = self;
            match below(cluster, 4) {
                0 => other.kind = below(cluster, KINDS),
                1 => other.element = below(cluster, 3),
                2 => other.len += 1,
                _ => other.root = below(cluster, size),
            }
            let counts = |step: Step| (0..=5).contains(&step.kind) || (8..=9).contains(&step.kind);
            let is_typed = |step: Step| step.kind != 0 && step.kind < 18;
            let has_length = |step: Step| ![0, 3, 5, 7, 17, 18, 19].contains(&step.kind);
            // Some kinds are the same call.
            let same = [0, 19].contains(&other.kind) && [0, 19].contains(&self.kind)
                || [15, 16].contains(&other.kind) && [15, 16].contains(&self.kind);
            let differs = other.kind != self.kind && !same
                || counts(self) && other.root != self.root && self.kind != 0
                || is_typed(self) && other.element != self.element
                || has_length(self) && other.len != self.len;
            if differs {
                return other;
            }
        }
    }
}

/// An element: a number, or a map `x -> a * x + b`, whose composition is not commutative.
trait Number: Plain + PartialEq + std::fmt::Debug {
    fn new(value: u64) -> Self;
    fn sum(self, other: Self) -> Self;
}

impl Number for u16 {
    fn new(value: u64) -> Self {
        value as u16
    }
    fn sum(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

impl Number for f64 {
    fn new(value: u64) -> Self {
        (value % 1_000) as f64
    }
    fn sum(self, other: Self) -> Self {
        self + other
    }
}

impl Number for [u32; 2] {
    fn new(value: u64) -> Self {
        [value as u32 | 1, (value / 3) as u32]
    }
    fn sum(self, other: Self) -> Self {
        [self[0].wrapping_mul(other[0]), self[0].wrapping_mul(other[1]).wrapping_add(self[1])]
    }
}

/// The elements that a rank gives.
fn given<T: Number>(step: Step, rank: usize, len: usize) -> Vec<T> {
    let value = |index: usize| step.salt.wrapping_mul(31) + (rank * 7_919 + index * 13) as u64;
    (0..len).map(|index| T::new(value(index) % 60_000)).collect()
}

/// Combines what the ranks give, in their order.
fn combined<T: Number>(step: Step, ranks: std::ops::Range<usize>, len: usize) -> Vec<T> {
    let blocks = ranks.map(|rank| given::<T>(step, rank, len));
    let add = |one: Vec<T>, other: Vec<T>| {
        one.into_iter().zip(other).map(|(lower, higher)| reduce(step, lower, higher)).collect()
    };
    blocks.reduce(add).unwrap_or_default()
}

fn reduce<T: Number>(step: Step, lower: T, higher: T) -> T {
    match step.reduction {
        0 | 1 => lower.sum(higher),
        2 => lower,
        _ => higher,
    }
}

/// Returns the data of a rank after an operation.
fn model<T: Number>(step: Step, rank: usize, size: usize) -> Vec<T> {
    let Step { kind, root, len, .. } = step;
    let given = |rank, len| given::<T>(step, rank, len);
    let block = |from, at: usize| given(from, len * size)[at * len..(at + 1) * len].to_vec();
    let varying = |from: usize, at: usize| given(from, (len + from * 3 + at) % 50);
    let all = |of: &dyn Fn(usize) -> Vec<T>| (0..size).flat_map(of).collect::<Vec<T>>();
    match kind {
        1 => given(root, len),
        2 => block(root, rank),
        3 => varying(root, rank),
        4 if rank == root => all(&|from| given(from, len)),
        5 if rank == root => all(&|from| varying(from, 0)),
        6 | 18 => all(&|from| given(from, len)),
        7 => all(&|from| varying(from, 0)),
        8 if rank == root => combined(step, 0..size, len),
        9 if rank == root => combined(step, 0..size, len),
        10 | 11 => combined(step, 0..size, len),
        12 => combined::<T>(step, 0..size, len * size)[rank * len..(rank + 1) * len].to_vec(),
        13 => combined(step, 0..rank + 1, len),
        14 if rank > 0 => combined(step, 0..rank, len),
        8 | 9 | 14 => given(rank, len),
        15 | 16 => all(&|from| block(from, rank)),
        17 => all(&|from| varying(from, rank)),
        _ => Vec::new(),
    }
}

/// Does an operation, and returns what the rank has then.
async fn call<T: Number>(world: &World, step: Step) -> Result<Vec<T>, WorldError> {
    let Step { kind, root, len, .. } = step;
    let (rank, size) = (world.rank(), world.size());
    let mut mine = given::<T>(step, rank, len);
    let blocks = || given::<T>(step, rank, len * size);
    let varying = |at: usize| given::<T>(step, rank, (len + rank * 3 + at) % 50);
    let each: Vec<Vec<T>> = (0..size).map(varying).collect();
    let operation = move |lower: T, higher: T| reduce(step, lower, higher);
    match kind {
        1 => world.broadcast(root, &mut mine).await?,
        2 => world.scatter(root, (rank == root).then(blocks).as_deref(), &mut mine).await?,
        3 => return world.scatterv(root, (rank == root).then_some(&*each)).await,
        4 => return Ok(world.gather(root, &mine).await?.unwrap_or_default()),
        5 => return Ok(world.gatherv(root, &varying(0)).await?.unwrap_or_default().concat()),
        6 => return world.all_gather(&mine).await,
        7 => return Ok(world.all_gatherv(&varying(0)).await?.concat()),
        8 => world.reduce(root, &mut mine, operation).await?,
        9 => world.reduce(root, &mut mine, Ordered(operation)).await?,
        10 => world.all_reduce(&mut mine, operation).await?,
        11 => world.all_reduce(&mut mine, Ordered(operation)).await?,
        12 => return world.reduce_scatter(&blocks(), operation).await,
        13 => world.scan(&mut mine, operation).await?,
        14 => world.exclusive_scan(&mut mine, operation).await?,
        15 => {
            let by = [Exchange::Auto, Exchange::Sequential, Exchange::Pairwise, Exchange::Bruck];
            return world.all_to_all_by(by[step.reduction], &blocks()).await;
        }
        16 => return world.all_to_all(&blocks()).await,
        17 => return Ok(world.all_to_allv(&each).await?.concat()),
        18 => {
            let bytes: Vec<u8> = bytemuck_bytes(&mine);
            let all = world.all_gather_values(&bytes).await?;
            return Ok(all.iter().flat_map(|bytes| bytemuck_elements::<T>(bytes)).collect());
        }
        _ => {
            world.barrier().await?;
            return Ok(Vec::new());
        }
    }
    Ok(mine)
}

fn bytemuck_bytes<T: Plain>(elements: &[T]) -> Vec<u8> {
    ringpost::bytemuck::cast_slice(elements).to_vec()
}

fn bytemuck_elements<T: Plain>(bytes: &[u8]) -> Vec<T> {
    ringpost::bytemuck::pod_collect_to_vec(bytes)
}

/// Does an operation and compares what the rank has with the model.
async fn checked<T: Number>(world: &World, step: Step) -> Result<(), WorldError> {
    let has = call::<T>(world, step).await?;
    let expected = model::<T>(step, world.rank(), world.size());
    assert!(has == expected, "rank {} of {}, {step:?}", world.rank(), world.size());
    Ok(())
}

async fn does(world: &World, step: Step) -> Result<(), WorldError> {
    match step.element {
        0 => checked::<u16>(world, step).await,
        1 => checked::<f64>(world, step).await,
        _ => checked::<[u32; 2]>(world, step).await,
    }
}

/// Runs schedules on worlds of `least` to 9 ranks.
fn schedules(least: usize, schedule: impl AsyncFn(&Cluster, &[World])) {
    test_kit::check(0..20, |cluster| async {
        let cluster = cluster;
        let most = least + below(&cluster, 10 - least);
        let whole = joined(&cluster, most).await;
        for _ in 0..WORLDS {
            let size = least + below(&cluster, most - least + 1);
            let part = |world: &World| (world.rank() < size).then_some(0);
            let parts = join_all(whole.iter().map(|world| world.split(part(world), 0))).await;
            let worlds: Vec<World> = parts.into_iter().filter_map(Result::unwrap).collect();
            for _ in 0..SCHEDULES {
                schedule(&cluster, &worlds).await;
            }
        }
    });
}

#[test]
fn operations_do_as_the_model_also_several_at_a_time() {
    schedules(1, async |cluster, worlds| {
        let size = worlds.len();
        let (one, other) = (Step::draw(cluster, size), Step::draw(cluster, size));
        let both = worlds.iter().map(|world| join(does(world, one), does(world, other)));
        for (first, second) in join_all(both).await {
            assert_eq!((first, second), (Ok(()), Ok(())), "{one:?} {other:?}");
        }
    });
}

#[test]
fn a_call_that_differs_is_an_error_on_all_ranks_and_the_next_one_works() {
    schedules(2, async |cluster, worlds| {
        let size = worlds.len();
        let step = Step::draw(cluster, size);
        let (odd, other) = (below(cluster, size), step.differing(cluster, size));
        let calls = worlds.iter().enumerate().map(async |(rank, world)| {
            cluster.sleep_up_to(Duration::from_millis(2)).await;
            does(world, if rank == odd { other } else { step }).await
        });
        for (rank, end) in join_all(calls).await.into_iter().enumerate() {
            let error = end.expect_err("the calls differ");
            let is_told = matches!(&error, WorldError::Mismatch(_));
            assert!(is_told, "rank {rank} of {size}: {error}; {step:?}, rank {odd}: {other:?}");
        }
        let step = Step::draw(cluster, size);
        let next = join_all(worlds.iter().map(|world| does(world, step))).await;
        assert_eq!(next, vec![Ok(()); size]);
    });
}

/// Kills a rank at a random moment of its work, checks the errors that the others get, and returns
/// the world of the living.
async fn without_one(cluster: &Cluster, worlds: Vec<World>) -> Vec<World> {
    let size = worlds.len();
    let victim = below(cluster, size);
    let steps: Vec<Step> = (0..6).map(|_| Step::draw(cluster, size)).collect();
    let end = async |world: &World| {
        for step in &steps {
            does(world, *step).await?;
        }
        // It waits for the victim, and so for its end.
        world.barrier().await?;
        world.barrier().await
    };
    let work = join_all(worlds.iter().map(end));
    let kill = async {
        cluster.sleep_up_to(Duration::from_millis(3)).await;
        cluster.kill(worlds[victim].node_of(victim).unwrap()).await;
    };
    let (ends, ()) = join(work, kill).await;
    let living = || (0..size).filter(|rank| *rank != victim);
    let told = Err(WorldError::Died { rank: victim });
    for rank in living() {
        assert!(ends[rank] == Ok(()) || ends[rank] == told, "rank {rank}: {:?}", ends[rank]);
    }
    let failed = living().filter(|rank| ends[*rank].is_err()).count();
    cluster.log(&format!("{failed} of {size} ranks were told"));
    let shrunk = join_all(living().map(|rank| worlds[rank].shrink())).await;
    let shrunk: Vec<World> = shrunk.into_iter().map(Result::unwrap).collect();
    let totals = shrunk.iter().map(async |smaller| {
        let mut total = [smaller.rank() as u64 + 1, 1];
        smaller.all_reduce(&mut total, Sum).await.unwrap();
        let mut last = [smaller.rank() as i32];
        smaller.all_reduce(&mut last, Max).await.unwrap();
        (total, last)
    });
    let left = size - 1;
    let expected = ([(left * (left + 1) / 2) as u64, left as u64], [left as i32 - 1]);
    assert_eq!(join_all(totals).await, vec![expected; left]);
    shrunk
}

#[test]
fn a_rank_that_is_killed_is_named_to_all_the_living_which_go_on_without_it() {
    // 4.5 deaths for each seed, in worlds of 9 to 2 ranks: 200 in all.
    test_kit::check(0..45, |cluster| async move {
        let size = 2 + below(&cluster, 8);
        let mut worlds = joined(&cluster, size).await;
        while worlds.len() > 1 {
            worlds = without_one(&cluster, worlds).await;
        }
    });
}

/// The reductions of this crate are what their names say.
#[test]
fn operations_combine_as_their_names_say() {
    use ringpost_ranks::{And, BitAnd, BitOr, BitXor, Min, Or, Product, Xor};
    assert_eq!((Sum.combine(250_u8, 10), Product.combine(3_i64, -4)), (4, -12));
    assert_eq!((Min.combine(2.5, -1.0), Max.combine(2_u16, 9)), (-1.0, 9));
    assert_eq!((And.combine(2_u8, 4), Or.combine(0_u8, 4), Xor.combine(2_u8, 4)), (1, 1, 0));
    assert_eq!((BitAnd.combine(6_u32, 3), BitOr.combine(6_u32, 3)), (2, 7));
    assert_eq!(BitXor.combine(6_u32, 3), 5);
}
