//! The environment variables of a node, and errors about them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use ringpost_transport::log;
use zeroize::Zeroizing;

use crate::remote::{InvalidProfile, Profile, Secret};

/// An environment variable that cannot be used. Its text names the variable and its value, but
/// shows no part of a secret.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {variable} is {value}, but must be {must}")]
pub struct InvalidEnvironment {
    /// The variable.
    pub variable: &'static str,
    /// Its value in quotation marks, or a time; for a secret, only the reason why it is invalid.
    pub value: String,
    /// A description of valid values.
    pub must: String,
}

ringpost_transport::debug_by_display!(InvalidEnvironment);

const PREFIX: &str = "RINGPOST_";
/// The variables of ranks that `ringpost run` starts; nodes do not read them.
const OF_RANKS: [&str; 4] = ["RINGPOST_RANK", "RINGPOST_SIZE", "RINGPOST_HOSTS", "RINGPOST_JOB"];
pub(super) const NAME: &str = "1 to 64 ASCII letters, digits, `.`, `_` and `-`";
/// Maximum number of edits between a misspelt variable and the name that may have been meant.
const EDITS_MAX: usize = 3;
/// Maximum number of characters of a value that an error shows.
const VALUE_CHARS_SHOWN: usize = 80;

/// The settings that a node has from the environment. A `NodeBuilder` keeps them until the node
/// starts, because by then the program may have made more settings, and has a log.
#[derive(Debug, Default)]
pub(super) struct EnvSettings {
    pub(super) are_read: bool,
    pub(super) heartbeat_interval: Option<Duration>,
    pub(super) down_after: Option<Duration>,
    pub(super) idle_close: Option<Duration>,
    pub(super) spin: Option<Duration>,
    pub(super) links_per_source_max: Option<u32>,
    pub(super) down_when_refused: Option<bool>,
    /// Unknown variables, each with the name that may have been meant.
    pub(super) unknown: Vec<(String, Option<&'static str>)>,
}

impl EnvSettings {
    /// Returns `profile` with these settings where it has the default.
    pub(super) fn fill(&self, mut profile: Profile) -> Profile {
        let default = Profile::default();
        let Profile { heartbeat_interval: heartbeat, down_after, .. } = &mut profile;
        if *heartbeat == default.heartbeat_interval {
            *heartbeat = self.heartbeat_interval.unwrap_or(*heartbeat);
        }
        if *down_after == default.down_after {
            *down_after = self.down_after.unwrap_or(*down_after);
        }
        if profile.links_per_source_max == default.links_per_source_max {
            let links = self.links_per_source_max;
            profile.links_per_source_max = links.unwrap_or(default.links_per_source_max);
        }
        if profile.down_when_refused == default.down_when_refused {
            profile.down_when_refused = self.down_when_refused.unwrap_or(default.down_when_refused);
        }
        profile.idle_close = profile.idle_close.or(self.idle_close);
        if profile.spin == default.spin {
            profile.spin = self.spin.unwrap_or(default.spin);
        }
        profile
    }

    /// Checks settings that depend on each other.
    ///
    /// # Errors
    /// Returns [`InvalidEnvironment`] if an invalid setting came from a variable. Invalid settings
    /// of the program are left to later checks.
    pub(super) fn check(&self, name: &str, profile: &Profile) -> Result<(), InvalidEnvironment> {
        if self.are_read && name.is_empty() {
            let must = format!("{NAME}, unless the program gives the node its name");
            return Err(InvalidEnvironment {
                variable: "RINGPOST_NAME",
                value: "not set".into(),
                must,
            });
        }
        let origin = |error| self.origin(profile, error);
        profile.validate().err().and_then(origin).map_or(Ok(()), Err)
    }

    /// Returns the error about the variable that an invalid setting of the profile comes from, or
    /// `None` if it comes from the program.
    fn origin(&self, profile: &Profile, error: InvalidProfile) -> Option<InvalidEnvironment> {
        let InvalidProfile { what, value, must } = error;
        let heartbeat = profile.heartbeat_interval;
        let beats_as_told = self.heartbeat_interval == Some(heartbeat);
        let (variable, is_as_told) = match what {
            "heartbeat_interval" => ("RINGPOST_HEARTBEAT", beats_as_told),
            "down_after" => ("RINGPOST_DOWN_AFTER", self.down_after == Some(profile.down_after)),
            "idle_close" => ("RINGPOST_IDLE_CLOSE", self.idle_close == profile.idle_close),
            "spin" => ("RINGPOST_SPIN", self.spin == Some(profile.spin)),
            "links_per_source_max" => {
                let is_as_told = self.links_per_source_max == Some(profile.links_per_source_max);
                ("RINGPOST_LINKS_PER_SOURCE_MAX", is_as_told)
            }
            _ => return None,
        };
        if is_as_told {
            return Some(InvalidEnvironment { variable, value, must });
        }
        // Only the heartbeat is set, and is too long for the default of `down_after`.
        (what == "down_after" && beats_as_told).then(|| InvalidEnvironment {
            variable: "RINGPOST_HEARTBEAT",
            value: format!("{heartbeat:?}"),
            must: format!(
                "a third of `down_after` at most, which is {value}: set RINGPOST_DOWN_AFTER, too, \
                to three heartbeats or more"
            ),
        })
    }

    /// Logs a warning for each unknown variable.
    pub(super) fn log_unknown(&self) {
        for (variable, meant) in &self.unknown {
            log::warn!(variable, meant, "an environment variable is unknown: it says nothing");
        }
    }
}

/// The variables that are set and not read yet. Owned by `NodeBuilder::from_env`. Values are wiped
/// when they are dropped, because one may be a secret; the process keeps its own environment.
pub(super) struct Environment {
    left: BTreeMap<String, Zeroizing<Vec<u8>>>,
    known: Vec<&'static str>,
}

impl Environment {
    pub(super) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let named = variables.into_iter().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| name.starts_with(PREFIX))?;
            Some((name, Zeroizing::new(value.into_encoded_bytes())))
        });
        Environment { left: named.collect(), known: Vec::new() }
    }

    /// Reads a variable; returns `None` if it is not set or empty.
    pub(super) fn take(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Variable>, InvalidEnvironment> {
        self.known.push(name);
        let value = self.left.remove(name).filter(|value| !value.is_empty());
        let Some(mut value) = value else { return Ok(None) };
        match String::from_utf8(std::mem::take(&mut *value)) {
            Ok(value) => Ok(Some(Variable { name, value: Zeroizing::new(value) })),
            Err(error) => {
                drop(Zeroizing::new(error.into_bytes()));
                let (value, must) = ("no text".into(), "UTF-8".into());
                Err(InvalidEnvironment { variable: name, value, must })
            }
        }
    }

    /// Returns the variables that were not read, each with the name that may have been meant.
    pub(super) fn unknown(self) -> Vec<(String, Option<&'static str>)> {
        // Kubernetes sets such variables for each service whose name has this prefix.
        let is_of_service = |name: &str| name.contains("_SERVICE_HOST") || name.contains("_PORT");
        let is_of_rank = |name: &str| OF_RANKS.contains(&name);
        let unknown =
            self.left.into_keys().filter(|name| !is_of_service(name) && !is_of_rank(name));
        let meant = |name: &str| {
            let near = self.known.iter().map(|known| (edits(name, known), *known)).min()?;
            (near.0 <= EDITS_MAX).then_some(near.1)
        };
        let with_meant = |name: String| {
            let meant = meant(&name);
            (name, meant)
        };
        unknown.map(with_meant).collect()
    }
}

/// Returns the minimum number of bytes to insert, remove or change to turn one text into the other.
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, a) in one.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], line + 1);
        for (at, b) in other.bytes().enumerate() {
            let changed = corner + usize::from(a != b);
            corner = row[at + 1];
            row[at + 1] = changed.min(corner + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

/// Returns the beginning of a value in quotation marks, with its length if it is cut.
fn shown(value: &str) -> String {
    let start: String = value.chars().take(VALUE_CHARS_SHOWN).collect();
    let more =
        if start.len() < value.len() { format!(".. ({} bytes)", value.len()) } else { "".into() };
    format!("`{}`{more}", start.escape_debug())
}

/// A variable that is set. Its value is wiped when it is dropped.
pub(super) struct Variable {
    name: &'static str,
    value: Zeroizing<String>,
}

impl Variable {
    /// Returns the value, parsed by `read`. If `read` returns `None`, the error says that the value
    /// must be `must`.
    pub(super) fn form<T>(
        self,
        must: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, InvalidEnvironment> {
        read(&self.value).ok_or_else(|| {
            let unfilled = "; nothing filled `$(..)` in: Kubernetes does where that variable is \
                declared before this one";
            let hint = if self.value.contains("$(") { unfilled } else { "" };
            InvalidEnvironment {
                variable: self.name,
                value: shown(&self.value),
                must: format!("{must}{hint}"),
            }
        })
    }

    /// Returns the items of a comma-separated list, each parsed by `read`.
    pub(super) fn list<T>(
        self,
        must: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, InvalidEnvironment> {
        self.form(must, |list| list.split(',').map(|item| read(item.trim())).collect())
    }

    /// Returns the value if it is a valid secret. The value is wiped when it is dropped, and errors
    /// do not show it.
    pub(super) fn secret(self) -> Result<Zeroizing<String>, InvalidEnvironment> {
        match Secret::new(self.value.as_bytes()) {
            Ok(_) => Ok(self.value),
            // The error's text shows no part of the secret.
            Err(error) => Err(InvalidEnvironment {
                variable: self.name,
                value: format!("no secret ({error})"),
                must: "32 random bytes, as the hex digits of `openssl rand -hex 32`".into(),
            }),
        }
    }
}
