//! One node of a word count, in a process of its own.

use std::io;
use std::process;
use std::time::Duration;

use ringpost::net::NodeDownCause;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::spawn::SpawnError;
use ringpost::{LookupError, StartError};
use tokio::io::AsyncReadExt;
use tokio::sync::broadcast::error::RecvError;

use crate::cli::Args;
use crate::desk::{DESK, DRIVER, Desk, Member};
use crate::mapper::Mapper;
use crate::reducer::Reducer;
use crate::secret::Secret;
use crate::signals::Signals;
use crate::steward::Steward;

/// How long a node may take to end: it has nothing to finish.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a node ends before it is told to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RoleError {
    #[error("this node cannot start: {0}")]
    Start(#[from] StartError),
    #[error("an actor cannot be spawned: {0}")]
    Spawn(#[from] SpawnError),
    #[error("the driver does not answer: {0}")]
    Desk(#[from] LookupError),
    #[error("the driver cannot be told that this node is ready: {0}")]
    Join(Cause),
    #[error("signals cannot be listened for: {0}")]
    Signals(io::Error),
    #[error("the driver is lost: {0}")]
    DriverLost(NodeDownCause),
}

/// Works as the node `name` until the driver leaves or a signal comes; with `--attached`, until
/// standard input ends.
///
/// # Errors
/// When the node cannot start, and when its driver is lost.
pub(crate) async fn serve(args: &Args, name: &str, secret: &Secret) -> Result<(), RoleError> {
    let mut signals = Signals::listen().map_err(RoleError::Signals)?;
    let node = Node::builder(name)
        .listen(args.listen.to_string())
        .seeds(&args.seed)
        .secret(secret.bytes())
        .start()
        .await?;
    let result = tokio::select! {
        biased;
        () = signals.next() => Ok(()),
        () = input_ends(args.attached) => Ok(()),
        result = work(&node) => result,
    };
    node.shutdown(SHUTDOWN_TIMEOUT).await;
    result
}

async fn work(node: &Node) -> Result<(), RoleError> {
    let mut events = node.events();
    let member = Member {
        name: node.name().to_owned(),
        pid: process::id(),
        mapper: node.spawn("mapper", Mapper::default()).await?,
        reducer: node.spawn("reducer", Reducer::default()).await?,
        steward: node.spawn("steward", Steward).await?,
    };
    let desk: ActorRef<Desk> = node.actor(DESK).await?;
    desk.tell(member).await.map_err(|e| RoleError::Join(e.cause))?;
    loop {
        match events.recv().await {
            Ok(NodeEvent::NodeDown { node, cause }) if node.name.as_str() == DRIVER => {
                return match cause {
                    NodeDownCause::Left => Ok(()),
                    cause => Err(RoleError::DriverLost(cause)),
                };
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

/// Waits for the end of standard input, which a process that was started by hand does not watch.
async fn input_ends(attached: bool) {
    if !attached {
        return std::future::pending().await;
    }
    let mut input = tokio::io::stdin();
    let mut ignored = [0; 64];
    while input.read(&mut ignored).await.is_ok_and(|bytes| bytes > 0) {}
}
