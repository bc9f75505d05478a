//! Random histories of a toy network, which is right by construction, are accepted; with one lie
//! put into them they are not. Also tests the program as a user calls it.

mod command;
mod lies;
mod network;

use std::collections::BTreeMap;

use ringpost_history::{Books, Verdict};

const HISTORIES: u64 = 200;

fn judge(logs: &[Vec<String>]) -> Verdict {
    let mut books = Books::default();
    for (number, log) in logs.iter().enumerate() {
        let text: String = log.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        books.read(&format!("{number}.log"), text.as_bytes()).expect("a log of the toy");
    }
    books.judge()
}

#[test]
fn right_histories_are_accepted_and_each_lie_is_caught() {
    let mut caught: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut messages, mut handled, mut unknown, mut killed) = (0, 0, 0, 0);
    for seed in 0..HISTORIES {
        let logs = network::history(seed);
        let verdict = judge(&logs);
        assert!(verdict.violations.is_empty(), "seed {seed}: {:#?}", verdict.violations);
        messages += verdict.messages;
        handled += verdict.handled;
        unknown += verdict.unknown;
        killed += verdict.killed;
        for lie in lies::all() {
            let mut rng = fastrand::Rng::with_seed(seed);
            let Some(logs) = (lie.tell)(&logs, &mut rng) else { continue };
            let broken = judge(&logs).violations;
            let named = broken.iter().any(|violation| lie.rules.contains(&violation.rule));
            assert!(named, "seed {seed}, {}: {broken:#?}", lie.name);
            *caught.entry(lie.name).or_default() += 1;
        }
    }
    println!(
        "{HISTORIES} right histories accepted: {messages} messages, {handled} handled, {unknown} \
         unknown, {killed} runs killed"
    );
    for lie in lies::all() {
        let count = caught.get(lie.name).copied().unwrap_or_default();
        println!("{count:4} of {count:4} caught: {}", lie.name);
        assert!(count >= 50, "too few histories could be told this lie: {}", lie.name);
    }
}

#[test]
fn a_log_cut_anywhere_and_garbage_are_no_panic() {
    let mut rng = fastrand::Rng::with_seed(1);
    for seed in 0..40 {
        let logs = network::history(seed);
        let mut bytes = logs[rng.usize(0..logs.len())].join("\n").into_bytes();
        bytes.truncate(rng.usize(0..=bytes.len()));
        if rng.bool() && !bytes.is_empty() {
            let at = rng.usize(0..bytes.len());
            bytes[at] = rng.u8(..);
        }
        let mut books = Books::default();
        // The log is read or refused; the judge must take the part that was read in either case.
        let read = books.read("cut", bytes.as_slice());
        println!("{} bytes: {:?}", bytes.len(), read.map_err(|error| error.to_string()));
        books.judge();
    }
}
