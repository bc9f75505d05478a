//! Starts and controls processes that write histories, and judges their logs.

use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader as Reader;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use ringpost_history::{Books, Verdict};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::process::{program, send_signal, within};

/// Between two looks at a log that another process writes.
const LOOK: Duration = Duration::from_millis(20);
/// The secret that all nodes of a test share.
pub(crate) const SECRET: &str = "a secret of the tests, at least 32 bytes long";

/// The logs of one test, in a folder of its own, which is kept when the test fails.
pub(crate) struct Archive {
    folder: PathBuf,
}

impl Archive {
    pub(crate) fn new(test: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = root.join(format!("history-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Archive { folder }
    }

    /// The log of a run of a node.
    pub(crate) fn log(&self, node: &str, run: u64) -> PathBuf {
        self.folder.join(format!("{node}-{run}.log"))
    }

    /// Judges all logs. Prints the counts; panics with every violation.
    pub(crate) fn judge(self) -> Verdict {
        let mut books = Books::default();
        let mut logs: Vec<PathBuf> =
            fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        logs.sort();
        for log in &logs {
            let input = Reader::new(fs::File::open(log).unwrap());
            books.read(&log.display().to_string(), input).unwrap();
        }
        let verdict = books.judge();
        println!("{}: {verdict}", self.folder.display());
        let broken: Vec<String> = verdict.violations.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "{}\n{verdict}", broken.join("\n"));
        fs::remove_dir_all(&self.folder).unwrap();
        verdict
    }
}

/// The arguments of a correspondent.
#[derive(Clone, Copy)]
pub(crate) struct Start<'a> {
    pub(crate) name: &'a str,
    pub(crate) run: u64,
    /// Where it listens.
    pub(crate) listen: &'a str,
    /// Further arguments.
    pub(crate) options: &'a [&'a str],
    /// The words of a command that becomes the program, under the same process id: where it lives.
    pub(crate) through: &'a [&'a str],
    /// Its secret, and another secret that it also accepts.
    pub(crate) secrets: (&'a str, Option<&'a str>),
}

/// An address of loopback that is nobody else's: a node that starts again finds it free. (Of
/// 127.0.0.1 a port that is free for a moment may become the end of an outgoing connection.)
pub(crate) fn own_address() -> String {
    static PORT: AtomicU16 = AtomicU16::new(7700);
    let port = PORT.fetch_add(1, Ordering::Relaxed);
    format!("{}:{port}", own_ip(1))
}

/// One of three addresses that this process alone uses.
pub(crate) fn own_ip(which: u8) -> String {
    // No process id has more than 22 bits.
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    format!("127.{}.{middle}.{low}", which << 6 | high & 63)
}

/// A process that writes a history; killed when dropped.
pub(crate) struct Correspondent {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    pub(crate) address: String,
    log: PathBuf,
}

impl Correspondent {
    /// Starts it, and waits until it listens.
    pub(crate) async fn start(archive: &Archive, start: Start<'_>) -> Self {
        let program = program("correspondent", env!("CARGO_BIN_EXE_correspondent"));
        let mut command = match start.through {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        let log = archive.log(start.name, start.run);
        let mut child = command
            .args([start.name, &start.run.to_string()])
            .arg(&log)
            .arg(start.listen)
            .args(start.options)
            .env("RINGPOST_SECRET", start.secrets.0)
            .envs(start.secrets.1.map(|secret| ("RINGPOST_ALSO_ACCEPT", secret)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = within(answers.next_line()).await.unwrap().unwrap();
        let address = line.strip_prefix("listening ").unwrap().to_owned();
        Correspondent { child, commands, answers, address, log }
    }

    /// Waits until it has handled `count` messages in all.
    pub(crate) async fn handles(&mut self, count: u64) {
        self.obeys(&format!("await {count}\n"), "handled").await;
    }

    /// Stops its senders, and waits until the last has ended.
    pub(crate) async fn falls_quiet(&mut self) {
        self.obeys("quiet\n", "quiet").await;
    }

    /// Returns the resources that it reports and the system's figures for its process, by name.
    pub(crate) async fn usage(&mut self) -> BTreeMap<String, u64> {
        self.commands.write_all(b"usage\n").await.unwrap();
        let line = within(self.answers.next_line()).await.unwrap().unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let pairs = words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].parse().unwrap()));
        let mut usage: BTreeMap<String, u64> = pairs.collect();
        let process = PathBuf::from(format!("/proc/{}", self.child.id().unwrap()));
        let count = |folder: &str| fs::read_dir(process.join(folder)).unwrap().count() as u64;
        usage.insert("files".into(), count("fd"));
        usage.insert("threads".into(), count("task"));
        let memory = fs::read_to_string(process.join("smaps_rollup")).unwrap();
        let resident = memory.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
        let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        usage.insert("resident".into(), kib * 1024);
        usage
    }

    async fn obeys(&mut self, command: &str, answer: &str) {
        self.commands.write_all(command.as_bytes()).await.unwrap();
        let answered = within(self.answers.next_line()).await.unwrap();
        assert_eq!(answered.as_deref(), Some(answer), "{}", self.log.display());
    }

    /// How many messages it has handled so far, as far as it wrote.
    pub(crate) fn handled(&self) -> u64 {
        self.count("handled ") as u64
    }

    /// Waits until its log has a remark that starts like this.
    pub(crate) async fn remarks(&self, remark: &str) {
        self.writes(&format!("# {remark}")).await;
    }

    /// Waits until its log has a line that starts like this.
    pub(crate) async fn writes(&self, start: &str) {
        self.writes_often(start, 1).await;
    }

    /// Waits until its log has at least `count` lines that start like this.
    pub(crate) async fn writes_often(&self, start: &str, count: usize) {
        within(async {
            while self.count(start) < count {
                tokio::time::sleep(LOOK).await;
            }
        })
        .await
    }

    /// How many lines of its log start like this.
    pub(crate) fn count(&self, start: &str) -> usize {
        let log = fs::read_to_string(&self.log).unwrap();
        log.lines().filter(|line| line.starts_with(start)).count()
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits until it has died of SIGKILL, which it sends itself at the step that it was started
    /// for.
    pub(crate) async fn dies(mut self) {
        let status = within(self.child.wait()).await.unwrap();
        assert_eq!(status.signal(), Some(9), "{}: {status}", self.log.display());
    }

    /// Sends a signal by name, `STOP` or `CONT`.
    pub(crate) async fn signal(&self, signal: &str) {
        send_signal(&self.child, signal).await;
    }

    /// Closes its standard input and waits for its end, in order.
    pub(crate) async fn end(self) {
        let Correspondent { mut child, commands, .. } = self;
        drop(commands);
        assert!(within(child.wait()).await.unwrap().success(), "{}", self.log.display());
    }
}

/// Ends two in order: no sender sends when the first receiver ends.
pub(crate) async fn end_both(mut one: Correspondent, mut other: Correspondent) {
    tokio::join!(one.falls_quiet(), other.falls_quiet());
    tokio::join!(one.end(), other.end());
}
