//! Two processes over TCP: one serves an actor, the other calls it. In two terminals:
//!
//! ```text
//! export RINGPOST_SECRET=...      # in both the same, as `openssl rand -hex 32` prints one
//! cargo run --example two_processes -- serve --listen 127.0.0.1:7700
//! cargo run --example two_processes -- call --seed 127.0.0.1:7700 ada 300
//! ```
//!
//! Without a role, `cargo run --example two_processes` starts itself once to serve and twice to
//! call, one after the other, checks the output, and prints:
//!
//! ```text
//! caller 1: ada has 300 cents
//! caller 2: ada has 500 cents
//! ```
#![deny(warnings)]

use std::process::Stdio;
use std::time::Duration;

use bank::{Deposit, Teller};
use clap::{Parser, Subcommand};
use ringpost::prelude::*;
use ringpost::spawn::Child;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// How long a shutdown waits for actors, and a caller for the node that serves.
const DEADLINE: Duration = Duration::from_secs(10);

/// Serves an actor in one process, and calls it from another. The environment variable
/// RINGPOST_SECRET has the secret of both; without one they meet on loopback only.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Serve the actor `bank/teller` until SIGTERM or Ctrl-C.
    Serve {
        /// Where to listen; port 0 takes a free one, which is printed.
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7700")]
        listen: String,
        /// End when standard input ends: the process that started this one holds the other side.
        #[arg(long, hide = true)]
        attached: bool,
    },
    /// Deposit once, and print the balance.
    Call {
        /// Where the other process listens.
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7700")]
        seed: String,
        /// The account's name.
        account: String,
        /// How much.
        cents: u64,
    },
}

async fn serve(listen: &str, attached: bool) -> Result<(), BoxError> {
    let node = Node::from_env()?.name("bank").listen(listen).start().await?;
    node.supervise(Child::new(Teller::default).named("teller")).await?;
    println!("{}", node.addresses().join(" "));

    let mut terminate = signal(SignalKind::terminate())?;
    let owner_ended = async {
        if attached {
            drop(tokio::io::stdin().read_to_end(&mut Vec::new()).await);
        } else {
            std::future::pending().await
        }
    };
    tokio::select! {
        _ = terminate.recv() => {}
        result = tokio::signal::ctrl_c() => result?,
        () = owner_ended => {}
    }
    // The actors handle all that they accepted before the node says goodbye.
    let killed = node.shutdown(DEADLINE).await;
    if killed.is_empty() { Ok(()) } else { Err(format!("killed: {killed:?}").into()) }
}

async fn call(seed: String, account: String, cents: u64) -> Result<(), BoxError> {
    // A node that only dials needs no address. Each has a name of its own.
    let name = format!("caller-{}", std::process::id());
    let (node, bank) = Node::from_env()?.name(name).seeds([seed]).connect().await?;
    let found = timeout(DEADLINE, node.when_named(&format!("{}/teller", bank.name()))).await;
    let teller: ActorRef<Teller> = found.map_err(|_| "the bank has no teller")??;
    // Messages of one node to one actor keep their order: the balance has this deposit.
    teller.tell(Deposit { account: account.clone(), cents }).await?;
    let balance = teller.balance(account.clone()).await?.ok_or("the deposit is not there")?;
    println!("{account} has {balance} cents");
    node.shutdown(DEADLINE).await;
    Ok(())
}

/// Plays both parts, each in a process of its own, which share a secret of this run.
async fn show() -> Result<(), BoxError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| format!("no random bytes: {error}"))?;
    let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let program = std::env::current_exe()?;
    let process = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.args(args).env("RINGPOST_SECRET", &secret).kill_on_drop(true);
        command
    };

    let mut server = process(&["serve", "--listen", "127.0.0.1:0", "--attached"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = server.stdout.take().ok_or("the server has no output")?;
    let mut lines = BufReader::new(stdout).lines();
    let address = lines.next_line().await?.ok_or("the server ended at once")?;

    for (number, cents, expected) in
        [(1, "300", "ada has 300 cents"), (2, "200", "ada has 500 cents")]
    {
        let output = process(&["call", "--seed", &address, "ada", cents])
            .stderr(Stdio::inherit())
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stdout);
        println!("caller {number}: {}", said.trim());
        if !output.status.success() || said.trim() != expected {
            return Err(format!("a caller said {said:?}, not {expected:?}").into());
        }
    }

    drop(server.stdin.take());
    let status = server.wait().await?;
    if status.success() { Ok(()) } else { Err(format!("the server ended with {status}").into()) }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    match Args::parse().role {
        Some(Role::Serve { listen, attached }) => serve(&listen, attached).await,
        Some(Role::Call { seed, account, cents }) => call(seed, account, cents).await,
        None => show().await,
    }
}
