//! The life of a link beside its driver: heartbeats, questions, and how it ends.
//!
//! - **MS-18 idle**: a side whose link has carried nothing for its `idle_close`, and
//!   [rests](crate::link) when it is told to, says IDLE. If the same holds for the other side, it
//!   agrees by a goodbye; otherwise it says BUSY, and the link goes on. Each side then waits for
//!   the other's BYE: if that says so, the link has ended as idle. The node is then not down and
//!   not missed, and is dialled when a sender wants it. A node that is leaving does not agree, and
//!   says in its BYE that it left, even if it had asked. If the peer does not answer for as long as
//!   silence is borne, the link ends as silent. Links to seeds that do not lead to this node, too,
//!   and links to nodes that could not be dialled again are kept.
//!
//! One task owns the bootstrap connection of a link. The link ends only when its driver says so,
//! which this task tells of silence and of errors.
//!
//! A side whose link could not have the best fabric of both tries it again when the fabric reports
//! a change, and otherwise after ever longer times. As for MS-18 the link [rests](crate::link), so
//! that no message is on its way, and the other side agrees to its end if its side rests, too; then
//! the nodes dial again. A side that never rests keeps its link.

mod pace;
mod stalls;
mod upgrade;
mod usage;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, Interval, sleep_until, timeout, timeout_at};

use crate::bootstrap::{Beat, Channel, Failure, Message, Parting, Sharing};
use crate::cause::{LinkCause, Violation};
use crate::fabric::Status;
use crate::id::NodeName;
use crate::limits;
use crate::log;
use crate::reach::Unexpected;
use crate::steps::step;

use super::choice::Carrier;
use super::liveness::LinkLiveness;
use super::meter::Meter;
use super::peer::{Command, ConnectionGuard};
use super::table::Table;
use pace::{Beats, Pace};
use stalls::Stalls;
use upgrade::Upgrade;
use usage::{Rest, Usage};

/// Messages of a peer that are handled before other links have their turn.
const MESSAGES_IN_A_ROW: u32 = 32;

/// A link and its bootstrap connection.
pub(super) struct Session {
    table: Arc<Table>,
    carrier: Carrier,
    channel: Channel,
    guard: ConnectionGuard,
    meter: Meter,
    stalls: Stalls,
    usage: Usage,
    upgrade: Upgrade,
    /// Time at which the peer was last heard on the bootstrap connection.
    heard: Instant,
    liveness: LinkLiveness,
    pace: Pace,
    /// Messages that came since other links had their turn.
    messages: u32,
    /// Tasks that want to know when it answers.
    probes: Vec<oneshot::Sender<()>>,
    beats: Beats,
    /// This node disconnects the peer.
    disconnects: bool,
    /// Set once the bootstrap connection is of no use any more: the time by which the link has to
    /// have ended, and the cause that it ends with if it has not.
    over: Option<(Instant, LinkCause)>,
}

impl Session {
    /// Returns the session of a link that stands, on which both sides send heartbeats after each
    /// `interval`.
    pub(super) fn new(
        table: Arc<Table>,
        guard: ConnectionGuard,
        channel: Channel,
        mut carrier: Carrier,
        interval: Duration,
    ) -> Self {
        let upgrade = Upgrade::new(carrier.better.take(), guard.peer());
        let labelled = table.events.metrics_by_peer().then(|| guard.peer().name());
        let link = carrier.running.link.clone();
        link.reach().expect_beats(interval);
        let meter = Meter::new(labelled, link, channel.is_by_other_secret());
        let stalls = Stalls::new(guard.peer().name(), carrier.running.link.clone());
        let usage = Usage::new(carrier.running.link.clone(), table.profile.idle_close);
        let pace = Pace::new(interval, table.network.wire.heartbeat_interval().is_some());
        let (heard, liveness, probes) = (table.events.now(), LinkLiveness::default(), Vec::new());
        Session {
            table,
            carrier,
            channel,
            guard,
            meter,
            stalls,
            usage,
            upgrade,
            heard,
            liveness,
            pace,
            messages: 0,
            probes,
            beats: Beats::default(),
            disconnects: false,
            over: None,
        }
    }

    /// Runs until the link has ended.
    pub(super) async fn run(mut self) {
        let by_other = self.channel.is_by_other_secret();
        if by_other && self.table.events.admit_line("peers that use an accepted secret") {
            let peer = self.guard.peer().name();
            log::info!(%peer, "a peer uses a secret that this node only accepts");
        }
        let cause = self.watch().await;
        step!(LinkEnded);
        // A task that learns of the end finds all that was carried.
        self.meter.publish();
        if cause == LinkCause::Fabric(Status::Corrupt) {
            self.warn_of_corruption();
        }
        let left = cause == LinkCause::Left;
        let parting = match cause {
            LinkCause::Left | LinkCause::Disconnected => Parting::Left,
            LinkCause::Idle | LinkCause::Better => Parting::Idle,
            _ => Parting::Lost,
        };
        let rested = left && self.usage.rest != Rest::No;
        let cause = if rested { self.part().await } else { cause };
        if !rested {
            self.channel.close(&Message::Bye(parting));
        }
        let closing = self.table.events.is_closing();
        let cause = match cause {
            _ if closing && left => LinkCause::Shutdown,
            _ if self.disconnects => LinkCause::Disconnected,
            cause => cause,
        };
        self.guard.link_down(&cause);
    }

    /// Says whether this side of a link that rested ended as idle, and hears it of the other one.
    /// Returns the cause of its end.
    async fn part(&mut self) -> LinkCause {
        let events = &self.table.events;
        let leaving = events.is_leaving() || events.is_closing() || self.disconnects;
        let parting = if leaving { Parting::Left } else { Parting::Idle };
        let _ = self.channel.send(&Message::Bye(parting)).await;
        let heard = async {
            loop {
                match self.usage.bye {
                    Some(bye) => break bye,
                    None => match self.channel.recv().await {
                        Ok(Message::Bye(bye)) => break bye,
                        Ok(_) => {}
                        Err(_) => break Parting::Lost,
                    },
                }
            }
        };
        // A peer that lives but has not said so yet has agreed anyway.
        let bye = timeout(limits::DRAIN_TIMEOUT, heard).await.unwrap_or(Parting::Idle);
        match bye {
            Parting::Idle => self.rest_cause(),
            Parting::Left => LinkCause::Left,
            Parting::Lost => LinkCause::Closed,
        }
    }

    /// Warns of bytes that the peer did not send (with a limit: an attacker that can change traffic
    /// can do so with each new link).
    fn warn_of_corruption(&self) {
        if let Some(suppressed) = self.table.peer_warnings.admit("corrupt", Instant::now()) {
            let (peer, link) = (self.guard.peer().name(), &self.carrier.running.link);
            let fabric = link.fabric();
            log::warn!(
                %peer, fabric, suppressed,
                "a link brought bytes that the peer did not send; it was closed"
            );
        }
    }

    async fn watch(&mut self) -> LinkCause {
        let mut look = self.pace.looks();
        let reach = self.carrier.running.link.reach().clone();
        // A node that began to leave before this link was up has told its other peers already.
        if self.table.events.is_leaving()
            && let Err(failure) = self.send(&Message::Heartbeat(Beat::Leaving)).await
        {
            self.handle_failure(&failure);
        }
        loop {
            let open = self.over.is_none();
            let patience = self.over.as_ref().map_or_else(Instant::now, |(patience, _)| *patience);
            let step = tokio::select! {
                biased;
                cause = self.carrier.running.ended() => return cause,
                command = self.guard.command() => self.handle_command_and_read(command).await,
                message = self.channel.recv(), if open => self.handle_message(message).await,
                // One at a time: what else is due has its turn between two of them.
                message = reach.next_outgoing(), if open && !self.pace.has_shared => {
                    self.send_sharing(message).await
                }
                // After what the peer said meanwhile: it may be all that shows that it lives.
                _ = look.tick(), if open => self.look().await,
                message = reach.next_outgoing(), if open && self.pace.has_shared => {
                    self.send_sharing(message).await
                }
                () = sleep_until(patience), if !open => {
                    self.give_up_waiting();
                    Ok(())
                }
            };
            if let Err(failure) = step {
                self.handle_failure(&failure);
            }
            if self.messages >= MESSAGES_IN_A_ROW {
                self.messages = 0;
                yield_now().await;
                if let Err(failure) = self.catch_up(&mut look).await {
                    self.handle_failure(&failure);
                }
            }
        }
    }

    /// Looks, if it is time to, and says one thing of shared memory: a peer that never stops
    /// talking leaves no other moment for it.
    async fn catch_up(&mut self, look: &mut Interval) -> Result<(), Failure> {
        if self.over.is_none() && look.tick().now_or_never().is_some() {
            self.look().await?;
        }
        let reach = self.carrier.running.link.reach().clone();
        if self.over.is_none()
            && let Some(message) = reach.next_outgoing().now_or_never()
        {
            self.send_sharing(message).await?;
        }
        Ok(())
    }

    /// Handles a command, and then what the peer has said already: where commands never cease, it
    /// would otherwise not be heard, nor be able to send.
    async fn handle_command_and_read(&mut self, command: Command) -> Result<(), Failure> {
        self.handle_command(command).await?;
        if self.over.is_none()
            && let Some(message) = self.channel.recv().now_or_never()
        {
            self.handle_message(message).await?;
        }
        Ok(())
    }

    async fn handle_command(&mut self, command: Command) -> Result<(), Failure> {
        match command {
            Command::Probe(answer) if self.over.is_none() => {
                self.probes.push(answer);
                self.send(&Message::Heartbeat(Beat::Question)).await
            }
            Command::Send(message) if self.over.is_none() => {
                if let Message::WhoIs(name) = &message {
                    self.guard.peer().note_question(name);
                }
                self.send(&message).await
            }
            Command::Disconnect => {
                self.disconnects = true;
                self.carrier.running.link.goodbye();
                Ok(())
            }
            // A link is there already, or it is ending: there is nothing to be done.
            Command::Probe(_) | Command::Send(_) | Command::Abandon => Ok(()),
        }
    }

    async fn send_sharing(&mut self, message: Sharing) -> Result<(), Failure> {
        self.pace.has_shared = true;
        self.send(&Message::Sharing(message)).await?;
        self.carrier.running.link.signals().wake();
        Ok(())
    }

    /// Sends a message. However slowly the peer reads, one-sided access is looked after (RE-6).
    ///
    /// # Cancel safety
    /// That of [`Channel::send`]: none.
    async fn send(&mut self, message: &Message) -> Result<(), Failure> {
        let mut sending = pin!(self.channel.send(message));
        loop {
            match timeout_at(self.pace.next_look(), &mut sending).await {
                Ok(sent) => return sent,
                Err(_) => {
                    self.pace.looked = Instant::now();
                    let both_run = !self.liveness.is_stalled();
                    self.carrier.running.link.look_at_reach(both_run);
                }
            }
        }
    }

    async fn handle_message(&mut self, message: Result<Message, Failure>) -> Result<(), Failure> {
        let message = message?;
        self.messages += 1;
        self.heard = self.table.events.now();
        self.guard.peer().note_heard();
        match message {
            Message::Heartbeat(beat) => return self.handle_beat(beat).await,
            Message::WhoIs(name) => {
                let addresses = self.table.addresses_of(&name);
                return self.send(&Message::Known { name, addresses }).await;
            }
            Message::Known { name, addresses } => self.handle_known(&name, addresses),
            Message::Sharing(sharing) => {
                let link = &self.carrier.running.link;
                let unexpected = || Failure::unexpected(&Message::Sharing(Sharing::Want));
                link.reach().handle(sharing).map_err(|Unexpected| unexpected())?;
                // Messages that wait may be lent now.
                link.signals().wake();
            }
            Message::Bye(parting) => self.handle_bye(parting),
            other => return Err(Failure::unexpected(&other)),
        }
        Ok(())
    }

    async fn handle_beat(&mut self, beat: Beat) -> Result<(), Failure> {
        // Replies come from the thread of the peer's node, and say nothing of its driver (MS-11).
        if matches!(beat, Beat::Plain | Beat::Stalled | Beat::Idle | Beat::Better) {
            self.liveness.hear(beat == Beat::Stalled);
        }
        match beat {
            Beat::Plain | Beat::Stalled => {}
            Beat::Leaving => {
                if self.carrier.running.link.peer_leaves() {
                    self.guard.peer().note_leaving();
                }
            }
            Beat::Question => return self.send(&Message::Heartbeat(Beat::Answer)).await,
            Beat::Answer => self.handle_answer(),
            Beat::Idle if self.usage.rest != Rest::Agreed => return self.heed_idle().await,
            Beat::Better if self.usage.rest != Rest::Agreed => return self.heed_better().await,
            Beat::Busy if matches!(self.usage.rest, Rest::Asked(_)) => {
                self.usage.rest = Rest::No;
                if std::mem::take(&mut self.upgrade.is_cause) {
                    self.upgrade.refuse();
                } else {
                    self.usage.refuse();
                }
                self.carrier.running.link.end_rest();
            }
            Beat::Idle | Beat::Busy | Beat::Better => {
                return Err(Failure::unexpected(&Message::Heartbeat(beat)));
            }
        }
        Ok(())
    }

    /// Takes the answer to a heartbeat: measures the round trip, and tells the tasks that asked.
    fn handle_answer(&mut self) {
        if let Some(sent) = self.beats.measured.take() {
            self.meter.answered(sent.elapsed());
        }
        for answer in self.probes.drain(..) {
            let _ = answer.send(());
        }
    }

    /// Learns where a node is that the peer was asked about (MS-15, MS-16).
    fn handle_known(&mut self, name: &NodeName, addresses: Vec<String>) {
        if self.guard.peer().note_known(name) {
            let from = self.channel.peer_address();
            let addresses = self.table.allowed(addresses, name, &from);
            self.table.learn(name, &addresses, &from);
        }
    }

    /// Records that the peer's driver has ended; the driver of this side is about to find that out.
    fn handle_bye(&mut self, parting: Parting) {
        self.usage.bye = Some(parting);
        let cause = match parting {
            Parting::Left => LinkCause::Left,
            Parting::Idle if self.usage.rest != Rest::No => self.rest_cause(),
            Parting::Idle | Parting::Lost => LinkCause::Closed,
        };
        self.over = Some((Instant::now() + limits::DRAIN_TIMEOUT, cause));
    }

    /// Returns true if the link may be closed for want of use: both drivers run, and this node can
    /// link the peer again and is not leaving.
    fn may_rest(&self) -> bool {
        let peer = self.guard.peer();
        let reached = !peer.is_kept() && !peer.addresses().is_empty();
        reached && !self.liveness.is_stalled() && !self.table.events.is_leaving()
    }

    /// Answers a peer that does not use the link: closes it, or says BUSY if this side does
    /// (MS-18).
    async fn heed_idle(&mut self) -> Result<(), Failure> {
        let over = self.usage.note_use();
        let link = &self.carrier.running.link;
        let asked = matches!(self.usage.rest, Rest::Asked(_));
        let agrees = asked || (over && self.may_rest() && link.rest());
        if !agrees {
            return self.send(&Message::Heartbeat(Beat::Busy)).await;
        }
        self.usage.rest = Rest::Agreed;
        link.goodbye();
        Ok(())
    }

    /// Publishes the link's counts, and sends a heartbeat when it is time to.
    async fn look(&mut self) -> Result<(), Failure> {
        self.meter.publish();
        self.stalls.look();
        self.pace.looked = Instant::now();
        self.pace.has_shared = false;
        self.carrier.running.link.look_at_reach(!self.liveness.is_stalled());
        if self.pace.count_look() { self.beat().await } else { Ok(()) }
    }

    async fn beat(&mut self) -> Result<(), Failure> {
        let link = &self.carrier.running.link;
        // A path that brings frames, and a driver that takes them, need not be asked.
        let heard = self.liveness.note_frames(link.stats().frames_received);
        // MS-11: a driver that does not run can neither answer the peer nor hear it.
        let stalled = !heard && link.probe();
        let silent = self.liveness.beat(heard, stalled);
        let now = self.table.events.now();
        let is_long = |since| {
            now.saturating_duration_since(since)
                >= self.pace.interval * limits::HEARTBEATS_MISSED_MAX
        };
        // Of a peer that beats and never answers a rest, all senders would wait for ever.
        let unanswered = matches!(self.usage.rest, Rest::Asked(since) if is_long(since));
        if silent || unanswered || is_long(self.heard) {
            self.over = Some((Instant::now(), LinkCause::Silent));
            return Ok(());
        }
        self.beats.sent = self.beats.sent.wrapping_add(1);
        let better = !stalled && self.asks_for_better();
        let over = self.usage.rest == Rest::No && self.usage.note_use_unless_refused() && !better;
        let rests = over && self.may_rest() && link.rest();
        let beat = match stalled {
            true => Beat::Stalled,
            false if better => {
                (self.usage.rest, self.upgrade.is_cause) = (Rest::Asked(now), true);
                Beat::Better
            }
            false if rests => {
                self.usage.rest = Rest::Asked(now);
                Beat::Idle
            }
            false if self.beats.measures() => Beat::Question,
            false => Beat::Plain,
        };
        self.send(&Message::Heartbeat(beat)).await
    }

    fn handle_failure(&mut self, failure: &Failure) {
        log::debug!(peer = %self.guard.peer().name(), %failure, "bootstrap connection ended");
        let cause = match failure {
            Failure::Malformed(_) => LinkCause::Violation(Violation::Bootstrap),
            Failure::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => LinkCause::Silent,
            _ => LinkCause::Closed,
        };
        self.over = Some((Instant::now(), cause));
    }

    /// Closes the link; from here on its driver needs `DRAIN_TIMEOUT` at most.
    fn give_up_waiting(&mut self) {
        if let Some((patience, cause)) = &mut self.over {
            self.carrier.running.link.close(cause.clone());
            *patience = Instant::now() + 2 * limits::DRAIN_TIMEOUT;
        }
        self.probes.clear();
    }
}
