//! The nodes of one run: two that go on, near and far, and a process that dies.

use std::process::Stdio;
use std::time::Duration;

use ringpost::net::{Lending, Profile};
use ringpost::prelude::*;
use ringpost_tests::actors::{
    Counter, LEND_FROM, MUTES, Mute, QUITTERS, ask_large, host, quit, stuff, tell,
};
use ringpost_transport::steps::Step;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::plan::{Rank, Run, Work};
use crate::process::{PATIENCE, program, within};
use crate::relay::{Order, Relay};

/// Tells that wait for their fate when the process dies.
const TELLS: usize = 8;
/// Answers that the others give each other after a death, at least.
const ANSWERS: u64 = 5;

/// Where nobody listens.
const NOWHERE: &str = "127.0.0.1:1";

/// The process that dies.
pub(super) struct Mortal {
    pub(super) child: Child,
    /// It leaves when this is closed.
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Mortal {
    /// Starts it and waits until it listens at `host`; it dies at `step`, if there is one.
    pub(super) async fn start(
        host: &str,
        name: &str,
        seeds: &[String],
        step: Option<(Step, u32)>,
    ) -> Self {
        let mut command = Command::new(program("mortal", env!("CARGO_BIN_EXE_mortal")));
        command.env("RINGPOST_LISTEN", format!("{host}:0"));
        command.arg(name).args(seeds).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some((step, nth)) = step {
            command.env("RINGPOST_STOP_AT", format!("{step:?}:{nth}"));
            if !seeds.is_empty() {
                // No node can dial it, so it keeps its side even if the link is made again.
                command.env("RINGPOST_ADVERTISE", NOWHERE);
            }
            // Discards its errors about commands that its death interrupts.
            command.stderr(Stdio::null());
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // It may die before it says so, but never before it can be dialled.
        let line = within(lines.next_line()).await.unwrap().unwrap_or_default();
        let address = line.strip_prefix("listening ").unwrap_or_default().to_owned();
        let stdin = child.stdin.take();
        Mortal { child, stdin, lines, address }
    }

    /// Waits until it says that it is linked to `count` nodes.
    async fn linked(&mut self, count: usize) {
        let wanted = format!("linked {count}");
        while let Some(line) = within(self.lines.next_line()).await.unwrap() {
            if line == wanted {
                return;
            }
        }
        panic!("it ended before it was linked to {count}");
    }

    async fn line(&mut self, line: &str) {
        // It may be dead already; its exit status tells.
        let stdin = self.stdin.as_mut().unwrap();
        let _ = stdin.write_all(format!("{line}\n").as_bytes()).await;
    }

    /// Closes its standard input, so that it leaves, and waits for its end.
    pub(super) async fn end(mut self) {
        drop(self.stdin.take());
        assert!(within(self.child.wait()).await.unwrap().success());
    }
}

/// The nodes and the work of one run.
pub(super) struct Stage {
    run: Run,
    host: String,
    pub(super) near: Node,
    far: Node,
    pub(super) mortal: Mortal,
    /// Other nodes: namesakes, and a node that leaves.
    others: Vec<Node>,
    /// A peer whose threads are blocked; killed when dropped.
    blocked: Option<Mortal>,
    relay: Option<Relay>,
    /// Near asks far, again and again.
    talk: JoinHandle<()>,
    answers: watch::Receiver<u64>,
    asks: JoinSet<Result<u64, BoxError>>,
    tells: JoinSet<usize>,
    works: JoinSet<()>,
}

impl Stage {
    /// Opens the stage, and does the run's work as far as that needs no death.
    ///
    /// All listen at `host`, an address of loopback that no other run has: nodes of another run
    /// keep dialling their dead process, and its port may be given to the process of this run.
    pub(super) async fn open(run: Run, host: String) -> Self {
        let name = name(run);
        let far = node(&host, "mid-b", &[]).await;
        let step = Some((run.step, run.nth));
        let mut others = Vec::new();
        let (near, mortal, relay) = if run.dials() {
            let near = node(&host, "mid-a", &far.addresses()).await;
            if run.work == Work::Latecomer {
                others.push(node(&host, name, &near.addresses()).await);
                within(near.ready(2)).await.unwrap();
            }
            let relay = relay(run.work, &near.addresses()[0]).await;
            let seed = relay.as_ref().map_or(near.addresses()[0].clone(), |r| r.address.clone());
            let mortal = Mortal::start(&host, name, &[seed], step).await;
            (near, mortal, relay)
        } else {
            let mortal = Mortal::start(&host, name, &[], step).await;
            let relay = relay(run.work, &mortal.address).await;
            let seed = relay.as_ref().map_or(mortal.address.clone(), |r| r.address.clone());
            (node(&host, "mid-a", &[far.addresses(), vec![seed]].concat()).await, mortal, relay)
        };
        let (count, answers) = watch::channel(0);
        let talk = tokio::spawn(talk(near.clone(), count));
        let (asks, tells, works) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        let mut stage = Stage {
            run,
            host,
            near,
            far,
            mortal,
            others,
            blocked: None,
            relay,
            talk,
            answers,
            asks,
            tells,
            works,
        };
        stage.wait_for_it();
        stage.send().await;
        stage.link().await;
        stage
    }

    /// Starts the process again, to die at no step.
    pub(super) async fn restart(&self) -> Mortal {
        Mortal::start(&self.host, self.name(), &self.near.addresses(), None).await
    }

    /// The name of the process that dies.
    fn name(&self) -> &'static str {
        name(self.run)
    }

    fn path(&self, actor: &str) -> String {
        format!("{}/{actor}", self.name())
    }

    /// Sends asks that are never answered and tells to be confirmed, from near to the process.
    fn wait_for_it(&mut self) {
        for number in 0..2 {
            let (near, path) = (self.near.clone(), self.path("mute0"));
            self.asks.spawn(async move {
                let mute = near.actor::<Mute>(&path).await?;
                Ok(mute.wait(number).timeout(2 * PATIENCE).await?)
            });
        }
        if self.run.work != Work::Quiet {
            let (near, path) = (self.near.clone(), self.path("counter"));
            self.asks.spawn(async move {
                let counter = near.actor::<Counter>(&path).await?;
                // Each is answered until the process dies.
                loop {
                    counter.echo("there".into()).await?;
                }
            });
        }
        let (near, path) = (self.near.clone(), self.path("counter"));
        self.tells.spawn(async move {
            match near.actor(&path).await {
                Ok(counter) => tell(&counter, 10, TELLS).await,
                Err(_) => 0,
            }
        });
    }

    /// Sends the messages that the run wants, from the process or to it.
    async fn send(&mut self) {
        let near = self.near.clone();
        let path = |actor: &str| self.path(actor);
        let counter = path("counter");
        match self.run.work {
            Work::Line("quit mid-a") => {
                for number in 0..QUITTERS {
                    self.mortal.line(&format!("stop mid-a/quitter{number}")).await;
                }
            }
            Work::Line(line) => self.mortal.line(line).await,
            Work::LargeAsk => self.spawn(async move {
                let counter = near.actor::<Counter>(&counter).await?;
                Ok(counter.echo("x".repeat(90_000)).await?)
            }),
            Work::Lend | Work::Unlend => {
                let gives_up = self.run.work == Work::Unlend;
                self.spawn(async move {
                    ask_large(&near.actor(&counter).await?, gives_up).await;
                    Ok(())
                });
            }
            Work::Flood => self.spawn(async move { flood(&near.actor(&counter).await?, 10).await }),
            Work::Heavy => {
                self.spawn(async move { flood(&near.actor(&counter).await?, 5000).await })
            }
            Work::Stuff => {
                let mute = path(&format!("mute{}", MUTES - 1));
                self.spawn(async move {
                    stuff(&near.actor(&mute).await?).await;
                    Ok(())
                });
            }
            Work::Quit => {
                let quitters: Vec<_> =
                    (0..QUITTERS).map(|number| path(&format!("quitter{number}"))).collect();
                self.spawn(async move {
                    for quitter in quitters {
                        quit(&near.actor(&quitter).await?).await;
                    }
                    Ok(())
                });
            }
            Work::Search => self.spawn(async move {
                near.ready(2).await.unwrap();
                Ok(near.actor::<Counter>("nobody/counter").await?)
            }),
            Work::Miss => {
                let nobody = path("nobody");
                self.spawn(async move { Ok(near.actor::<Counter>(&nobody).await?) });
            }
            _ => {}
        }
    }

    /// Changes the links of the process as the run wants.
    async fn link(&mut self) {
        let (near, name) = (self.near.clone(), self.name());
        match self.run.work {
            Work::Namesake => {
                self.mortal.linked(1).await;
                self.others.push(node(&self.host, name, &near.addresses()).await);
            }
            Work::Twins => {
                let seeds = [self.mortal.address.clone()];
                let twin = node(&self.host, "twin", &seeds).await;
                within(twin.ready(1)).await.unwrap();
                self.mortal.linked(2).await;
                self.others = vec![twin, node(&self.host, "twin", &seeds).await];
            }
            Work::Relink | Work::HalfLost => {
                self.mortal.linked(1).await;
                within(near.ready(2)).await.unwrap();
                let half = self.run.work == Work::HalfLost;
                let relay = self.relay.as_ref().unwrap();
                relay.order(if half { Order::CutFar } else { Order::Cut });
            }
            Work::Leave => {
                self.mortal.linked(1).await;
                drop(self.mortal.stdin.take());
            }
            Work::Block => {
                // Before that a node that blocks makes no link.
                within(near.ready(2)).await.unwrap();
                self.mortal.linked(1).await;
                self.mortal.line("block").await;
            }
            Work::PeerBlocks => {
                let mut peer = Mortal::start(
                    &self.host,
                    "blocker",
                    std::slice::from_ref(&self.mortal.address),
                    None,
                )
                .await;
                peer.linked(1).await;
                self.mortal.linked(2).await;
                peer.line("block").await;
                self.blocked = Some(peer);
            }
            Work::PeerLeaves => {
                let peer =
                    node(&self.host, "leaver", std::slice::from_ref(&self.mortal.address)).await;
                within(peer.ready(1)).await.unwrap();
                self.mortal.linked(2).await;
                self.others.push(peer.clone());
                self.spawn(async move { Ok(peer.shutdown(PATIENCE).await) });
            }
            _ => {}
        }
    }

    /// Does something that the death of the process may well end.
    fn spawn<T: Send>(&mut self, work: impl Future<Output = Result<T, BoxError>> + Send + 'static) {
        self.works.spawn(async move { drop(work.await) });
    }

    /// Waits until each ask has ended, with an error; returns how many there were.
    pub(super) async fn asks_end(&mut self, what: &str) -> usize {
        // Work on its behalf and nodes that took its name end first, so that it can come back.
        self.works.shutdown().await;
        self.blocked = None;
        for other in self.others.drain(..) {
            other.shutdown(PATIENCE).await;
        }
        let mut count = 0;
        while let Some(ended) = within(self.asks.join_next()).await {
            let ended = ended.unwrap();
            assert!(ended.is_err(), "{what}: an ask was answered by the dead: {ended:?}");
            count += 1;
        }
        count
    }

    /// Waits until near and far have gone on; returns how many answers there were.
    pub(super) async fn go_on(&self) -> u64 {
        let mut answers = self.answers.clone();
        let before = *answers.borrow();
        let gone_on = within(answers.wait_for(|count| *count >= before + ANSWERS)).await;
        *gone_on.expect("the others do not talk any more")
    }

    /// Waits until near and far have an answer of the process that has its name now.
    pub(super) async fn works_again(&self, what: &str) {
        for node in [&self.near, &self.far] {
            let path = self.path("counter");
            let answer = async {
                loop {
                    // The first lookups may still meet the end of the process that died.
                    if let Ok(counter) = node.when_named::<Counter>(&path).await
                        && let Ok(answer) = counter.echo("again".into()).await
                    {
                        return answer;
                    }
                }
            };
            let answer = tokio::time::timeout(PATIENCE, answer).await;
            let why = || node.snapshot().peers;
            assert!(answer.is_ok(), "{what}: {} finds it no more: {:?}", node.name(), why());
        }
    }

    /// Waits until all tells have ended; returns how many had a fate.
    pub(super) async fn fates(&mut self) -> usize {
        let mut fates = 0;
        while let Some(told) = self.tells.join_next().await {
            fates += told.unwrap();
        }
        fates
    }

    /// Ends the others.
    pub(super) async fn close(self) {
        assert!(!self.talk.is_finished(), "the others do not talk any more");
        self.talk.abort();
        self.near.shutdown(PATIENCE).await;
        self.far.shutdown(PATIENCE).await;
    }
}

fn name(run: Run) -> &'static str {
    match run.rank {
        Rank::Lower => "alpha",
        Rank::Higher => "zeta",
    }
}

/// A node of this test, at this address, with the actors of the process.
async fn node(at: &str, name: &str, seeds: &[String]) -> Node {
    let lending = Lending { from: Some(LEND_FROM), ..Lending::default() };
    let down_after = Duration::from_secs(3);
    let profile = Profile { down_after, lending, ..Profile::default() };
    let builder = Node::builder(name).listen(format!("{at}:0")).seeds(seeds.to_vec());
    let node = builder.profile(profile).start().await.unwrap();
    host(&node).await.unwrap();
    node
}

async fn relay(work: Work, far: &str) -> Option<Relay> {
    match work {
        Work::Relink | Work::HalfLost => Some(Relay::start(far.into(), Order::Carry).await),
        Work::NoData => Some(Relay::start(far.into(), Order::Swallow).await),
        _ => None,
    }
}

/// Tells the counter more than half of a window: then the counter reports room.
async fn flood(counter: &ActorRef<Counter>, bytes: usize) -> Result<(), BoxError> {
    tell(counter, bytes, 2000).await;
    Ok(())
}

/// Asks far, again and again. No ask may fail.
async fn talk(near: Node, answers: watch::Sender<u64>) {
    let counter = near.actor::<Counter>("mid-b/counter").await.unwrap();
    loop {
        assert_eq!(counter.echo("on".into()).await, Ok("on".into()));
        answers.send_modify(|count| *count += 1);
        // Leaves the processor to the other runs.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
