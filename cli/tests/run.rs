//! `ringpost run`: ranks as processes, their output, their ends, and signals.

use std::time::{Duration, Instant};

use ringpost_ranks::{Sum, World};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::process::{command, run, within};

/// The variable that makes a process of this test a rank; its value names the work.
const ROLE: &str = "RANK_OF_THE_TEST";

/// A rank, when this test is started by `ringpost run`; otherwise nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn as_rank() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let world = World::from_env().await.unwrap();
    let mut sum = [1_u64];
    world.all_reduce(&mut sum, Sum).await.unwrap();
    println!("{} ranks, named {}", sum[0], world.node().name());
    if role == "dies" {
        // It dies when the others have left the operation above: an exit drops unsent messages.
        if world.rank() == 1 {
            for other in [0, 2] {
                world.recv::<u8>(other, 2).await.unwrap();
            }
            std::process::exit(7);
        }
        world.send(1, 2, &[0_u8]).await.unwrap();
        let at = Instant::now();
        let error = world.recv::<u8>(1, 1).await.unwrap_err();
        assert!(at.elapsed() < Duration::from_secs(1), "{:?}", at.elapsed());
        println!("told: {error}");
        let living = world.shrink().await.unwrap();
        println!("{} live", living.size());
        living.leave().await;
    }
    world.leave().await;
}

/// Returns the arguments that start ranks of this test.
fn ranks<'a>(options: &[&'a str], program: &'a str) -> Vec<&'a str> {
    let test = [program, "run::as_rank", "--exact", "--nocapture"];
    ["run"].into_iter().chain(options.iter().copied()).chain(test).collect()
}

fn this_test() -> String {
    std::env::current_exe().unwrap().display().to_string()
}

#[tokio::test]
async fn ranks_of_processes_work_and_their_lines_have_their_number() {
    let program = this_test();
    let ended = run(&ranks(&["-n", "3", "--job", "three"], &program), &[(ROLE, "adds")]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for rank in 0..3 {
        let line = format!("3 ranks, named three-{rank}");
        assert!(
            ended
                .out
                .lines()
                .any(|out| out.starts_with(&format!("{rank}: ")) && out.ends_with(&line)),
            "{ended:?}"
        );
    }
}

#[tokio::test]
async fn a_rank_that_dies_is_told_within_a_second_and_with_keep_the_others_go_on() {
    let program = this_test();
    let ended = run(&ranks(&["-n", "3", "--keep"], &program), &[(ROLE, "dies")]).await;
    assert_eq!(ended.code, Some(7), "{ended:?}");
    for rank in [0, 2] {
        for text in ["told: rank 1 has died", "2 live"] {
            let is_there =
                |line: &str| line.starts_with(&format!("{rank}: ")) && line.contains(text);
            assert!(ended.out.lines().any(is_there), "{ended:?}");
        }
    }
    assert!(ended.err.contains("ringpost: rank 1 has ended: exit status: 7"), "{ended:?}");
}

#[tokio::test]
async fn the_first_failure_ends_all_and_a_signal_does() {
    let script = "test $RINGPOST_RANK = 1 && exit 9; exec sleep 600";
    let ended = run(&["run", "-n", "3", "sh", "-c", script], &[("PATH", "/bin:/usr/bin")]).await;
    assert_eq!(ended.code, Some(9), "{ended:?}");
    let script = "echo ready; exec sleep 600";
    let mut running =
        command(&["run", "-n", "2", "sh", "-c", script], &[("PATH", "/bin:/usr/bin")])
            .spawn()
            .unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line = within(lines.next_line()).await.unwrap().unwrap();
        assert!(["0: ready", "1: ready"].contains(&&*line), "{line}");
    }
    let id = i32::try_from(running.id().unwrap()).unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(id).unwrap(),
        rustix::process::Signal::INT,
    )
    .unwrap();
    assert_eq!(within(running.wait()).await.unwrap().code(), Some(130));
    assert_eq!(within(lines.next_line()).await.unwrap(), None, "no child holds the stream");
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_and_hosts_are_printed() {
    for (arguments, text) in [
        (&["run"][..], "--n"),
        (&["run", "-n", "0", "true"], "0 is not in 1..=4096"),
        (&["run", "-n", "5000", "true"], "5000 is not in 1..=4096"),
        (&["run", "-n", "2"], "<PROGRAM>"),
        (&["run", "-n", "2", "--job", "a b", "true"], "a name has 1 to 40"),
        (&["run", "-n", "2", "--ssh", "true"], "--hosts"),
    ] {
        let ended = run(arguments, &[]).await;
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(text), "{arguments:?}: {}", ended.err);
    }
    let ended = run(&["run", "-n", "2", "/no/such/program"], &[]).await;
    assert!(ended.code == Some(1) && ended.error().contains("/no/such/program cannot be started"));
    let file = std::env::temp_dir().join(format!("ringpost-hosts-{}", std::process::id()));
    let path = file.display().to_string();
    let written = async |text: &str, more: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let arguments = [&["run", "--hosts", &path][..], more, &["prog", "it's"][..]].concat();
        run(&arguments, &[]).await
    };
    let printed = written("# two\n10.0.0.1:7700\n\nb.example:7700\n", &[]).await;
    let expected = "ssh 10.0.0.1 'env RINGPOST_RANK=0 RINGPOST_SIZE=2 \
        RINGPOST_HOSTS=10.0.0.1:7700,b.example:7700 RINGPOST_JOB=job \
        prog '\\''it'\\''\\'\\'''\\''s'\\'''";
    assert_eq!(printed.out.lines().next(), Some(expected));
    assert_eq!((printed.code, printed.out.lines().count()), (Some(0), 2), "{printed:?}");
    for (text, why) in [
        ("", "it names no host"),
        ("10.0.0.1\n", "line 1: an address has the form"),
        ("a:1\na:1\n", "line 2: a:1 stands there twice"),
        ("-oProxyCommand=x:1\n", "begins with no `-`"),
    ] {
        let ended = written(text, &[]).await;
        assert!(ended.code == Some(1) && ended.error().contains(why), "{text:?}: {ended:?}");
    }
    let few = written("a:1\n", &["-n", "2"]).await;
    assert!(few.error().contains("1 hosts for 2 ranks"), "{few:?}");
    std::fs::remove_file(&file).unwrap();
}
