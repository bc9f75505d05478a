//! The command line, checked once.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use clap::builder::NonEmptyStringValueParser;

/// Counts the words of text files on several nodes.
///
/// Starts N node processes on this machine, each with a mapper and a reducer, sends them the text
/// of all files below the paths as messages, and prints the most frequent words.
///
/// A word is a run of letters, digits and underscores (Unicode), lowercased character by character;
/// a run of more than 1024 characters counts as words of 1024 characters and a rest. A file found
/// below a path that is not UTF-8 text is passed over; symbolic links are not followed there.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_STATUS)]
pub(crate) struct Args {
    /// Files and directories to count [default: the sources that cargo keeps on this machine].
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// How many node processes to start on this machine.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=64))]
    pub(crate) nodes: u32,

    /// Wait for M more nodes, started by hand with --node.
    #[arg(long, value_name = "M", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=64))]
    pub(crate) join: u32,

    /// Count again in one thread, with other code, and compare every word. A file that changed in
    /// between differs.
    #[arg(long)]
    pub(crate) verify: bool,

    /// Stop with the file that reaches this many bytes.
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_bytes: Option<u64>,

    /// Where this process listens for other nodes; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,

    /// A file with the cluster's secret: 64 or more hexadecimal digits. Else the environment
    /// variable RINGPOST_SECRET has it; else this run makes one for the processes it starts.
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,

    /// Be one node of a word count that another process drives, under this name.
    #[arg(
        long,
        value_name = "NAME",
        requires = "seed",
        value_parser = NonEmptyStringValueParser::new(),
        conflicts_with_all = ["paths", "nodes", "join", "verify", "max_bytes"]
    )]
    pub(crate) node: Option<String>,

    /// Where the driving process listens (with --node); may be given several times.
    #[arg(long, value_name = "ADDR", requires = "node")]
    pub(crate) seed: Vec<String>,

    /// End when standard input ends: the process that started this one holds the other side.
    #[arg(long, hide = true, requires = "node")]
    pub(crate) attached: bool,
}

const EXIT_STATUS: &str = "\
Exit status: 0 the result is complete (and verified, with --verify); 1 --verify found a difference;
2 the command line, a path or the secret is wrong; 3 the result is incomplete: there was no text, a
file could not be read, a node was lost or could not be started, or the run was interrupted. What is
missing is said at the end.

RUST_LOG=debug logs what the nodes do.

On several hosts, with the same RINGPOST_SECRET everywhere:
  first host    wordcount --nodes 0 --join 2 --listen 10.0.0.1:7700 PATH
  other hosts   wordcount --node east --listen 10.0.0.2:7700 --seed 10.0.0.1:7700
                wordcount --node west --listen 10.0.0.3:7700 --seed 10.0.0.1:7700";

/// Where cargo keeps sources: `$CARGO_HOME/registry/src`, else below the home directory.
pub(crate) fn cargo_sources() -> Option<PathBuf> {
    let home = match std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty()) {
        Some(home) => PathBuf::from(home),
        None => std::env::home_dir()?.join(".cargo"),
    };
    Some(home.join("registry/src"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        Args::try_parse_from(line.split_whitespace()).map_err(|e| e.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn a_plain_run_takes_three_nodes_on_loopback() {
        let args = parse("wordcount --verify a b").unwrap();
        assert!(args.verify && args.nodes == 3 && args.join == 0 && args.node.is_none());
        assert!(args.listen.ip().is_loopback());
        assert_eq!(args.paths.len(), 2);
    }

    #[test]
    fn a_node_needs_a_seed_and_counts_no_paths() {
        assert!(parse("wordcount --node east --seed 10.0.0.1:7700").is_ok());
        assert!(parse("wordcount --node east").unwrap_err().contains("--seed"));
        assert!(parse("wordcount --seed 10.0.0.1:7700").unwrap_err().contains("--node"));
        let both = parse("wordcount --node east --seed 10.0.0.1:7700 src").unwrap_err();
        assert!(both.contains("cannot be used with"), "{both}");
    }

    #[test]
    fn wrong_values_are_named() {
        assert!(parse("wordcount --nodes 65").unwrap_err().contains("0..=64"));
        assert!(parse("wordcount --nodes three").unwrap_err().contains("three"));
        assert!(parse("wordcount --listen here").unwrap_err().contains("--listen"));
    }
}
