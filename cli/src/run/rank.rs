//! One rank: its command, its process and its end.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::output::Output;

/// How long a rank that is ended has before it is killed.
const END_WITHIN: Duration = Duration::from_secs(5);
/// How long what a rank has printed is read after its end, where another process holds its streams.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// A rank that is to be started.
pub(super) struct Rank<'a> {
    pub(super) number: usize,
    pub(super) job: &'a str,
    pub(super) hosts: &'a [String],
    pub(super) program: &'a [String],
}

impl Rank<'_> {
    /// Returns the variables of its environment.
    fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("RINGPOST_RANK", self.number.to_string()),
            ("RINGPOST_SIZE", self.hosts.len().to_string()),
            ("RINGPOST_HOSTS", self.hosts.join(",")),
            ("RINGPOST_JOB", self.job.to_owned()),
        ]
    }

    /// Returns its host, without the port.
    fn host(&self) -> &str {
        let host = self.hosts[self.number].rsplit_once(':').map_or("", |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns what its host's shell is to run.
    fn remote(&self) -> String {
        let variables = self.variables();
        let variables = variables.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = self.program.iter().map(|word| quoted(word));
        ["env".to_owned()].into_iter().chain(variables).chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Returns the command that starts it from a shell of this machine.
    pub(super) fn shell(&self) -> String {
        format!("ssh {} {}", quoted(self.host()), quoted(&self.remote()))
    }

    /// Starts it.
    pub(super) fn start(&self, by_ssh: bool) -> io::Result<Child> {
        let mut command = match by_ssh {
            // A terminal of its own there has it end with its connection.
            true => {
                let mut command = Command::new("ssh");
                command.args(["-tt", "-o", "BatchMode=yes", "--", self.host(), &self.remote()]);
                command
            }
            false => {
                let mut command = Command::new(&self.program[0]);
                command.args(&self.program[1..]).envs(self.variables());
                command
            }
        };
        // In a group of its own, a terminal's Ctrl-C ends it by way of this program alone.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true).spawn()
    }
}

/// Waits for the end of a rank, which is ended when all are to end. Returns its number.
pub(super) async fn attend(
    mut process: Child,
    number: usize,
    mut ending: watch::Receiver<bool>,
    output: Output,
) -> (usize, io::Result<ExitStatus>) {
    let (out, err) = (process.stdout.take(), process.stderr.take());
    let printed = tokio::spawn(async move {
        let out = async {
            if let Some(out) = out {
                output.pass_out(number, out).await;
            }
        };
        let err = async {
            if let Some(err) = err {
                output.pass_err(number, err).await;
            }
        };
        tokio::join!(out, err);
    });
    let told = async { ending.wait_for(|is_ending| *is_ending).await.is_ok() };
    let status = tokio::select! {
        status = process.wait() => status,
        _ = told => end(&mut process).await,
    };
    drop(tokio::time::timeout(READ_WITHIN, printed).await);
    (number, status)
}

/// Ends a process: first with SIGTERM.
async fn end(process: &mut Child) -> io::Result<ExitStatus> {
    let group = process.id().and_then(|id| i32::try_from(id).ok());
    if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
        // It may have ended meanwhile.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
    }
    match tokio::time::timeout(END_WITHIN, process.wait()).await {
        Ok(status) => status,
        Err(_) => {
            process.start_kill()?;
            process.wait().await
        }
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=,@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
