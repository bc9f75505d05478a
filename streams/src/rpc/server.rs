//! The side that serves.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use ringpost::spawn::SpawnError;
use ringpost::wire::Wire;
use ringpost::{ActorRef, Context, Message, Node, Reply, ReplyTo, View, actor, handlers};
use tokio::sync::Semaphore;

/// Requests that one server handles at a time, unless it is told otherwise.
pub const IN_FLIGHT: usize = 1024;

/// The function that a server calls with each request.
type Function<M, R> = Arc<dyn Fn(View<M>) -> BoxFuture<'static, R> + Send + Sync>;

/// Serves a function under a name of the node, for at most [`IN_FLIGHT`] requests at a time; see
/// [`serve_at_most`].
///
/// # Errors
/// [`SpawnError`]: the name is taken or is none, or the node is shutting down.
pub async fn serve<M, R, F>(
    node: &Node,
    name: &str,
    function: impl Fn(View<M>) -> F + Send + Sync + 'static,
) -> Result<Server<M, R>, SpawnError>
where
    M: Message + Wire,
    R: Reply,
    F: Future<Output = R> + Send + 'static,
{
    serve_at_most(node, name, IN_FLIGHT, function).await
}

/// Serves a function under a name of the node, until that shuts down or the server is
/// [stopped](Server::stop).
///
/// At most `in_flight` requests are handled at a time; further requests wait. A future runs in the
/// turn of the server until it first waits, and as a task of its own from then on: work that takes
/// long and never waits belongs into [`spawn_blocking`](tokio::task::spawn_blocking). A future is
/// dropped when its caller gives up. A panic fails its own request only, with
/// [`AskCause::Panicked`](ringpost::AskCause::Panicked).
///
/// # Errors
/// [`SpawnError`]: the name is taken or is none, or the node is shutting down.
pub async fn serve_at_most<M, R, F>(
    node: &Node,
    name: &str,
    in_flight: usize,
    function: impl Fn(View<M>) -> F + Send + Sync + 'static,
) -> Result<Server<M, R>, SpawnError>
where
    M: Message + Wire,
    R: Reply,
    F: Future<Output = R> + Send + 'static,
{
    let function: Function<M, R> = Arc::new(move |request| Box::pin(function(request)));
    let room = Arc::new(Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS)));
    let actor = node.spawn(name, Service { function, room }).await?;
    Ok(Server { actor })
}

/// A function that is served. Dropped, it is served on.
pub struct Server<M: Message + Wire, R: Reply> {
    actor: ActorRef<Service<M, R>>,
}

impl<M: Message + Wire, R: Reply> Server<M, R> {
    /// Stops to serve: requests that have no answer fail, and the name is free when this returns.
    ///
    /// # Cancel safety
    /// The server ends even if the future is dropped.
    pub async fn stop(self) {
        // It is an actor of this node: that never fails.
        self.actor.request_stop().ok();
        self.actor.wait_stopped().await;
    }
}

/// The actor behind a server.
struct Service<M: Message + Wire, R: Reply> {
    function: Function<M, R>,
    room: Arc<Semaphore>,
}

#[actor(name = "ringpost_streams::Service")]
impl<M: Message + Wire, R: Reply> ringpost::Actor for Service<M, R> {}

#[handlers]
impl<M: Message + Wire, R: Reply> Service<M, R> {
    /// Calls the function, and waits only for room for one more call.
    #[handler]
    async fn call(&mut self, msg: View<M>, reply: ReplyTo<R>, cx: &mut Context<Self>) {
        let Ok(room) = self.room.clone().acquire_owned().await else { return };
        let function = self.function.clone();
        let call = async move {
            answer(&*function, msg, reply).await;
            drop(room);
        };
        // The way to the caller is dropped by the panic, which tells the caller of it.
        let mut call = AssertUnwindSafe(call).catch_unwind().boxed();
        if futures::poll!(&mut call).is_pending() {
            cx.spawn_task(async move { drop(call.await) });
        }
    }
}

/// Answers one request, unless its caller gives up first.
async fn answer<M: Message + Wire, R: Reply>(
    function: &(dyn Fn(View<M>) -> BoxFuture<'static, R> + Send + Sync),
    request: View<M>,
    mut reply: ReplyTo<R>,
) {
    tokio::select! {
        biased;
        answer = function(request) => reply.send(answer),
        () = reply.given_up() => {}
    }
}
