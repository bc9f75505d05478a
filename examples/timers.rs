//! An actor has itself told something later, again and again, or when it was idle for a while.
//!
//! `cargo run --example timers` prints:
//!
//! ```text
//! alpha/bob did not log in within 20ms
//! alpha/ada is logged in
//! ping 1
//! ping 2
//! ping 3
//! alpha/ada was idle for 30ms
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;

const IDLE: Duration = Duration::from_millis(30);

#[derive(Default)]
struct Session {
    log_in_within: Duration,
    is_logged_in: bool,
    pings: u64,
}

#[actor]
impl Actor for Session {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        cx.tell_after("log in", self.log_in_within, Expire);
        Ok(())
    }
}

#[handlers]
impl Session {
    #[handler]
    fn log_in(&mut self, cx: &mut Context<Self>) {
        // Even if it is due already, it tells nothing any more.
        self.is_logged_in = cx.cancel("log in");
        println!("{} is logged in", cx.actor().address());
        cx.tell_every("ping", Duration::from_millis(10), Ping);
    }

    #[handler]
    fn expire(&mut self, cx: &mut Context<Self>) {
        assert!(!self.is_logged_in, "a timer that was cancelled has told something");
        println!("{} did not log in within {:?}", cx.actor().address(), self.log_in_within);
        cx.stop();
    }

    /// The message of a timer that may fire again is cloned each time.
    #[handler(derive(Clone))]
    fn ping(&mut self, cx: &mut Context<Self>) {
        self.pings += 1;
        println!("ping {}", self.pings);
        if self.pings == 3 {
            cx.cancel("ping");
            cx.tell_when_idle(IDLE, Leave);
        }
    }

    #[handler(derive(Clone))]
    fn leave(&mut self, cx: &mut Context<Self>) {
        assert_eq!(self.pings, 3, "a timer that was cancelled has told something");
        println!("{} was idle for {IDLE:?}", cx.actor().address());
        cx.stop();
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let node = Node::builder("alpha").start().await?;
    let session = |log_in_within| Session { log_in_within, ..Session::default() };
    let bob = node.spawn("bob", session(Duration::from_millis(20))).await?;
    let bob_ended = bob.wait_stopped().await;

    let ada = node.spawn("ada", session(Duration::from_secs(60))).await?;
    ada.log_in().await?;
    let ada_ended = ada.wait_stopped().await;
    if bob_ended.is_failure() || ada_ended.is_failure() {
        return Err(format!("of bob: {bob_ended}; of ada: {ada_ended}").into());
    }

    node.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
