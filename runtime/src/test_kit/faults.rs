//! Faults that the seed draws.

use std::time::Duration;

use super::cluster::Cluster;

/// The faults that can happen to the nodes of a cluster while it is [shaken](Cluster::shake), one
/// at a time. A time of zero switches its kind of fault off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    /// The average time from one fault to the next.
    pub every: Duration,
    /// Maximum time for which the link from one node to another, in this direction only, is slowed
    /// by up to `slowed_by`.
    pub slow_for: Duration,
    /// Maximum additional latency of a slowed link.
    pub slowed_by: Duration,
    /// Loses links while their nodes live on.
    pub lost_links: bool,
    /// Maximum time for which two nodes are cut off from each other, in one direction or both.
    pub cut_for: Duration,
    /// Maximum time for which a node sends and receives nothing.
    pub paused_for: Duration,
}

impl Faults {
    /// Returns faults after which no node is found down: slow links, lost links, and cuts and
    /// pauses of up to 300 ms.
    pub fn mild() -> Self {
        Faults {
            every: Duration::from_millis(200),
            slow_for: Duration::from_millis(100),
            slowed_by: Duration::from_millis(20),
            lost_links: true,
            cut_for: Duration::from_millis(300),
            paused_for: Duration::from_millis(300),
        }
    }

    /// Returns the kinds of faults of [`mild`](Self::mild), with cuts and pauses long enough for
    /// nodes to find each other down.
    pub fn harsh() -> Self {
        let (cut_for, paused_for) = (Duration::from_secs(15), Duration::from_secs(10));
        Faults { every: Duration::from_millis(500), cut_for, paused_for, ..Faults::mild() }
    }

    /// Returns the kinds that are switched on.
    fn kinds(&self) -> Vec<FaultKind> {
        let kinds = [
            (FaultKind::Slow, !self.slow_for.is_zero() && !self.slowed_by.is_zero()),
            (FaultKind::LoseLink, self.lost_links),
            (FaultKind::Cut, !self.cut_for.is_zero()),
            (FaultKind::CutOneWay, !self.cut_for.is_zero()),
            (FaultKind::Pause, !self.paused_for.is_zero()),
        ];
        kinds.into_iter().filter(|(_, is_on)| *is_on).map(|(kind, _)| kind).collect()
    }
}

impl Default for Faults {
    fn default() -> Self {
        Faults::mild()
    }
}

#[derive(Debug, Clone, Copy)]
enum FaultKind {
    Slow,
    LoseLink,
    Cut,
    CutOneWay,
    Pause,
}

impl Cluster {
    /// Causes faults that the seed draws for this time, and a little longer until the last one is
    /// over. Cuts, pauses and slow links set by the test itself remain. Best run beside the work,
    /// with `tokio::join!`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use ringpost::test_kit::{self, Faults};
    ///
    /// test_kit::check(0..4, |cluster| async move {
    ///     cluster.nodes(3).await;
    ///     cluster.shake(Faults::mild(), Duration::from_secs(2)).await;
    ///     cluster.settle().await;
    /// });
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, the current fault remains: a slow link, or a cut or a pause, which
    /// [`mend_all`](Self::mend_all) ends.
    pub async fn shake(&self, faults: Faults, time: Duration) {
        let (end, kinds) = (self.now() + time, faults.kinds());
        while !kinds.is_empty() {
            let pause = self.up_to(2 * faults.every.max(Duration::from_micros(1)));
            if self.now() + pause >= end {
                break;
            }
            self.sleep(pause).await;
            let kind = kinds[self.draw(kinds.len())];
            self.inflict(kind, &faults).await;
        }
        let rest = end.saturating_sub(self.now());
        self.sleep(rest).await;
    }

    async fn inflict(&self, kind: FaultKind, faults: &Faults) {
        let names = self.names();
        if names.len() < 2 {
            return;
        }
        let first = self.draw(names.len());
        let second = (first + 1 + self.draw(names.len() - 1)) % names.len();
        let (a, b) = (names[first].as_str(), names[second].as_str());
        match kind {
            FaultKind::Slow => self.slow(a, b, faults).await,
            FaultKind::LoseLink => {
                self.log(&format!("the link of {a} and {b} is lost"));
                match self.draw(2) {
                    0 => self.world().sever_streams(a, b),
                    _ => self.world().sever_data(a, b),
                }
            }
            FaultKind::Cut if !self.is_cut(a, b) && !self.is_cut(b, a) => {
                self.cut(a, b);
                self.sleep_up_to(faults.cut_for).await;
                self.mend(a, b);
            }
            FaultKind::CutOneWay if !self.is_cut(a, b) && !self.is_cut(b, a) => {
                self.cut_one_way(a, b);
                self.sleep_up_to(faults.cut_for).await;
                self.mend(a, b);
            }
            FaultKind::Pause if !self.is_paused(a) => {
                self.pause(a);
                self.sleep_up_to(faults.paused_for).await;
                self.resume(a);
            }
            // The test itself has done this already.
            FaultKind::Cut | FaultKind::CutOneWay | FaultKind::Pause => {}
        }
    }

    async fn slow(&self, from: &str, to: &str, faults: &Faults) {
        let (usual, more) = (self.link(from, to), self.up_to(faults.slowed_by));
        self.log(&format!("the way from {from} to {to} takes {more:?} longer"));
        let mut slow = usual;
        slow.latency += more;
        self.set_link(from, to, slow);
        self.sleep_up_to(faults.slow_for).await;
        self.log(&format!("the way from {from} to {to} is as before"));
        self.set_link(from, to, usual);
    }

    /// Returns an index below `count`, drawn by the seed.
    fn draw(&self, count: usize) -> usize {
        (self.random() % count as u64) as usize
    }
}
