//! A node that outlives all faults of its peers: at the end it uses no more than at the beginning.
//! Each kind of fault comes twice, or more often if a time is given: `tests/run soak`.
//!
//! Three partners are killed, stopped, cut off and started again, by a seed. After each fault the
//! test waits until all are linked. At the end the survivor's usage is compared with its usage
//! after the first fault of each kind. It goes on working meanwhile, so each number is the smallest
//! of some looks:
//!
//! - open files, tasks, leased receive slots: no more than before. Three links have the same files
//!   and tasks, whatever happened before.
//! - threads: [`THREADS_MAX`] more: the runtime keeps threads that read commands for a while.
//! - allocated bytes, without the growth of rings: [`ALLOCATED_MAX`] more, for messages that are on
//!   their way at any moment; less than the memory of three links.
//! - resident memory: [`RESIDENT_MAX`] more, for fragments that the allocator keeps, and the growth
//!   of rings; less than the links that are lost in a minute.
//!
//! After a cut a burst of messages may make a ring grow, which then keeps its size while its link
//! lives. When the links have ended, no growth is left.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::correspondent::{Archive, Correspondent, SECRET, Start, own_address};
use crate::process::within;
use crate::wire::{ADDRESSES, Wire};

const NAMES: [&str; 3] = ["beta", "gamma", "delta"];
/// Messages that show that a node is well again.
const SOME: u64 = 50;
/// Looks of which the smallest counts, and the pause between two.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);
/// Long enough for a link to be given up, or a node.
const FAULT_MILLIS_MAX: u64 = 6_000;
/// How much more may be allocated at the end, and resident.
const ALLOCATED_MAX: u64 = 1024 * 1024;
const RESIDENT_MAX: u64 = 8 * 1024 * 1024;
/// How many more threads there may be.
const THREADS_MAX: u64 = 2;

/// A fault that the nodes have to survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// `kill -9`, and another run.
    Kill,
    /// It leaves in order, and another run joins.
    Leave,
    /// It stands still, and goes on.
    Stop,
    /// The survivor stands still, and goes on.
    StopSurvivor,
    /// Nothing comes from one side of the wire, or from both.
    Cut,
}

struct Soak {
    archive: Archive,
    /// None without network namespaces; then nothing is cut.
    wire: Option<Wire>,
    rng: fastrand::Rng,
    /// Of the survivor, and of the partners.
    addresses: [String; 4],
    run: [u64; 3],
    survivor: Option<Correspondent>,
    partners: Vec<Correspondent>,
    began: Instant,
    /// Progress is printed past the test's capture, since the run takes minutes.
    loud: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survivor_of_random_faults_uses_no_more_at_the_end() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse().unwrap());
    let time = Duration::from_secs(number("RINGPOST_SOAK_SECONDS").unwrap_or(0));
    let seed = number("RINGPOST_SOAK_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut soak = Soak::start(seed, !time.is_zero()).await;
    soak.say(&format!("{} s, seed {seed} (RINGPOST_SOAK_SEED replays the faults)", time.as_secs()));
    let kinds = soak.kinds();
    for kind in &kinds {
        soak.suffer(*kind).await;
    }
    let before = soak.usage().await;
    soak.say(&format!("warm: {}", text(&before)));
    let mut faults = 0;
    while faults < kinds.len() || soak.began.elapsed() < time {
        let random = soak.rng.choice(&kinds).copied().unwrap();
        soak.suffer(kinds.get(faults).copied().unwrap_or(random)).await;
        faults += 1;
    }
    let after = soak.usage().await;
    soak.say(&format!("after {faults} more faults: {}", text(&after)));
    for (what, before) in &before {
        let more = match what.as_str() {
            "allocated" => ALLOCATED_MAX,
            "resident" => RESIDENT_MAX + after["grown"],
            // The growth of the rings has a bound of its own, the node's.
            "grown" => continue,
            "threads" => THREADS_MAX,
            _ => 0,
        };
        assert!(after[what] <= before + more, "{what}: {before} before, {} after", after[what]);
    }
    soak.judge().await;
}

impl Soak {
    async fn start(seed: u64, loud: bool) -> Self {
        let wire = match Wire::new() {
            Ok(wire) => Some(wire),
            Err(missing) => {
                loudly(&format!("SKIPPED the cuts: no network namespaces here: {missing}"));
                None
            }
        };
        let addresses = match &wire {
            None => [(); 4].map(|()| own_address()),
            // The survivor and the second partner are on one side, the others beyond the wire.
            Some(_) => [(0, 7700), (1, 7700), (0, 7701), (1, 7701)]
                .map(|(side, port)| format!("{}:{port}", ADDRESSES[side])),
        };
        let mut soak = Soak {
            archive: Archive::new("soak"),
            wire,
            rng: fastrand::Rng::with_seed(seed),
            addresses,
            run: [0; 3],
            survivor: None,
            partners: Vec::new(),
            began: Instant::now(),
            loud,
        };
        let mut options = vec!["--pause", "20", "--down", "4000"];
        for (address, name) in soak.addresses[1..].iter().zip(NAMES) {
            options.extend(["--seed", address, "--to", name]);
        }
        let survivor = soak.launch("alpha", 1, 0, &options).await;
        soak.survivor = Some(survivor);
        for number in 0..NAMES.len() {
            let partner = soak.partner(number).await;
            soak.partners.push(partner);
        }
        soak.calm().await;
        soak
    }

    /// Starts a node; `place` is which address it has.
    async fn launch(&self, name: &str, run: u64, place: usize, options: &[&str]) -> Correspondent {
        let through = self.wire.as_ref().map(|wire| ["ip", "netns", "exec", wire.host(place % 2)]);
        let start = Start {
            name,
            run,
            listen: &self.addresses[place],
            options,
            through: through.as_ref().map_or(&[], |words| &words[..]),
            secrets: (SECRET, None),
        };
        Correspondent::start(&self.archive, start).await
    }

    /// Starts a partner, for the first time or again. Every other run of it has no seed: then it
    /// waits to be dialled.
    async fn partner(&mut self, number: usize) -> Correspondent {
        self.run[number] += 1;
        let run = self.run[number];
        let mut options = vec!["--pause", "20", "--down", "4000", "--to", "alpha"];
        if run.is_multiple_of(2) {
            options.extend(["--seed", &self.addresses[0]]);
        }
        self.launch(NAMES[number], run, number + 1, &options).await
    }

    fn kinds(&self) -> Vec<Fault> {
        let mut kinds = vec![Fault::Kill, Fault::Leave, Fault::Stop, Fault::StopSurvivor];
        kinds.extend(self.wire.as_ref().map(|_| Fault::Cut));
        kinds
    }

    fn survivor(&mut self) -> &mut Correspondent {
        self.survivor.as_mut().expect("it lives to the end")
    }

    /// Causes one fault, and waits until all is well again.
    async fn suffer(&mut self, fault: Fault) {
        let number = self.rng.usize(0..NAMES.len());
        let time = Duration::from_millis(self.rng.u64(0..FAULT_MILLIS_MAX));
        match fault {
            Fault::Kill | Fault::Leave => {
                let partner = self.partners.remove(number);
                match fault {
                    Fault::Kill => partner.kill().await,
                    _ => partner.end().await,
                }
                tokio::time::sleep(time / 4).await;
                let again = self.partner(number).await;
                self.partners.insert(number, again);
            }
            Fault::Stop => {
                self.partners[number].signal("STOP").await;
                tokio::time::sleep(time).await;
                self.partners[number].signal("CONT").await;
            }
            Fault::StopSurvivor => {
                self.survivor().signal("STOP").await;
                tokio::time::sleep(time).await;
                self.survivor().signal("CONT").await;
            }
            Fault::Cut => {
                let sides = self.rng.choice([&[0][..], &[1], &[0, 1]]).unwrap();
                let wire = self.wire.as_ref().expect("there is a wire to cut");
                sides.iter().for_each(|side| wire.cut(*side));
                tokio::time::sleep(time).await;
                sides.iter().for_each(|side| wire.mend(*side));
            }
        }
        self.calm().await;
        let usage = text(&self.survivor().usage().await);
        let (at, name) = (self.began.elapsed().as_secs(), NAMES[number]);
        self.say(&format!("{at} s: {fault:?} {name} for {} ms; then {usage}", time.as_millis()));
    }

    /// Waits until all are linked and hear each other.
    async fn calm(&mut self) {
        for partner in &mut self.partners {
            let handled = partner.usage().await["handled"];
            partner.handles(handled + SOME).await;
        }
        while self.survivor().usage().await["links"] < NAMES.len() as u64 {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns the survivor's usage with all its links: of each number the smallest of some looks.
    async fn usage(&mut self) -> BTreeMap<String, u64> {
        let (mut least, mut looks) = (BTreeMap::new(), 0);
        while looks < LOOKS {
            tokio::time::sleep(PAUSE).await;
            let mut now = self.survivor().usage().await;
            let grown = now["grown"];
            now.entry("allocated".into()).and_modify(|bytes| *bytes = bytes.saturating_sub(grown));
            // A busy machine may lose a link to silence.
            if now["links"] == NAMES.len() as u64 {
                for (what, used) in now {
                    let least: &mut u64 = least.entry(what).or_insert(used);
                    *least = used.min(*least);
                }
                looks += 1;
            }
        }
        // Not resources: `handled` only grows, and `links` was checked above.
        least.retain(|what: &String, _| !["handled", "links"].contains(&what.as_str()));
        least
    }

    fn say(&self, line: &str) {
        if self.loud {
            loudly(line);
        } else {
            println!("soak: {line}");
        }
    }

    /// Ends all nodes, and judges their logs.
    async fn judge(mut self) {
        let mut survivor = self.survivor.take().expect("it lives to the end");
        survivor.falls_quiet().await;
        for partner in &mut self.partners {
            partner.falls_quiet().await;
        }
        for partner in self.partners {
            partner.end().await;
        }
        within(async {
            while survivor.usage().await["grown"] > 0 {
                tokio::time::sleep(PAUSE).await;
            }
        })
        .await;
        survivor.end().await;
        self.archive.judge();
    }
}

fn text(usage: &BTreeMap<String, u64>) -> String {
    let words: Vec<String> = usage.iter().map(|(what, used)| format!("{what} {used}")).collect();
    words.join(", ")
}

/// Past the capture of the test's output.
fn loudly(line: &str) {
    std::io::stderr().write_all(format!("soak: {line}\n").as_bytes()).unwrap();
}
