//! Hooks of generic actors, messages that only name a type, and local messages of several types.
#![deny(warnings)]

use ringpost::prelude::*;
use ringpost::wire::Wire;
use std::collections::HashMap;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub struct Cache<K, const N: usize> {
    values: HashMap<K, [u64; N]>,
    stops: Arc<AtomicUsize>,
}

#[actor]
impl<K: Wire + Eq + Hash + Default, const N: usize> Actor for Cache<K, N> {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let me = cx.actor().clone();
        tokio::task::yield_now().await;
        self.values.insert(K::default(), [7; N]);
        me.tell(Put { key: K::default(), values: [8; N] }).await.map_err(|unsent| unsent.cause)?;
        Ok(())
    }

    async fn on_stop(&mut self, cx: &mut Context<Self>) {
        assert!(!cx.actor().address().to_string().is_empty());
        self.stops.fetch_add(self.values.len(), Ordering::Relaxed);
    }
}

#[handlers]
impl<K: Wire + Eq + Hash + Default, const N: usize> Cache<K, N> {
    #[handler]
    pub fn put(&mut self, key: K, values: [u64; N]) -> Option<u64> {
        self.values.insert(key, values)?.first().copied()
    }
}

#[message]
#[derive(Debug, Clone, Copy)]
pub struct Count<M>(PhantomData<M>);

#[message]
pub struct Pair<A, B> {
    pub first: PhantomData<fn(A) -> Vec<B>>,
    pub number: u8,
}

#[message(local)]
pub struct Show<T>(pub T);

#[message(local)]
pub struct Query<T>(pub PhantomData<T>);

#[message(local)]
pub enum Sum {
    Of(Box<Sum>, Box<Sum>),
    Number(u64),
}

impl Sum {
    fn value(self) -> u64 {
        match self {
            Sum::Of(left, right) => left.value() + right.value(),
            Sum::Number(number) => number,
        }
    }
}

#[actor]
#[derive(Default)]
pub struct Screen<M: Send + 'static> {
    shown: String,
    _message: PhantomData<M>,
}

#[handlers]
impl<M: Wire> Screen<M> {
    #[handler]
    pub fn count(&mut self, msg: Count<M>) -> (u64, Count<M>) {
        (self.shown.len() as u64, msg)
    }

    #[handler]
    pub fn pair(&mut self, msg: View<Pair<M, String>>) -> u8 {
        msg.number
    }

    #[handler]
    pub fn text(&mut self, msg: Show<&'static str>) {
        self.shown.push_str(msg.0);
    }

    #[handler]
    pub fn query(&mut self, msg: Query<M>) -> u64 {
        let Query(PhantomData) = msg;
        self.shown.len() as u64
    }

    #[handler]
    pub fn add(&mut self, msg: Sum) -> u64 {
        msg.value()
    }

    #[handler]
    pub fn digit(&mut self, msg: Show<u8>) {
        self.shown.push_str(&msg.0.to_string());
    }
}

/// It can be sent, and not shared.
#[message]
#[derive(Default)]
pub struct Unshared {
    #[message(opaque)]
    #[rkyv(with = ringpost::rkyv::with::Skip)]
    cell: std::cell::Cell<u8>,
}

#[tokio::test]
async fn it_runs() {
    let node = Node::builder("alpha").start().await.unwrap();
    let stops = Arc::new(AtomicUsize::new(0));
    let cache = Cache::<String, 2> { values: HashMap::new(), stops: stops.clone() };
    let cache = node.spawn("cache", cache).await.unwrap();
    assert_eq!(cache.put(String::new(), [9; 2]).await.unwrap(), Some(8));
    assert_eq!(cache.put("one".into(), [9; 2]).await.unwrap(), None);
    let _ = cache.stop().await;
    cache.wait_stopped().await;
    assert_eq!(stops.load(Ordering::Relaxed), 2);

    let screen = node.spawn("screen", Screen::<Unshared>::default()).await.unwrap();
    assert_eq!(screen.query(Query(PhantomData)).await.unwrap(), 0);
    let number = |number| Box::new(Sum::Number(number));
    assert_eq!(screen.add(Sum::Of(number(3), number(4))).await.unwrap(), 7);
    screen.text(Show("four")).await.unwrap();
    screen.digit(Show(4)).await.unwrap();
    assert_eq!(screen.count(Count(PhantomData)).await.unwrap().0, 5);
    assert_eq!(screen.pair(Pair { first: PhantomData, number: 3 }).await.unwrap(), 3);
}
