//! One node as a process of its own: `node FLAVOUR NAME [SEED...]`. It listens on a free port of
//! loopback, prints `listening ADDRESS`, hosts the actors of the tests and ends when its standard
//! input does. Its warnings, when it is no longer blocked, and nodes that it sees come and go are
//! on standard error. The flavour
//! of its runtime is `current_thread`, a number of threads, or `default`; with `-latency` behind it
//! the node's links spin, with `-pinned` on a core of their own, too; with `-small` or `-giant` it
//! has such a profile. `node client ADDRESS` connects a client, and prints the cause for which it
//! could not, how many milliseconds that took, and the error.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ringpost::StartError;
use ringpost::net::Profile;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::region::MemoryOffer;
use ringpost_tests::actors::{BLOCKERS, Blocker, Counter, Giver, MUTES, Mute, Notary, giant};
use ringpost_tests::builds::hosted::Drifter;
use ringpost_tests::planted::plant_named;
use ringpost_tests::vault::{GIVEN_BYTES, Vault, VaultUser};
use tokio::io::AsyncReadExt;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::broadcast::Receiver;
use tracing_subscriber::EnvFilter;

const SECRET: &str = "a secret of the tests, at least 32 bytes long";
/// Longer than a dial may take, and than a connection may take to prove itself.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    plant_named();
    let mut arguments = std::env::args().skip(1);
    let flavour = arguments.next().unwrap_or_default();
    let (flavour, profile) = match flavour.split_once('-') {
        Some((flavour, "latency")) => (flavour, Profile::latency()),
        Some((flavour, "pinned")) => (flavour, pinned()),
        Some((flavour, "small")) => (flavour, Profile::small()),
        Some((flavour, "giant")) => (flavour, giant()),
        _ => (&*flavour, Profile::default()),
    };
    let runtime = runtime(flavour);
    let (Some(runtime), Some(name)) = (runtime, arguments.next()) else {
        eprintln!("usage: node FLAVOUR NAME [SEED...]");
        return ExitCode::from(2);
    };
    let filter = EnvFilter::new("warn,ringpost::busy=info");
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    if flavour == "client" {
        runtime.block_on(connect(&name));
        return ExitCode::SUCCESS;
    }
    match runtime.block_on(host(&name, arguments.collect(), profile)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("node {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Links that spin, on a thread that stays on the first core that this process may use.
fn pinned() -> Profile {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = cores.and_then(|cores| cores.trim().split([',', '-']).next()?.parse().ok());
    Profile { pinned_to: first, ..Profile::latency() }
}

/// A runtime of this flavour.
fn runtime(flavour: &str) -> Option<Runtime> {
    let mut builder = match flavour {
        "current_thread" | "client" => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if !["current_thread", "default", "client"].contains(&flavour) {
        builder.worker_threads(flavour.parse().ok().filter(|threads| *threads > 0)?);
    }
    builder.enable_all().build().ok()
}

/// Says which nodes are down, and that it stood still itself.
async fn tell(mut events: Receiver<NodeEvent>) {
    while let Ok(event) = events.recv().await {
        match event {
            NodeEvent::NodeDown { node, .. } => eprintln!("seen: {} is down", node.name),
            NodeEvent::LinkUp { node, .. } => eprintln!("seen: {} is linked", node.name),
            NodeEvent::Paused { lasted } => eprintln!("seen: a pause of {} s", lasted.as_secs()),
            _ => {}
        }
    }
}

/// Connects a client, which has a secret: the address need not be of loopback.
async fn connect(address: &str) {
    let started = Instant::now();
    let builder = Node::client(address).secret(SECRET).connect_timeout(CONNECT_WITHIN);
    match builder.connect().await {
        Ok((_, peer)) => println!("linked to {}", peer.name()),
        Err(StartError::Connect(error)) => {
            println!("{:?} {} {error}", error.cause, started.elapsed().as_millis());
        }
        Err(error) => println!("not started: {error}"),
    }
}

async fn host(name: &str, seeds: Vec<String>, profile: Profile) -> Result<(), BoxError> {
    let builder = Node::builder(name).listen("127.0.0.1:0").seeds(seeds);
    let node = builder.profile(profile).start().await?;
    node.spawn("counter", Counter::default()).await?;
    node.spawn("notary", Notary::default()).await?;
    node.spawn("giver", Giver).await?;
    node.spawn("drifter", Drifter).await?;
    node.spawn("vault", Vault::new(&node)?).await?;
    node.offer_memory(MemoryOffer { bytes_per_node: GIVEN_BYTES, bytes: 16 * GIVEN_BYTES })?;
    node.spawn("user", VaultUser).await?;
    for number in 0..MUTES {
        node.spawn(&format!("mute{number}"), Mute).await?;
    }
    for number in 0..BLOCKERS {
        node.spawn(&format!("blocker{number}"), Blocker).await?;
    }
    tokio::spawn(tell(node.events()));
    println!("listening {}", node.addresses().first().map_or("nowhere", String::as_str));
    let mut rest = Vec::new();
    tokio::io::stdin().read_to_end(&mut rest).await?;
    node.shutdown(Duration::from_secs(2)).await;
    Ok(())
}
