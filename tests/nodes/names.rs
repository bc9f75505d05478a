//! Addresses that are names or of IPv6: in seeds, to listen on, and advertised.

use std::io::Write;
use std::net::ToSocketAddrs;
use std::time::Duration;

use ringpost::net::Profile;
use ringpost::prelude::*;
use ringpost_tests::actors::Counter;

use crate::correspondent::{Archive, Correspondent, SECRET, Start, end_both, own_address, own_ip};
use crate::hosts::{Hosts, NAME};
use crate::process::{PATIENCE, log, within};

async fn node(name: &str, listen: &str, advertise: &[String], seeds: &[String]) -> Node {
    log();
    let profile = Profile { down_after: Duration::from_secs(4), ..Profile::default() };
    let builder = Node::builder(name).listen(listen).advertise(advertise).seeds(seeds);
    let node = builder.profile(profile).start().await.unwrap();
    node.spawn("counter", Counter::default()).await.unwrap();
    node
}

async fn answers(node: &Node, path: &str) {
    let counter = within(node.actor::<Counter>(path)).await.unwrap();
    assert_eq!(within(async { counter.echo("here".into()).await }).await, Ok("here".into()));
}

/// Past the capture of the test's output: nobody shall take this for a pass.
fn skip(what: &str) {
    std::io::stderr().write_all(format!("SKIPPED {what}\n").as_bytes()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_meet_over_ipv6() {
    if let Err(missing) = std::net::TcpListener::bind("[::1]:0") {
        return skip(&format!("IPv6: no [::1] here: {missing}"));
    }
    let alpha = node("alpha", "[::1]:0", &[], &[]).await;
    let address = alpha.addresses().remove(0);
    assert!(address.starts_with("[::1]:"), "{address}");
    let beta = node("beta", "[::1]:0", &[], &[address]).await;
    answers(&alpha, "beta/counter").await;
    answers(&beta, "alpha/counter").await;
    alpha.shutdown(PATIENCE).await;
    beta.shutdown(PATIENCE).await;
}

/// The third node learns from the first where the second is, and that is a name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_meet_by_names_in_seeds_and_in_what_is_advertised() {
    if let Err(missing) = "localhost:0".to_socket_addrs() {
        return skip(&format!("names: `localhost` is not known here: {missing}"));
    }
    let alpha = node("alpha", "localhost:0", &[], &[]).await;
    let port = |address: &str| address.rsplit_once(':').unwrap().1.to_owned();
    let seed = format!("localhost:{}", port(&alpha.addresses()[0]));
    let listen = own_address();
    // The first leads nowhere.
    let advertised = [format!("nowhere.invalid:{}", port(&listen)), listen.clone()];
    let beta = node("beta", &listen, &advertised, std::slice::from_ref(&seed)).await;
    within(alpha.ready(1)).await.unwrap();
    let gamma = node("gamma", "localhost:0", &[], &[seed]).await;
    answers(&gamma, "beta/counter").await;
    for node in [alpha, beta, gamma] {
        node.shutdown(PATIENCE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_leads_nowhere_is_named() {
    let dead = own_address();
    let nowhere = [format!("{NAME}:7700"), dead.clone()];
    let unknown = format!("{NAME}:7700: cannot connect: the name `{NAME}` ");
    let refused = format!("{dead}: cannot connect: ");
    // The error names each seed, but of advertised addresses only the last one tried.
    let alpha = node("alpha", "127.0.0.1:0", &[], &nowhere).await;
    let why = within(alpha.actor::<Counter>("beta/counter")).await.unwrap_err().to_string();
    assert!(why.contains(&unknown) && why.contains(&refused), "{why}");
    let beta = node("beta", "127.0.0.1:0", &nowhere, &alpha.addresses()).await;
    let gamma = node("gamma", "127.0.0.1:0", &[], &alpha.addresses()).await;
    let why = within(gamma.actor::<Counter>("beta/counter")).await.unwrap_err().to_string();
    assert!(why.contains(&unknown) || why.contains(&refused), "{why}");
    for node in [alpha, beta, gamma] {
        node.shutdown(PATIENCE).await;
    }
}

/// A seed's name is unknown at first, then it has a dead address and a good one, and then its node
/// starts again at a third. Only the node with the seed dials.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_looked_up_at_each_dial_and_each_of_its_addresses_is_tried() {
    let hosts = match Hosts::new() {
        Ok(hosts) => hosts,
        Err(missing) => return skip(&format!("a name that moves: no mount namespaces: {missing}")),
    };
    hosts.say(&[]);
    let archive = Archive::new("name");
    let own = own_address();
    let (ip, port) = own.rsplit_once(':').unwrap();
    let (dead, moved) = (own_ip(2), own_ip(3));
    let seed = format!("{NAME}:{port}");
    let options = ["--seed", &seed, "--to", "beta", "--down", "4000"];
    let through = hosts.through();
    let start = |name, run, listen, options, through| Start {
        name,
        run,
        listen,
        options,
        through,
        secrets: (SECRET, None),
    };
    let alpha =
        Correspondent::start(&archive, start("alpha", 1, "127.0.0.1:0", &options, &through)).await;
    alpha.remarks("beta/inbox: the actor's node is unreachable").await;
    let beta = Correspondent::start(&archive, start("beta", 1, &own, &[], &[])).await;
    hosts.say(&[&dead, ip]);
    alpha.remarks("link up beta").await;
    beta.writes("handled ").await;
    beta.kill().await;
    let elsewhere = format!("{moved}:{port}");
    let beta = Correspondent::start(&archive, start("beta", 2, &elsewhere, &[], &[])).await;
    hosts.say(&[&moved]);
    beta.writes("handled ").await;
    assert_eq!(alpha.count("# link up beta"), 2);
    end_both(alpha, beta).await;
    assert_eq!(archive.judge().killed, 1);
}
