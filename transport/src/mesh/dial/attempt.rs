//! One dial: from an address to a link, or to the cause for which there is none.

use std::io;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::bootstrap::{Failure, Handshake, Rejection, meet};
use crate::connect_error::ConnectCause;
use crate::fabric::Side;
use crate::id::NodeId;
use crate::limits;
use crate::mesh::choice::Met;
use crate::mesh::join::join;
use crate::mesh::meter;
use crate::mesh::table::{DialPermit, Table};
use crate::steps::step;

/// The outcome of an attempt to reach a node at an address.
pub(super) struct Outcome {
    /// The node that answered there, when it proved itself.
    pub(super) node: Option<NodeId>,
    /// `Ok` when there is a link now.
    pub(super) result: Result<(), DialFailure>,
}

/// The cause for which an attempt did not make a link.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialFailure {
    #[error("cannot connect: {0}")]
    Unreachable(#[source] io::Error),
    #[error("cannot connect within {:?}", limits::DIAL_TIMEOUT)]
    NoAnswer,
    #[error("without a secret only loopback addresses are dialled: give all nodes the same")]
    NotLoopback,
    #[error("{0}")]
    Failed(#[from] Failure),
    #[error("this node is shutting down")]
    Closing,
}

impl DialFailure {
    /// Returns true if the node that answered is on its way out.
    pub(super) fn is_goodbye(&self) -> bool {
        matches!(self, DialFailure::Failed(Failure::RejectedByPeer(Rejection::ShuttingDown)))
    }

    /// Returns the kind of the failure, for tasks that wait to be connected.
    pub(super) fn cause(&self) -> ConnectCause {
        match self {
            DialFailure::Unreachable(_) => ConnectCause::Unreachable,
            DialFailure::NoAnswer => ConnectCause::NoAnswer,
            DialFailure::NotLoopback => ConnectCause::WrongSecret,
            DialFailure::Closing => ConnectCause::Shutdown,
            DialFailure::Failed(failure) => match failure {
                Failure::Rejected(why) | Failure::RejectedByPeer(why) => match why {
                    Rejection::WrongSecret => ConnectCause::WrongSecret,
                    Rejection::DuplicateNodeName => ConnectCause::NameTaken,
                    Rejection::TooSlow => ConnectCause::NoAnswer,
                    _ => ConnectCause::Failed,
                },
                Failure::VersionMismatch { .. } => ConnectCause::Version,
                Failure::SelfConnection => ConnectCause::Itself,
                failure if failure.is_of_no_node() => ConnectCause::NotRingpost,
                _ => ConnectCause::Failed,
            },
        }
    }

    /// Returns true if the host answered that nothing listens there.
    pub(super) fn is_refused(&self) -> bool {
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        matches!(self, DialFailure::Unreachable(error) if refused(error))
    }

    /// Returns the failure in a word, for metrics.
    fn label(&self) -> &'static str {
        match self {
            DialFailure::Unreachable(_) => "unreachable",
            DialFailure::NoAnswer => "no_answer",
            DialFailure::NotLoopback => "not_loopback",
            DialFailure::Failed(failure) => failure.label(),
            DialFailure::Closing => "shutting_down",
        }
    }

    /// Returns true if it only means that another connection between the same nodes was chosen.
    pub(super) fn is_dial_race(&self) -> bool {
        matches!(self, DialFailure::Failed(failure) if failure.is_dial_race())
    }
}

/// Dials `address`, which is no name, in a task of its own, which then carries the link. The
/// outcome tells when it stands. Dropping the receiver gives up a dial that has not met a node.
/// `permit` is held until it has, or has not.
pub(super) fn dial(
    table: &Arc<Table>,
    address: String,
    permit: Option<DialPermit>,
) -> oneshot::Receiver<Outcome> {
    let (report, outcome) = oneshot::channel();
    let shared = table.clone();
    table.tasks.spawn(async move { carry(shared, address, permit, report).await });
    outcome
}

async fn carry(
    table: Arc<Table>,
    address: String,
    permit: Option<DialPermit>,
    mut report: oneshot::Sender<Outcome>,
) {
    let reach = async {
        let _permit = permit;
        reach(&table, address).await
    };
    let met = tokio::select! {
        biased;
        () = table.events.closing() => Err(DialFailure::Closing),
        () = report.closed() => return,
        met = reach => met,
    };
    let (node, session) = match met {
        Err(failure) => (None, Err(failure)),
        Ok(met) => {
            let node = met.hello.node.clone();
            (Some(node), join(&table, met).await.map_err(DialFailure::Failed))
        }
    };
    meter::count_dial(session.as_ref().map_or_else(DialFailure::label, |_| "linked"));
    match session {
        Ok(session) => {
            let _ = report.send(Outcome { node, result: Ok(()) });
            session.run().await;
        }
        Err(failure) => {
            let _ = report.send(Outcome { node, result: Err(failure) });
        }
    }
}

async fn reach(table: &Table, address: String) -> Result<Met, DialFailure> {
    if !table.secret && table.network.needs_secret(&address) {
        return Err(DialFailure::NotLoopback);
    }
    let dial = table.network.wire.dial(address);
    let dialled = timeout(limits::DIAL_TIMEOUT, dial).await.map_err(|_| DialFailure::NoAnswer)?;
    let stream = dialled.map_err(DialFailure::Unreachable)?;
    step!(Dialled);
    // The data connection goes where this one went.
    let address = stream.peer_address();
    let fabrics = table.network.usable(table.encryption, &address);
    let identity = table.identity_naming(&fabrics);
    let handshake = Handshake::dial(&identity);
    let deadline = Instant::now() + limits::HANDSHAKE_TIMEOUT;
    let (channel, hello) = meet(stream, handshake, &[], deadline, std::future::pending()).await?;
    Ok(Met { channel, hello, side: Side::Dialer { address }, fabrics })
}
