//! Programs that run beside the test.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use crate::toolchain::installed;

/// A program that runs, and is killed when the test fails before its end.
pub(crate) struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
    errors: Option<JoinHandle<String>>,
}

/// Returns true if programs run under valgrind.
pub(crate) fn is_slow() -> bool {
    std::env::var_os("RINGPOST_VALGRIND").is_some()
}

impl Program {
    /// Starts a program with these arguments: under valgrind, if the test is told so.
    pub(crate) fn start(path: &Path, arguments: &[&str]) -> Self {
        let mut command = if is_slow() {
            let mut valgrind = Command::new("valgrind");
            valgrind.args([
                "--fair-sched=yes",
                "--quiet",
                "--error-exitcode=99",
                "--leak-check=full",
            ]);
            valgrind.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
            // Programs that run so slowly are silent for long, and live.
            valgrind.envs([("RINGPOST_HEARTBEAT", "20s"), ("RINGPOST_DOWN_AFTER", "10m")]);
            valgrind.arg(path);
            valgrind
        } else {
            Command::new(path)
        };
        command.args(arguments).env("LD_LIBRARY_PATH", installed().join("lib"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut errors = child.stderr.take().expect("it is piped");
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).ok();
            text
        });
        Program { child, output, errors: Some(errors) }
    }

    /// Returns its next line; empty at its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it writes UTF-8");
        line.trim_end().to_owned()
    }

    /// Waits for its end, which is to be a success, and returns what else it wrote.
    pub(crate) fn finish(mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("it writes UTF-8");
        let status = self.child.wait().expect("it is a child");
        let errors = self.errors.take().map(|errors| errors.join().unwrap_or_default());
        assert!(status.success(), "{status}\n{rest}\n{}", errors.unwrap_or_default());
        rest
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
