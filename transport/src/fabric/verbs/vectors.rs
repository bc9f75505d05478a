//! The completion vectors of a device: the interrupts among which its completion queues are shared
//! out, so that not all of them burden one processor.

use std::sync::Arc;

use parking_lot::Mutex;

/// How many completion queues use each vector.
pub(super) struct Vectors(Mutex<Vec<u32>>);

impl Vectors {
    /// Returns `count` unused vectors; every device has one at least.
    pub(super) fn new(count: i32) -> Self {
        Vectors(Mutex::new(vec![0; count.max(1) as usize]))
    }

    /// Takes a vector that the fewest use.
    fn take(&self) -> usize {
        let mut used = self.0.lock();
        let least = used.iter().enumerate().min_by_key(|(_, used)| **used);
        let least = least.map_or(0, |(at, _)| at);
        used[least] += 1;
        least
    }

    fn give_back(&self, vector: usize) {
        self.0.lock()[vector] -= 1;
    }
}

/// One completion queue's share of its device's vectors. Dropping it gives it back.
pub(super) struct Vector {
    number: usize,
    vectors: Arc<Vectors>,
}

impl Vector {
    pub(super) fn new(vectors: Arc<Vectors>) -> Self {
        Vector { number: vectors.take(), vectors }
    }

    pub(super) fn number(&self) -> i32 {
        self.number as i32
    }
}

impl Drop for Vector {
    fn drop(&mut self) {
        self.vectors.give_back(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The queues that are there at a time are spread evenly, whichever go.
    #[test]
    fn queues_are_shared_out_over_the_vectors() {
        let vectors = Vectors::new(3);
        let mut taken: Vec<_> = (0..7).map(|_| vectors.take()).collect();
        assert_eq!(taken, [0, 1, 2, 0, 1, 2, 0]);
        for at in [1, 3] {
            vectors.give_back(taken.remove(at));
        }
        // 0 and 1 use one less.
        let again = [vectors.take(), vectors.take()];
        assert_eq!(*vectors.0.lock(), [3, 2, 2], "{again:?}");
        assert_eq!([-1, 0, 1].map(|count| Vectors::new(count).take()), [0; 3]);
    }
}
