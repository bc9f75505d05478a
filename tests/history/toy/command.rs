//! The program as a user calls it.

use std::fs;
use std::path::Path;
use std::process::Command;

const SENDER: &str = "history 1 a 1\nstream s b inbox\ntry s 0\ncommitted s 0\nend\n";
const RECEIVER: &str = "history 1 b 1\nhandled inbox a 1 s 0\n";

/// Exit status, standard output, standard error.
fn history(arguments: &[&str]) -> (Option<i32>, String, String) {
    let program = env!("CARGO_BIN_EXE_history");
    let folder = env!("CARGO_TARGET_TMPDIR");
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn write(name: &str, text: &str) {
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), text).expect("a log is written");
}

#[test]
fn the_status_says_whether_there_are_violations_and_the_last_line_counts_them() {
    write("status-a.log", SENDER);
    write("status-b.log", &format!("{RECEIVER}end\n"));
    write("status-twice.log", &format!("{RECEIVER}handled inbox a 1 s 0\n"));
    let (status, said, _) = history(&["status-a.log", "status-b.log"]);
    let counts = "history: 2 logs (0 killed), 1 messages, 1 handled, 0 unknown, 0 violations\n";
    assert_eq!((status, said.as_str()), (Some(0), counts));
    let (status, said, _) = history(&["status-a.log", "status-twice.log"]);
    let violation = "HI-2 once: stream s of a (run 1), message 0: it was handled twice\n  \
                     status-twice.log:2: handled\n  status-twice.log:3: handled again\n\
                     history: 2 logs (1 killed), 1 messages, 2 handled, 0 unknown, 1 violations\n";
    assert_eq!((status, said.as_str()), (Some(1), violation));
}

#[test]
fn wrong_use_and_wrong_logs_have_a_status_of_their_own() {
    write("wrong.log", "history 1 a 1\nfate s 0 lost\n");
    for (arguments, error) in [
        (&[][..], "usage: history FILE..."),
        (&["--all"], "usage: history FILE..."),
        (&["nowhere.log"], "history: nowhere.log: No such file"),
        (&["wrong.log"], "history: wrong.log:2: no fate is called `lost`"),
    ] {
        let (status, said, error_said) = history(arguments);
        assert_eq!((status, said.as_str()), (Some(2), ""));
        assert!(error_said.contains(error), "{error_said}");
    }
    assert_eq!(history(&["--help"]).0, Some(0));
}
