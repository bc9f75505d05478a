//! How far the sending is: a bar on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::print;

/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);

const BAR: &str =
    "{bar:40} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";

/// Shows on standard error how many bytes of the input have been sent.
pub(crate) struct Progress {
    bar: ProgressBar,
    start: Instant,
    lines: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(bytes: u64) -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(10);
        let style =
            ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(bytes), target).with_style(style);
        let start = Instant::now();
        Progress { bar, start, lines: (!io::stderr().is_terminal()).then_some(start) }
    }

    pub(crate) fn advance(&mut self, bytes: u64) {
        self.bar.inc(bytes);
        if let Some(last) = &mut self.lines
            && last.elapsed() >= LINE_EVERY
        {
            *last = Instant::now();
            print::note(&line(self.bar.position(), self.bar.length(), self.start.elapsed()));
        }
    }

    /// Removes the bar and prints the total.
    pub(crate) fn finish(self) {
        // Finishing moves the bar to its end, wherever it was.
        let sent = self.bar.position();
        self.bar.finish_and_clear();
        print::note(&line(sent, None, self.start.elapsed()));
    }
}

fn line(sent: u64, total: Option<u64>, elapsed: Duration) -> String {
    let total = total.map_or(String::new(), |total| format!(" of {:.1}", megabytes(total)));
    let rate = megabytes(sent) / elapsed.as_secs_f64().max(1e-9);
    format!("sent {:.1}{total} MB, {rate:.1} MB/s", megabytes(sent))
}

/// Millions of bytes.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rate() {
        let second = Duration::from_secs(1);
        assert_eq!(line(1_500_000, Some(3_000_000), second), "sent 1.5 of 3.0 MB, 1.5 MB/s");
        assert_eq!(line(2_000_000, None, 2 * second), "sent 2.0 MB, 1.0 MB/s");
    }
}
