//! The output of ranks: whole lines, each with the number of its rank before it.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, Stderr, Stdout};
use tokio::sync::Mutex;

/// Longest line that is kept together, in bytes; a longer one is printed in parts.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The standard streams of this program, shared by all ranks.
#[derive(Clone)]
pub(super) struct Output {
    out: Arc<Mutex<Stdout>>,
    err: Arc<Mutex<Stderr>>,
}

impl Output {
    pub(super) fn new() -> Self {
        Output {
            out: Arc::new(Mutex::new(tokio::io::stdout())),
            err: Arc::new(Mutex::new(tokio::io::stderr())),
        }
    }

    /// Prints a line of this program.
    pub(super) async fn line(&mut self, text: &str) -> io::Result<()> {
        let mut out = self.out.lock().await;
        out.write_all(format!("{text}\n").as_bytes()).await?;
        out.flush().await
    }

    /// Prints what a rank prints on standard output, until that ends.
    pub(super) async fn pass_out(&self, rank: usize, from: impl AsyncRead + Unpin) {
        pass(rank, from, &self.out).await;
    }

    /// Prints what a rank prints on standard error.
    pub(super) async fn pass_err(&self, rank: usize, from: impl AsyncRead + Unpin) {
        pass(rank, from, &self.err).await;
    }
}

/// Copies lines. A failed write is ignored and reading continues, so that the rank goes on.
async fn pass<W: AsyncWriteExt + Unpin>(rank: usize, from: impl AsyncRead + Unpin, to: &Mutex<W>) {
    let mut from = BufReader::with_capacity(LINE_BYTES_MAX, from);
    let mut line = Vec::new();
    loop {
        line.clear();
        line.extend_from_slice(format!("{rank}: ").as_bytes());
        match read_line(&mut from, &mut line).await {
            Ok(true) => {
                let mut to = to.lock().await;
                let _ = to.write_all(&line).await;
                let _ = to.flush().await;
            }
            Ok(false) | Err(_) => return,
        }
    }
}

/// Reads a line, or as much of it as is kept together. Returns false at the end.
async fn read_line<R: AsyncRead + Unpin>(
    from: &mut BufReader<R>,
    line: &mut Vec<u8>,
) -> io::Result<bool> {
    let prefix = line.len();
    loop {
        let bytes = from.fill_buf().await?;
        if bytes.is_empty() {
            let is_any = line.len() > prefix;
            if is_any {
                line.push(b'\n');
            }
            return Ok(is_any);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let room = LINE_BYTES_MAX.saturating_sub(line.len() - prefix).max(1);
        let taken = end.map_or(bytes.len(), |at| at + 1).min(room);
        line.extend_from_slice(&bytes[..taken]);
        from.consume(taken);
        if line.ends_with(b"\n") {
            return Ok(true);
        }
        if line.len() - prefix >= LINE_BYTES_MAX {
            line.push(b'\n');
            return Ok(true);
        }
    }
}
