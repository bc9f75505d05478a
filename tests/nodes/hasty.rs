//! A program that ends without a shutdown: its messages arrive, or it reports how many did not.

use std::process::Stdio;
use std::time::{Duration, Instant};

use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost_tests::actors::Notary;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use crate::process::{PATIENCE, Process, event, log, program, within};

/// Ten million bytes.
const NOTES: (u64, usize) = (1_000, 10_000);

/// Starts a program that is linked to `beta` and sends nothing until it is [let go](go).
async fn start(threads: usize, (count, bytes): (u64, usize), beta: &str) -> Child {
    let mut child = Command::new(program("hasty", env!("CARGO_BIN_EXE_hasty")))
        .args([threads.to_string(), count.to_string(), bytes.to_string(), beta.to_owned()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert_eq!(within(lines.next_line()).await.unwrap().unwrap(), "linked");
    child
}

/// Starts its tells and waits until its `main` has returned. Returns the losses that it reports:
/// messages that were not sent, and messages with an unknown fate.
async fn go(mut child: Child) -> Option<(u64, u64)> {
    child.stdin.take().unwrap().write_all(b"go\n").await.unwrap();
    let mut errors = String::new();
    let read = child.stderr.as_mut().unwrap().read_to_string(&mut errors);
    within(read).await.unwrap();
    assert!(within(child.wait()).await.unwrap().success(), "{errors}");
    let number = |line: &str, field: &str| {
        let digits = line.split_once(field).unwrap().1;
        let end = digits.find(|it: char| !it.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().unwrap()
    };
    let plain = strip(&errors);
    let mut lines = plain.lines().filter(|line| line.contains("ERROR"));
    let line = lines.next()?;
    assert!(line.contains("shutdown") && line.contains("peer=beta"), "{line}");
    assert_eq!(lines.next(), None);
    Some((number(line, "not_sent="), number(line, "unknown=")))
}

/// Takes the colours out of lines of a log.
fn strip(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// Returns how many of the notes arrived, and the losses that the sender reports.
async fn told(threads: usize) -> (u64, Option<(u64, u64)>) {
    log();
    let beta = Node::builder("beta").listen("127.0.0.1:0").start().await.unwrap();
    let notary = beta.spawn("notary", Notary::default()).await.unwrap();
    let mut events = beta.events();
    let child = start(threads, NOTES, &beta.addresses()[0]).await;
    let said = go(child).await;
    let lost = |event: &NodeEvent| matches!(event, NodeEvent::LinkDown { .. }).then_some(());
    event(&mut events, lost).await;
    // An ask of this node may be handled before messages that have arrived.
    while beta.snapshot().actors[0].mailbox.remote > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let notes = within(async { notary.notes().timeout(PATIENCE).await }).await.unwrap();
    assert!(notes.iter().enumerate().all(|(at, (number, ..))| at as u64 == *number), "in order");
    beta.shutdown(PATIENCE).await;
    (notes.len() as u64, said)
}

fn rounds() -> u64 {
    std::env::var("RINGPOST_TEST_CASES").map_or(3, |cases| cases.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_was_told_arrives_when_main_returns() {
    for round in 0..rounds() {
        assert_eq!(told(2).await, (NOTES.0, None), "round {round}");
    }
}

/// The end of `main` takes the one thread: messages that wait are counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_of_one_thread_says_how_much_it_drops() {
    for round in 0..rounds() {
        let (arrived, said) = told(1).await;
        let (not_sent, unknown) = said.unwrap_or_default();
        let lost = NOTES.0 - arrived;
        println!("{arrived} arrived, {not_sent} were not sent, {unknown} are unknown");
        assert!((not_sent..=not_sent + unknown).contains(&lost), "round {round}: {lost}");
    }
}

/// It waits for a peer that stands still as long as its profile says, a second, and no longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_stands_still_holds_up_no_end() {
    log();
    for threads in [1, 2] {
        let beta = Process::start("beta", &[]).await;
        let child = start(threads, (100, 1_000), &beta.address).await;
        beta.signal("STOP").await;
        let began = Instant::now();
        let (not_sent, unknown) = go(child).await.expect("it says so");
        assert_eq!(not_sent + unknown, 100, "{not_sent} were not sent");
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        beta.kill().await;
    }
}
