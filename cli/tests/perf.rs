//! `ringpost perf` and `ringpost perf serve`: their measurements, and the events that end them.

use ringpost::Node;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::process::{DEAD_ADDRESS, Ended, OTHER_SECRET, SECRET, Serving, command, run, within};

/// Runs a short measurement and returns its JSON output.
async fn measured(address: &str, options: &[&str], variables: &[(&str, &str)]) -> Value {
    let arguments = [&["perf", address, "--json", "--seconds", "0.1"], options].concat();
    let ended = run(&arguments, variables).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

/// Returns a number of a row, by its path.
fn number(row: &Value, path: &str) -> f64 {
    row.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {row}"))
}

/// Fails unless the two differ by rounding only.
fn assert_same(one: f64, other: f64, row: &Value) {
    assert!((one - other).abs() <= 1e-6 * one.abs(), "{one} and {other} in {row}");
}

fn check_latency(row: &Value) {
    let ordered = ["min", "typical", "p99", "p99_9", "max"];
    let ordered = ordered.map(|name| number(row, &format!("/latency_us/{name}")));
    assert!(ordered[0] > 0.0 && ordered.is_sorted(), "{row}");
    // The operations follow each other without a pause, so their times make up the whole.
    let sum = number(row, "/latency_us/average") * number(row, "/iterations");
    assert_same(sum, number(row, "/seconds") * 1e6, row);
    assert!(number(row, "/latency_us/stdev") >= 0.0, "{row}");
}

fn check_rate(row: &Value) {
    let messages = number(row, "/per_second/messages");
    assert_same(messages, number(row, "/iterations") / number(row, "/seconds"), row);
    let (bytes, peak) = (number(row, "/bytes"), number(row, "/per_second/peak_messages"));
    assert_same(messages * bytes, number(row, "/per_second/bytes"), row);
    assert_same(peak * bytes, number(row, "/per_second/peak_bytes"), row);
    assert!(peak >= messages, "{row}");
}

#[tokio::test]
async fn every_row_that_is_asked_for_is_measured_and_its_figures_agree() {
    let serving = Serving::start(&[]).await;
    let options = ["--sizes", "32,20k", "--senders", "1,3"];
    let report = measured(&serving.address, &options, &[]).await;
    assert_eq!((&report["fabric"], &report["encrypted"]), (&"tcp".into(), &false.into()));
    assert_eq!(report["address"], serving.address.as_str());
    let rows = report["measurements"].as_array().unwrap();
    let plan = rows.iter().map(|row| {
        let name = row["measurement"].as_str().unwrap();
        (name, row["bytes"].as_u64().unwrap(), row["senders"].as_u64().unwrap())
    });
    let times = |name| [(name, 32, 1), (name, 20480, 1)].to_vec();
    let rates = |name| [(name, 32, 1), (name, 32, 3), (name, 20480, 1), (name, 20480, 3)].to_vec();
    let words = ["fetch_add", "compare_exchange"].map(|name| (name, 8, 1)).to_vec();
    let messages = [times("ask"), rates("rate"), rates("bandwidth")].concat();
    let region = [times("read"), times("write"), words].concat();
    let of_word = |name| [(name, 8, 1), (name, 8, 3)].to_vec();
    let region_rates = [rates("read_bandwidth"), rates("write_bandwidth")].concat();
    let word_rates = [of_word("fetch_add_rate"), of_word("compare_exchange_rate")].concat();
    assert_eq!(plan.collect::<Vec<_>>(), [messages, region, region_rates, word_rates].concat());
    for row in rows {
        assert!(number(row, "/iterations") >= 1.0 && number(row, "/seconds") >= 0.1, "{row}");
        let name = row["measurement"].as_str().unwrap();
        if name.ends_with("rate") || name.ends_with("bandwidth") {
            check_rate(row)
        } else {
            check_latency(row)
        }
        assert!(row["fetches"].is_null(), "none of them is large: {row}");
    }
    assert_eq!(serving.terminate().await, Some(0));
}

#[tokio::test]
async fn each_measurement_has_its_own_sizes_and_the_columns_of_perftest() {
    let serving = Serving::start(&[]).await;
    let ended = run(&["perf", &serving.address, "--seconds", "0.05"], &[]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for title in ["t_typical[usec]", "99.9% percentile[usec]", "BW average[MiB/sec]"] {
        assert!(ended.out.contains(title), "{}", ended.out);
    }
    let rows = ended.out.lines().filter(|line| line.trim().starts_with(char::is_numeric));
    let rows = rows.map(|row| row.split_whitespace().collect::<Vec<_>>()).collect::<Vec<_>>();
    let sizes: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let messages = "32 1024 65536 32 32 32 1024 1024 1024 65536 1048576";
    let region = "8 4096 65536 8 4096 65536 8 8";
    let rates = "4096 4096 65536 65536 1048576 1048576";
    let of_words = "8 8 8 8";
    let expected = [messages, region, rates, rates, of_words].join(" ");
    assert_eq!(sizes.join(" "), expected, "{}", ended.out);
    let progress = ended.err.lines().filter(|line| line.contains(" bytes, "));
    assert_eq!(progress.count(), rows.len(), "{}", ended.err);
}

#[tokio::test]
async fn the_region_alone_is_measured_and_by_several_at_one_time() {
    let serving = Serving::start(&[]).await;
    let arguments = ["perf", &serving.address, "--seconds", "0.1", "--only", "region"];
    // They share its bytes and its words, and each checks the contents that it finds.
    let (one, other) = tokio::join!(run(&arguments, &[]), run(&arguments, &[]));
    for ended in [one, other] {
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let titles = ended.out.lines().filter_map(|line| line.split_once(": "));
        let titles: Vec<&str> = titles.map(|(name, _)| name).skip(1).collect();
        let times = "read write fetch_add compare_exchange";
        let rates = "read_bandwidth write_bandwidth fetch_add_rate compare_exchange_rate";
        assert_eq!(titles.join(" "), format!("{times} {rates}"), "{}", ended.out);
        for row in ["read_bandwidth: 65536 bytes, 4 tasks", "fetch_add_rate: 8 bytes, 4 tasks"] {
            assert!(ended.err.contains(row), "{}", ended.err);
        }
    }
    let least = ["perf", &serving.address, "--only", "write", "--sizes", "8193k"];
    let ended = run(&least, &[]).await;
    assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.error().contains("8389632 bytes are more than the region"), "{ended:?}");
}

#[tokio::test]
async fn large_messages_are_told_apart_by_the_way_in_which_they_came() {
    let serving = Serving::start(&[]).await;
    let options = ["--only", "ask,bandwidth", "--sizes", "127k,128k"];
    let report = measured(&serving.address, &options, &[]).await;
    let rows = report["measurements"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{report}");
    for row in rows {
        if row["bytes"] == 127 << 10 {
            assert!(row["fetches"].is_null(), "{row}");
            continue;
        }
        let with_answers = if row["measurement"] == "ask" { 2.0 } else { 1.0 };
        let messages = number(row, "/fetches/messages");
        assert_same(messages, number(row, "/iterations") * with_answers, row);
        let others = ["/fetches/fetched", "/fetches/refused"].map(|path| number(row, path));
        assert_eq!(others, [0.0, 0.0], "no device does it for TCP: {row}");
    }
    let only = ["--seconds", "0.1", "--only", "bandwidth", "--sizes", "1m"];
    let ended = run(&[&["perf", &serving.address], &only[..]].concat(), &[]).await;
    let last = ended.out.lines().last().unwrap();
    assert!(last.trim().starts_with("all ") && last.contains(" went in parts: tcp"), "{last}");
}

/// The actor of `perf serve` of a release without regions, as far as a client comes with it.
mod older {
    use std::collections::BTreeMap;

    use ringpost::prelude::*;

    #[actor(name = "ringpost::service::Desk")]
    pub(super) struct Desk;

    #[handlers]
    impl Desk {
        #[handler]
        fn counters(&self) -> Option<BTreeMap<String, u64>> {
            None
        }
    }
}

#[tokio::test]
async fn a_serving_side_without_a_region_is_an_error_of_one_sentence() {
    let older = Node::builder("older").listen("127.0.0.1:0").start().await.unwrap();
    older.spawn("desk", older::Desk).await.unwrap();
    for only in ["region", "ask,fetch_add"] {
        let ended = run(&["perf", &older.addresses()[0], "--only", only], &[]).await;
        assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{ended:?}");
        let error = ended.error();
        assert!(error.contains("older is of an older release"), "{error}");
        assert!(error.contains("shares no region: start that of this release"), "{error}");
    }
}

#[tokio::test]
async fn the_secret_and_the_encryption_are_those_of_the_environment() {
    let variables = [("RINGPOST_SECRET", SECRET), ("RINGPOST_ENCRYPTION", "required")];
    let serving = Serving::start(&variables).await;
    // The environment's addresses belong to another node, which has the port.
    let listen = ("RINGPOST_LISTEN", &*serving.address);
    let all = [&variables[..], &[listen, ("RINGPOST_ADVERTISE", &serving.address)]].concat();
    let report = measured(&serving.address, &["--only", "ask", "--sizes", "32"], &all).await;
    assert_eq!((&report["fabric"], &report["encrypted"]), (&"tcps".into(), &true.into()));

    for secret in [&[][..], &[("RINGPOST_SECRET", OTHER_SECRET)]] {
        let ended = run(&["perf", &serving.address], secret).await;
        assert_eq!((ended.code, &*ended.out), (Some(1), ""), "{ended:?}");
        let error = ended.error();
        assert!(error.contains("secrets differ") && error.contains("RINGPOST_SECRET"), "{error}");
        assert!(!error.contains(OTHER_SECRET), "{error}");
    }
}

/// Listens as a node does that speaks version 2 of the protocol only, and returns its address.
async fn old_node() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"RINGPOST\x01\x01\0\0\x02\x02").await.unwrap();
            drop(stream.read_to_end(&mut Vec::new()).await);
        }
    });
    address
}

#[tokio::test]
async fn an_address_without_a_serving_node_is_an_error_of_one_sentence() {
    let ended = run(&["perf", DEAD_ADDRESS], &[]).await;
    assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.error().contains("Connection refused"), "{ended:?}");
    assert!(ended.error().contains("start `ringpost perf serve` there"), "{ended:?}");

    let ended = run(&["perf", "no-such-name.invalid:7700"], &[]).await;
    assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.error().contains("does not resolve"), "{ended:?}");
    assert!(ended.error().contains("look at the name: a DNS server"), "{ended:?}");

    let ended = run(&["perf", &old_node().await], &[]).await;
    assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.error().contains("protocol version"), "{ended:?}");
    assert!(ended.error().contains("; run the same release of Ringpost on both"), "{ended:?}");

    let other = Node::builder("other").listen("127.0.0.1:0").start().await.unwrap();
    let ended = run(&["perf", &other.addresses()[0]], &[]).await;
    assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.error().contains("the node other at "), "{ended:?}");

    let ended = run(&["perf", "10.0.0.1:7700"], &[]).await;
    assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.error().contains("is not a loopback address"), "{ended:?}");
}

#[tokio::test]
async fn a_serving_side_that_is_killed_ends_a_measurement_with_an_error() {
    for (only, first) in [
        ("ask", "ask: 32 bytes, 1 sender"),
        ("read", "read: 8 bytes, 1 task"),
        ("write_bandwidth", "write_bandwidth: 4096 bytes, 1 task"),
        ("compare_exchange_rate", "compare_exchange_rate: 8 bytes, 1 task"),
    ] {
        let mut serving = Serving::start(&[]).await;
        let long = ["perf", &serving.address, "--only", only, "--seconds", "1000"];
        let mut child = command(&long, &[]).spawn().unwrap();
        let mut progress = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = within(progress.next_line()).await.unwrap().unwrap();
        assert!(line.starts_with(first), "{line}");
        serving.child.kill().await.unwrap();
        let error = within(progress.next_line()).await.unwrap().unwrap();
        assert!(error.starts_with("ringpost: the link to serve-"), "{error}");
        assert!(error.contains(" was lost: "), "{error}");
        assert_eq!(Ended::of(within(child.wait_with_output()).await.unwrap()).code, Some(1));
    }
}

/// Messages in flight are lost, and later ones may go over another fabric: such a row would be
/// wrong, and its counts differ.
#[tokio::test]
async fn a_link_that_is_lost_ends_a_measurement_though_it_could_be_made_again() {
    let serving = Serving::start(&[]).await;
    let long = ["perf", &serving.address, "--only", "rate", "--seconds", "1000"];
    let mut child = command(&long, &[]).spawn().unwrap();
    let mut progress = BufReader::new(child.stderr.take().unwrap()).lines();
    within(progress.next_line()).await.unwrap().unwrap();
    serving.signal("STOP").await;
    let error = within(progress.next_line()).await.unwrap().unwrap();
    serving.signal("CONT").await;
    assert!(error.starts_with("ringpost: the link to serve-"), "{error}");
    assert!(error.contains(" was lost: "), "{error}");
    assert_eq!(Ended::of(within(child.wait_with_output()).await.unwrap()).code, Some(1));
}

#[tokio::test]
async fn the_sinks_of_a_client_that_is_killed_end() {
    let variables = [("RUST_LOG", "ringpost::service=debug"), ("RINGPOST_DOWN_AFTER", "3s")];
    let mut serving = Serving::start(&variables).await;
    let long = ["perf", &serving.address, "--only", "rate", "--seconds", "1000"];
    let mut child = command(&long, &[("RINGPOST_DOWN_AFTER", "3s")]).spawn().unwrap();
    serving.logs("a measurement has begun").await;
    child.kill().await.unwrap();
    serving.logs("a measurement has ended").await;
}
