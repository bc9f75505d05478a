//! A program whose `main` returns without a shutdown: `hasty THREADS COUNT BYTES SEED`. It tells
//! the notary of `beta` COUNT notes of BYTES bytes each, on a runtime of THREADS threads: with 1,
//! everything runs on the thread of `main`. It prints `linked` and begins when a line comes on its
//! standard input.

use std::error::Error;
use std::io::{stderr, stdin};

use ringpost::prelude::*;
use ringpost_tests::actors::{Notary, Note};
use tokio::runtime::Builder;

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(stderr).with_env_filter("warn").init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [threads, count, bytes, seed] = &arguments[..] else {
        return Err("usage: hasty THREADS COUNT BYTES SEED".into());
    };
    let (threads, count, bytes) = (threads.parse()?, count.parse()?, bytes.parse()?);
    let mut runtime = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    runtime.worker_threads(threads).enable_all().build()?.block_on(async {
        let node = Node::builder("hasty").seeds([seed.clone()]).start().await?;
        node.ready(1).await?;
        let notary = node.actor::<Notary>("beta/notary").await?;
        println!("linked");
        tokio::task::spawn_blocking(|| stdin().read_line(&mut String::new())).await??;
        for number in 0..count {
            notary.tell(Note { number, bytes: vec![7; bytes] }).await?;
        }
        println!("told");
        Ok(())
    })
}
