//! A relay between a node and the address that it dials: it can swallow data connections, cut
//! connections, and be slow.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Where the preface of a connection says its kind, and how it says that it is a data connection.
const KIND: (usize, u8) = (9, 2);

/// The treatment of the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// They are carried.
    Carry,
    /// New data connections are accepted, and lead nowhere.
    Swallow,
    /// All are cut, on both sides; new ones are carried.
    Cut,
    /// The data connections are cut on the far side only.
    CutFar,
}

/// A relay; its connections end when it is dropped.
pub(crate) struct Relay {
    pub(crate) address: String,
    orders: watch::Sender<Order>,
    _tasks: JoinSet<()>,
}

impl Relay {
    /// Listens in place of `far`.
    pub(crate) async fn start(far: String, order: Order) -> Self {
        Relay::listen(far, order, None).await
    }

    /// Listens in place of `far`, and carries that many bytes per second, each way, of each data
    /// connection.
    pub(crate) async fn slow(far: String, bytes_per_second: u32) -> Self {
        Relay::listen(far, Order::Carry, Some(bytes_per_second)).await
    }

    async fn listen(far: String, order: Order, rate: Option<u32>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let orders = watch::Sender::new(order);
        let source = orders.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let orders = source.subscribe();
                let far = far.clone();
                connections.spawn(async move { drop(carry(near, far, orders, rate).await) });
            }
        });
        Relay { address, orders, _tasks: tasks }
    }

    /// Changes the treatment of the connections.
    pub(crate) fn order(&self, order: Order) {
        self.orders.send_replace(order);
    }
}

async fn carry(
    mut near: TcpStream,
    far: String,
    mut orders: watch::Receiver<Order>,
    rate: Option<u32>,
) -> std::io::Result<()> {
    let mut preface = [0; 12];
    near.read_exact(&mut preface).await?;
    let data = preface[KIND.0] == KIND.1;
    if data && *orders.borrow_and_update() == Order::Swallow {
        std::future::pending::<()>().await;
    }
    let mut far = TcpStream::connect(far).await?;
    far.write_all(&preface).await?;
    let cut = async {
        loop {
            if orders.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            match *orders.borrow_and_update() {
                Order::CutFar if data => return Order::CutFar,
                Order::Cut => return Order::Cut,
                _ => {}
            }
        }
    };
    let rate = rate.filter(|_| data);
    let (mut near_reads, mut near_writes) = near.split();
    let (mut far_reads, mut far_writes) = far.split();
    let order = tokio::select! {
        // The directions end apart: a side that no longer reads may still send.
        _ = async {
            tokio::join!(
                one_way(&mut near_reads, &mut far_writes, rate),
                one_way(&mut far_reads, &mut near_writes, rate),
            )
        } => return Ok(()),
        order = cut => order,
    };
    drop(far);
    if order == Order::CutFar {
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// Copies bytes from one to the other, until either ends.
async fn one_way(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    rate: Option<u32>,
) {
    let _ = match rate {
        None => copy(from, to).await.map(drop),
        Some(rate) => copy_slowly(from, to, rate).await,
    };
    let _ = to.shutdown().await;
}

/// Copies at most `rate` bytes per second, in pieces, on the average of a few.
async fn copy_slowly(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    rate: u32,
) -> std::io::Result<()> {
    const BURST: Duration = Duration::from_millis(20);
    let mut piece = vec![0; 16 * 1024];
    let mut due = Instant::now();
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            return Ok(());
        }
        to.write_all(&piece[..length]).await?;
        due = due.max(Instant::now() - BURST);
        due += Duration::from_secs_f64(length as f64 / f64::from(rate));
        sleep_until(due).await;
    }
}
