//! The rules, which `docs/HISTORY.md` states. Each looks at one stream: the messages that a run of
//! a node sent to a mailbox.
//!
//! A message was *lost in the mailbox* only if it comes after every message that a life of the
//! mailbox handled, and before every message that a later life handled (see [`Losses`]).

#[cfg(test)]
mod tests;

use crate::books::{At, Books, End, Handled, Sent, Stream, StreamKey};
use crate::lives::Losses;
use crate::verdict::{Rule, Verdict, Violation};

impl Books {
    /// Judges the logs that were read.
    pub fn judge(&self) -> Verdict {
        self.judge_by(false)
    }

    /// Judges logs of receivers that write a message down when it is put into its mailbox, not
    /// when it is handled: none can be lost in between.
    pub fn judge_arrivals(&self) -> Verdict {
        self.judge_by(true)
    }

    fn judge_by(&self, arrivals: bool) -> Verdict {
        let mut verdict = Verdict {
            logs: self.logs.len() as u64,
            killed: self.logs.iter().filter(|log| log.ended.is_none()).count() as u64,
            ..Verdict::default()
        };
        for (key, stream) in &self.streams {
            let unknown = |end: &End| *end == End::Unknown;
            let named = stream.sent.iter().filter_map(|sent| sent.end);
            let told = named.chain(stream.unnamed.iter().copied()).map(|(end, _)| end);
            verdict.unknown += told.filter(unknown).count() as u64;
            verdict.messages += stream.sent.len() as u64;
            verdict.handled += stream.handled.len() as u64;
            Case::new(self, *key, stream, arrivals).judge(&mut verdict.violations);
        }
        verdict
    }
}

/// One stream before the judge.
struct Case<'a> {
    books: &'a Books,
    key: StreamKey,
    stream: &'a Stream,
    /// In the order in which they were handled, over the lives of the mailbox.
    handled: Vec<Handled>,
    /// The first time each message of `sent` was handled.
    seen: Vec<Option<At>>,
    losses: Losses,
}

impl<'a> Case<'a> {
    fn new(books: &'a Books, key: StreamKey, stream: &'a Stream, arrivals: bool) -> Self {
        let mut handled = stream.handled.clone();
        handled.sort_by_key(|handled| (handled.life, handled.at.log, handled.at.line));
        let mut seen = vec![None; stream.sent.len()];
        for one in &handled {
            if let Some(index) = stream.find(one.number) {
                seen[index] = seen[index].or(Some(one.at));
            }
        }
        let to = stream.to.map(|(node, mailbox, _)| (node, mailbox)).filter(|_| !arrivals);
        let losses = to.map(|to| Losses::of(books, to, &handled)).unwrap_or_default();
        Case { books, key, stream, handled, seen, losses }
    }

    fn judge(&self, violations: &mut Vec<Violation>) {
        self.judge_handling(violations);
        self.judge_order(violations);
        for (sent, seen) in self.stream.sent.iter().zip(&self.seen) {
            violations.extend(self.judge_fate(sent, *seen));
            violations.extend(self.back_after_commit(sent));
        }
        for (index, _, at) in &self.stream.again {
            let sent = &self.stream.sent[*index];
            let first = sent.end.map(|(end, at)| (at, end.what()));
            let proof = first.into_iter().chain([(*at, "ended again")]);
            let what = "its sender was told of two ends";
            violations.push(self.violation(Rule::OneEnd, sent.number, what, proof));
        }
        self.judge_counts(violations);
        self.judge_ends(violations);
    }

    /// Judges HI-1, HI-2 and HI-4: the lines of receivers.
    // Promised in docs/SEMANTICS.md.
    fn judge_handling(&self, violations: &mut Vec<Violation>) {
        let mut first = self.handled.clone();
        // The sort is stable: the first handling of a message stays first.
        first.sort_by_key(|handled| handled.number);
        for pair in first.windows(2).filter(|pair| pair[0].number == pair[1].number) {
            let proof = [(pair[0].at, "handled"), (pair[1].at, "handled again")];
            let what = "it was handled twice";
            violations.push(self.violation(Rule::Once, pair[0].number, what, proof));
        }
        for one in &self.handled {
            let handled = (one.at, "handled");
            match self.stream.to {
                None => violations.push(self.violation(
                    Rule::Tried,
                    one.number,
                    "it was handled, and no log tells of its stream",
                    [handled],
                )),
                Some((node, mailbox, declared)) if (node, mailbox) != one.by => {
                    violations.push(self.violation(
                        Rule::Tried,
                        one.number,
                        "it was handled in a mailbox for which it was not meant",
                        [handled, (declared, "the stream's mailbox")],
                    ));
                }
                Some((.., declared)) if self.stream.find(one.number).is_none() => {
                    violations.push(self.violation(
                        Rule::Tried,
                        one.number,
                        "it was handled, and nobody had tried to send it",
                        [handled, (declared, "the stream")],
                    ));
                }
                Some(_) => {}
            }
            if !one.whole {
                let what = "it was handled with bytes that were not sent";
                violations.push(self.violation(Rule::Whole, one.number, what, [handled]));
            }
        }
    }

    /// Judges HI-3. A message that is handled twice breaks HI-2, not this rule too.
    // Promised in docs/SEMANTICS.md.
    fn judge_order(&self, violations: &mut Vec<Violation>) {
        let mut highest: Option<Handled> = None;
        let mut before = std::collections::BTreeSet::new();
        for one in &self.handled {
            let again = !before.insert(one.number);
            match highest.filter(|highest| one.number <= highest.number) {
                None => highest = Some(*one),
                Some(highest) if !again => {
                    let what = format!("it was handled after message {}", highest.number);
                    let proof = [(highest.at, "the later message handled"), (one.at, "handled")];
                    violations.push(self.violation(Rule::Order, one.number, &what, proof));
                }
                Some(_) => {}
            }
        }
    }

    /// Judges HI-5 to HI-8: the end of one message, as its sender was told.
    // Promised in docs/SEMANTICS.md.
    fn judge_fate(&self, sent: &Sent, seen: Option<At>) -> Option<Violation> {
        let (end, at) = sent.end?;
        let lost = || self.losses.may_hold(sent.number);
        let (rule, what) = match (end, seen) {
            (End::GivenBack, Some(_)) => (Rule::GivenBack, "it was given back and handled"),
            (End::NotSent, Some(_)) => (Rule::NotSent, "it was reported not sent, and handled"),
            (End::Refused, Some(_)) => (Rule::NotSent, "it was reported refused, and handled"),
            (End::Delivered, None) if !lost() => {
                let what = "it was reported delivered, and neither handled nor lost in its mailbox";
                (Rule::Delivered, what)
            }
            (End::Answered, None) => (Rule::Answered, "it was answered and never handled"),
            _ => return None,
        };
        let proof = [(sent.tried, "tried"), (at, end.what())];
        let proof = proof.into_iter().chain(seen.map(|at| (at, "handled")));
        Some(self.violation(rule, sent.number, what, proof))
    }

    /// Judges HI-9 for a message that was committed and given back.
    fn back_after_commit(&self, sent: &Sent) -> Option<Violation> {
        let committed = sent.committed?;
        let (_, at) = sent.end.filter(|(end, _)| *end == End::GivenBack)?;
        let proof = [(committed, "committed"), (at, End::GivenBack.what())];
        Some(self.violation(Rule::OneEnd, sent.number, "it was committed and given back", proof))
    }

    /// Judges HI-10 and HI-11: compares fates without a number with messages without a fate.
    // Promised in docs/SEMANTICS.md.
    fn judge_counts(&self, violations: &mut Vec<Violation>) {
        // An ask is never among them: its asker is told how it ended.
        let tells = self.stream.sent.iter().zip(&self.seen).filter(|(sent, _)| !sent.ask);
        let missing = tells.filter(|(sent, seen)| sent.end.is_none() && seen.is_none());
        let missing: Vec<&Sent> = missing.map(|(sent, _)| sent).collect();
        let lost = self.stream.unnamed.iter().filter(|(end, _)| *end != End::Unknown);
        let lost: Vec<At> = lost.map(|(_, at)| *at).collect();
        if lost.len() > missing.len() {
            let what = format!(
                "{} of its messages were reported lost without a number, and only {} are missing",
                lost.len(),
                missing.len()
            );
            let proof = lost.iter().skip(missing.len()).map(|at| (*at, "reported lost"));
            violations.push(self.about(Rule::Counted, &what, proof));
        }
        if self.sender_ended().is_none() {
            return;
        }
        let silent = missing.into_iter().filter(|sent| !self.losses.may_hold(sent.number));
        let silent: Vec<(&Sent, At)> =
            silent.filter_map(|sent| Some((sent, sent.committed?))).collect();
        let told = self.stream.unnamed.len();
        for (sent, committed) in silent.iter().skip(told) {
            let what = match told {
                0 => "it was committed, and nothing was said of it again".to_owned(),
                _ => format!(
                    "it was committed, and nothing was said of it again: of {} like it {told} were \
                     reported lost without a number",
                    silent.len()
                ),
            };
            let proof = [(sent.tried, "tried"), (*committed, "committed")];
            violations.push(self.violation(Rule::Accounted, sent.number, &what, proof));
        }
    }

    /// Judges HI-12.
    // Promised in docs/SEMANTICS.md.
    fn judge_ends(&self, violations: &mut Vec<Violation>) {
        let Some(end) = self.sender_ended() else { return };
        let open = self.stream.sent.iter().filter(|sent| sent.end.is_none());
        for sent in open.filter(|sent| sent.ask || sent.committed.is_none()) {
            let proof = [(sent.tried, "tried"), (end, "the sender's end")];
            let what = "its send has no end";
            violations.push(self.violation(Rule::Ended, sent.number, what, proof));
        }
    }

    /// The line in which the sender ended, unless it was killed.
    fn sender_ended(&self) -> Option<At> {
        let (node, run, _) = self.key;
        let mut logs = self.books.logs.iter().zip(0..);
        let (log, number) = logs.find(|(log, _)| (log.node, log.run) == (node, run))?;
        Some(At { log: number, line: log.ended? })
    }

    fn violation(
        &self,
        rule: Rule,
        number: u64,
        what: &str,
        proof: impl IntoIterator<Item = (At, &'static str)>,
    ) -> Violation {
        self.about(rule, &format!("message {number}: {what}"), proof)
    }

    /// A violation of the stream as a whole.
    fn about(
        &self,
        rule: Rule,
        what: &str,
        proof: impl IntoIterator<Item = (At, &'static str)>,
    ) -> Violation {
        let (node, run, stream) = self.key;
        let (node, stream) = (self.books.text(node), self.books.text(stream));
        let proof = proof.into_iter().map(|(at, what)| self.books.place(at, what)).collect();
        Violation { rule, what: format!("stream {stream} of {node} (run {run}), {what}"), proof }
    }
}

impl End {
    fn what(self) -> &'static str {
        match self {
            End::GivenBack => "given back",
            End::Answered => "answered",
            End::Delivered => "reported delivered",
            End::NotSent => "reported not sent",
            End::Unknown => "reported unknown",
            End::Refused => "reported refused",
        }
    }
}
