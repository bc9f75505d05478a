//! Reads the environment variables that describe a node.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use ringpost_transport::id::NodeName;

use super::variables::{Environment, InvalidEnvironment, NAME};
use super::{Node, NodeBuilder};
use crate::remote::{Encryption, IpNetwork, is_host_and_port, is_service};

const TIME: &str = "a number with a unit, such as `20us`, `500ms`, `8s`, `1m` or `1h`";

impl Node {
    /// Returns a builder with the settings of the environment: [`NodeBuilder::from_env`].
    ///
    /// # Errors
    /// Returns [`InvalidEnvironment`], which names the first unusable variable.
    pub fn from_env() -> Result<NodeBuilder, InvalidEnvironment> {
        NodeBuilder::from_env()
    }
}

impl NodeBuilder {
    /// Creates a builder with the settings of the environment. Settings that the program makes
    /// later win over the variables; a variable that is not set or empty has no effect.
    ///
    /// | variable | form | setting |
    /// |---|---|---|
    /// | `RINGPOST_NAME` | a node's name | [`builder`](crate::Node::builder) |
    /// | `RINGPOST_LISTEN` | `host:port` | [`listen`](Self::listen) |
    /// | `RINGPOST_ADVERTISE` | `host:port`, with commas | [`advertise`](Self::advertise) |
    /// | `RINGPOST_SEEDS` | `host:port`, `_service._tcp.name`, commas | [`seeds`](Self::seeds) |
    /// | `RINGPOST_REFUSE_ADDRESSES` | `10.0.0.0/8`, commas | [as here](Self::refuse_addresses) |
    /// | `RINGPOST_SECRET` | 32 random bytes, as hex | [`secret`](Self::secret) |
    /// | `RINGPOST_ALSO_ACCEPT` | one more secret | [`also_accept`](Self::also_accept) |
    /// | `RINGPOST_ENCRYPTION` | `required`, `default`, `off` | [`encryption`](Self::encryption) |
    /// | `RINGPOST_DOWN_AFTER` | `8s` | [`down_after`](crate::net::Profile::down_after) |
    /// | `RINGPOST_DOWN_WHEN_REFUSED` | `true`, `false` | [so][down_when_refused] |
    /// | `RINGPOST_HEARTBEAT` | `1s` | [`heartbeat_interval`] |
    /// | `RINGPOST_IDLE_CLOSE` | `10m` | [`idle_close`](crate::net::Profile::idle_close) |
    /// | `RINGPOST_SPIN` | `20us` | [`spin`](crate::net::Profile::spin) |
    /// | `RINGPOST_LINKS_PER_SOURCE_MAX` | a number | [so][links_per_source_max] |
    /// | `RINGPOST_ASK_TIMEOUT` | `500ms` | [`ask_timeout`](Self::ask_timeout) |
    /// | `RINGPOST_MAILBOX_CAPACITY` | a number | [`mailbox_capacity`](Self::mailbox_capacity) |
    /// | `RINGPOST_REPORT_HANDLERS_AFTER` | `10s` | [as here](Self::report_handlers_after) |
    /// | `RINGPOST_METRICS_BY_PEER` | `true`, `false` | [`by_peer`](Self::metrics_by_peer) |
    ///
    /// A time has one of the units `us`, `ms`, `s`, `m` and `h`. A heartbeat is 250 ms to 60 s;
    /// above 2.6 s, `RINGPOST_DOWN_AFTER` must be set, too, to at least three heartbeats. Services
    /// need the feature `srv`. When the node starts, the log warns of any other variable whose name
    /// begins with `RINGPOST_`, except variables that Kubernetes sets for a service of that name.
    ///
    /// If the program sets a [`profile`](Self::profile) later, the settings that it changed win:
    /// where its `down_after`, `down_when_refused`, `heartbeat_interval`, `idle_close`, `spin` or
    /// `links_per_source_max` is the same as in [`Profile::default`](crate::net::Profile::default),
    /// the variable stays. The name is required, unless the program calls [`name`](Self::name).
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), ringpost::BoxError> {
    /// let node = ringpost::Node::from_env()?.metrics_by_peer(false).start().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns [`InvalidEnvironment`], which names the first variable with the wrong form.
    /// [`start`](Self::start) finds values that conflict with other settings, and names the
    /// setting.
    ///
    /// [`heartbeat_interval`]: crate::net::Profile::heartbeat_interval
    /// [down_when_refused]: crate::net::Profile::down_when_refused
    /// [links_per_source_max]: crate::net::Profile::links_per_source_max
    pub fn from_env() -> Result<Self, InvalidEnvironment> {
        Self::from_variables(std::env::vars_os())
    }

    fn from_variables(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, InvalidEnvironment> {
        let mut environment = Environment::new(variables);
        let mut get = |variable| environment.take(variable);
        let mut builder = NodeBuilder::new(Some(String::new()));
        if let Some(name) = get("RINGPOST_NAME")? {
            let form = |name: &str| Some(NodeName::new(name).ok()?.to_string());
            builder.name = Some(name.form(NAME, form)?);
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
        if let Some(networks) = get("RINGPOST_REFUSE_ADDRESSES")? {
            let must = "a range such as 10.0.0.0/8 or fd00::/8, several with commas between them";
            builder = builder.refuse_addresses(networks.list(must, parsed::<IpNetwork>)?);
        }
        if let Some(secret) = get("RINGPOST_SECRET")? {
            builder = builder.secret(&*secret.secret()?);
        }
        if let Some(secret) = get("RINGPOST_ALSO_ACCEPT")? {
            builder = builder.also_accept(&*secret.secret()?);
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
        builder.read_profile(&mut environment)?;
        let mut get = |variable| environment.take(variable);
        let profile = builder.profile.clone();
        builder = builder.profile(profile);
        if let Some(time) = get("RINGPOST_ASK_TIMEOUT")? {
            let must = format!("{TIME}, and more than 0: in no time no ask is answered");
            let time = time.form(&must, |text| duration(text).filter(|time| !time.is_zero()))?;
            builder = builder.ask_timeout(time);
        }
        if let Some(messages) = get("RINGPOST_MAILBOX_CAPACITY")? {
            builder = builder.mailbox_capacity(messages.form("a number", parsed)?);
        }
        if let Some(time) = get("RINGPOST_REPORT_HANDLERS_AFTER")? {
            builder = builder.report_handlers_after(time.form(TIME, duration)?);
        }
        if let Some(by_peer) = get("RINGPOST_METRICS_BY_PEER")? {
            builder = builder.metrics_by_peer(by_peer.form("`true` or `false`", parsed)?);
        }
        builder.variables.are_read = true;
        builder.variables.unknown = environment.unknown();
        Ok(builder)
    }

    /// Reads the variables that replace defaults of a profile.
    fn read_profile(&mut self, environment: &mut Environment) -> Result<(), InvalidEnvironment> {
        let mut get = |variable| environment.take(variable);
        if let Some(time) = get("RINGPOST_DOWN_AFTER")? {
            self.variables.down_after = Some(time.form(TIME, duration)?);
        }
        if let Some(when_refused) = get("RINGPOST_DOWN_WHEN_REFUSED")? {
            self.variables.down_when_refused =
                Some(when_refused.form("`true` or `false`", parsed)?);
        }
        if let Some(time) = get("RINGPOST_HEARTBEAT")? {
            self.variables.heartbeat_interval = Some(time.form(TIME, duration)?);
        }
        if let Some(time) = get("RINGPOST_IDLE_CLOSE")? {
            self.variables.idle_close = Some(time.form(TIME, duration)?);
        }
        if let Some(time) = get("RINGPOST_SPIN")? {
            self.variables.spin = Some(time.form(TIME, duration)?);
        }
        if let Some(links) = get("RINGPOST_LINKS_PER_SOURCE_MAX")? {
            self.variables.links_per_source_max = Some(links.form("a number", parsed)?);
        }
        Ok(())
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
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(60 * 60).map(Duration::from_secs),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::Profile;

    const SECRET: &str = "a secret of the tests, at least 32 bytes long";

    fn built(variables: &[(&str, &str)]) -> Result<NodeBuilder, InvalidEnvironment> {
        NodeBuilder::from_variables(
            variables.iter().map(|(name, value)| (name.into(), value.into())),
        )
    }

    async fn refused(variables: &[(&str, &str)]) -> String {
        let builder = built(variables).expect("each alone has its form");
        builder.start().await.expect_err("they do not go together").to_string()
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
            ("RINGPOST_DOWN_WHEN_REFUSED", "false"),
            ("RINGPOST_HEARTBEAT", "2500ms"),
            ("RINGPOST_SPIN", "30us"),
            ("RINGPOST_ASK_TIMEOUT", "500ms"),
            ("RINGPOST_MAILBOX_CAPACITY", "7"),
            ("RINGPOST_REFUSE_ADDRESSES", "10.0.0.0/8, fd00::/8"),
            ("RINGPOST_LINKS_PER_SOURCE_MAX", "9"),
            ("RINGPOST_REPORT_HANDLERS_AFTER", "3h"),
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
        for part in [
            "500ms",
            "spin: Some(30µs)",
            "down_when_refused: false",
            "mailbox_capacity: 7",
            "metrics_by_peer: true",
            "Required",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for part in ["links_per_source_max: 9", "reported_after: 10800s", "prefix: 8 }, IpNetwork"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("unknown: []"), "{text}");
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
            ("RINGPOST_SPIN", "30us"),
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
        let spin = |profile| {
            built(&variables).expect("all are of their form").profile(profile).profile.spin
        };
        let (told, own) = (spin(Profile::small()), spin(Profile::latency()));
        assert_eq!((told.as_micros(), own.as_micros()), (30, 20));
        let none = built(&[]).expect("nothing is said").profile(Profile::small());
        assert_eq!(none.profile, Profile::small());
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn an_environment_that_cannot_be_used_is_named_and_no_secret_is_shown() {
        for (variable, value) in [
            ("RINGPOST_NAME", "two words"),
            ("RINGPOST_LISTEN", "7700"),
            ("RINGPOST_LISTEN", "127.0.0.1:+1"),
            ("RINGPOST_ADVERTISE", "alpha:7700,"),
            ("RINGPOST_SEEDS", "beta"),
            ("RINGPOST_DOWN_AFTER", "8"),
            ("RINGPOST_HEARTBEAT", "fast"),
            ("RINGPOST_DOWN_WHEN_REFUSED", "no"),
            ("RINGPOST_SPIN", "20"),
            ("RINGPOST_ASK_TIMEOUT", "-1s"),
            ("RINGPOST_ASK_TIMEOUT", "0s"),
            ("RINGPOST_IDLE_CLOSE", "5124095576030432h"),
            ("RINGPOST_REFUSE_ADDRESSES", "10.0.0.0/33"),
            ("RINGPOST_LINKS_PER_SOURCE_MAX", "-1"),
            ("RINGPOST_REPORT_HANDLERS_AFTER", "soon"),
            ("RINGPOST_MAILBOX_CAPACITY", "many"),
            ("RINGPOST_ENCRYPTION", "on"),
            ("RINGPOST_METRICS_BY_PEER", "yes"),
        ] {
            let error = built(&[(variable, value)]).expect_err(variable).to_string();
            assert!(error.contains(variable) && error.contains(value), "{error}");
        }
        let error = built(&[("RINGPOST_NAME", &"\n".repeat(100_000))]).expect_err("too long");
        assert!(
            error.to_string().contains("\\n`.. (100000 bytes), but must be 1 to 64"),
            "{error}"
        );
        assert!(error.to_string().len() < 400, "{error}");
        for variable in ["RINGPOST_SECRET", "RINGPOST_ALSO_ACCEPT"] {
            let error = built(&[(variable, "hunter2")]).expect_err(variable).to_string();
            assert!(error.contains(variable) && !error.contains("hunter2"), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn bytes_that_are_no_text_are_refused_and_not_shown() {
        use std::os::unix::ffi::OsStringExt;
        let value = OsString::from_vec(b"hunter2 \xff".to_vec());
        let refused = NodeBuilder::from_variables([("RINGPOST_SECRET".into(), value)]);
        let error = refused.expect_err("no text");
        let text = "the environment variable RINGPOST_SECRET is no text, but must be UTF-8";
        assert_eq!((error.to_string(), format!("{error:?}")), (text.into(), text.into()));
    }

    #[test]
    fn an_address_that_nothing_was_filled_into_is_refused_with_the_remedy() {
        let error = built(&[("RINGPOST_ADVERTISE", "$(POD_IP):7700")]).expect_err("no host");
        let text = "the environment variable RINGPOST_ADVERTISE is `$(POD_IP):7700`, but must be \
            of the form host:port, several with commas between them; nothing filled `$(..)` in: \
            Kubernetes does where that variable is declared before this one";
        assert_eq!(error.to_string(), text);
        assert_eq!(format!("{error:?}"), text, "a main that returns it prints it");
    }

    // Promised in docs/SEMANTICS.md.
    #[tokio::test]
    async fn settings_that_do_not_go_together_name_the_variables_they_came_from() {
        let slow = ("RINGPOST_HEARTBEAT", "5s");
        let named = ("RINGPOST_NAME", "alpha");
        assert_eq!(
            refused(&[named, slow, ("RINGPOST_DOWN_AFTER", "2s")]).await,
            "the environment variable RINGPOST_DOWN_AFTER is 2s, but must be 15s to a year: no \
            less than three heartbeats of 5s"
        );
        assert_eq!(
            refused(&[named, slow]).await,
            "the environment variable RINGPOST_HEARTBEAT is 5s, but must be a third of \
            `down_after` at most, which is 8s: set RINGPOST_DOWN_AFTER, too, to three heartbeats \
            or more"
        );
        assert_eq!(
            refused(&[named, ("RINGPOST_HEARTBEAT", "1h")]).await,
            "the environment variable RINGPOST_HEARTBEAT is 3600s, but must be 250ms to 60s"
        );
        assert_eq!(
            refused(&[named, ("RINGPOST_IDLE_CLOSE", "0s")]).await,
            "the environment variable RINGPOST_IDLE_CLOSE is 0s, but must be 1s to a year: without \
            it no idle link closes"
        );
        assert_eq!(
            refused(&[named, ("RINGPOST_SPIN", "2ms")]).await,
            "the environment variable RINGPOST_SPIN is 2ms, but must be 0s to 1ms"
        );
        let links = refused(&[named, ("RINGPOST_LINKS_PER_SOURCE_MAX", "0")]).await;
        assert!(links.contains("RINGPOST_LINKS_PER_SOURCE_MAX is 0, but must be 1 to"), "{links}");
        let nameless = "the environment variable RINGPOST_NAME is not set, but must be 1 to 64 \
            ASCII letters, digits, `.`, `_` and `-`, unless the program gives the node its name";
        assert_eq!(refused(&[("RINGPOST_NAME", "")]).await, nameless);
        assert_eq!(refused(&[]).await, nameless);
        let own = Profile { down_after: Duration::from_secs(1), ..Profile::default() };
        let own = built(&[named]).expect("it is of its form").profile(own).start().await;
        let own = own.expect_err("the program said so").to_string();
        assert!(own.starts_with("the profile cannot work: down_after is 1s"), "{own}");
    }

    #[test]
    fn variables_that_say_nothing_are_unknown_and_the_nearest_name_is_told() {
        let builder = built(&[
            ("RINGPOST_SEED", "beta:7700"),
            ("RINGPOST_DOWNAFTER", "8s"),
            ("RINGPOST_COLOUR_OF_THE_LOG", "red"),
            // Variables of a service that is called `ringpost`.
            ("RINGPOST_SERVICE_HOST", "10.0.0.1"),
            ("RINGPOST_PORT_7700_TCP_ADDR", "10.0.0.1"),
            // Variables of a rank that `ringpost run` has started.
            ("RINGPOST_RANK", "2"),
            ("RINGPOST_HOSTS", "127.0.0.1:7700"),
            ("PATH", "/bin"),
        ]);
        let unknown = builder.expect("none of them counts").variables.unknown;
        let expected = [
            ("RINGPOST_COLOUR_OF_THE_LOG", None),
            ("RINGPOST_DOWNAFTER", Some("RINGPOST_DOWN_AFTER")),
            ("RINGPOST_SEED", Some("RINGPOST_SEEDS")),
        ];
        assert_eq!(unknown, expected.map(|(name, meant)| (name.to_owned(), meant)));
    }
}
