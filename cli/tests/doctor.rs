//! `ringpost doctor`: the report of this machine, and the links to another one.

use crate::process::{OTHER_SECRET, SECRET, Serving, dead_address, run};

#[tokio::test]
async fn the_report_of_this_machine_needs_no_other_one() {
    let ended = run(&["doctor"], &[]).await;
    assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{ended:?}");
    for part in [
        "devices of this machine",
        "kernel",
        "limits of this process",
        "memory that may be locked: ",
        "what ringpost finds",
        "links would use ",
        "to a node on another machine: ",
    ] {
        assert!(ended.out.contains(part), "{part}: {}", ended.out);
    }
    let is_by_verbs = ended.out.contains("links would use verbs on ");
    assert_eq!(ended.out.contains("never on an adapter"), is_by_verbs, "{}", ended.out);
}

#[tokio::test]
async fn each_fabric_carries_messages_of_every_size_class() {
    let serving = Serving::start(&[]).await;
    let ended = run(&["doctor", "--peer", &serving.address], &[]).await;
    assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{ended:?}");
    for fabric in ["  tcp: linked in ", "  tcps: linked in "] {
        let line = ended.out.lines().find(|line| line.starts_with(fabric)).unwrap();
        for class in ["inline, 32 B: ", "one slot, 4 KiB: ", "several slots, 64 KiB: ", "1 MiB: "] {
            assert!(line.contains(class), "{line}");
        }
    }
    assert!(ended.out.contains("\n  verbs"), "it is tried, or why not: {}", ended.out);
    let last = ended.out.lines().last().unwrap();
    assert!(last.starts_with("all well: "), "{last}");
}

#[tokio::test]
async fn a_fabric_that_the_setting_rules_out_is_not_tried() {
    let variables = [("RINGPOST_ENCRYPTION", "required")];
    let serving = Serving::start(&variables).await;
    let ended = run(&["doctor", "--peer", &serving.address], &variables).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for line in
        ["  tcp: not tried: encryption is required", "  verbs: not tried: ", "  tcps: linked"]
    {
        assert!(ended.out.contains(line), "{line}: {}", ended.out);
    }
}

#[tokio::test]
async fn a_fabric_that_fails_has_its_reason_and_a_remedy() {
    // It takes no link in plain, and the doctor tries one.
    let serving = Serving::start(&[("RINGPOST_ENCRYPTION", "required")]).await;
    let ended = run(&["doctor", "--peer", &serving.address], &[]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let tried = "  ! tcp: no link: ";
    let at = ended.out.lines().position(|line| line.starts_with(tried)).expect("it is tried");
    let remedy = ended.out.lines().nth(at + 1).unwrap();
    assert!(remedy.contains("-> give both machines the same RINGPOST_ENCRYPTION"), "{remedy}");
    assert!(ended.out.contains("  tcps: linked in "), "the next one is tried: {}", ended.out);
    assert_eq!(ended.out.lines().last(), Some("1 of 2 ways failed"));
}

#[tokio::test]
async fn a_machine_that_is_not_reached_is_one_failure_with_a_remedy() {
    let serving = Serving::start(&[("RINGPOST_SECRET", SECRET)]).await;
    let (dead, other) = (dead_address(), [("RINGPOST_SECRET", OTHER_SECRET)]);
    for (address, variables, why, remedy) in [
        (&dead, &[][..], "Connection refused", "-> start `ringpost perf serve` there"),
        (&serving.address, &other, "secrets differ", "-> set RINGPOST_SECRET to the same text"),
    ] {
        let ended = run(&["doctor", "--peer", address], variables).await;
        assert_eq!((ended.code, &*ended.err), (Some(1), ""), "{ended:?}");
        let lines: Vec<&str> = ended.out.lines().rev().take(2).collect();
        assert!(lines[1].starts_with("  ! no link: ") && lines[1].contains(why), "{lines:?}");
        assert!(lines[0].contains(remedy), "{lines:?}");
    }
}
