//! For each rule: a history that breaks this rule alone, and another that nearly breaks it.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::verdict::{Rule, Verdict};
use crate::{Books, Unreadable};

/// The sender's first lines: stream `s` to the mailbox `m` of `b`.
const A: &str = "history 1 a 1\nstream s b m\n";

fn read(logs: &[&str]) -> Result<Verdict, Unreadable> {
    let mut books = Books::default();
    for (number, log) in logs.iter().enumerate() {
        books.read(&format!("{number}.log"), log.as_bytes())?;
    }
    Ok(books.judge())
}

/// A history of the sender `a` and, by run from 1, of the receiver `b`; `;` ends a line.
fn judge(sender: &str, receivers: &[&str]) -> Verdict {
    let mut logs = vec![format!("{A}{}", lines(sender))];
    for (run, events) in receivers.iter().enumerate() {
        logs.push(format!("history 1 b {}\n{}", run + 1, lines(events)));
    }
    read(&logs.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
}

fn lines(events: &str) -> String {
    let events = events.split(';').map(str::trim).filter(|event| !event.is_empty());
    // `h 3`: the third message of stream `s` is handled.
    let lines = events.map(|event| match event.strip_prefix("h ") {
        Some(number) => format!("handled m a 1 s {number}\n"),
        None => format!("{event}\n"),
    });
    lines.collect()
}

fn fine(sender: &str, receivers: &[&str]) -> Verdict {
    let verdict = judge(sender, receivers);
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
    verdict
}

/// Asserts that this rule alone is broken, once, and that the violation reads `text`.
fn breaks(rule: Rule, sender: &str, receivers: &[&str], text: &str) {
    let verdict = judge(sender, receivers);
    let rules: Vec<Rule> = verdict.violations.iter().map(|v| v.rule).collect();
    assert_eq!(rules, [rule], "{:#?}", verdict.violations);
    let said = verdict.violations[0].to_string();
    assert_eq!(said, format!("{rule}: {text}"));
}

/// Two messages that are tried and committed.
const TWO: &str = "try s 1; committed s 1; try s 2; committed s 2; ";

#[test]
fn hi_1_what_is_handled_was_tried_for_this_mailbox() {
    breaks(
        Rule::Tried,
        "try s 1; committed s 1; end",
        &["h 1; h 2; end"],
        "stream s of a (run 1), message 2: it was handled, and nobody had tried to send it\n  \
         1.log:3: handled\n  0.log:2: the stream",
    );
    breaks(
        Rule::Tried,
        "try s 1; committed s 1; end",
        &["handled other a 1 s 1; end"],
        "stream s of a (run 1), message 1: it was handled in a mailbox for which it was not \
         meant\n  \
         1.log:2: handled\n  0.log:2: the stream's mailbox",
    );
    breaks(
        Rule::Tried,
        "end",
        &["handled m a 2 s 1; end"],
        "stream s of a (run 2), message 1: it was handled, and no log tells of its stream\n  \
         1.log:2: handled",
    );
    // The sender was killed between the try and the commit.
    fine("try s 1", &["h 1; end"]);
}

#[test]
fn hi_2_no_message_is_handled_twice_also_over_a_restart() {
    let what = "stream s of a (run 1), message 1: it was handled twice\n";
    breaks(
        Rule::Once,
        "try s 1; committed s 1; end",
        &["h 1; h 1; end"],
        &format!("{what}  1.log:2: handled\n  1.log:3: handled again"),
    );
    breaks(
        Rule::Once,
        "try s 1; committed s 1; end",
        &["h 1", "h 1; end"],
        &format!("{what}  1.log:2: handled\n  2.log:2: handled again"),
    );
    // The same number of another stream is another message.
    let both = format!("{TWO} stream t b m; try t 1; committed t 1; end");
    fine(&both, &["h 1; handled m a 1 t 1; h 2; end"]);
}

#[test]
fn hi_3_messages_are_handled_in_the_order_of_their_numbers() {
    breaks(
        Rule::Order,
        &format!("{TWO} end"),
        &["h 2; h 1; end"],
        "stream s of a (run 1), message 1: it was handled after message 2\n  \
         1.log:2: the later message handled\n  1.log:3: handled",
    );
    breaks(
        Rule::Order,
        &format!("{TWO} end"),
        &["h 2", "h 1; end"],
        "stream s of a (run 1), message 1: it was handled after message 2\n  \
         1.log:2: the later message handled\n  2.log:2: handled",
    );
    // A gap that a fate explains.
    fine(&format!("{TWO} fate s 1 unknown; end"), &["h 2; end"]);
    // No order between two streams.
    let both = format!("{TWO} stream t b m; try t 1; committed t 1; end");
    fine(&both, &["h 1; h 2; handled m a 1 t 1; end"]);
}

#[test]
fn hi_4_what_is_handled_has_the_bytes_that_were_sent() {
    breaks(
        Rule::Whole,
        "try s 1; committed s 1; end",
        &["damaged m a 1 s 1; end"],
        "stream s of a (run 1), message 1: it was handled with bytes that were not sent\n  \
         1.log:2: handled",
    );
    fine("try s 1; committed s 1; end", &["# nothing was damaged; h 1; end"]);
}

#[test]
fn hi_5_a_message_that_was_given_back_is_not_handled() {
    breaks(
        Rule::GivenBack,
        "try s 1; refused s 1 the mailbox is full; end",
        &["h 1; end"],
        "stream s of a (run 1), message 1: it was given back and handled\n  \
         0.log:3: tried\n  0.log:4: given back\n  1.log:2: handled",
    );
    fine("try s 1; refused s 1; try s 2; committed s 2; end", &["h 2; end"]);
}

#[test]
fn hi_6_a_message_that_was_reported_lost_is_not_handled() {
    for (fate, what) in [("not-sent", "not sent"), ("refused closed", "refused")] {
        breaks(
            Rule::NotSent,
            &format!("try s 1; committed s 1; fate s 1 {fate}; end"),
            &["h 1; end"],
            &format!(
                "stream s of a (run 1), message 1: it was reported {what}, and handled\n  \
                 0.log:3: tried\n  0.log:5: reported {what}\n  1.log:2: handled"
            ),
        );
        fine(&format!("{TWO} fate s 1 {fate}; end"), &["h 2; end"]);
    }
    fine(&format!("{TWO} fate s 1 unknown; fate s 2 unknown; end"), &["h 2; end"]);
}

#[test]
fn hi_7_a_message_that_was_delivered_is_handled_or_lost_in_the_mailbox() {
    let sender = format!("{TWO} fate s 1 delivered; end");
    breaks(
        Rule::Delivered,
        &sender,
        &["h 2; end"],
        "stream s of a (run 1), message 1: it was reported delivered, and neither handled nor lost \
         in its mailbox\n  0.log:3: tried\n  0.log:7: reported delivered",
    );
    // The killed run handled a later one: this one cannot have waited behind it.
    breaks(
        Rule::Delivered,
        &sender,
        &["h 2", "end"],
        "stream s of a (run 1), message 1: it was reported delivered, and neither handled nor lost \
         in its mailbox\n  0.log:3: tried\n  0.log:7: reported delivered",
    );
    fine(&sender, &["", "h 2; end"]);
    fine(&sender, &["closed m; h 2; end"]);
    fine(&sender, &["h 1; h 2; end"]);
}

/// Where messages are written down as they arrive, a killed receiver is no excuse.
#[test]
fn hi_7_and_hi_10_without_a_mailbox_to_be_lost_in() {
    for (sender, rule) in [
        ("try s 1; committed s 1; fate s 1 delivered; end", Rule::Delivered),
        ("try s 1; committed s 1; end", Rule::Accounted),
    ] {
        fine(sender, &["", "end"]);
        let mut books = Books::default();
        books.read("a", format!("{A}{}", lines(sender)).as_bytes()).unwrap();
        books.read("b", &b"history 1 b 1\n"[..]).unwrap();
        let violations = books.judge_arrivals().violations;
        assert!(matches!(&violations[..], [one] if one.rule == rule), "{violations:?}");
    }
}

#[test]
fn hi_8_an_ask_that_was_answered_was_handled() {
    breaks(
        Rule::Answered,
        "ask s 1; answered s 1; end",
        &["closed m"],
        "stream s of a (run 1), message 1: it was answered and never handled\n  \
         0.log:3: tried\n  0.log:4: answered",
    );
    fine("ask s 1; answered s 1; ask s 2; fate s 2 unknown; end", &["h 1; end"]);
}

#[test]
fn hi_9_a_send_ends_once() {
    breaks(
        Rule::OneEnd,
        "try s 1; committed s 1; fate s 1 delivered; fate s 1 unknown; end",
        &["h 1; end"],
        "stream s of a (run 1), message 1: its sender was told of two ends\n  \
         0.log:5: reported delivered\n  0.log:6: ended again",
    );
    breaks(
        Rule::OneEnd,
        "try s 1; committed s 1; refused s 1 full; end",
        &["end"],
        "stream s of a (run 1), message 1: it was committed and given back\n  \
         0.log:4: committed\n  0.log:5: given back",
    );
    fine("try s 1; committed s 1; fate s 1 delivered; end", &["h 1; end"]);
}

#[test]
fn hi_10_every_committed_message_is_accounted_for() {
    let what = "stream s of a (run 1), message 1: it was committed, and nothing was said of it \
                again";
    let proof = "\n  0.log:3: tried\n  0.log:4: committed";
    breaks(Rule::Accounted, &format!("{TWO} end"), &["h 2; end"], &format!("{what}{proof}"));
    // The killed run handled the next one already.
    breaks(Rule::Accounted, &format!("{TWO} end"), &["h 2", "end"], &format!("{what}{proof}"));
    // The next run handled one before it.
    let three = format!("{TWO} try s 3; committed s 3; end");
    breaks(
        Rule::Accounted,
        &three,
        &["", "h 2; end"],
        "stream s of a (run 1), message 3: it was committed, and nothing was said of it again\n  \
         0.log:7: tried\n  0.log:8: committed",
    );
    breaks(
        Rule::Accounted,
        &three.replace("end", "fate s ? unknown; end"),
        &["h 3; end"],
        "stream s of a (run 1), message 2: it was committed, and nothing was said of it again: of \
         2 like it 1 were reported lost without a number\n  0.log:5: tried\n  0.log:6: committed",
    );
    fine(&three, &["h 1", "h 3; end"]);
    fine(&three, &["h 1; closed m; h 3; end"]);
    fine(&three, &["h 1; h 2"]);
    // The sender was killed, and could not be told.
    fine(TWO, &["h 2; end"]);
    let told = format!("{TWO} fate s ? unknown; fate s ? not-sent; end");
    assert_eq!(fine(&told, &["end"]).unknown, 1);
}

#[test]
fn hi_11_no_more_messages_are_lost_than_missing() {
    let sender = format!("{TWO} fate s ? not-sent; fate s ? refused; end");
    breaks(
        Rule::Counted,
        &sender,
        &["h 1; end"],
        "stream s of a (run 1), 2 of its messages were reported lost without a number, and only 1 \
         are missing\n  0.log:8: reported lost",
    );
    fine(&sender, &["end"]);
    fine(&sender.replace("not-sent", "unknown"), &["h 1; end"]);
}

#[test]
fn hi_12_every_send_has_ended_when_its_sender_does() {
    let what = "stream s of a (run 1), message 1: its send has no end\n  0.log:3: tried\n";
    breaks(Rule::Ended, "try s 1; end", &["end"], &format!("{what}  0.log:4: the sender's end"));
    breaks(
        Rule::Ended,
        "ask s 1; committed s 1; end",
        &["h 1; end"],
        &format!("{what}  0.log:5: the sender's end"),
    );
    fine("try s 1", &["end"]);
    fine("ask s 1; committed s 1; fate s 1 unknown; end", &["h 1; end"]);
}

#[test]
fn a_log_that_was_cut_counts_as_killed_and_its_last_line_as_none() {
    let sender = format!("{A}try s 1\ncommitted s 1\nend\n");
    let verdict = read(&[&sender, "history 1 b 1\nhandled m a 1 s"]).unwrap();
    let counts = "history: 2 logs (1 killed), 1 messages, 0 handled, 0 unknown, 0 violations";
    assert_eq!(verdict.to_string(), counts);
    // Without the end of its line, `end` is none.
    assert_eq!(read(&["history 1 b 1\nend"]).unwrap().killed, 1);
    assert!(read(&["history 1 b 1\nend\nha"]).is_err());
}

#[test]
fn what_is_no_log_is_refused_with_its_line() {
    let long = format!("history 1 a 1\n# {}\n", "x".repeat(crate::LINE_BYTES_MAX));
    for (log, reason) in [
        ("", "0.log:1: the first line is missing"),
        ("history 1 a", "0.log:1: the first line is missing"),
        ("end\n", "0.log:1: `history` has to be the first line"),
        ("history 1 a 1\nhello\n", "0.log:2: no event is called `hello`"),
        (&long, "0.log:2: the line has more than 4096 bytes"),
        ("history 1 a 1\ntry s 1\n", "0.log:2: there was no `stream` line of stream `s`"),
        ("history 1 a 1\nstream s b m\nstream s b n\n", "0.log:3: stream `s` was declared before"),
        (&format!("{A}try s 2\ntry s 2\n"), "0.log:4: message 2 is tried after message 2"),
        (&format!("{A}committed s 2\n"), "0.log:3: message 2 of the stream was not tried"),
        (&format!("{A}try s 2\nanswered s 2\n"), "0.log:4: message 2 of the stream was no `ask`"),
        (&format!("{A}try s 2\ncommitted s 2\ncommitted s 2\n"), "0.log:5: message 2 of the"),
        (&format!("{A}end\nend\n"), "0.log:4: something follows `end`"),
    ] {
        let error = read(&[log]).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
    }
    let error = read(&["history 1 a 1\n", "history 1 a 1\n"]).unwrap_err().to_string();
    assert!(error.starts_with("1.log:1: 0.log tells of the same run"), "{error}");
    let mut books = Books::default();
    let error = books.read("x", &b"history 1 a 1\n\xff\n"[..]).unwrap_err().to_string();
    assert_eq!(error, "x:2: the line is not UTF-8");
}
