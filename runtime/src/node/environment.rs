//! Reads the variables of the environment that describe a node.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use ringpost_transport::id::NodeName;

use super::NodeBuilder;
use crate::remote::{Encryption, Secret, is_host_and_port, is_service};

/// A variable of the environment that cannot be used. Its text names the variable and its value,
/// but never that of a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {variable} is {value}, but must be {must}")]
pub struct InvalidEnvironment {
    /// The variable.
    pub variable: &'static str,
    /// Its value in quotation marks; of a secret only why it is none.
    pub value: String,
    /// The form that it must have.
    pub must: &'static str,
}

const TIME: &str = "a number with a unit, such as `500ms`, `8s` or `1m`";

impl NodeBuilder {
    /// Starts to describe a node by the environment. What is said by the program afterwards wins
    /// over the variables; one that is not set, or empty, says nothing.
    ///
    /// | variable | form | as of |
    /// |---|---|---|
    /// | `RINGPOST_NAME` | a node's name | [`builder`](crate::Node::builder) |
    /// | `RINGPOST_LISTEN` | `host:port` | [`listen`](Self::listen) |
    /// | `RINGPOST_ADVERTISE` | `host:port`, with commas | [`advertise`](Self::advertise) |
    /// | `RINGPOST_SEEDS` | `host:port`, `_service._tcp.name`, commas | [`seeds`](Self::seeds) |
    /// | `RINGPOST_SECRET` | 32 random bytes, as hex | [`secret`](Self::secret) |
    /// | `RINGPOST_ALSO_ACCEPT` | one more secret | [`also_accept`](Self::also_accept) |
    /// | `RINGPOST_DOWN_AFTER` | `8s` | [`down_after`](crate::Profile::down_after) |
    /// | `RINGPOST_HEARTBEAT` | `1s` | [`heartbeat_interval`](crate::Profile::heartbeat_interval) |
    /// | `RINGPOST_IDLE_CLOSE` | `10m` | [`idle_close`](crate::Profile::idle_close) |
    /// | `RINGPOST_ASK_TIMEOUT` | `500ms` | [`ask_timeout`](Self::ask_timeout) |
    /// | `RINGPOST_MAILBOX_CAPACITY` | a number | [`mailbox_capacity`](Self::mailbox_capacity) |
    /// | `RINGPOST_ENCRYPTION` | `required`, `default`, `off` | [`encryption`](Self::encryption) |
    /// | `RINGPOST_METRICS_BY_PEER` | `true`, `false` | [`by_peer`](Self::metrics_by_peer) |
    ///
    /// A heartbeat is 250 ms to 60 s; above 2.6 s `RINGPOST_DOWN_AFTER` has to be set, too, to
    /// three heartbeats or more. Services need the feature `srv`.
    ///
    /// Of a [`profile`](Self::profile) that the program gives afterwards, each setting wins that it
    /// changed: where its `down_after`, `heartbeat_interval` or `idle_close` is that of
    /// [`Profile::default`](crate::Profile::default), the variable stays. The name is required,
    /// unless the program calls [`name`](Self::name).
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), ringpost::BoxError> {
    /// let node = ringpost::NodeBuilder::from_env()?.metrics_by_peer(false).start().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InvalidEnvironment`] names the first variable that has not this form.
    pub fn from_env() -> Result<Self, InvalidEnvironment> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(
        look_up: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, InvalidEnvironment> {
        let get = |variable| Variable::get(variable, &look_up);
        let mut builder = NodeBuilder::new(String::new());
        if let Some(name) = get("RINGPOST_NAME")? {
            let must = "1 to 64 ASCII letters, digits, `.`, `_` and `-`";
            builder.name = name.form(must, |name| Some(NodeName::new(name).ok()?.to_string()))?;
        }
        if let Some(listen) = get("RINGPOST_LISTEN")? {
            let must = "of the form host:port";
            builder.listen = Some(listen.form(must, |at| address(at, false))?);
        }
        if let Some(addresses) = get("RINGPOST_ADVERTISE")? {
            let must = "of the form host:port, several with commas between them";
            builder.advertise = addresses.list(must, |at| address(at, true))?;
        }
        if let Some(seeds) = get("RINGPOST_SEEDS")? {
            let must = "of the form host:port or _service._tcp.name, several with commas";
            let seed = |text: &str| {
                is_service(text).then(|| text.to_owned()).or_else(|| address(text, true))
            };
            builder.seeds = seeds.list(must, seed)?;
        }
        if let Some(secret) = get("RINGPOST_SECRET")? {
            builder = builder.secret(secret.secret()?);
        }
        if let Some(secret) = get("RINGPOST_ALSO_ACCEPT")? {
            builder = builder.also_accept(secret.secret()?);
        }
        if let Some(time) = get("RINGPOST_DOWN_AFTER")? {
            builder.variables.down_after = Some(time.form(TIME, duration)?);
        }
        if let Some(time) = get("RINGPOST_HEARTBEAT")? {
            builder.variables.heartbeat_interval = Some(time.form(TIME, duration)?);
        }
        if let Some(time) = get("RINGPOST_IDLE_CLOSE")? {
            builder.variables.idle_close = Some(time.form(TIME, duration)?);
        }
        let profile = builder.profile.clone();
        builder = builder.profile(profile);
        if let Some(time) = get("RINGPOST_ASK_TIMEOUT")? {
            builder = builder.ask_timeout(time.form(TIME, duration)?);
        }
        if let Some(messages) = get("RINGPOST_MAILBOX_CAPACITY")? {
            builder = builder.mailbox_capacity(messages.form("a number", parsed)?);
        }
        if let Some(encryption) = get("RINGPOST_ENCRYPTION")? {
            let must = "`required`, `default` or `off`";
            builder = builder.encryption(encryption.form(must, |text| match text {
                "required" => Some(Encryption::Required),
                "default" => Some(Encryption::Default),
                "off" => Some(Encryption::Off),
                _ => None,
            })?);
        }
        if let Some(by_peer) = get("RINGPOST_METRICS_BY_PEER")? {
            builder = builder.metrics_by_peer(by_peer.form("`true` or `false`", parsed)?);
        }
        Ok(builder)
    }
}

/// A variable that is set.
struct Variable {
    name: &'static str,
    value: String,
}

impl Variable {
    fn get(
        name: &'static str,
        look_up: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, InvalidEnvironment> {
        let Some(value) = look_up(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        let value = value.into_string().map_err(|_| InvalidEnvironment {
            variable: name,
            value: "no text".into(),
            must: "UTF-8",
        })?;
        Ok(Some(Variable { name, value }))
    }

    /// Returns what `read` makes of its value.
    fn form<T>(
        self,
        must: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, InvalidEnvironment> {
        read(&self.value).ok_or_else(|| InvalidEnvironment {
            variable: self.name,
            value: format!("`{}`", self.value.escape_debug()),
            must,
        })
    }

    /// Returns what `read` makes of each item of a list with commas.
    fn list<T>(
        self,
        must: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, InvalidEnvironment> {
        self.form(must, |list| list.split(',').map(|item| read(item.trim())).collect())
    }

    /// Returns its value, of which an error says nothing.
    fn secret(self) -> Result<String, InvalidEnvironment> {
        match Secret::new(self.value.as_bytes()) {
            Ok(_) => Ok(self.value),
            // Its text shows nothing of the secret.
            Err(error) => Err(InvalidEnvironment {
                variable: self.name,
                value: format!("no secret ({error})"),
                must: "32 random bytes, as the hex digits of `openssl rand -hex 32`",
            }),
        }
    }
}

fn address(text: &str, port_needed: bool) -> Option<String> {
    is_host_and_port(text, port_needed).then(|| text.to_owned())
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::remote::Profile;

    const SECRET: &str = "a secret of the tests, at least 32 bytes long";

    fn built(variables: &[(&str, &str)]) -> Result<NodeBuilder, InvalidEnvironment> {
        let variables: BTreeMap<_, _> = variables.iter().copied().collect();
        NodeBuilder::from_variables(|name| variables.get(name).map(OsString::from))
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn the_environment_describes_a_node_and_the_program_wins() {
        let builder = built(&[
            ("RINGPOST_NAME", "alpha"),
            ("RINGPOST_LISTEN", "0.0.0.0:0"),
            ("RINGPOST_ADVERTISE", "alpha.example:7700"),
            ("RINGPOST_SEEDS", "beta.example:7700, [::1]:7700"),
            ("RINGPOST_SECRET", SECRET),
            ("RINGPOST_ALSO_ACCEPT", SECRET),
            ("RINGPOST_DOWN_AFTER", "1m"),
            ("RINGPOST_HEARTBEAT", "2500ms"),
            ("RINGPOST_ASK_TIMEOUT", "500ms"),
            ("RINGPOST_MAILBOX_CAPACITY", "7"),
            ("RINGPOST_ENCRYPTION", "required"),
            ("RINGPOST_METRICS_BY_PEER", "true"),
        ]);
        let builder = builder.expect("all are of their form");
        let text = format!("{builder:?}");
        for part in
            ["\"alpha\"", "\"0.0.0.0:0\"", "\"beta.example:7700\", \"[::1]:7700\"", "60s", "2.5s"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        for part in ["500ms", "mailbox_capacity: 7", "metrics_by_peer: true", "Required"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains(SECRET), "{text}");
        let service = "_ringpost._tcp.cluster.example";
        let seeds = format!("{service},beta.example:7700");
        let services = built(&[("RINGPOST_SEEDS", &seeds)]).expect("a service and an address");
        assert_eq!(services.seeds, [service, "beta.example:7700"]);
        let seeds = builder.seeds(["gamma.example:1"]).seeds;
        assert_eq!(seeds, ["gamma.example:1"], "the program wins");
        let empty = built(&[("RINGPOST_LISTEN", "")]).expect("as if it was not set");
        assert_eq!(empty.listen, None);
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn a_profile_of_the_program_wins_over_the_environment_in_what_it_changes() {
        let variables = [
            ("RINGPOST_DOWN_AFTER", "1m"),
            ("RINGPOST_HEARTBEAT", "2s"),
            ("RINGPOST_IDLE_CLOSE", "10m"),
        ];
        let times = |profile| {
            let builder = built(&variables).expect("all are of their form").profile(profile);
            assert_eq!(builder.profile.idle_close, Some(Duration::from_secs(600)));
            (builder.profile.heartbeat_interval.as_secs(), builder.profile.down_after.as_secs())
        };
        assert_eq!(times(Profile::small()), (2, 60), "it says nothing of times");
        let quick = Profile { down_after: Duration::from_secs(7), ..Profile::default() };
        assert_eq!(times(quick), (2, 7));
        let slow = Profile { heartbeat_interval: Duration::from_secs(3), ..Profile::default() };
        assert_eq!(times(slow), (3, 60));
        let none = built(&[]).expect("nothing is said").profile(Profile::small());
        assert_eq!(none.profile, Profile::small());
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn an_environment_that_cannot_be_used_is_named_and_no_secret_is_shown() {
        for (variable, value) in [
            ("RINGPOST_NAME", "two words"),
            ("RINGPOST_LISTEN", "7700"),
            ("RINGPOST_ADVERTISE", "alpha:7700,"),
            ("RINGPOST_SEEDS", "beta"),
            ("RINGPOST_DOWN_AFTER", "8"),
            ("RINGPOST_HEARTBEAT", "fast"),
            ("RINGPOST_ASK_TIMEOUT", "-1s"),
            ("RINGPOST_MAILBOX_CAPACITY", "many"),
            ("RINGPOST_ENCRYPTION", "on"),
            ("RINGPOST_METRICS_BY_PEER", "yes"),
        ] {
            let error = built(&[(variable, value)]).expect_err(variable).to_string();
            assert!(error.contains(variable) && error.contains(value), "{error}");
        }
        for variable in ["RINGPOST_SECRET", "RINGPOST_ALSO_ACCEPT"] {
            let error = built(&[(variable, "hunter2")]).expect_err(variable).to_string();
            assert!(error.contains(variable) && !error.contains("hunter2"), "{error}");
        }
    }
}
