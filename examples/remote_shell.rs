//! Runs lines of a shell on another node, without async: threads, `Read` and `Write`.
//!
//! ```text
//! echo 'uname -a' | cargo run --example remote_shell -- -
//! ```
//!
//! Without `-` it runs three lines of its own, and prints:
//!
//! ```text
//! $ echo hello; echo world
//! hello
//! world
//! $ expr 6 '*' 7
//! 42
//! $ exit 3
//! (status 3)
//! ```
//!
//! (Whoever can connect can run anything: a real one listens on loopback, or has a secret.)
#![deny(warnings)]

use std::io::{BufRead, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use clap::Parser;
use ringpost_streams::blocking::{Node, Stream, StreamListener};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Runs lines of a shell on another node.
#[derive(Parser)]
struct Args {
    /// `-` for the lines of standard input. Without it, three lines of its own.
    #[arg(value_parser = ["-"])]
    input: Option<String>,
}

/// Runs each line that comes. Answers with the lines of its output, each after a dot, and then one
/// with the status.
fn serve(mut stream: Stream) -> Outcome<()> {
    let mut line = String::new();
    while stream.read_line(&mut line)? > 0 {
        let mut shell = Command::new("sh");
        let ran = shell.args(["-c", &line]).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = ran.output()?;
        for text in String::from_utf8_lossy(&output.stdout).lines() {
            writeln!(stream, ".{text}")?;
        }
        writeln!(stream, "{}", output.status.code().unwrap_or(-1))?;
        line.clear();
    }
    Ok(())
}

/// Runs one line there. Prints its output, and its status if that is not 0.
fn run(stream: &mut Stream, line: &str) -> Outcome<()> {
    println!("$ {line}");
    writeln!(stream, "{line}")?;
    loop {
        let mut answer = String::new();
        stream.read_line(&mut answer)?;
        match answer.trim_end_matches('\n') {
            "" => return Err("the shell has ended".into()),
            "0" => return Ok(()),
            text if text.starts_with('.') => println!("{}", &text[1..]),
            status => {
                println!("(status {status})");
                return Ok(());
            }
        }
    }
}

fn main() -> Outcome<()> {
    let args = Args::parse();
    let host = Node::start(ringpost::Node::builder("host").listen("127.0.0.1:0"))?;
    let mut listener = StreamListener::bind(&host, "shell")?;
    let serving = thread::spawn(move || serve(listener.accept()?.0));

    let (here, _) = Node::connect(ringpost::Node::client(&host.addresses()[0]))?;
    let mut stream = Stream::connect(&here, "host/shell")?;
    stream.set_read_timeout(Some(Duration::from_secs(60)));
    if args.input.is_some() {
        for line in std::io::stdin().lines() {
            run(&mut stream, &line?)?;
        }
    } else {
        for line in ["echo hello; echo world", "expr 6 '*' 7", "exit 3"] {
            run(&mut stream, line)?;
        }
    }
    drop(stream);
    serving.join().map_err(|_| "the shell panicked")??;
    here.shutdown(Duration::from_secs(5));
    host.shutdown(Duration::from_secs(5));
    Ok(())
}
