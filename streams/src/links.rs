//! The links of a node, which one actor follows for all ends of connections on it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use ringpost::observe::NodeEvent;
use ringpost::spawn::SpawnError;
use ringpost::{Actor, ActorRef, BoxError, Context, Local, Node, actor, handlers};
use tokio::sync::broadcast::error::RecvError;

use crate::notices::Courier;

/// The name of the actor.
const NAME: &str = "ringpost_streams.links";

/// The ends of a node, by their places in memory. Each of them shares this.
pub(crate) struct Ends {
    listed: Mutex<HashMap<usize, Weak<dyn Courier>>>,
    warden: ActorRef<Warden>,
}

impl Ends {
    /// Returns the ends of a node, with events of links from now on.
    ///
    /// # Errors
    /// [`SpawnError::Shutdown`] when the node is shutting down.
    pub(crate) async fn of(node: &Node) -> Result<Arc<Self>, SpawnError> {
        loop {
            let warden = node.actor_or_spawn(NAME, Warden::default).await?;
            if let Ok(Local(ends)) = warden.ends().await {
                return Ok(ends);
            }
            // It ends since there was no connection.
            warden.wait_stopped().await;
        }
    }

    /// Adds an end. Returns its key.
    pub(crate) fn add(&self, end: &Arc<dyn Courier>) -> usize {
        let key = Arc::as_ptr(end).addr();
        self.listed.lock().insert(key, Arc::downgrade(end));
        key
    }

    pub(crate) fn remove(&self, key: usize) {
        self.listed.lock().remove(&key);
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        // It takes no other messages at that rate; where it does not take this one, it has ended.
        self.warden.try_tell(Rest {}).ok();
    }
}

/// The actor: lives while there are ends, since it keeps its node alive.
#[derive(Default)]
struct Warden {
    ends: Weak<Ends>,
}

#[actor(name = "ringpost_streams::Links")]
impl Actor for Warden {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let (mut events, me) = (cx.node().events(), cx.actor().clone());
        cx.spawn_task(async move {
            loop {
                let node = match events.recv().await {
                    Ok(NodeEvent::LinkDown { node, .. } | NodeEvent::NodeLeaving { node }) => {
                        Some(node.name.as_str().to_owned())
                    }
                    // Any link may be among the events that were missed.
                    Err(RecvError::Lagged(_)) => None,
                    Ok(_) => continue,
                    Err(RecvError::Closed) => return,
                };
                drop(me.trouble(node).await);
            }
        });
        Ok(())
    }
}

#[handlers]
impl Warden {
    #[handler(local, name = Join)]
    fn ends(&mut self, cx: &mut Context<Self>) -> Local<Arc<Ends>> {
        Local(self.ends.upgrade().unwrap_or_else(|| {
            let ends = Ends { listed: Mutex::default(), warden: cx.actor().clone() };
            let ends = Arc::new(ends);
            self.ends = Arc::downgrade(&ends);
            ends
        }))
    }

    /// Tells the ends whose peers are on a node, or all ends.
    #[handler(local)]
    fn trouble(&mut self, node: Option<String>) {
        let Some(ends) = self.ends.upgrade() else { return };
        let listed: Vec<_> = ends.listed.lock().values().filter_map(Weak::upgrade).collect();
        listed.iter().filter(|end| end.is_to(node.as_deref())).for_each(|end| end.trouble());
    }

    /// Ends the actor if there is no end left.
    #[handler(local, name = Rest)]
    fn rest(&mut self, cx: &mut Context<Self>) {
        if self.ends.strong_count() == 0 {
            cx.stop();
        }
    }
}
