//! Random schedules of streams on the simulated network, against the ledger.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ringpost::Node;
use ringpost::test_kit::{self, Cluster, Faults};
use ringpost_streams::stream::{ReadHalf, Stream, StreamListener, WriteHalf};
use ringpost_streams::{EndCause, StreamError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use crate::ledger::Direction;

/// Counts of the outcomes that all seeds together have met.
#[derive(Default)]
struct Met {
    ends: AtomicUsize,
    lost: AtomicUsize,
    gone: AtomicUsize,
    dropped: AtomicUsize,
    not_reading: AtomicUsize,
    synced: AtomicUsize,
    placed: AtomicUsize,
    cancelled: AtomicUsize,
}

/// The faults of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    Links,
    Cuts,
    Death,
}

/// One program of a connection.
#[derive(Clone)]
struct Script {
    cluster: Cluster,
    /// The node of the program's regions.
    node: Node,
    trouble: Trouble,
    met: &'static Met,
}

impl Script {
    fn draw(&self, most: u64) -> u64 {
        self.cluster.random() % most.max(1)
    }

    /// Draws a size: mostly small, at times more than a chunk.
    fn size(&self) -> usize {
        let most = [1, 64, 4_000, 70_000, 300_000][self.draw(5) as usize];
        1 + self.draw(most) as usize
    }

    /// Checks an error of a stream: it has a cause that these faults explain.
    fn failed(&self, error: &std::io::Error, written: Option<&Direction>) {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<StreamError>());
        let error = inner.unwrap_or_else(|| panic!("no error of a stream: {error:?}"));
        if let Some(written) = written {
            written.certain(error.read_by_peer);
        }
        let count = match &error.cause {
            EndCause::Lost => &self.met.lost,
            EndCause::Gone(_) | EndCause::Shutdown => &self.met.gone,
            EndCause::Dropped => &self.met.dropped,
            EndCause::NotReading => &self.met.not_reading,
            cause => panic!("an unexpected end: {cause}"),
        };
        count.fetch_add(1, Ordering::Relaxed);
        let is_fault = matches!(&error.cause, EndCause::Lost | EndCause::Shutdown);
        assert!(!is_fault || self.trouble != Trouble::None, "{} without a fault", error.cause);
    }

    /// Writes until it has enough or the stream fails.
    async fn write(self, mut writer: WriteHalf, direction: Direction) {
        for _ in 0..self.draw(20) {
            let result = match self.draw(9) {
                0 => {
                    self.cluster.sleep_up_to(Duration::from_millis(5)).await;
                    Ok(())
                }
                1 => self.sync(&mut writer, &direction).await,
                2 => self.write_or_not(&mut writer, &direction).await,
                3 => self.write_from(&mut writer, &direction).await,
                _ => self.write_some(&mut writer, &direction).await,
            };
            direction.certain(writer.read_by_peer());
            if let Err(error) = result {
                return self.failed(&error, Some(&direction));
            }
        }
        if self.draw(2) == 0 {
            direction.state().is_finished = true;
            writer.shutdown().await.unwrap();
            assert!(writer.write(b"x").await.is_err(), "it was shut down");
            if self.draw(2) == 0
                && let Err(error) = self.sync(&mut writer, &direction).await
            {
                self.failed(&error, Some(&direction));
            }
        }
        direction.state().is_finished = true;
        drop(writer);
    }

    async fn write_some(&self, writer: &mut WriteHalf, to: &Direction) -> std::io::Result<()> {
        let bytes = to.next(self.size());
        let count = match self.draw(3) {
            0 => {
                let (head, tail) = bytes.split_at(bytes.len() / 3);
                let slices = [std::io::IoSlice::new(head), std::io::IoSlice::new(tail)];
                writer.write_vectored(&slices).await?
            }
            _ => writer.write(&bytes).await?,
        };
        assert!(count > 0);
        to.wrote(count);
        Ok(())
    }

    /// Writes bytes of a region: a few, or enough to be placed in the peer's memory.
    async fn write_from(&self, writer: &mut WriteHalf, to: &Direction) -> std::io::Result<()> {
        let bytes = to.next(self.size());
        let mut region = self.node.region::<u8>(bytes.len() + 8).unwrap();
        let at = self.draw(8) as usize;
        region.try_local_mut().unwrap()[at..at + bytes.len()].copy_from_slice(&bytes);
        to.state().under_way = bytes.len() as u64;
        writer.write_from(&region, at..at + bytes.len()).await?;
        to.wrote_all();
        Ok(())
    }

    /// Reads into a region. What else it has in it stays as it was.
    async fn read_into(&self, reader: &mut ReadHalf, from: &Direction) -> std::io::Result<bool> {
        let len = self.size();
        let mut region = self.node.region_of(&vec![0xee; len + 24]).unwrap();
        // Where it begins within a word, the peer has no access to it.
        let at = if self.draw(4) == 0 { 9 } else { 8 };
        let count = match self.draw(4) {
            0 => {
                let time = Duration::from_micros(self.draw(2_000));
                tokio::select! {
                    biased;
                    count = reader.read_into(&region, at..at + len) => count?,
                    () = self.cluster.sleep(time) => return Ok(true),
                }
            }
            _ => reader.read_into(&region, at..at + len).await?,
        };
        let elements = region.try_local_mut().expect("the peer has no access any more");
        from.took(&elements[at..at + count]);
        assert!(elements[..at].iter().chain(&elements[at + len..]).all(|byte| *byte == 0xee));
        self.met.placed.fetch_add(1, Ordering::Relaxed);
        Ok(count > 0)
    }

    /// Writes, unless it takes too long: then nothing was written.
    async fn write_or_not(&self, writer: &mut WriteHalf, to: &Direction) -> std::io::Result<()> {
        let bytes = to.next(self.size());
        let time = Duration::from_micros(self.draw(400));
        tokio::select! {
            biased;
            count = writer.write(&bytes) => to.wrote(count?),
            () = self.cluster.sleep(time) => {
                self.met.cancelled.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Waits until all is read, or, at times, not that long.
    async fn sync(&self, writer: &mut WriteHalf, to: &Direction) -> std::io::Result<()> {
        let written = to.state().written;
        let patience = match self.draw(3) {
            0 => Duration::from_micros(self.draw(2_000)),
            _ => Duration::from_secs(3_600),
        };
        tokio::select! {
            biased;
            synced = writer.sync() => synced?,
            () = self.cluster.sleep(patience) => return Ok(()),
        }
        assert!(to.state().read >= written, "synced at {written}: {:?}", to.state());
        self.met.synced.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Reads to the end or, at times, not so far.
    async fn read(self, mut reader: ReadHalf, direction: Direction) {
        let mut left = if self.draw(4) == 0 { self.draw(15) } else { u64::MAX };
        while left > 0 {
            left -= 1;
            match self.read_some(&mut reader, &direction).await {
                Ok(true) => {}
                Ok(false) => {
                    self.met.ends.fetch_add(1, Ordering::Relaxed);
                    direction.ended();
                    return;
                }
                Err(error) => {
                    assert!(reader.read(&mut [0]).await.is_err(), "it ends once and for all");
                    return self.failed(&error, None);
                }
            }
        }
        direction.state().is_abandoned = true;
    }

    /// Reads once. Returns false at the end.
    async fn read_some(&self, reader: &mut ReadHalf, from: &Direction) -> std::io::Result<bool> {
        match self.draw(7) {
            3 => self.read_into(reader, from).await,
            0 => {
                self.cluster.sleep_up_to(Duration::from_millis(3)).await;
                Ok(true)
            }
            1 => {
                let ready = reader.fill_buf().await?;
                let count = ready.len().min(self.size());
                from.took(&ready[..count]);
                reader.consume(count);
                Ok(count > 0)
            }
            2 => {
                let mut bytes = vec![0; self.size()];
                let time = Duration::from_micros(self.draw(300));
                tokio::select! {
                    biased;
                    count = reader.read(&mut bytes) => {
                        let count = count?;
                        from.took(&bytes[..count]);
                        Ok(count > 0)
                    }
                    () = self.cluster.sleep(time) => Ok(true),
                }
            }
            _ => {
                let mut bytes = vec![0; self.size()];
                let count = reader.read(&mut bytes).await?;
                from.took(&bytes[..count]);
                Ok(count > 0)
            }
        }
    }

    /// Runs one end: both directions at once.
    async fn run(self, stream: Stream, out: Direction, back: Direction) {
        let (reader, writer) = stream.into_split();
        let writing = tokio::spawn(self.clone().write(writer, out));
        let reading = tokio::spawn(self.read(reader, back));
        writing.await.unwrap();
        reading.await.unwrap();
    }
}

/// Connects some streams between two nodes and runs both ends of each.
async fn connections(script: &Script, from: &Node, to: &Node) {
    let mut listener = StreamListener::bind(to, "bytes").await.unwrap();
    let path = format!("{}/bytes", to.name());
    let mut ends = Vec::new();
    for number in 0..1 + script.draw(3) {
        let (out, back) = (Direction::new(2 * number), Direction::new(2 * number + 1));
        let near = Stream::connect(from, &path).await.unwrap();
        let (far, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.name(), from.name());
        let script = |node: &Node| Script { node: node.clone(), ..script.clone() };
        ends.push(tokio::spawn(script(from).run(near, out.clone(), back.clone())));
        ends.push(tokio::spawn(script(to).run(far, back, out)));
    }
    let faults = async {
        let (cluster, time) = (&script.cluster, Duration::from_millis(200));
        match script.trouble {
            Trouble::None => {}
            Trouble::Links => {
                let every = Duration::from_millis(5);
                cluster.shake(Faults { every, ..Faults::mild() }, time).await;
            }
            Trouble::Cuts => {
                cluster.sleep_up_to(Duration::from_millis(20)).await;
                cluster.cut("alpha", "beta");
                cluster.sleep_up_to(Duration::from_secs(30)).await;
                cluster.mend_all();
            }
            Trouble::Death => {
                cluster.sleep_up_to(Duration::from_millis(20)).await;
                cluster.kill("beta").await;
            }
        }
    };
    faults.await;
    for end in ends {
        end.await.unwrap();
    }
}

async fn body(cluster: Cluster, met: &'static Met) {
    let [alpha, beta] = [cluster.node("alpha").await, cluster.node("beta").await];
    let trouble = [Trouble::None, Trouble::Links, Trouble::Cuts, Trouble::Death];
    let trouble = trouble[(cluster.random() % 4) as usize];
    let script = Script { cluster: cluster.clone(), node: alpha.clone(), trouble, met };
    // Also between two programs of one node.
    match cluster.random() % 8 {
        0 if trouble == Trouble::None => connections(&script, &alpha, &alpha).await,
        1 | 2 => connections(&script, &beta, &alpha).await,
        _ => connections(&script, &alpha, &beta).await,
    }
}

#[test]
fn streams_keep_to_the_ledger_on_any_schedule() {
    let met: &'static Met = Box::leak(Box::default());
    test_kit::check(0..600, |cluster| body(cluster, met));
    let counts = [
        ("ends", &met.ends),
        ("lost", &met.lost),
        ("gone", &met.gone),
        ("dropped", &met.dropped),
        ("not reading", &met.not_reading),
        ("synced", &met.synced),
        ("read into a region", &met.placed),
        ("cancelled", &met.cancelled),
    ];
    let seen: Vec<_> = counts.map(|(name, count)| (name, count.load(Ordering::Relaxed))).into();
    println!("{seen:?}");
    // Fewer seeds, or one alone, need not meet all of it.
    let is_usual = ["RINGPOST_TEST_CASES", "RINGPOST_TEST_SEED"]
        .iter()
        .all(|name| std::env::var(name).is_err());
    assert!(!is_usual || seen.iter().all(|(_, count)| *count > 0), "{seen:?}");
}
