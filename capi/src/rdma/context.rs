//! A context: a node, its peers by index, and the memory that they read and write.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::Node;
use ringpost::region::{Access, Region, RemoteRegion};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::greeting::{self, SERVER};
use super::peer::{Arrival, PEERS_MAX, Peer, Service};
use crate::describe::{invented, link, start_linked};
use crate::driver::{Closing, wait};
use crate::failure::{Code, Failure};
use crate::handles::Kind;
use crate::line::CLOSE_WITHIN;
use crate::ready::Ready;

/// A context, made by `rdma_init`.
pub(crate) struct Context {
    /// The address of this machine that the program gave.
    address: IpAddr,
    buffer_bytes: usize,
    is_server: bool,
    /// `None` until a client connects for the first time.
    place: tokio::sync::Mutex<Option<Place>>,
    /// There from when `place` is.
    pub(super) memory: Mutex<Option<Memory>>,
    peers: Mutex<Vec<Option<Arc<Peer>>>>,
    places: Arc<Semaphore>,
    arrivals: tokio::sync::Mutex<Option<UnboundedReceiver<Arrival>>>,
    pub(super) ready: Arc<Ready>,
    pub(super) closing: Arc<Closing>,
    /// Collectives of a context are one after the other.
    pub(super) turn: tokio::sync::Mutex<()>,
    port: u16,
}

impl Kind for Context {
    const NAME: &'static str = "a context";
}

/// The node of a context.
#[derive(Clone)]
struct Place {
    node: Node,
    shared: RemoteRegion<u8>,
}

/// The memory of a context that its peers read and write.
pub(super) struct Memory {
    pub(super) region: Arc<Region<u8>>,
}

impl Context {
    /// Makes a context of the machine that has this address. A server listens there.
    ///
    /// # Errors
    /// The address is not of this machine, the port is taken, or the memory is too large.
    pub(super) fn open(
        ip: &str,
        port: u16,
        buffer_bytes: usize,
        is_server: bool,
    ) -> Result<Arc<Self>, Failure> {
        let address = local(ip)?;
        if buffer_bytes > isize::MAX as usize / 2 {
            let what = format!("a buffer of {buffer_bytes} bytes is more than there can be");
            return Err(Failure::new(Code::TooLarge, what));
        }
        let closing = Arc::new(Closing::default());
        let mut context = Context {
            address,
            buffer_bytes,
            is_server,
            place: tokio::sync::Mutex::default(),
            memory: Mutex::default(),
            peers: Mutex::default(),
            places: Arc::new(Semaphore::new(PEERS_MAX)),
            arrivals: tokio::sync::Mutex::default(),
            ready: Ready::new()?,
            closing: closing.clone(),
            turn: tokio::sync::Mutex::default(),
            port,
        };
        if is_server {
            let at = SocketAddr::new(address, port);
            wait(async {
                let node = invented(SERVER)?.listen(at.to_string()).start().await?;
                context.port = port_of(&node).unwrap_or(port);
                let served = context.serve(node.clone()).await;
                if served.is_err() {
                    node.shutdown(Duration::ZERO).await;
                }
                served
            })?;
        }
        Ok(Arc::new(context))
    }

    async fn serve(&mut self, node: Node) -> Result<(), Failure> {
        let place = self.settle(node)?;
        let service = Service {
            node: place.node.clone(),
            shared: place.shared.clone(),
            places: self.places.clone(),
            ready: self.ready.clone(),
        };
        *self.place.get_mut() = Some(place);
        let (arrived, arrivals) = unbounded_channel();
        *self.arrivals.get_mut() = Some(arrivals);
        greeting::serve(service, arrived, self.closing.clone()).await
    }

    /// Makes the memory of the context on its node.
    fn settle(&self, node: Node) -> Result<Place, Failure> {
        let region = node.region(self.buffer_bytes)?;
        let shared = region.share(Access::ALL)?;
        *self.memory.lock() = Some(Memory { region: Arc::new(region) });
        Ok(Place { node, shared })
    }

    /// Connects to the server at an address, and returns the index of that peer.
    ///
    /// # Errors
    /// No node answers there, it is no server of this library, or either side has no place left.
    pub(super) fn connect(&self, ip: &str, port: u16) -> Result<usize, Failure> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| full())?;
        let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
        let address = format!("{host}:{port}");
        let peer = self.closing.wait(None, async {
            let (here, server) = self.reach(&address).await?;
            let service = Service {
                node: here.node,
                shared: here.shared,
                places: self.places.clone(),
                ready: self.ready.clone(),
            };
            greeting::connect(&service, &server, place).await
        })?;
        self.add(peer)
    }

    /// Links the node of this context to the one at an address, whose name it returns.
    async fn reach(&self, address: &str) -> Result<(Place, String), Failure> {
        let mut place = self.place.lock().await;
        if let Some(place) = &*place {
            let server = link(&place.node, address).await?;
            return Ok((place.clone(), server.name().to_owned()));
        }
        let client = invented("rdma-client")?.listen(self.client_address());
        let (node, server) = start_linked(client, address).await?;
        let made = self.settle(node.clone());
        if made.is_err() {
            node.shutdown(Duration::ZERO).await;
        }
        let made = made?;
        *place = Some(made.clone());
        Ok((made, server.name().to_owned()))
    }

    /// Returns where the node of a client listens. When the process is killed, servers know it at
    /// once, since its host refuses connections. Without a secret all nodes are on loopback.
    fn client_address(&self) -> String {
        let has_secret = std::env::var_os("RINGPOST_SECRET").is_some_and(|text| !text.is_empty());
        let ip = match self.address {
            own if has_secret => own,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        SocketAddr::new(ip, 0).to_string()
    }

    /// Waits for the next client, and returns its index.
    ///
    /// # Errors
    /// This is no server.
    pub(super) fn accept(&self) -> Result<usize, Failure> {
        if !self.is_server {
            return Err(Failure::invalid("a client cannot accept: give `true` to rdma_init"));
        }
        let arrival = self.closing.wait(None, async {
            let mut arrivals = self.arrivals.lock().await;
            let arrivals = arrivals.as_mut().ok_or_else(Failure::closed)?;
            arrivals.recv().await.ok_or_else(Failure::closed)
        })?;
        self.add(arrival.peer)
    }

    /// Gives a peer the lowest index that is free.
    fn add(&self, peer: Peer) -> Result<usize, Failure> {
        let mut peers = self.peers.lock();
        let index = match peers.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                peers.push(None);
                peers.len() - 1
            }
        };
        peers[index] = Some(Arc::new(peer));
        Ok(index)
    }

    /// Returns the peer with this index.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn peer(&self, index: i32) -> Result<Arc<Peer>, Failure> {
        let found = usize::try_from(index).ok().and_then(|at| self.peers.lock().get(at)?.clone());
        found.ok_or_else(|| no_peer(index))
    }

    /// Returns all peers, with their indexes.
    pub(super) fn peers(&self) -> Vec<(usize, Arc<Peer>)> {
        let peers = self.peers.lock();
        let peers = peers.iter().cloned().enumerate();
        peers.filter_map(|(index, peer)| Some((index, peer?))).collect()
    }

    /// Returns one more than the highest index of a peer.
    pub(super) fn width(&self) -> usize {
        self.peers().last().map_or(0, |(index, _)| index + 1)
    }

    /// Ends the connection to a peer, which still receives all messages.
    ///
    /// # Errors
    /// There is no such peer.
    pub(super) fn disconnect(&self, index: i32) -> Result<(), Failure> {
        let at = usize::try_from(index).map_err(|_| no_peer(index))?;
        let peer = self.peers.lock().get_mut(at).and_then(Option::take);
        let peer = peer.ok_or_else(|| no_peer(index))?;
        wait(async move {
            peer.close().await;
            Ok(())
        })
    }

    /// Ends it: the peers receive all messages, and then the end.
    pub(super) fn close(&self) {
        self.closing.close();
        let peers = std::mem::take(&mut *self.peers.lock());
        let closed = wait(async {
            futures::future::join_all(peers.iter().flatten().map(|peer| peer.close())).await;
            if let Some(place) = self.place.lock().await.take() {
                place.node.shutdown(CLOSE_WITHIN).await;
            }
            Ok(())
        });
        // It fails on a thread of an async runtime: then it ends when it is dropped.
        closed.ok();
        self.memory.lock().take();
    }

    pub(super) fn is_server(&self) -> bool {
        self.is_server
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

/// Returns the address, if it is one of this machine.
fn local(ip: &str) -> Result<IpAddr, Failure> {
    let resolved = (ip, 0).to_socket_addrs().ok().and_then(|mut all| all.next());
    let at = resolved.ok_or_else(|| Failure::invalid(format!("`{ip}` is no address")))?;
    match TcpListener::bind(at) {
        Ok(_) => Ok(at.ip()),
        Err(error) => {
            let what =
                format!("{ip} is not an address of this machine ({error}): give one that is");
            Err(Failure::failed(what))
        }
    }
}

fn port_of(node: &Node) -> Option<u16> {
    node.addresses().first()?.rsplit(':').next()?.parse().ok()
}

fn no_peer(index: i32) -> Failure {
    Failure::invalid(format!("there is no peer {index}: it was not connected, or is disconnected"))
}

fn full() -> Failure {
    Failure::failed(format!("there are {PEERS_MAX} peers already: disconnect one"))
}
