//! `ringpost run`: starts the ranks of a world, on this machine or on others.

mod hosts;
mod output;
mod rank;

use std::path::PathBuf;
use std::process::ExitStatus;

use ringpost_ranks::LocalHosts;
use ringpost_ranks::limits::RANKS_MAX;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::note;

use output::Output;
use rank::Rank;

/// Starts the ranks of a world, each a process of PROGRAM with its number, and waits for their
/// ends.
///
/// Each process has RINGPOST_RANK, RINGPOST_SIZE, RINGPOST_HOSTS and RINGPOST_JOB in its
/// environment, which `World::from_env` of the crate `ringpost-ranks` reads. Lines that it prints
/// have its number before them.
///
/// When a rank fails, the other ranks are ended (SIGTERM, and SIGKILL 5 s later), and this program
/// exits with the status of the first rank that failed, or with 128 plus the number of its signal.
/// With --keep the other ranks go on. SIGINT, SIGTERM and SIGHUP end all ranks.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The number of ranks. With --hosts it is optional: each line is a rank.
    #[arg(short, long, value_name = "RANKS", required_unless_present = "hosts",
        value_parser = clap::value_parser!(u16).range(1..=RANKS_MAX as i64))]
    n: Option<u16>,

    /// Keeps the other ranks when a rank has failed.
    #[arg(long)]
    keep: bool,

    /// The name of the world: 1 to 40 ASCII letters, digits, `.`, `_` and `-`.
    #[arg(long, value_name = "NAME", default_value = "job", value_parser = job)]
    job: String,

    /// Reads where ranks run: a line `host:port` for each, in the order of their numbers. Prints
    /// the command for each of them; lines that begin with `#` are comments.
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,

    /// Runs the commands of --hosts by `ssh HOST`.
    #[arg(long, requires = "hosts")]
    ssh: bool,

    /// The program and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Reads the name of a world.
fn job(text: &str) -> Result<String, String> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=40).contains(&text.len()) && text.bytes().all(is_valid) {
        return Ok(text.to_owned());
    }
    Err("a name has 1 to 40 ASCII letters, digits, `.`, `_` and `-`".into())
}

/// Runs the command. Returns the exit status.
///
/// # Errors
/// [`Failure`] when the ranks cannot be started, or the file of hosts cannot be used.
pub(crate) async fn run(options: Options) -> Result<u8, Failure> {
    let listed = options.hosts.as_deref().map(hosts::read).transpose()?;
    // Their ports are theirs until all have ended.
    let reserved;
    let hosts: &[String] = match (&listed, options.n.map(usize::from)) {
        (Some(listed), None) => listed,
        (Some(listed), Some(n)) if n <= listed.len() => &listed[..n],
        (Some(listed), Some(n)) => {
            return Err(Failure::TooFewHosts { hosts: listed.len(), ranks: n });
        }
        (None, n) => {
            reserved = LocalHosts::reserve(n.unwrap_or(1))?;
            reserved.addresses()
        }
    };
    let ranks: Vec<Rank> = (0..hosts.len())
        .map(|number| Rank { number, job: &options.job, hosts, program: &options.program })
        .collect();
    if listed.is_some() && !options.ssh {
        let mut output = Output::new();
        for rank in &ranks {
            output.line(&rank.shell()).await?;
        }
        return Ok(0);
    }
    supervise(&ranks, options.ssh, options.keep).await
}

/// The signals that end all ranks.
struct Interrupts([Signal; 3]);

impl Interrupts {
    fn new() -> std::io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(signal);
        Ok(Interrupts([interrupt?, terminate?, hangup?]))
    }

    /// Waits for the first one, and returns its number.
    async fn recv(&mut self) -> u8 {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => 2,
            _ = terminate.recv() => 15,
            _ = hangup.recv() => 1,
        }
    }
}

/// Starts the ranks and waits for their ends.
async fn supervise(ranks: &[Rank<'_>], by_ssh: bool, keep: bool) -> Result<u8, Failure> {
    let mut interrupts = Interrupts::new()?;
    let (ending, ended) = tokio::sync::watch::channel(false);
    let output = Output::new();
    let mut running = JoinSet::new();
    let mut failed = None;
    for rank in ranks {
        match rank.start(by_ssh) {
            Ok(process) => {
                let (ended, output) = (ended.clone(), output.clone());
                running.spawn(rank::attend(process, rank.number, ended, output));
            }
            Err(why) => {
                failed = Some(Failure::NotStarted { program: rank.program[0].clone(), why });
                break;
            }
        }
    }
    if failed.is_some() {
        ending.send_replace(true);
    }
    let mut code = 0;
    loop {
        tokio::select! {
            number = interrupts.recv() => {
                code = if code == 0 { 128 + number } else { code };
                ending.send_replace(true);
            }
            end = running.join_next() => match end {
                None => break,
                Some(end) => {
                    let (number, status) = end.map_err(std::io::Error::other)?;
                    let status = status?;
                    if !status.success() && !*ending.borrow() {
                        let rest = if keep { "" } else { "; the others are ended (see --keep)" };
                        note(format_args!("ringpost: rank {number} has ended: {status}{rest}"));
                        code = if code == 0 { exit_code(status) } else { code };
                        ending.send_if_modified(|is_ending| {
                            *is_ending |= !keep;
                            !keep
                        });
                    }
                }
            },
        }
    }
    failed.map_or(Ok(code), Err)
}

/// Returns the exit status of a rank as a shell would.
fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
