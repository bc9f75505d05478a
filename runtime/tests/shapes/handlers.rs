//! Every shape of a handler: with and without context, fields or a whole message, owned or as a
//! view, synchronous or not, private, conditional, boxed, local, hand-written.
#![deny(warnings)]

use ringpost::prelude::*;
use ringpost::{Handler, Local};
use std::sync::mpsc::Sender;

#[message]
struct Mine {
    x: u8,
}

#[message]
pub struct Deposit {
    pub account: String,
    pub cents: u64,
}

#[message]
pub struct Audit {
    pub reply_to: ActorRef<Teller>,
}

#[message(local)]
pub struct Attach {
    pub channel: Sender<u32>,
}

/// Not a message: an actor may hold anything that is `Send`, and it need not be `Sync`.
struct Hidden(std::cell::Cell<u64>);

pub struct Teller {
    hidden: Hidden,
    started: bool,
}

#[actor(name = "bank.teller")]
impl Actor for Teller {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        assert_eq!(cx.actor().address().name(), Some("teller"));
        self.started = true;
        Ok(())
    }
}

#[handlers(View<Audit>, Attach)]
impl Teller {
    fn plain_method(&self) -> u64 {
        self.hidden.0.get()
    }

    #[handler]
    async fn mine(&mut self, msg: Mine) -> u8 {
        msg.x
    }

    #[handler]
    pub fn read(&self) -> u64 {
        self.plain_method()
    }

    #[handler]
    pub async fn write(&mut self, value: u64) {
        tokio::task::yield_now().await;
        self.hidden.0.set(value);
    }

    #[handler]
    pub fn context_first(&mut self, cx: &mut Context<Self>, n: u64) -> u64 {
        cx.node().name().len() as u64 + n
    }

    #[handler(name = Put)]
    pub async fn deposit(&mut self, account: String, cents: u64) -> Result<u64, String> {
        if account.is_empty() { Err("no account".into()) } else { Ok(cents) }
    }

    #[handler]
    pub async fn view(&mut self, deposit: View<Deposit>, _cx: &mut Context<Self>) -> u64 {
        tokio::task::yield_now().await;
        deposit.account.len() as u64 + deposit.cents.to_native()
    }

    #[handler(boxed)]
    pub(crate) async fn page(&mut self, bytes: [u8; 4096]) -> u64
    where
        Self: Sized,
    {
        bytes.len() as u64
    }

    #[handler(local)]
    pub fn lend(&mut self, channel: Sender<u32>) -> Local<Sender<u32>> {
        Local(channel)
    }

    #[cfg(any())]
    #[handler]
    pub async fn never(&mut self, x: NoSuchType) {}

    /// The other of two, of which one is there.
    #[cfg(not(any()))]
    #[handler]
    pub async fn never(&mut self, x: u8) {
        let _ = x;
    }
}

impl Handler<View<Audit>> for Teller {
    type Reply = bool;
    async fn handle(&mut self, msg: View<Audit>, cx: &mut Context<Self>) -> bool {
        let reply_to: ActorRef<Teller> = cx.own(&msg.reply_to);
        reply_to == *cx.actor()
    }
}

impl Handler<Attach> for Teller {
    type Reply = bool;
    async fn handle(&mut self, msg: Attach, _: &mut Context<Self>) -> bool {
        msg.channel.send(7).is_ok()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_runs() {
    assert_eq!(<Teller as Actor>::NAME, "bank.teller");
    let node = Node::builder("alpha").start().await.unwrap();
    let teller = Teller { hidden: Hidden(1.into()), started: false };
    let teller = node.spawn("teller", teller).await.unwrap();
    assert_eq!(teller.mine(Mine { x: 3 }).await.unwrap(), 3);
    teller.write(5).await.unwrap();
    assert_eq!(teller.read().await.unwrap(), 5);
    assert_eq!(teller.ask(Read).await.unwrap(), 5);
    assert_eq!(teller.context_first(2).await.unwrap(), 7);
    assert_eq!(teller.deposit(String::new(), 1).await.unwrap(), Err("no account".into()));
    assert_eq!(teller.ask(Put { account: "ada".into(), cents: 1 }).await.unwrap(), Ok(1));
    let deposit = Deposit { account: "ada".into(), cents: 4 };
    assert_eq!(teller.view(deposit).await.unwrap(), 7);
    assert_eq!(teller.page([0; 4096]).await.unwrap(), 4096);
    assert!(teller.ask(Audit { reply_to: teller.clone() }).await.unwrap());
    let (channel, received) = std::sync::mpsc::channel();
    assert!(teller.ask(Attach { channel: channel.clone() }).await.unwrap());
    assert_eq!(received.recv(), Ok(7));
    teller.lend(channel).await.unwrap().0.send(8).unwrap();
    assert_eq!(received.recv(), Ok(8));
}
