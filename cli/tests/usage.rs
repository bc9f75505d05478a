//! The command line: refused arguments, and the text of `--help`.

use std::fs::File;

use tokio::process::Command;

use crate::process::{Ended, Serving, command, run, within};

#[tokio::test]
async fn a_wrong_command_line_is_refused_with_a_sentence() {
    for (arguments, text) in [
        (&["nonsense"][..], "unrecognized subcommand 'nonsense'"),
        (&["perf"], "<ADDR>"),
        (&["perf", "nonsense"], "an address has the form `host:port`"),
        (&["perf", "::1:7700"], "an address has the form `host:port`"),
        (&["perf", "a:1", "--seconds", "0"], "seconds are a number above 0"),
        (&["perf", "a:1", "--seconds", "NaN"], "seconds are a number above 0"),
        (&["perf", "a:1", "--sizes", "32,0"], "a size is a number of bytes"),
        (&["perf", "a:1", "--sizes", "65m"], "a size is a number of bytes"),
        (&["perf", "a:1", "--sizes", "32kk"], "a size is a number of bytes"),
        (&["perf", "a:+1"], "an address has the form `host:port`"),
        (&["perf", "a:1", "--senders", "65"], "a number of senders is 1 to 64"),
        (&["perf", "a:1", "--only", "cas"], "possible values: ask, rate, bandwidth, region, read,"),
        (&["perf", "a:1", "--threads", "0"], "a number of threads is 1 to 1024"),
        (&["perf", "serve", "--listen", "7700"], "an address has the form `host:port`"),
        (&["perf", "serve", "--pairs-port", "70000"], "70000"),
        (&["doctor", "--peer", "a:b"], "an address has the form `host:port`"),
    ] {
        let ended = run(arguments, &[]).await;
        assert_eq!((ended.code, &*ended.out), (Some(2), ""), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(text), "{arguments:?}: {}", ended.err);
    }
}

#[tokio::test]
async fn an_environment_that_cannot_be_used_is_named() {
    for arguments in [&["perf", "127.0.0.1:1"][..], &["perf", "serve"]] {
        let ended = run(arguments, &[("RINGPOST_SECRET", "short")]).await;
        assert_eq!(ended.code, Some(1), "{arguments:?}: {ended:?}");
        let error = ended.error();
        assert!(error.contains("RINGPOST_SECRET") && !error.contains("short,"), "{error}");
    }
}

/// Runs a command whose streams are its own.
async fn ended(mut command: Command) -> Ended {
    Ended::of(within(command.spawn().unwrap().wait_with_output()).await.unwrap())
}

#[tokio::test]
async fn output_that_is_not_read_panics_nowhere() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let serving = Serving::start(&[]).await;
    let arguments = ["perf", &serving.address, "--seconds", "0.05", "--only", "ask"];
    // Both the notes of `perf` and the log go there.
    let mut perf = command(&arguments, &[("RUST_LOG", "info")]);
    perf.stderr(full());
    let perf = ended(perf).await;
    assert!(perf.code == Some(0) && perf.out.contains("t_typical"), "{perf:?}");

    let mut doctor = command(&["doctor"], &[]);
    doctor.stdout(full());
    let doctor = ended(doctor).await;
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.error().contains("No space left"), "{doctor:?}");

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut doctor = command(&["doctor"], &[]);
    doctor.stdout(writer);
    let doctor = ended(doctor).await;
    assert_eq!((doctor.code, &*doctor.err), (Some(0), ""), "as before `head`");
}

#[tokio::test]
async fn a_log_that_is_no_terminal_has_no_colours() {
    let ended = run(&["doctor"], &[("RUST_LOG", "info")]).await;
    assert!(ended.err.contains("a node starts") && !ended.err.contains('\u{1b}'), "{}", ended.err);
}

#[tokio::test]
async fn help_begins_with_a_whole_sentence_and_lists_the_options() {
    for (command, option) in [
        (&[][..], "--version"),
        (&["doctor"], "--peer <ADDR>"),
        (&["perf"], "--senders <LIST>"),
        (&["perf", "serve"], "--listen <ADDR>"),
    ] {
        let ended = run(&[command, &["--help"]].concat(), &[]).await;
        assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{command:?}: {ended:?}");
        let first = ended.out.lines().next().unwrap();
        let is_sentence = first.starts_with(char::is_uppercase) && first.ends_with('.');
        assert!(is_sentence, "{command:?}: {first}");
        assert!(ended.out.contains(option), "{command:?}: {}", ended.out);
    }
}
