//! The process that the user starts: it has the nodes started, feeds them, and collects the result.

use std::io;

use ringpost::StartError;
use ringpost::prelude::*;
use ringpost::spawn::SpawnError;
use tokio::sync::mpsc;

use crate::cli::Args;
use crate::count::count;
use crate::crew::{self, Crew, Exit};
use crate::desk::{DRIVER, Desk, Member};
use crate::files::Listing;
use crate::print;
use crate::report::Run;
use crate::role::SHUTDOWN_TIMEOUT;
use crate::secret::Secret;
use crate::signals::Signals;
use crate::steward::traffic;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriveError {
    #[error("this process cannot be a node: {0}")]
    Start(#[from] StartError),
    #[error("the desk cannot be spawned: {0}")]
    Spawn(#[from] SpawnError),
    #[error("a node process cannot be started: {0}")]
    Process(io::Error),
    #[error("{0} before it was ready")]
    Ended(Exit),
    #[error("interrupted: there is no result")]
    Interrupted,
}

/// Counts the words of `listing`. All processes that were started are reaped when it returns.
///
/// # Errors
/// When the nodes cannot be started, and when a signal interrupts it.
pub(crate) async fn drive(
    args: &Args,
    listing: Listing,
    secret: &Secret,
    signals: &mut Signals,
) -> Result<Run, DriveError> {
    let node = Node::builder(DRIVER)
        .listen(args.listen.to_string())
        .secret(secret.bytes())
        .start()
        .await?;
    let (members, joins) = mpsc::unbounded_channel();
    node.spawn("desk", Desk { members }).await?;
    let mut crew = Crew::new(secret);
    let result = tokio::select! {
        biased;
        () = signals.next() => Err(DriveError::Interrupted),
        result = work(args, listing, &node, &mut crew, joins) => result,
    };
    let exits = crew.end(crew::END_TIMEOUT).await;
    node.shutdown(SHUTDOWN_TIMEOUT).await;
    let mut run = result?;
    run.crashes = exits.into_iter().filter(|exit| !exit.is_clean()).collect();
    Ok(run)
}

async fn work(
    args: &Args,
    listing: Listing,
    node: &Node,
    crew: &mut Crew,
    joins: mpsc::UnboundedReceiver<Member>,
) -> Result<Run, DriveError> {
    let addresses = node.addresses();
    for n in 1..=args.nodes {
        crew.start(&format!("n{n}"), &addresses).map_err(DriveError::Process)?;
    }
    if args.join > 0 {
        print::note(&format!(
            "waiting for {} nodes that are started with --node NAME --seed {}",
            args.join,
            addresses.join(" --seed ")
        ));
    }
    let members = gather(args.nodes + args.join, joins, crew).await?;
    let mut run = count(&members, listing).await;
    run.links.push((DRIVER.to_owned(), traffic(node)));
    for member in members {
        if !run.has_lost(&member.name) {
            // Without its answer the result is still whole.
            let links = member.steward.links().await.unwrap_or_default();
            run.links.push((member.name.clone(), links));
        }
        run.nodes.push((member.name, member.pid));
    }
    Ok(run)
}

/// Waits until `count` nodes have reported; fails when a process that was started ends first.
async fn gather(
    count: u32,
    mut joins: mpsc::UnboundedReceiver<Member>,
    crew: &mut Crew,
) -> Result<Vec<Member>, DriveError> {
    let mut members = Vec::new();
    while members.len() < count as usize {
        tokio::select! {
            biased;
            Some(member) = joins.recv() => {
                // A node that was started again replaces its earlier run.
                members.retain(|known: &Member| known.name != member.name);
                members.push(member);
            }
            exit = crew.next_exit() => return Err(DriveError::Ended(exit)),
        }
    }
    members.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(members)
}
