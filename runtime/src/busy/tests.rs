//! The notes of a thread about the actors that it runs.

use std::future::{pending, ready};

use futures::FutureExt;
use tokio::runtime::Handle;

use super::*;

/// Calls `poll` within the poll of an actor's task.
fn as_actor<T>(actor: (usize, u64), runtime: Id, poll: impl FnOnce() -> T) -> T {
    let _within = enter_actor(actor, runtime);
    poll()
}

static DUTY: HandlerInfo = HandlerInfo::handles("Counter", "Add");

/// Polls `future` as a handler of an actor on this runtime.
async fn on<F: Future>(runtime: Id, future: F) -> F::Output {
    let mut handler = std::pin::pin!(on_duty(&DUTY, AskContext::default(), None, future));
    std::future::poll_fn(|cx| as_actor((7, 7), runtime, || handler.as_mut().poll(cx))).await
}

fn texts(runtime: Id) -> Vec<String> {
    duties(runtime).iter().map(|(_, duty)| duty.to_string()).collect()
}

/// A handler is named only while it is polled, and only on its own runtime.
#[tokio::test]
async fn what_a_thread_runs_is_named_while_it_runs() {
    let here = Handle::current().id();
    let elsewhere = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let other = elsewhere.handle().id();
    let look = async || (texts(here), texts(other));
    let named = on(here, look()).await;
    assert_eq!(named, (vec!["Counter handles Add".to_owned()], Vec::new()));
    assert_eq!(look().await, (Vec::new(), Vec::new()));
    let mut waiting = Box::pin(on(here, pending::<()>()));
    assert!((&mut waiting).now_or_never().is_none());
    assert_eq!(look().await.0, Vec::<String>::new(), "a handler that waits blocks nobody");
    let panicking = on(here, async { panic!("as it shall") });
    let caught = std::panic::AssertUnwindSafe(panicking).catch_unwind().await;
    assert!(caught.is_err() && look().await.0.is_empty());
    on(other, ready(())).await;
    drop(waiting);
    elsewhere.shutdown_background();
}

/// A handler may run a runtime of its own on its thread, and actors on it.
#[tokio::test]
async fn what_a_thread_runs_is_named_again_when_what_it_ran_meanwhile_has_ended() {
    static INNER: HandlerInfo = HandlerInfo::handles("Inner", "Add");
    let here = Handle::current().id();
    let elsewhere = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let other = elsewhere.handle().id();
    on(here, async {
        let inner = on_duty(&INNER, AskContext::default(), None, async {
            assert_eq!(texts(other), ["Inner handles Add"]);
            assert_eq!(running().map(|running| running.token), Some(8));
        });
        as_actor((8, 8), other, || inner.now_or_never()).unwrap();
        assert_eq!((texts(here), texts(other)), (vec!["Counter handles Add".into()], vec![]));
        assert_eq!(
            held(here).iter().map(|held| (held.token, held.id)).collect::<Vec<_>>(),
            [(7, 7)]
        );
        assert_eq!(running().map(|running| running.token), Some(7));
    })
    .await;
    assert_eq!(texts(here), Vec::<String>::new());
    elsewhere.shutdown_background();
}

/// An actor may run others outside of its handlers, too.
#[tokio::test]
async fn an_actor_is_noted_again_after_another_one_was_polled_within_it() {
    let here = Handle::current().id();
    let elsewhere = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let other = elsewhere.handle().id();
    as_actor((7, 7), here, || {
        as_actor((8, 8), other, || assert_eq!(running(), None));
        let mut asks = AskChain::default();
        let _noted = note(&DUTY, None, &mut asks);
        assert_eq!(running().map(|running| running.token), Some(7));
        let named: Vec<_> = held(here).iter().map(|held| (held.token, held.id)).collect();
        assert_eq!(named, [(7, 7)]);
    });
    elsewhere.shutdown_background();
}

/// Reports a blockage once, with the running handlers, and its end once.
#[tokio::test]
async fn a_blockage_is_known_from_its_beginning_to_its_end() {
    let watch = RuntimeWatchdog::new("beta".into(), Handle::current().id());
    let after = |late| {
        watch.liveness(late);
        *watch.blocked.lock()
    };
    let most = limits::BLOCKED_AFTER;
    assert_eq!(after(Duration::ZERO), None);
    assert_eq!(after(most - Duration::from_millis(1)), None);
    assert_eq!(after(most), Some(most));
    assert_eq!(after(2 * most), Some(2 * most));
    assert_eq!(after(Duration::ZERO), None);
    assert!(watch.handlers().starts_with("none"));
    on(watch.runtime, async {
        assert!(watch.handlers().starts_with("Counter handles Add for "));
    })
    .await;
}
