//! Lies to put into a history that is right.

use fastrand::Rng;
use ringpost_history::Rule;

type Logs = Vec<Vec<String>>;

/// One kind of lie.
pub(crate) struct Lie {
    pub(crate) name: &'static str,
    /// Each lie breaks one of these.
    pub(crate) rules: &'static [Rule],
    /// The history with the lie; `None` when it has no place for it.
    pub(crate) tell: fn(&Logs, &mut Rng) -> Option<Logs>,
}

const LOST: &[Rule] = &[Rule::Accounted, Rule::Delivered, Rule::Answered];

pub(crate) fn all() -> Vec<Lie> {
    let lie = |name, rules, tell| Lie { name, rules, tell };
    vec![
        lie("a handled message was not handled", LOST, lose),
        lie("a message was handled twice by one run", &[Rule::Once], repeat),
        lie("a message was handled again by another run", &[Rule::Once], repeat_in_another_run),
        lie("two messages of a stream changed places", &[Rule::Order], swap),
        lie("a message was handled that nobody sent", &[Rule::Tried], invent),
        lie("a message was handled in another mailbox", &[Rule::Tried], mislead),
        lie("a message was handled with other bytes", &[Rule::Whole], damage),
        lie("a handled message had been given back", &[Rule::GivenBack], give_back),
        lie("a handled message was reported not sent", &[Rule::NotSent], false_not_sent),
        lie("a lost message was reported delivered", &[Rule::Delivered], false_delivered),
        lie("a message had two fates", &[Rule::OneEnd], second_fate),
        lie("the fate of a lost message was not told", &[Rule::Accounted], conceal),
        lie("more messages were reported lost than are missing", &[Rule::Counted], too_many),
        lie("an ask never ended", &[Rule::Ended], forget_answer),
        lie("a tell never returned", &[Rule::Ended], forget_commit),
    ]
}

/// A line: the place of its log, its own place in it, its words.
type Line<'a> = (usize, usize, Vec<&'a str>);

fn lines<'a>(logs: &'a Logs, event: &str) -> Vec<Line<'a>> {
    let mut found = Vec::new();
    for (log, lines) in logs.iter().enumerate() {
        for (at, line) in lines.iter().enumerate() {
            let words: Vec<&str> = line.split(' ').collect();
            if words[0] == event {
                found.push((log, at, words));
            }
        }
    }
    found
}

/// Words of a `handled` line: mailbox, node, run, stream, number.
fn handled(logs: &Logs) -> Vec<Line<'_>> {
    lines(logs, "handled")
}

fn one<T>(mut all: Vec<T>, rng: &mut Rng) -> Option<T> {
    (!all.is_empty()).then(|| all.swap_remove(rng.usize(0..all.len())))
}

/// The place of the log of a run of a node.
fn log_of(logs: &Logs, node: &str, run: &str) -> usize {
    let header = format!("history 1 {node} {run}");
    logs.iter().position(|log| log[0] == header).expect("its log")
}

fn has_ended(log: &[String]) -> bool {
    log.last().is_some_and(|line| line == "end")
}

/// The lines that a sender's log has of a message, by their first word.
fn told(logs: &Logs, log: usize, stream: &str, number: &str) -> Vec<(usize, String)> {
    let about = |line: &&str| {
        let words: Vec<&str> = line.split(' ').collect();
        words.get(1) == Some(&stream) && words.get(2) == Some(&number)
    };
    let lines = logs[log].iter().map(String::as_str).enumerate();
    lines.filter(|(_, line)| about(line)).map(|(at, line)| (at, line.to_owned())).collect()
}

/// Returns true if the log has fates of this stream without numbers.
fn has_unnamed(logs: &Logs, log: usize, stream: &str) -> bool {
    logs[log].iter().any(|line| line.starts_with(&format!("fate {stream} ? ")))
}

/// Returns true if one life of the mailbox handled messages before and after this number, so that
/// the message with this number cannot have been lost in the mailbox.
fn is_surrounded(logs: &Logs, log: usize, stream: &str, number: u64) -> bool {
    let words: Vec<&str> = logs[log][0].split(' ').collect();
    let suffix = format!(" {} {} {stream} ", words[2], words[3]);
    let mailbox = stream.split_once('.').map_or("", |(_, mailbox)| mailbox);
    for lines in logs {
        let (mut before, closed) = (false, format!("closed {mailbox}"));
        for line in lines {
            if *line == closed {
                before = false;
            }
            let Some((_, other)) = line.split_once(&suffix) else { continue };
            let other: u64 = other.parse().expect("a number");
            if other > number && before {
                return true;
            }
            before |= other < number;
        }
    }
    false
}

/// Returns true if nothing would excuse the absence of this handled message.
fn needed(logs: &Logs, words: &[&str]) -> bool {
    let log = log_of(logs, words[2], words[3]);
    let number = words[5].parse().expect("a number");
    let doubted = told(logs, log, words[4], words[5]).iter().any(|(_, l)| l.ends_with("unknown"));
    has_ended(&logs[log])
        && !doubted
        && !has_unnamed(logs, log, words[4])
        && is_surrounded(logs, log, words[4], number)
}

fn lose(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let mut all = handled(logs);
    all.retain(|(_, _, words)| needed(logs, words));
    let (log, at, _) = one(all, rng)?;
    let mut logs = logs.clone();
    logs[log].remove(at);
    Some(logs)
}

fn repeat(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let (log, at, _) = one(handled(logs), rng)?;
    let mut logs = logs.clone();
    let line = logs[log][at].clone();
    let after = rng.usize(at + 1..=logs[log].len() - usize::from(has_ended(&logs[log])));
    logs[log].insert(after, line);
    Some(logs)
}

fn repeat_in_another_run(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let (log, at, _) = one(handled(logs), rng)?;
    let node = logs[log][0].rsplit_once(' ')?.0;
    let others = (0..logs.len()).filter(|other| *other != log && logs[*other][0].starts_with(node));
    let other = one(others.collect(), rng)?;
    let mut logs = logs.clone();
    let line = logs[log][at].clone();
    logs[other].insert(1, line);
    Some(logs)
}

fn swap(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let all = handled(logs);
    let (log, at, words) = one(all.clone(), rng)?;
    let next = all.iter().find(|(l, a, w)| *l == log && *a > at && w[1..5] == words[1..5])?;
    let mut logs = logs.clone();
    logs[log].swap(at, next.1);
    Some(logs)
}

fn invent(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let (log, at, words) = one(handled(logs), rng)?;
    let mut logs = logs.clone();
    logs[log].insert(at + 1, format!("{} 999999", words[..5].join(" ")));
    Some(logs)
}

fn mislead(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let (log, at, mut words) = one(handled(logs), rng)?;
    words[1] = if words[1] == "in" { "out" } else { "in" };
    let line = words.join(" ");
    let mut logs = logs.clone();
    logs[log][at] = line;
    Some(logs)
}

fn damage(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let (log, at, _) = one(handled(logs), rng)?;
    let mut logs = logs.clone();
    logs[log][at] = logs[log][at].replacen("handled", "damaged", 1);
    Some(logs)
}

/// The lines of a sender's log about a handled message, chosen at random, that `wanted` takes.
fn about_handled(
    logs: &Logs,
    rng: &mut Rng,
    wanted: impl Fn(&[(usize, String)]) -> bool,
) -> Option<(usize, Vec<(usize, String)>)> {
    let of = |words: &[&str]| {
        let log = log_of(logs, words[2], words[3]);
        (log, told(logs, log, words[4], words[5]))
    };
    let all = handled(logs).into_iter().map(|(_, _, words)| of(&words));
    one(all.filter(|(_, told)| wanted(told)).collect(), rng)
}

fn give_back(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let only_committed =
        |told: &[(usize, String)]| told.len() == 2 && told[1].1.starts_with("committed");
    let (log, told) = about_handled(logs, rng, only_committed)?;
    let mut logs = logs.clone();
    let (at, line) = &told[1];
    logs[log][*at] = line.replacen("committed", "refused", 1);
    Some(logs)
}

fn false_not_sent(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let has_fate =
        |told: &[(usize, String)]| told.last().is_some_and(|(_, line)| line.starts_with("fate"));
    let (log, told) = about_handled(logs, rng, has_fate)?;
    let (at, line) = told.last()?;
    let mut logs = logs.clone();
    let about = line.rsplit_once(' ')?.0;
    logs[log][*at] = format!("{about} not-sent");
    Some(logs)
}

/// Fates of messages that were not handled and cannot have been lost in their mailbox.
fn lost(logs: &Logs) -> Vec<Line<'_>> {
    let mut all = lines(logs, "fate");
    let ends: Vec<String> =
        handled(logs).iter().map(|(_, _, words)| words[2..].join(" ")).collect();
    all.retain(|(log, _, words)| {
        let Ok(number) = words[2].parse() else { return false };
        let header: Vec<&str> = logs[*log][0].split(' ').collect();
        let message = format!("{} {} {} {number}", header[2], header[3], words[1]);
        !ends.contains(&message) && is_surrounded(logs, *log, words[1], number)
    });
    all
}

fn false_delivered(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let (log, at, words) = one(lost(logs), rng)?;
    let line = format!("{} delivered", words[..3].join(" "));
    let mut logs = logs.clone();
    logs[log][at] = line;
    Some(logs)
}

fn second_fate(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let mut all = lines(logs, "fate");
    all.retain(|(_, _, words)| words[2] != "?");
    let (log, at, words) = one(all, rng)?;
    let line = format!("{} unknown", words[..3].join(" "));
    let mut logs = logs.clone();
    logs[log].insert(at + 1, line);
    Some(logs)
}

fn conceal(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let mut all = lost(logs);
    all.retain(|(log, _, words)| {
        let tell = told(logs, *log, words[1], words[2])[0].1.starts_with("try");
        tell && has_ended(&logs[*log]) && !has_unnamed(logs, *log, words[1])
    });
    let (log, at, _) = one(all, rng)?;
    let mut logs = logs.clone();
    logs[log].remove(at);
    Some(logs)
}

fn too_many(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let mut all = lines(logs, "fate");
    all.retain(|(_, _, words)| words[2] == "?");
    let (log, at, words) = one(all, rng)?;
    let sender: Vec<&str> = logs[log][0].split(' ').collect();
    let ends: Vec<String> =
        handled(logs).iter().map(|(_, _, words)| words[2..].join(" ")).collect();
    let missing = logs[log].iter().filter(|line| {
        let Some(rest) = line.strip_prefix(&format!("try {} ", words[1])) else { return false };
        let message = format!("{} {} {} {rest}", sender[2], sender[3], words[1]);
        told(logs, log, words[1], rest).len() <= 2
            && !logs[log].iter().any(|l| l.starts_with(&format!("refused {} {rest} ", words[1])))
            && !ends.contains(&message)
    });
    let prefix = format!("fate {} ? ", words[1]);
    let certain =
        logs[log].iter().filter(|l| l.starts_with(&prefix) && !l.ends_with("unknown")).count();
    let more = missing.count() + 1 - certain;
    let line = format!("{prefix}not-sent");
    let mut logs = logs.clone();
    (0..more).for_each(|_| logs[log].insert(at, line.clone()));
    Some(logs)
}

fn forget_answer(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let mut all = lines(logs, "answered");
    all.retain(|(log, ..)| has_ended(&logs[*log]));
    let (log, at, _) = one(all, rng)?;
    let mut logs = logs.clone();
    logs[log].remove(at);
    Some(logs)
}

fn forget_commit(logs: &Logs, rng: &mut Rng) -> Option<Logs> {
    let mut all = lines(logs, "committed");
    all.retain(|(log, _, words)| {
        has_ended(&logs[*log]) && told(logs, *log, words[1], words[2]).len() == 2
    });
    let (log, at, _) = one(all, rng)?;
    let mut logs = logs.clone();
    logs[log].remove(at);
    Some(logs)
}
