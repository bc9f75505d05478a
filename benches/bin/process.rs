//! A child process that is run to its end.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use ringpost_benches::Failure;

use crate::results::Missing;

/// Runs a child to its end and returns its output, or the reason why there is none. A child that
/// takes too long is killed; its own children end with it.
pub(crate) fn finish(
    mut command: Command,
    patience: Duration,
) -> Result<Result<String, Missing>, Failure> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (output, errors) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let Ok(output) = output.recv_timeout(patience) else {
        child.kill()?;
        child.wait()?;
        let what = format!("it took longer than {} s, and was killed", patience.as_secs());
        return Ok(Err(Missing::Failed(what)));
    };
    let status = child.wait()?;
    if status.success() {
        return Ok(Ok(output));
    }
    // A grandchild that ends late may hold the pipe a little longer.
    const LATE: Duration = Duration::from_secs(10);
    let errors = errors.recv_timeout(LATE).unwrap_or_default();
    let last = errors.lines().last().map_or_else(|| status.to_string(), str::to_owned);
    Ok(Err(Missing::Failed(last)))
}

/// Reads a pipe to its end on a thread of its own.
fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // The bytes before an error are still worth reading.
            drop(pipe.read_to_end(&mut bytes));
        }
        // If the receiver is gone, `finish` has given up.
        drop(sender.send(String::from_utf8_lossy(&bytes).into_owned()));
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_fails_says_why_with_its_last_line() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first >&2; echo last >&2; exit 3"]);
        let outcome = finish(command, Duration::from_secs(60)).unwrap();
        assert_eq!(outcome, Err(Missing::Failed("last".into())));
    }

    #[test]
    fn a_child_that_hangs_is_killed() {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let outcome = finish(command, Duration::from_millis(50)).unwrap();
        assert!(matches!(outcome, Err(Missing::Failed(why)) if why.contains("killed")));
    }
}
