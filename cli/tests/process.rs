//! Processes of the command under the control of a test.

use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

/// No wait of these tests takes this long unless something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two secrets that nodes take.
pub(crate) const SECRET: &str = "a secret of the tests, at least 32 bytes long";
pub(crate) const OTHER_SECRET: &str = "another secret of the tests, 32 bytes or more";

/// Returns the command with these arguments and no variable of the environment but these.
pub(crate) fn command(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringpost"));
    command.args(arguments).env_clear().envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Runs the command to its end.
pub(crate) async fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    Ended::of(within(command(arguments, variables).output()).await.unwrap())
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Returns the last line on standard error, which has to be the error in one sentence.
    pub(crate) fn error(&self) -> &str {
        let line = self.err.lines().last().unwrap_or_default();
        assert!(line.starts_with("ringpost: "), "{self:?}");
        line
    }
}

/// A `perf serve` that can be reached; killed when dropped.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: String,
    /// The log of the process: far less than a pipe holds, so that a test need not read it.
    log: Lines<BufReader<ChildStderr>>,
    _out: Lines<BufReader<ChildStdout>>,
}

impl Serving {
    pub(crate) async fn start(variables: &[(&str, &str)]) -> Self {
        let mut child =
            command(&["perf", "serve", "--listen", "127.0.0.1:0"], variables).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = within(out.next_line()).await.unwrap().unwrap();
        let address = line.strip_prefix("serving at ").unwrap().to_owned();
        Serving { child, address, log, _out: out }
    }

    /// Waits for a line of its log that contains `text`.
    pub(crate) async fn logs(&mut self, text: &str) {
        while let Some(line) = within(self.log.next_line()).await.unwrap() {
            if line.contains(text) {
                return;
            }
        }
        panic!("it ended without a line of `{text}`");
    }

    /// Sends SIGTERM and returns its exit status.
    pub(crate) async fn terminate(mut self) -> Option<i32> {
        self.signal("TERM").await;
        within(self.child.wait()).await.unwrap().code()
    }

    /// Sends a signal by its name.
    pub(crate) async fn signal(&self, signal: &str) {
        let pid = self.child.id().unwrap().to_string();
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(pid).status().await;
        assert!(sent.unwrap().success());
    }
}

/// Waits with patience.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes far too long")
}

/// An address at which nothing listens: the system gives this port to nobody who asks for any.
pub(crate) const DEAD_ADDRESS: &str = "127.0.0.1:1";
