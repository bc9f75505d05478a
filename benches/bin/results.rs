//! The results of a run, as `--json` keeps them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use ringpost_benches::Failure;
use ringpost_benches::contestant::Role;
use ringpost_benches::figure::{Better, Figure};
use serde::{Deserialize, Serialize};

/// The results of a whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The commit that was measured, with `-dirty` when the tree had changes.
    pub(crate) commit: String,
    /// Processor, cores, kernel and compiler.
    pub(crate) machine: String,
    /// Seconds of each measurement.
    pub(crate) seconds: f64,
    /// Number of rounds that were wanted.
    pub(crate) rounds: usize,
    /// Actors of the figures of actors that wait.
    #[serde(default)]
    pub(crate) actors: usize,
    /// The load before the run: processes that ran or wanted to, on average over a minute.
    pub(crate) load: String,
    /// The figures, in the order in which they were measured.
    pub(crate) figures: Vec<FigureResults>,
}

/// The results of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FigureResults {
    pub(crate) name: String,
    pub(crate) what: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    /// The contestants that took part.
    pub(crate) entries: Vec<Entry>,
}

/// The results of one contestant for one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) contestant: String,
    pub(crate) role: Role,
    /// True if the ratios of the figure are taken to this contestant.
    pub(crate) reference: bool,
    /// The values, one for each round that gave one.
    pub(crate) values: Vec<f64>,
    /// The reason why a round gave no value.
    pub(crate) missing: Option<Missing>,
}

/// The reason why there is no value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Missing {
    /// The contestant does not send such a message.
    Refused(String),
    /// The measurement should have worked, and did not.
    Failed(String),
    /// A tool is not installed.
    Tool(String),
}

/// Median, least and greatest of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Results {
    /// Begins the results of a run on this machine.
    pub(crate) fn begin(seconds: f64, rounds: usize, actors: usize) -> Self {
        Results {
            commit: commit(),
            machine: machine(),
            seconds,
            rounds,
            actors,
            load: read_line("/proc/loadavg").split(' ').next().unwrap_or_default().into(),
            figures: Vec::new(),
        }
    }

    /// Reads the file that [`write`](Self::write) has written.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let place = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::Failed(format!("{place} cannot be read: {error}")))?;
        serde_json::from_str(&text)
            .map_err(|error| Failure::Failed(format!("{place} has no results: {error}")))
    }

    /// Writes all as JSON.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).map_err(Failure::of)?;
        fs::write(path, text + "\n").map_err(|error| {
            Failure::Failed(format!("{} cannot be written: {error}", path.display()))
        })
    }

    /// Returns the results of a figure, which are added when they are new.
    pub(crate) fn figure(&mut self, figure: &Figure) -> &mut FigureResults {
        let at = self.figures.iter().position(|known| known.name == figure.name);
        let at = at.unwrap_or_else(|| {
            self.figures.push(FigureResults {
                name: figure.name.clone(),
                what: figure.what.clone(),
                unit: figure.unit.into(),
                better: figure.better,
                entries: Vec::new(),
            });
            self.figures.len() - 1
        });
        &mut self.figures[at]
    }

    /// Returns the failures, one line for each figure and contestant.
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for figure in &self.figures {
            for entry in &figure.entries {
                if let Some(Missing::Failed(why)) = &entry.missing {
                    lines.push(format!("{} of {}: {why}", figure.name, entry.contestant));
                }
            }
        }
        lines
    }
}

impl FigureResults {
    /// Returns the first contestant of a role that has values, the best one of several.
    pub(crate) fn best(&self, role: Role) -> Option<(&Entry, Spread)> {
        let entries = self.entries.iter().filter(|entry| entry.role == role);
        let spreads = entries.filter_map(|entry| Some((entry, entry.spread()?)));
        let median = |of: &(&Entry, Spread)| match self.better {
            Better::Less => -of.1.median,
            Better::More => of.1.median,
        };
        spreads.max_by(|a, b| median(a).total_cmp(&median(b)))
    }

    /// Returns the best peer that has values: another crate, or a library for ranks.
    pub(crate) fn best_peer(&self) -> Option<(&Entry, Spread)> {
        self.best(Role::Peer).or_else(|| self.best(Role::Mpi))
    }

    /// Returns the floor that ratios are to, where it has values.
    pub(crate) fn floor(&self) -> Option<(&Entry, Spread)> {
        let entry = self.entries.iter().find(|entry| entry.reference)?;
        Some((entry, entry.spread()?))
    }
}

impl Entry {
    /// Returns median, least and greatest value. Returns `None` where there is no value, and where
    /// a round gave none: the other rounds alone would say too little.
    pub(crate) fn spread(&self) -> Option<Spread> {
        if self.missing.is_some() {
            return None;
        }
        let mut values = self.values.clone();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Spread { median: f64::midpoint(low, high), min, max })
    }
}

fn commit() -> String {
    let mut git = Command::new("git");
    match git.args(["describe", "--always", "--dirty", "--abbrev=7"]).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().into()
        }
        _ => "unknown".into(),
    }
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let kernel = read_line("/proc/sys/kernel/osrelease");
    let rust = Command::new("rustc").arg("--version").output();
    let rust = rust.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!("{cores} cores of {model}, Linux {kernel}, {}", rust.unwrap_or_default())
}

fn read_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(role: Role, values: &[f64]) -> Entry {
        let contestant = format!("{role:?}");
        Entry { contestant, role, reference: false, values: values.to_vec(), missing: None }
    }

    #[test]
    fn a_spread_is_of_all_rounds_or_there_is_none() {
        let mut rounds = entry(Role::Ours, &[3.0, 1.0, 2.0, 9.0]);
        assert_eq!(rounds.spread(), Some(Spread { median: 2.5, min: 1.0, max: 9.0 }));
        rounds.missing = Some(Missing::Failed("hung".into()));
        assert_eq!(rounds.spread(), None);
        assert_eq!(entry(Role::Ours, &[]).spread(), None);
    }

    #[test]
    fn the_best_peer_depends_on_which_way_is_better() {
        let entries = vec![entry(Role::Peer, &[2.0]), entry(Role::Peer, &[1.0])];
        let (name, what, unit) = ("a".into(), "b".into(), "us".into());
        let mut figure = FigureResults { name, what, unit, better: Better::Less, entries };
        let best = |figure: &FigureResults| figure.best(Role::Peer).map(|(_, of)| of.median);
        assert_eq!(best(&figure), Some(1.0));
        figure.better = Better::More;
        assert_eq!(best(&figure), Some(2.0));
        assert_eq!(figure.best(Role::Ours), None);
    }
}
