//! `history FILE...`: judges recorded logs; see `docs/HISTORY.md`.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::process::ExitCode;

use ringpost_history::{Books, Verdict};

const HELP: &str = "\
Judges the logs of senders and receivers: every message at most once, in order, accounted for.

usage: history FILE...

Give it the logs of all runs of all nodes that talked with each other; docs/HISTORY.md describes
their format and the rules. Each violation is printed with the lines that prove it.

exit status: 0 no violations, 1 violations, 2 usage, or a log that cannot be read";

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.iter().any(|file| matches!(file.as_str(), "--help" | "-h")) {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if files.is_empty() || files.iter().any(|file| file.starts_with('-')) {
        eprintln!("{HELP}");
        return ExitCode::from(2);
    }
    let Some(verdict) = judge(&files) else { return ExitCode::from(2) };
    // Printing fails if the reader closed the pipe; the exit status still tells the verdict.
    drop(print(&verdict));
    if verdict.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Judges all logs; prints an error for each unreadable log, and then returns `None`.
fn judge(files: &[String]) -> Option<Verdict> {
    let mut books = Books::default();
    let mut unreadable = 0;
    for file in files {
        let read = File::open(file).map_err(|error| format!("{file}: {error}"));
        let read = read.and_then(|input| {
            books.read(file, BufReader::new(input)).map_err(|error| error.to_string())
        });
        if let Err(error) = read {
            eprintln!("history: {error}");
            unreadable += 1;
        }
    }
    (unreadable == 0).then(|| books.judge())
}

fn print(verdict: &Verdict) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for violation in &verdict.violations {
        writeln!(out, "{violation}")?;
    }
    writeln!(out, "{verdict}")?;
    out.flush()
}
