//! A world that the environment describes, as `ringpost run` sets it.

use std::env;

use crate::error::JoinError;
use crate::world::World;

/// The number of this rank.
const RANK: &str = "RINGPOST_RANK";
/// The number of ranks.
const SIZE: &str = "RINGPOST_SIZE";
/// Where the ranks listen, in the order of their numbers.
const HOSTS: &str = "RINGPOST_HOSTS";
/// The name of the world.
const JOB: &str = "RINGPOST_JOB";

impl World {
    /// Joins the world that the environment describes, on a node that is made for it. `ringpost
    /// run` sets these variables for the programs that it starts:
    ///
    /// | variable | value |
    /// |---|---|
    /// | `RINGPOST_RANK` | the number of this rank, from 0 on |
    /// | `RINGPOST_SIZE` | the number of ranks |
    /// | `RINGPOST_HOSTS` | where each rank listens, `host:port`, with commas between them |
    /// | `RINGPOST_JOB` | the name of the world; `job` when not set |
    ///
    /// [`Node::from_env`](ringpost::Node::from_env) reads the other variables, such as
    /// `RINGPOST_SECRET`.
    ///
    /// # Errors
    /// [`JoinError::Environment`] names the first variable that cannot be used; other ones as
    /// [`join`](crate::WorldBuilder::join).
    ///
    /// # Cancel safety
    /// As [`join`](crate::WorldBuilder::join).
    pub async fn from_env() -> Result<World, JoinError> {
        let size = number(SIZE, "the number of ranks, 1 to 4096")?;
        let rank = number(RANK, "the number of this rank, 0 to RINGPOST_SIZE - 1")?;
        let hosts = text(HOSTS).unwrap_or_default();
        let must = "the addresses of all ranks, host:port with commas between them";
        let listed = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
        let listed: Vec<&str> = listed.collect();
        if listed.len() != size {
            return Err(invalid(HOSTS, text(HOSTS), must));
        }
        let job = text(JOB).unwrap_or_else(|| "job".to_owned());
        World::builder(job).rank(rank).size(size).hosts(listed).join().await
    }
}

fn text(variable: &str) -> Option<String> {
    env::var_os(variable).map(|value| value.to_string_lossy().into_owned())
}

fn number(variable: &'static str, must: &'static str) -> Result<usize, JoinError> {
    let value = text(variable);
    let number = value.as_deref().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| invalid(variable, value, must))
}

/// Makes the error of a variable, with the beginning of its value.
fn invalid(variable: &'static str, value: Option<String>, must: &'static str) -> JoinError {
    let shown = |value: String| format!("`{}`", value.escape_debug().take(80).collect::<String>());
    JoinError::Environment { variable, value: value.map_or("not set".into(), shown), must }
}
