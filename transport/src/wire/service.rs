//! Look-ups of services by their SRV records, at the name servers of `/etc/resolv.conf`. Used by
//! [`TcpWire`](super::TcpWire), for seeds; what peers tell is no service.
//!
//! Such a look-up blocks no thread, and ends when the dialler that wants it gives it up: a seed has
//! one at a time.

use std::cmp::Reverse;
use std::io;
use std::net::SocketAddr;

use futures::future::join_all;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::{ResolverBuilder, TokioResolver};
use tokio::time::timeout;

use crate::limits;
use crate::shield;

/// Returns where the service `name` is now: at most `DIAL_ADDRESSES_MAX` addresses, with the lowest
/// priority and then the largest weight first.
///
/// # Errors
/// The resolver's, with the name; [`TimedOut`](io::ErrorKind::TimedOut) after `RESOLVE_TIMEOUT`.
pub(super) async fn look_up(name: &str) -> io::Result<Vec<SocketAddr>> {
    // Reads the system's configuration each time: the file may have changed.
    let servers = TokioResolver::builder_tokio().map_err(|error| failed(name, &error))?;
    // It writes to the log, too.
    let looked_up = shield::caught(look_up_at(servers, name)).await;
    looked_up.unwrap_or_else(|why| Err(io::Error::other(format!("the service `{name}`: {why}"))))
}

/// Looks a service up at these name servers.
async fn look_up_at(
    mut servers: ResolverBuilder<TokioRuntimeProvider>,
    name: &str,
) -> io::Result<Vec<SocketAddr>> {
    let options = servers.options_mut();
    options.cache_size = 0;
    // A server that does not answer leaves time for the next.
    options.timeout = limits::RESOLVE_TIMEOUT / 8;
    options.attempts = 1;
    let resolver = servers.build().map_err(|error| failed(name, &error))?;
    let found = async {
        let found = resolver.srv_lookup(name).await.map_err(|error| failed(name, &error))?;
        let services = found.answers().iter().filter_map(|answer| match &answer.data {
            RData::SRV(service) => Some(service.clone()),
            _ => None,
        });
        addresses(&resolver, name, services.collect()).await
    };
    timeout(limits::RESOLVE_TIMEOUT, found).await.unwrap_or_else(|_| {
        let why = format!("was not resolved within {:?}", limits::RESOLVE_TIMEOUT);
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("the service `{name}` {why}")))
    })
}

/// Returns the addresses of these services. A service without one or without answer hides no other.
async fn addresses(
    resolver: &TokioResolver,
    name: &str,
    mut services: Vec<SRV>,
) -> io::Result<Vec<SocketAddr>> {
    services.retain(|service| service.port != 0 && !service.target.is_root());
    services.sort_by_key(|service| (service.priority, Reverse(service.weight)));
    services.truncate(limits::DIAL_ADDRESSES_MAX);
    let patience = limits::RESOLVE_TIMEOUT / 2;
    let hosts = services
        .iter()
        .map(|service| timeout(patience, resolver.lookup_ip(service.target.clone())));
    let mut found = Vec::new();
    let mut why = None;
    for (service, host) in services.iter().zip(join_all(hosts).await) {
        match host {
            Ok(Ok(host)) => found.extend(host.iter().map(|ip| SocketAddr::new(ip, service.port))),
            Ok(Err(error)) => why = why.or(Some(failed(name, &error))),
            Err(_) => {
                let silent = format!("its host `{}` is not looked up in time", service.target);
                let silent = format!("the service `{name}` does not resolve: {silent}");
                why = why.or(Some(io::Error::new(io::ErrorKind::TimedOut, silent)));
            }
        }
    }
    found.truncate(limits::DIAL_ADDRESSES_MAX);
    let nowhere = || format!("the service `{name}` has no address");
    match (found.is_empty(), why) {
        (false, _) => Ok(found),
        (true, Some(why)) => Err(why),
        (true, None) => Err(io::Error::new(io::ErrorKind::NotFound, nowhere())),
    }
}

fn failed(name: &str, error: &NetError) -> io::Error {
    io::Error::other(format!("the service `{name}` does not resolve: {error}"))
}

#[cfg(test)]
pub(crate) mod tests;
