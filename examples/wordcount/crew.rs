//! The node processes on this machine: this program again, each with a role.
//!
//! No orphans: each holds one end of a pipe as its standard input and ends when that ends,
//! so none outlives this process, however it ends.
//!
//! No zombies: one task waits for each, so [`Crew::end`] returns when all are reaped.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{env, fmt, io};

use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time;

use crate::secret::{self, Secret};

/// How long nodes may take to end by themselves before they are killed.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The processes that were started and not yet reaped.
pub(crate) struct Crew {
    secret: String,
    waiting: JoinSet<Exit>,
    pipes: Vec<ChildStdin>,
    kill: watch::Sender<bool>,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) name: String,
    pub(crate) pid: u32,
    status: io::Result<ExitStatus>,
}

impl Crew {
    /// A crew that shares `secret`, and nobody in it yet.
    pub(crate) fn new(secret: &Secret) -> Self {
        let (waiting, pipes, kill) = (JoinSet::new(), Vec::new(), watch::Sender::new(false));
        Crew { secret: secret.to_hex(), waiting, pipes, kill }
    }

    /// Starts the node `name`, which dials `seeds`.
    ///
    /// # Errors
    /// When this program cannot be started again.
    pub(crate) fn start(&mut self, name: &str, seeds: &[String]) -> io::Result<()> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--node", name, "--listen", "127.0.0.1:0", "--attached"]);
        command.args(seeds.iter().flat_map(|seed| ["--seed", seed]));
        command.env(secret::VARIABLE, &self.secret);
        self.attend(name, &mut command)
    }

    fn attend(&mut self, name: &str, command: &mut Command) -> io::Result<()> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true).spawn()?;
        self.pipes.extend(child.stdin.take());
        self.waiting.spawn(reap(name.to_owned(), child, self.kill.subscribe()));
        Ok(())
    }

    /// Waits for a process to end; never returns when there is none.
    ///
    /// # Cancel safety
    /// No exit is lost when the future is dropped.
    pub(crate) async fn next_exit(&mut self) -> Exit {
        match self.waiting.join_next().await {
            Some(Ok(exit)) => exit,
            _ => std::future::pending().await,
        }
    }

    /// Ends all processes, kills those that take longer than `patience`, and returns all exits.
    pub(crate) async fn end(mut self, patience: Duration) -> Vec<Exit> {
        self.pipes.clear();
        let mut exits = Vec::new();
        let all = async {
            while let Some(exit) = self.waiting.join_next().await {
                exits.extend(exit);
            }
        };
        if time::timeout(patience, all).await.is_err() {
            self.kill.send_replace(true);
            while let Some(exit) = self.waiting.join_next().await {
                exits.extend(exit);
            }
        }
        exits
    }
}

async fn reap(name: String, mut child: Child, mut kill: watch::Receiver<bool>) -> Exit {
    let pid = child.id().unwrap_or_default();
    tokio::select! {
        biased;
        status = child.wait() => return Exit { name, pid, status },
        _ = kill.wait_for(|kill| *kill) => {}
    }
    let status = match child.start_kill() {
        Ok(()) => child.wait().await,
        Err(error) => Err(error),
    };
    Exit { name, pid, status }
}

impl Exit {
    /// Returns true if its exit status is success.
    pub(crate) fn is_clean(&self) -> bool {
        self.status.as_ref().is_ok_and(ExitStatus::success)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the process of node {} (pid {}) ended: ", self.name, self.pid)?;
        match &self.status {
            Ok(status) => status.fmt(f),
            Err(error) => write!(f, "its exit status is unknown: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crew(programs: &[&str]) -> Crew {
        let mut crew = Crew::new(&Secret::random().unwrap());
        for program in programs {
            crew.attend(program, Command::new("sh").args(["-c", program])).unwrap();
        }
        crew
    }

    #[tokio::test]
    async fn processes_end_with_their_input() {
        let exits = crew(&["cat", "cat"]).end(END_TIMEOUT).await;
        assert!(exits.len() == 2 && exits.iter().all(Exit::is_clean), "{exits:?}");
    }

    #[tokio::test]
    async fn a_process_that_does_not_end_is_killed_and_reaped() {
        let exits = crew(&["exec sleep 1000"]).end(Duration::from_millis(1)).await;
        assert!(!exits[0].is_clean());
        let text = exits[0].to_string();
        assert!(text.ends_with("ended: signal: 9 (SIGKILL)"), "{text}");
        assert!(!std::path::Path::new(&format!("/proc/{}", exits[0].pid)).exists());
    }

    #[tokio::test]
    async fn an_early_exit_is_noticed() {
        let mut crew = crew(&["cat", "exit 7"]);
        let exit = crew.next_exit().await;
        assert_eq!((exit.name.as_str(), exit.is_clean()), ("exit 7", false));
        assert!(exit.to_string().ends_with("ended: exit status: 7"), "{exit}");
        assert_eq!(crew.end(END_TIMEOUT).await.len(), 1);
    }
}
