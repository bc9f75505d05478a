//! `ringpost doctor`: the report of this machine, and the links to another one.

use serde_json::Value;

use crate::process::{DEAD_ADDRESS, OTHER_SECRET, SECRET, Serving, run};

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
    assert_eq!(ended.out.starts_with("this is a debug build: "), cfg!(debug_assertions));
    let last = ended.out.lines().last().unwrap();
    assert!(last.starts_with("all well: links would use "), "{last}");
}

#[tokio::test]
async fn an_environment_that_no_node_starts_with_is_a_fault() {
    for (variable, value, fault) in [
        ("RINGPOST_SECRET", "hunter2", "the environment variable RINGPOST_SECRET is no secret"),
        ("RINGPOST_SECERT", "hunter2", "RINGPOST_SECERT is unknown: it says nothing"),
        ("RINGPOST_HEARTBEAT", "5s", "the environment variable RINGPOST_HEARTBEAT is 5s"),
        ("RINGPOST_LISTEN", "0.0.0.0:7700", "0.0.0.0:"),
    ] {
        let variables = [(variable, value)];
        let ended = run(&["doctor"], &variables).await;
        assert_eq!((ended.code, &*ended.err), (Some(1), ""), "{ended:?}");
        let verdict = format!("1 fault: {fault}");
        assert!(ended.out.lines().last().unwrap().starts_with(&verdict), "{ended:?}");
        assert!(!ended.out.contains("hunter2"), "{}", ended.out);

        let ended = run(&["doctor", "--json"], &variables).await;
        let report: Value = serde_json::from_str(&ended.out).expect("an object and nothing else");
        let said = report["verdict"].as_str().unwrap();
        assert!(ended.code == Some(1) && said.starts_with(&verdict), "{report}");
        assert_eq!(report["is_debug_build"], cfg!(debug_assertions), "{report}");
        let environment = &report["sections"][0];
        assert_eq!(environment["title"], "environment", "{report}");
        let lines = environment["lines"].as_array().unwrap().iter();
        let faults: Vec<_> = lines.filter(|line| line["is_fault"] == true).collect();
        assert!(faults.len() == 1 && faults[0]["remedy"].is_string(), "{report}");
    }
    let ended = run(&["doctor", "--peer", "a:1"], &[("RINGPOST_SECRET", "short")]).await;
    assert_eq!((ended.code, &*ended.err), (Some(1), ""), "{ended:?}");
    assert!(ended.out.contains("links to a:1\n  not tried: "), "{}", ended.out);
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
    let place = |text| ended.out.find(text).expect(text);
    assert!(place("  tcp: linked in ") < place("devices of this machine"), "{}", ended.out);
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
    let last = ended.out.lines().last().unwrap();
    assert!(last.starts_with("1 fault: tcp: no link: "), "{last}");
}

#[tokio::test]
async fn a_machine_that_is_not_reached_is_one_failure_with_a_remedy() {
    let serving = Serving::start(&[("RINGPOST_SECRET", SECRET)]).await;
    let other = [("RINGPOST_SECRET", OTHER_SECRET)];
    for (address, variables, why, remedy) in [
        (DEAD_ADDRESS, &[][..], "Connection refused", "-> start `ringpost perf serve` there"),
        (&*serving.address, &other, "secrets differ", "-> set RINGPOST_SECRET to the same text"),
    ] {
        let ended = run(&["doctor", "--peer", address], variables).await;
        assert_eq!((ended.code, &*ended.err), (Some(1), ""), "{ended:?}");
        let mut lines = ended.out.lines().skip_while(|line| !line.starts_with("  ! no link: "));
        assert!(lines.next().is_some_and(|line| line.contains(why)), "{ended:?}");
        assert!(lines.next().is_some_and(|line| line.contains(remedy)), "{ended:?}");
    }
}
