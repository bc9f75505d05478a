//! Where random numbers come from: the operating system, or a seed so that a run can be repeated.

use std::sync::Arc;

use parking_lot::Mutex;

/// A node's source of random numbers. Clones draw from the same source.
#[derive(Clone, Debug)]
pub struct Entropy(Source);

#[derive(Clone, Debug)]
enum Source {
    Os,
    Seeded(Arc<Mutex<fastrand::Rng>>),
}

impl Entropy {
    /// The operating system's generator, fit for keys and tokens.
    pub fn os() -> Self {
        Entropy(Source::Os)
    }

    /// A repeatable sequence, for simulation only: it keeps no secret.
    pub fn seeded(seed: u64) -> Self {
        Entropy(Source::Seeded(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)))))
    }

    /// Fills `out` with random bytes.
    pub fn fill(&self, out: &mut [u8]) {
        match &self.0 {
            Source::Seeded(rng) => rng.lock().fill(out),
            Source::Os => getrandom::fill(out).expect("the system has a random generator"),
        }
    }

    /// 128 random bits.
    pub fn u128(&self) -> u128 {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }

    /// Keeps `most` of these, drawn by lot, each as likely as another.
    pub fn draw<T>(&self, of: &mut Vec<T>, most: usize) {
        for at in 0..most.min(of.len()) {
            let other = at + self.below((of.len() - at) as u64) as usize;
            of.swap(at, other);
        }
        of.truncate(most);
    }

    /// Returns a number from 0 to `below`, `below` itself excluded.
    pub fn below(&self, below: u64) -> u64 {
        ((self.u128() as u64 as u128 * below as u128) >> 64) as u64
    }
}
