//! A parameter server: its node holds the parameters of a model in a region, and workers on other
//! nodes read them there, learn from their own data, and write their findings to a second region.
//!
//! `cargo run --example parameters` prints:
//!
//! ```text
//! round 10: y = 3.00 x + 1.00
//! ```
#![deny(warnings)]

use ringpost::prelude::*;
use ringpost::region::{Access, Region, RegionError, RemoteRegion};
use ringpost::send::AskSet;

const WORKERS: usize = 3;
const ROUNDS: usize = 10;

/// The parameters of a line: its slope, and where it begins.
type Line = [f64; 2];

/// Owns the parameters and a place for each worker's finding, and keeps the shares of both.
#[actor]
struct Server {
    line: Region<Line>,
    findings: Region<Line>,
    shared: Model,
}

/// The regions that a worker is given: all read the line, and each writes to its own place.
#[message]
struct Model {
    line: RemoteRegion<Line>,
    findings: RemoteRegion<Line>,
}

impl Server {
    fn new(node: &Node) -> Result<Self, BoxError> {
        let (line, findings) = (node.region(1)?, node.region(WORKERS)?);
        let shared =
            Model { line: line.share(Access::READ)?, findings: findings.share(Access::WRITE)? };
        Ok(Server { line, findings, shared })
    }
}

#[handlers]
impl Server {
    #[handler]
    fn join(&mut self, worker: u64) -> Result<Model, String> {
        let (line, worker) = (self.shared.line.clone(), worker as usize);
        let findings = self.shared.findings.slice(worker..worker + 1);
        Ok(Model { line, findings: findings.map_err(|error| error.to_string())? })
    }

    /// Makes the line the mean of what the workers found, and returns it.
    #[handler]
    fn step(&mut self) -> Result<Line, String> {
        let found = self.findings.read(0..WORKERS).map_err(|error| error.to_string())?;
        let sum = |part: usize| found.iter().map(|line| line[part]).sum::<f64>();
        let line = [0, 1].map(|part| sum(part) / WORKERS as f64);
        self.line.write(0, &[line]).map_err(|error| error.to_string())?;
        Ok(line)
    }
}

/// Learns from points of its own.
#[actor]
struct Worker {
    points: Vec<[f64; 2]>,
    model: Model,
}

#[handlers]
impl Worker {
    /// Goes some steps down from the line that all have.
    #[handler]
    async fn learn(&self) -> Result<(), String> {
        let Model { line, findings } = &self.model;
        let learn = async {
            let mut line = line.read(0..1).await?[0];
            for _ in 0..400 {
                let misses = self.points.iter().map(|[x, y]| (x, line[0] * x + line[1] - y));
                let slopes = misses.fold([0.0; 2], |sum, (x, by)| [sum[0] + by * x, sum[1] + by]);
                line = [0, 1].map(|part| line[part] - slopes[part] / 100.0);
            }
            findings.write(0, &[line]).await
        };
        learn.await.map_err(|error: RegionError| error.to_string())
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Node::builder("server").listen("127.0.0.1:0").start().await?;
    let parameters = server.spawn("parameters", Server::new(&server)?).await?;
    let (mut nodes, mut workers) = (vec![server.clone()], Vec::new());
    for number in 0..WORKERS {
        let node = Node::builder(format!("worker{number}")).seeds(server.addresses());
        let node = node.listen("127.0.0.1:0").start().await?;
        let server = node.when_named::<Server>("server/parameters").await?;
        let model = server.join(number as u64).await??;
        let x = |at: usize| (at * WORKERS + number) as f64 / 50.0;
        let points = (0..50).map(|at| [x(at), 3.0 * x(at) + 1.0]).collect();
        workers.push(node.spawn("worker", Worker { points, model }).await?);
        nodes.push(node);
    }
    let mut line = [0.0; 2];
    for _ in 0..ROUNDS {
        let asks = workers.iter().map(|worker| worker.ask(Learn {}));
        let mut asks: AskSet<Result<(), String>> = asks.collect();
        for (_, learnt) in asks.first(WORKERS).await? {
            learnt?;
        }
        line = parameters.step().await??;
    }
    println!("round {ROUNDS}: y = {:.2} x + {:.2}", line[0], line[1]);
    for node in nodes {
        node.shutdown(std::time::Duration::from_secs(5)).await;
    }
    Ok(())
}
