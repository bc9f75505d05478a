//! Actors that would wait for each other.

use std::time::Duration;

use ringpost::prelude::*;

use crate::actors::node;

/// Asks or tells another one of its kind when it is told to.
#[actor]
struct Party {
    name: &'static str,
}

#[message]
struct AskOn {
    others: Vec<ActorRef<Party>>,
}

#[message]
struct AskBoth {
    quick: ActorRef<Party>,
    back: ActorRef<Party>,
    me: ActorRef<Party>,
    quick_last: bool,
}

#[message]
struct TellOn {
    other: ActorRef<Party>,
    asks: bool,
}

#[handlers]
impl Party {
    /// Asks the first of the others to ask on.
    #[handler]
    async fn ask_on(&mut self, msg: AskOn) -> Result<String, String> {
        let mut others = msg.others;
        if others.is_empty() {
            return Ok(self.name.to_owned());
        }
        let next = others.remove(0);
        next.ask(AskOn { others }).await.map_err(|error| error.to_string())?
    }

    /// Asks one for its name and one to ask back, both at once. Returns what the second said.
    #[handler]
    async fn ask_both(&mut self, msg: AskBoth) -> Result<String, String> {
        let AskBoth { quick, back, me, quick_last } = msg;
        let quick = quick.ask(AskOn { others: Vec::new() });
        let back = back.ask(AskOn { others: vec![me] });
        let (quick, back) = if quick_last {
            let (back, quick) = tokio::join!(back, quick);
            (quick, back)
        } else {
            tokio::join!(quick, back)
        };
        quick.map_err(|error| error.to_string())??;
        back.map_err(|error| error.to_string())?
    }

    /// Tells the other until its mailbox is full, and then waits.
    #[handler]
    async fn tell_on(&mut self, msg: TellOn) -> Result<(), String> {
        if msg.asks {
            msg.other.ask(AskOn { others: Vec::new() }).await.map_err(|e| e.to_string())?.ok();
        }
        loop {
            let told = msg.other.tell(Nudge).await;
            told.map_err(|error| error.cause.to_string())?;
        }
    }

    #[handler]
    async fn nudge(&mut self) {
        tokio::task::yield_now().await;
    }

    #[handler]
    fn who(&self) -> String {
        self.name.to_owned()
    }
}

async fn parties<const N: usize>(node: &Node) -> [ActorRef<Party>; N] {
    let names = ["a", "b", "c", "d", "e"];
    let spawn = |at: usize| node.spawn(names[at], Party { name: names[at] });
    let mut all = Vec::new();
    for at in 0..N {
        all.push(spawn(at).await.unwrap());
    }
    all.try_into().unwrap()
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn actors_that_ask_each_other_in_a_circle_are_told_at_once() {
    let node = node().await;
    let [a, b, c, d, e] = parties::<5>(&node).await;
    let start = tokio::time::Instant::now();
    let others = vec![b.clone(), a.clone()];
    let text = "ask of runtime::circles::AskOn to alpha/a: not sent: actors would wait for each \
                other (alpha/b waits for alpha/a, which waits for alpha/b): have one of them \
                answer later (`ReplyTo`), or send from a task of its own (`Context::spawn_task`)";
    assert_eq!(a.ask(AskOn { others }).await, Ok(Err(text.to_owned())));
    let all = [&a, &b, &c, &d, &e];
    let others = [&b, &c, &d, &e, &a].map(Clone::clone).to_vec();
    let Ok(Err(text)) = a.ask(AskOn { others }).await else { panic!() };
    let circle = "alpha/e waits for alpha/a, which waits for alpha/b, which waits for alpha/c, \
                  which waits for alpha/d, which waits for alpha/e";
    assert!(text.contains(circle), "{text}");
    let others = [&b, &c, &d, &e].map(Clone::clone).to_vec();
    assert_eq!(a.ask(AskOn { others }).await, Ok(Ok("e".into())), "a chain is no circle");
    for party in all {
        assert!(party.who().await.is_ok());
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Each of several asks of one handler is a wait, also when another one begins or ends after it.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_several_at_once_waits_for_each_of_them() {
    let node = node().await;
    let [a, b, c] = parties::<3>(&node).await;
    let start = tokio::time::Instant::now();
    for (quick, quick_last) in [(&b, false), (&c, false), (&c, true)] {
        let (quick, back, me) = (quick.clone(), b.clone(), a.clone());
        let Ok(Err(text)) = a.ask(AskBoth { quick, back, me, quick_last }).await else { panic!() };
        let circle = "alpha/b waits for alpha/a, which waits for alpha/b";
        assert!(text.contains(circle), "{text}");
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn actors_that_wait_for_each_others_mailboxes_are_told_at_once() {
    let node = node().await;
    let [a, b] = parties::<2>(&node).await;
    let tell = |from: &ActorRef<Party>, to: &ActorRef<Party>| {
        let (from, to) = (from.clone(), to.clone());
        tokio::spawn(async move { from.ask(TellOn { other: to, asks: false }).await })
    };
    let both = (tell(&a, &b), tell(&b, &a));
    // One of them is told, and so the other one finds room again, and goes on until it stops.
    let told = tokio::select! {
        told = both.0 => told,
        told = both.1 => told,
    };
    let Ok(Err(text)) = told.unwrap() else { panic!() };
    assert!(text.starts_with("actors would wait for each other"), "{text}");
    node.shutdown(Duration::from_millis(1)).await;
}

/// WC-2, what is over is forgotten: asks there and back, one after the other, are no circle.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asks_there_and_back_one_after_the_other_are_no_circle() {
    let node = node().await;
    let [a, b] = parties::<2>(&node).await;
    for _ in 0..1000 {
        let there = a.ask(AskOn { others: vec![b.clone()] });
        assert_eq!(there.await, Ok(Ok("b".into())));
        let back = b.ask(AskOn { others: vec![a.clone()] });
        assert_eq!(back.await, Ok(Ok("a".into())));
    }
}

/// Serves in its own way.
#[actor]
struct Server {
    gate: std::sync::Arc<tokio::sync::Semaphore>,
    client: Option<ActorRef<Client>>,
}

#[handlers]
impl Server {
    #[handler]
    async fn hold(&mut self) {
        self.gate.acquire().await.unwrap().forget();
    }

    #[handler]
    fn serve(&mut self) -> u64 {
        7
    }

    /// Is answered by a task that waits for the gate.
    #[handler]
    fn serve_later(&mut self, reply: ReplyTo<u64>, cx: &mut Context<Self>) {
        let gate = self.gate.clone();
        cx.spawn_task(async move {
            gate.acquire().await.unwrap().forget();
            reply.send(8);
        });
    }

    #[handler]
    fn know(&mut self, client: ActorRef<Client>) {
        self.client = Some(client);
    }

    /// Asks the client, who may wait for this server.
    #[handler]
    async fn ask_back(&mut self) -> Result<u64, String> {
        let client = self.client.clone().unwrap();
        self.gate.add_permits(1);
        client.served().await.map_err(|error| error.to_string())
    }
}

#[actor]
struct Client {
    server: ActorRef<Server>,
    served: u64,
}

#[handlers]
impl Client {
    #[handler]
    async fn go(&mut self, later: bool) {
        let ask = async {
            if later { self.server.serve_later().await } else { self.server.serve().await }
        };
        self.served = ask.await.unwrap();
    }

    #[handler]
    async fn fill(&mut self) {
        self.server.tell(Serve).await.unwrap();
        self.served = 9;
    }

    #[handler]
    fn served(&mut self) -> u64 {
        self.served
    }

    #[handler]
    fn attach(&mut self, cx: &mut Context<Self>) {
        let server = self.server.clone();
        cx.attach(futures::stream::once(async move {
            server.serve_later().await.unwrap();
            Served
        }));
    }
}

/// WC-2: the answer is there, or the room, or it comes from elsewhere; or nothing waits but a
/// stream.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_or_that_another_actor_ends_closes_no_circle() {
    for way in ["answered", "later", "room", "stream"] {
        let node = node().await;
        let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
        let server = Server { gate: gate.clone(), client: None };
        let options = SpawnOptions::named("server").mailbox_capacity(2);
        let server = node.spawn_with(options, server).await.unwrap();
        let client = Client { server: server.clone(), served: 0 };
        let client = node.spawn("client", client).await.unwrap();
        server.know(client.clone()).await.unwrap();
        if way != "stream" && way != "later" {
            server.tell(Hold).await.unwrap();
        }
        let back = server.clone();
        let back = || tokio::spawn(async move { back.ask_back().await });
        let quiet = async || {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        };
        quiet().await;
        let (back, served) = match way {
            "room" => {
                let back = back();
                server.tell(Serve).await.unwrap();
                quiet().await;
                client.tell(Fill).await.unwrap();
                (back, 9)
            }
            "stream" => {
                client.tell(Attach).await.unwrap();
                quiet().await;
                (back(), 0)
            }
            _ => {
                client.tell(Go { later: way == "later" }).await.unwrap();
                quiet().await;
                (back(), if way == "later" { 8 } else { 7 })
            }
        };
        quiet().await;
        gate.add_permits(1);
        assert_eq!(back.await.unwrap(), Ok(Ok(served)), "{way}");
    }
}
