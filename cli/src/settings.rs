//! The nodes of this program: settings from the environment and from the command line.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringpost::net::{InvalidEnvironment, Network};
use ringpost::{Node, NodeBuilder};

use crate::failure::Failure;

/// The time that a node has to say goodbye.
pub(crate) const GOODBYE: Duration = Duration::from_secs(2);

const NONE: [&str; 0] = [];

/// Describes a node that serves. Addresses of the command line win over the environment.
pub(crate) fn server(
    listen: &str,
    advertise: &[String],
) -> Result<NodeBuilder, InvalidEnvironment> {
    let builder = Node::from_env()?.name(name("serve")).listen(listen).seeds(NONE);
    Ok(if advertise.is_empty() { builder } else { builder.advertise(advertise) })
}

/// Describes a node that dials a serving one, with a network of its own.
pub(crate) fn client(address: &str, network: Network) -> Result<NodeBuilder, InvalidEnvironment> {
    let builder = Node::from_env()?.name(name("client"));
    let builder = builder.advertise(NONE).seeds([address]).network(network);
    // Another node of this environment listens at that address, and this one only dials.
    let is_listening = std::env::var_os("RINGPOST_LISTEN").is_some_and(|at| !at.is_empty());
    Ok(if is_listening { builder.listen("127.0.0.1:0") } else { builder })
}

/// Starts a node as the environment describes it, at a free port, and ends it: it dials no other.
///
/// # Errors
/// [`Failure::Environment`] or [`Failure::Start`] when such a node does not start.
pub(crate) async fn check() -> Result<(), Failure> {
    let listen = std::env::var("RINGPOST_LISTEN").unwrap_or_default();
    let host = listen.rsplit_once(':').map_or("127.0.0.1", |(host, _)| host);
    let builder = Node::from_env()?.name(name("doctor")).listen(format!("{host}:0"));
    builder.seeds(NONE).start().await?.shutdown(GOODBYE).await;
    Ok(())
}

/// Returns a name that no other node has: the serving side may know nodes of many runs.
fn name(role: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{role}-{:x}-{:x}", std::process::id(), now.as_nanos())
}

/// Reads an address of the command line.
///
/// # Errors
/// A sentence that says its form.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or_default();
    let is_v6 = host.starts_with('[') && host.ends_with(']');
    let is_host = !host.is_empty() && (is_v6 || !host.contains(':'));
    let is_port = port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if is_host && is_port {
        return Ok(text.to_owned());
    }
    Err("an address has the form `host:port` or `[IPv6]:port`, such as `10.0.0.1:7700`".into())
}
