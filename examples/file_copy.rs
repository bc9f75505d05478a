//! Copies a file from one node to another over a byte stream, with a progress bar:
//!
//! ```text
//! cargo run --example file_copy -- FROM TO
//! ```
//!
//! Without paths it copies a file of 16 MiB that it makes, and compares the copy. It prints:
//!
//! ```text
//! 16777216 bytes are copied
//! ```
#![deny(warnings)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use ringpost::prelude::*;
use ringpost_streams::stream::{Stream, StreamListener};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

/// Copies a file from one node to another. Without paths: a file of 16 MiB that it makes.
#[derive(Parser)]
struct Args {
    #[arg(requires = "to")]
    from: Option<PathBuf>,
    to: Option<PathBuf>,
}

/// Writes the bytes of the next stream into a file. Its length comes first.
async fn receive(mut listener: StreamListener, to: PathBuf) -> Result<u64, BoxError> {
    let (mut stream, peer) = listener.accept().await?;
    let total = stream.read_u64().await?;
    let style = "{prefix} {bar:40} {bytes}/{total_bytes} {bytes_per_sec}";
    let bar = ProgressBar::new(total).with_style(ProgressStyle::with_template(style)?);
    bar.set_prefix(format!("from {}", peer.name()));
    let mut file = File::create(to).await?;
    loop {
        let bytes = stream.fill_buf().await?; // in the message that was received
        let count = bytes.len();
        if count == 0 {
            break;
        }
        file.write_all(bytes).await?;
        stream.consume(count);
        bar.inc(count as u64);
    }
    file.flush().await?;
    bar.finish();
    match bar.position() {
        count if count == total => Ok(count),
        count => Err(format!("{count} bytes came of {total}").into()),
    }
}

async fn send(node: &Node, from: &Path) -> Result<(), BoxError> {
    let mut file = File::open(from).await?;
    let mut stream = Stream::connect(node, "target/files").await?;
    stream.write_u64(file.metadata().await?.len()).await?;
    tokio::io::copy(&mut file, &mut stream).await?;
    // Returns when the other side has read all of it.
    Ok(stream.close_within(Duration::from_secs(60)).await?)
}

async fn copy(from: &Path, to: PathBuf) -> Result<u64, BoxError> {
    let target = Node::builder("target").listen("127.0.0.1:0").start().await?;
    let source = Node::builder("source").seeds(target.addresses()).start().await?;
    source.ready(1).await?;
    let listener = StreamListener::bind(&target, "files").await?;
    let copied = tokio::try_join!(receive(listener, to), send(&source, from));
    source.shutdown(Duration::from_secs(5)).await;
    target.shutdown(Duration::from_secs(5)).await;
    Ok(copied?.0)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    if let Args { from: Some(from), to: Some(to) } = Args::parse() {
        println!("{} bytes are copied", copy(&from, to).await?);
        return Ok(());
    }
    let folder = std::env::temp_dir().join(format!("file_copy-{}", std::process::id()));
    tokio::fs::create_dir(&folder).await?;
    let (from, to) = (folder.join("from"), folder.join("to"));
    let bytes: Vec<u8> = (0..16 << 20).map(|at: u32| (at ^ (at >> 9)) as u8).collect();
    tokio::fs::write(&from, &bytes).await?;
    let copied = copy(&from, to.clone()).await;
    let is_equal = tokio::fs::read(&to).await.is_ok_and(|copy| copy == bytes);
    tokio::fs::remove_dir_all(&folder).await?;
    println!("{} bytes are copied", copied?);
    if is_equal { Ok(()) } else { Err("the copy differs".into()) }
}
