//! Strangers in thousands at a node that has a link: their cost for the log and the link.

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tracing::Level;

use super::hostile::peer::identity;
use super::simulated::sim_config;
use super::*;
use crate::bootstrap::{Handshake, VERSIONS};
use crate::fabric::sim::{self, World};
use crate::limits;
use crate::recorder::Recorder;
use crate::wire::{Preface, Stream, Wire};

/// Strangers of each kind.
const STRANGERS: u32 = 2_000;

/// A kind of stranger: its bytes after it has connected, and whether it waits for an answer.
struct Kind {
    says: Vec<u8>,
    waits: bool,
    /// Words of the log about it, each in a part of a line.
    causes: &'static [&'static str],
}

fn kinds(first_message: &[u8]) -> Vec<Kind> {
    let opening = Handshake::dial(&identity("stranger")).poll_output().unwrap();
    let mut other_version = opening.clone();
    other_version[12..].fill(9);
    let data = Preface::Data.encode();
    let kind = |says: Vec<u8>, waits, causes| Kind { says, waits, causes };
    vec![
        kind(b"GET / HTTP/1.1\r\n\r\n".to_vec(), true, &["does not speak this protocol"]),
        kind([&opening[..], &[9; 4]].concat(), true, &["unexpected record of kind 9"]),
        kind(opening.clone(), false, &["too many connections", "did not answer in time"]),
        kind([&opening[..], first_message].concat(), true, &["made for another connection"]),
        kind(other_version, true, &["the other 9: run the same release"]),
        kind(Vec::new(), false, &["too many connections", "did not answer in time"]),
        kind(data.to_vec(), false, &["too many connections", "did not answer in time"]),
        kind([&data[..], &[7; 16]].concat(), true, &["no queue pair waits for"]),
    ]
}

async fn connect(world: &World, says: &[u8]) -> Box<dyn Stream> {
    let mut stream = world.network("stranger").0.dial("alpha:7700".into()).await.unwrap();
    // It may have had to give way already.
    let _ = stream.write_all(says).await;
    stream
}

/// Returns what an honest node sends after its opening, recorded on its way.
async fn recorded(world: &World) -> Vec<u8> {
    let beta = identity("beta");
    let mut handshake = Handshake::dial(&beta);
    let mut stream = connect(world, &handshake.poll_output().unwrap()).await;
    let mut opening = [0; 30];
    stream.read_exact(&mut opening).await.unwrap();
    handshake.handle_bytes(&opening).unwrap();
    handshake.poll_output().unwrap()
}

/// Of each cause one line in 10 s, whichever level.
// Promised in docs/SEMANTICS.md.
#[test]
fn thousands_of_strangers_of_each_kind_fill_no_log_and_end_no_link() {
    let log = Recorder::new(Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    sim::run(5, |world| {
        let log = log.clone();
        async move {
            let alpha = Node::start(sim_config(&world, "alpha", &[])).await.unwrap();
            let beta = Node::start(sim_config(&world, "beta", &["alpha"])).await.unwrap();
            alpha.mesh.ready(1).await;
            beta.mesh.ready(1).await;
            let message = recorded(&world).await;
            for Kind { says, waits, causes } in kinds(&message) {
                // A cause that was told of before is told of again.
                tokio::time::sleep(2 * limits::LOG_PERIOD).await;
                log.take();
                let began = Instant::now();
                let mut open = Vec::new();
                for _ in 0..STRANGERS {
                    let mut stream = connect(&world, &says).await;
                    if waits {
                        let _ = stream.read_to_end(&mut Vec::new()).await;
                    } else {
                        open.push(stream);
                    }
                }
                for mut stream in open {
                    let _ = stream.read_to_end(&mut Vec::new()).await;
                }
                let often = began.elapsed().div_duration_f64(limits::LOG_PERIOD);
                let lines = log.take();
                let mut of_cause = BTreeMap::new();
                for line in &lines {
                    let cause = causes.iter().find(|cause| line.contains(**cause));
                    *of_cause.entry(*cause.expect(line)).or_insert(0.0) += 1.0;
                }
                assert_eq!(of_cause.len(), causes.len(), "{lines:?}");
                assert!(of_cause.values().all(|lines| *lines <= 1.0 + often), "{lines:?}");
            }
            assert_eq!(alpha.watcher.texts(), ["beta up over sim"]);
            assert_eq!(beta.watcher.texts(), ["alpha up over sim"]);
        }
    });
}

/// A node of the version before, dialled and dialling: it says its own and leaves.
#[test]
fn nodes_of_two_versions_are_told_so_in_the_log_of_each() {
    let log = Recorder::new(Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    let told = || {
        let both = format!("speaks protocol version {VERSIONS}, the other 2: run the same release");
        let lines = log.take();
        assert_eq!(lines.iter().filter(|line| line.contains(&both)).count(), 1, "{lines:?}");
    };
    let mut before = Handshake::dial(&identity("before")).poll_output().unwrap();
    before[12..].fill(2);
    sim::run(5, |world| async move {
        let mut listener = world.network("before").0.listen("before:7700".into()).await.unwrap();
        let _alpha = Node::start(sim_config(&world, "alpha", &["before"])).await.unwrap();
        let mut dialled = listener.accept().await.unwrap();
        dialled.write_all(&before).await.unwrap();
        let _ = dialled.read_to_end(&mut Vec::new()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        told();
        // It can read only 14 bytes.
        let mut dials = connect(&world, &before).await;
        let mut opening = [0; 14];
        dials.read_exact(&mut opening).await.unwrap();
        assert_ne!(opening[12..], before[12..]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        told();
    });
}
