//! Calls over TCP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use ringpost::prelude::*;
use ringpost_streams::rpc::{self, Bytes, CallError, Client};
use tokio::sync::Semaphore;

use crate::{in_time, pair};

#[tokio::test]
async fn many_requests_are_answered_each_by_its_own() {
    in_time(async {
        let (alpha, beta) = pair().await;
        let gate = Arc::new(Semaphore::new(0));
        let begun = Arc::new(AtomicUsize::new(0));
        let (held, counted) = (gate.clone(), begun.clone());
        rpc::serve(&beta, "double", move |request: View<Bytes>| {
            let (held, counted) = (held.clone(), counted.clone());
            async move {
                counted.fetch_add(1, Ordering::SeqCst);
                drop(held.acquire().await);
                Bytes([&request[..], &request[..]].concat())
            }
        })
        .await
        .unwrap();
        // Also on the client's own node, by the same client.
        rpc::serve(&alpha, "plain", |request: View<Bytes>| async move { Bytes(request.to_vec()) })
            .await
            .unwrap();
        let client = Client::<Bytes, Bytes>::new(&alpha);
        let calls = join_all((0..1_000_u32).map(|number| {
            let client = &client;
            async move {
                let request = number.to_le_bytes().to_vec();
                let server = if number % 10 == 0 { "plain" } else { "beta/double" };
                let answer = client.call(server, request.clone().into()).await.unwrap();
                let times = if number % 10 == 0 { 1 } else { 2 };
                assert_eq!(answer.0, request.repeat(times));
            }
        }));
        // All of them are in flight before the first one is answered.
        let opened = async {
            while begun.load(Ordering::SeqCst) < 900 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            gate.add_permits(1);
        };
        tokio::join!(calls, opened);
    })
    .await;
}

#[tokio::test]
async fn a_panic_fails_its_own_request_only() {
    in_time(async {
        let (alpha, beta) = pair().await;
        rpc::serve(&beta, "picky", |request: View<Bytes>| async move {
            assert_ne!(&request[..], b"now", "a bad request");
            if &request[..] == b"later" {
                tokio::time::sleep(Duration::from_millis(1)).await;
                panic!("a bad request");
            }
            request.len() as u64
        })
        .await
        .unwrap();
        let client = Client::<Bytes, u64>::new(&alpha);
        let call = |request: &[u8]| client.call("beta/picky", Bytes(request.to_vec()));
        let (now, later, good) = tokio::join!(call(b"now"), call(b"later"), call(b"good"));
        for panicked in [now, later] {
            let Err(CallError::Ask(error)) = panicked else { panic!("{panicked:?}") };
            assert_eq!(error.cause, AskCause::Panicked);
        }
        assert_eq!(good.unwrap(), 4);
        assert_eq!(call(b"after").await.unwrap(), 5);
    })
    .await;
}

#[tokio::test]
async fn large_requests_and_answers_pass() {
    in_time(async {
        let (alpha, beta) = pair().await;
        rpc::serve(&beta, "reverse", |request: View<Bytes>| async move {
            Bytes(request.iter().rev().copied().collect())
        })
        .await
        .unwrap();
        let client = Client::<Bytes, Bytes>::with_timeout(&alpha, Duration::from_secs(60));
        let request: Vec<u8> = (0..8 << 20).map(|at: u32| (at ^ (at >> 8)) as u8).collect();
        let answer = client.call("beta/reverse", request.clone().into()).await.unwrap();
        assert!(answer.iter().rev().eq(&request));
    })
    .await;
}

#[tokio::test]
async fn a_server_handles_so_many_at_a_time_and_ends_when_it_is_stopped() {
    in_time(async {
        let (alpha, beta) = pair().await;
        let running = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let (counted, peak) = (running.clone(), most.clone());
        let function = move |_: View<Bytes>| {
            let (counted, peak) = (counted.clone(), peak.clone());
            async move {
                peak.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(2)).await;
                counted.fetch_sub(1, Ordering::SeqCst);
            }
        };
        let server = rpc::serve_at_most(&beta, "slow", 3, function).await.unwrap();
        let client = Client::<Bytes, ()>::new(&alpha);
        let calls = (0..20).map(|_| client.call("beta/slow", Bytes::default()));
        for done in join_all(calls).await {
            done.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 3);
        server.stop().await;
        let error = client.call("beta/slow", Bytes::default()).await.unwrap_err();
        let CallError::Ask(error) = error else { panic!("{error:?}") };
        assert!(error.is_retryable(), "{error}");
        assert!(matches!(client.call("a/b/c", Bytes::default()).await, Err(CallError::Lookup(_))));
    })
    .await;
}
