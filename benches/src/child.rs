//! The serving process, as the measuring process sees it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::failure::Failure;

/// A child that serves a contestant. It is killed when this is dropped; when the parent dies
/// without dropping it, the child finds its standard input closed and ends too.
#[derive(Debug)]
pub struct Server {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    address: String,
}

/// The resources that a serving process has used since it started to serve.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Processor time of all its threads.
    pub cpu: Duration,
    /// Allocations of its main thread, where they are counted.
    pub allocations: u64,
}

/// Returns the command that serves `contestant` by `program`.
pub fn serve_command(program: &Path, contestant: &str, workers: usize) -> Command {
    let mut command = Command::new(program);
    command.args(["serve", contestant, "--workers", &workers.to_string()]);
    command
}

impl Server {
    /// Starts a child that serves `contestant`, and waits until it listens.
    ///
    /// # Errors
    /// When the child does not start, or ends before it listens.
    pub fn start(mut command: Command) -> Result<Self, Failure> {
        let name = command.get_program().to_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| not_started(&name, &error))?;
        let (Some(commands), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Failed("the serving process has no pipes".into()));
        };
        let mut server = Server {
            child,
            commands: Some(commands),
            answers: BufReader::new(answers),
            address: String::new(),
        };
        server.address = server.answer("listening")?;
        Ok(server)
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Asks what the server has used until now.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn usage(&mut self) -> Result<Usage, Failure> {
        if let Some(commands) = &mut self.commands {
            writeln!(commands, "usage")?;
        }
        let answer = self.answer("used")?;
        let numbers = answer
            .split_once(' ')
            .and_then(|(cpu, allocations)| Some((cpu.parse().ok()?, allocations.parse().ok()?)));
        let Some((cpu, allocations)) = numbers else {
            return Err(Failure::Failed(format!("the serving process answered `{answer}`")));
        };
        Ok(Usage { cpu: Duration::from_nanos(cpu), allocations })
    }

    /// Ends the server and waits for it. Callgrind writes its count only at the end of its process.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn end(mut self) -> Result<ExitStatus, Failure> {
        drop(self.commands.take());
        Ok(self.child.wait()?)
    }

    fn answer(&mut self, word: &str) -> Result<String, Failure> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim_end().split_once(' ') {
            Some((first, rest)) if first == word => Ok(rest.into()),
            _ if line.is_empty() => Err(Failure::Failed("the serving process has ended".into())),
            _ => {
                Err(Failure::Failed(format!("the serving process answered `{}`", line.trim_end())))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already; either way it is reaped.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn not_started(program: &OsStr, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("`{}` cannot be started: {error}", program.display()))
}
