//! The findings of `doctor`: printed line by line, or as one JSON object at the end.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;

/// The sections of a run of `doctor`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    #[serde(skip)]
    json: bool,
    ringpost: &'static str,
    is_debug_build: bool,
    sections: Vec<Section>,
    faults: Vec<String>,
    verdict: String,
}

#[derive(Debug, Serialize)]
struct Section {
    title: String,
    lines: Vec<Line>,
}

/// A thing that was found, and the remedy where something is wrong or missing.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    is_fault: bool,
}

impl<T: Display> From<T> for Line {
    fn from(text: T) -> Self {
        Line { text: text.to_string(), remedy: None, is_fault: false }
    }
}

impl Line {
    /// Returns a line about something that the machine lacks, which may do without it.
    pub(super) fn lack(text: impl Display, remedy: &str) -> Self {
        Line { remedy: Some(remedy.into()), ..text.into() }
    }

    /// Returns a line about something that fails the command.
    pub(super) fn fault(text: impl Display, remedy: &str) -> Self {
        Line { is_fault: true, ..Line::lack(text, remedy) }
    }
}

impl Report {
    /// Returns an empty report, after a line that warns of the times of a debug build.
    pub(super) fn new(json: bool) -> io::Result<Self> {
        let report = Report {
            json,
            ringpost: env!("CARGO_PKG_VERSION"),
            is_debug_build: cfg!(debug_assertions),
            ..Report::default()
        };
        if report.is_debug_build {
            report.print("this is a debug build: its times say nothing; use --release\n")?;
        }
        Ok(report)
    }

    pub(super) fn section(&mut self, title: impl Into<String>) -> io::Result<()> {
        let title = title.into();
        self.print(&format!("{}{title}", if self.sections.is_empty() { "" } else { "\n" }))?;
        self.sections.push(Section { title, lines: Vec::new() });
        Ok(())
    }

    /// Adds a line to the last section.
    pub(super) fn line(&mut self, line: impl Into<Line>) -> io::Result<()> {
        let line = line.into();
        match &line.remedy {
            Some(remedy) => self.print(&format!("  ! {}\n    -> {remedy}", line.text))?,
            None => self.print(&format!("  {}", line.text))?,
        }
        self.faults.extend(line.is_fault.then(|| line.text.clone()));
        if let Some(section) = self.sections.last_mut() {
            section.lines.push(line);
        }
        Ok(())
    }

    /// Ends it with the verdict, which is `well` unless there are faults. Returns true if there are
    /// none.
    pub(super) fn end(mut self, well: &str) -> io::Result<bool> {
        self.verdict = match &*self.faults {
            [] => format!("all well: {well}"),
            [fault] => format!("1 fault: {fault}"),
            faults => format!("{} faults: {}", faults.len(), faults.join("; ")),
        };
        self.print(&format!("\n{}", self.verdict))?;
        if self.json {
            writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&self)?)?;
        }
        Ok(self.faults.is_empty())
    }

    fn print(&self, text: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { writeln!(io::stdout(), "{text}") }
    }
}
