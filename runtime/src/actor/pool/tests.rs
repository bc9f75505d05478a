//! Room at a worker that is stopped before it is used.

use super::{Order, Pool};
use crate::prelude::*;

#[actor]
#[derive(Default)]
struct Counter(u64);

#[handlers]
impl Counter {
    #[handler]
    fn count(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// PL-1. The sender looks for another worker.
#[tokio::test]
async fn room_at_a_worker_that_was_stopped_since_is_void_until_it_is_made_anew() {
    let node = Node::builder("alpha").start().await.unwrap();
    let pool = Pool::builder(Counter::default).size(2).spawn(&node, "pool").await.unwrap();
    let ring = pool.shared.ring();
    let room = ring[0].reserve::<Count>().await.unwrap();
    assert!(!room.is_void());
    ring[0].stop().await.unwrap();
    assert!(room.is_void());
    // What looks for room now finds it at the other one.
    let order = Order::all_from(0);
    let (worker, other) = pool.room::<Count>(&ring, order, &[]).await.unwrap();
    assert_eq!(worker, &ring[1]);
    assert!(!other.is_void());
    other.tell(Count).unwrap();
    assert_eq!(ring[1].count().await, Ok(2));
    while room.is_void() {
        tokio::task::yield_now().await;
    }
    room.tell(Count).unwrap();
    assert_eq!(ring[0].count().await, Ok(2));
}
