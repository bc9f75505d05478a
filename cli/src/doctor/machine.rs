//! Examines a machine for RDMA: its devices, the fabric of its links, how to get missing parts.
//!
//! Useful without RDMA, and without the feature `verbs`, too.

use std::fs::{read_dir, read_to_string};
use std::io;
use std::path::Path;

use ringpost::net::Profile;

use super::report::{Line, Report};

/// Reports all of it. Returns what links would use, in words.
///
/// # Errors
/// When standard output is closed.
pub(super) fn examine(report: &mut Report) -> io::Result<String> {
    let (found, verdict) = verbs();
    let verdict = format!("links would use {verdict}");
    for (title, lines) in [
        ("devices of this machine", devices()),
        ("kernel", kernel()),
        ("limits of this process", limits()),
        ("what ringpost finds", found),
        (&verdict, caveat(&verdict)),
        ("which of them are encrypted", encryption(&verdict)),
    ] {
        report.section(title)?;
        lines.into_iter().try_for_each(|line| report.line(line))?;
    }
    Ok(verdict)
}

/// Returns what a reader of this verdict has to know before links by verbs are relied upon.
fn caveat(verdict: &str) -> Vec<Line> {
    let caveat = "Ringpost's verbs were run on SoftRoCE only, never on an adapter: before a \
                  program relies on one, run the steps of docs/RDMA.md";
    is_by_verbs(verdict).then(|| caveat.into()).into_iter().collect()
}

fn is_by_verbs(verdict: &str) -> bool {
    verdict.starts_with("links would use verbs")
}

/// Returns the fabrics that a node uses here, by where the other node is, and whether each of them
/// is encrypted.
fn encryption(verdict: &str) -> Vec<Line> {
    let setting = std::env::var("RINGPOST_ENCRYPTION").unwrap_or_default();
    let verbs = if is_by_verbs(verdict) { "verbs: not encrypted; " } else { "" };
    let (here, there) = match setting.as_str() {
        "required" => ("tcps: encrypted".into(), "tcps: encrypted".into()),
        "off" => (
            format!("{verbs}tcp: not encrypted"),
            format!("{verbs}tcp: not encrypted; tcps, encrypted, where the other node insists"),
        ),
        _ => (format!("{verbs}tcp: not encrypted"), format!("{verbs}tcps: encrypted")),
    };
    let says = match setting.as_str() {
        "" => "not set: `default`",
        set => set,
    };
    vec![
        format!("RINGPOST_ENCRYPTION: {says} (`NodeBuilder::encryption` comes before it)").into(),
        format!("to a node on this machine, over loopback: {here}").into(),
        format!("to a node on another machine: {there}").into(),
    ]
}

/// The names in a folder, sorted; none where it does not exist.
fn names(folder: &str) -> Vec<String> {
    let entries = read_dir(folder).into_iter().flatten().flatten();
    let mut names =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>();
    names.sort();
    names
}

/// Lists the devices as the kernel shows them: this needs no library.
fn devices() -> Vec<Line> {
    const FOLDER: &str = "/sys/class/infiniband";
    let mut lines = Vec::new();
    for device in names(FOLDER) {
        for port in names(&format!("{FOLDER}/{device}/ports")) {
            let read = |what| {
                let path = format!("{FOLDER}/{device}/ports/{port}/{what}");
                read_to_string(path).unwrap_or_default().trim().to_owned()
            };
            let [layer, state, rate] = ["link_layer", "state", "rate"].map(read);
            lines.push(format!("{device} port {port}: {layer}, {state}, {rate}").into());
        }
    }
    if lines.is_empty() {
        let remedy = "an adapter and its driver; or, to try it, software: \
                      `modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0`";
        lines.push(Line::lack("no RDMA device", remedy));
    }
    lines
}

fn kernel() -> Vec<Line> {
    let mut lines = Vec::new();
    for (module, why) in [("ib_core", "RDMA at all"), ("ib_uverbs", "RDMA for programs")] {
        if Path::new("/sys/module").join(module).exists() {
            lines.push(format!("{module}: loaded ({why})").into());
        } else {
            lines.push(Line::lack(
                format!("{module} is not loaded ({why})"),
                &format!("`modprobe {module}`; in a container, on its host"),
            ));
        }
    }
    let nodes = names("/dev/infiniband").into_iter().filter(|name| name.starts_with("uverbs"));
    let nodes = nodes.collect::<Vec<_>>();
    for node in &nodes {
        let path = format!("/dev/infiniband/{node}");
        match std::fs::OpenOptions::new().read(true).write(true).open(&path) {
            Ok(_) => lines.push(format!("{path}: may be opened").into()),
            Err(error) => lines.push(Line::lack(
                format!("{path}: {error}"),
                "the package rdma-core brings the udev rules that let every user open it",
            )),
        }
    }
    if nodes.is_empty() {
        lines.push(Line::lack(
            "no /dev/infiniband/uverbs*",
            "a device and ib_uverbs make it; a container needs `--device /dev/infiniband`",
        ));
    }
    lines
}

/// Returns the bytes that a link locks: two receive buffers and one send slot per slot of the ring.
fn locked_bytes(profile: &Profile) -> u64 {
    3 * u64::from(profile.ring_slots) * u64::from(profile.slot_bytes)
}

fn limits() -> Vec<Line> {
    let text = read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()).unwrap_or("unknown").to_owned()
    };
    let [default, small] = [Profile::default(), Profile::small()].map(|it| locked_bytes(&it));
    let memory = soft("Max locked memory");
    let mut lines = Vec::new();
    match memory.parse::<u64>() {
        Ok(bytes) => {
            let peers = [bytes / default, bytes / small];
            let fits = format!(
                "memory that may be locked: {bytes} bytes, enough for RDMA links to {} peers \
                 ({} with the profile `small`)",
                peers[0], peers[1]
            );
            let remedy = "`ulimit -l unlimited`, `LimitMEMLOCK=infinity` in systemd, or \
                          /etc/security/limits.conf";
            lines.push(if peers[0] < 16 { Line::lack(fits, remedy) } else { fits.into() });
        }
        Err(_) => lines.push(format!("memory that may be locked: {memory}").into()),
    }
    let files = soft("Max open files");
    lines.push(format!("open files: {files} (a link over RDMA takes four)").into());
    lines
}

#[cfg(feature = "verbs")]
fn verbs() -> (Vec<Line>, String) {
    use ringpost::net::{Entropy, Survey, VerbsConfig, VerbsFabric};

    let config = VerbsConfig::default();
    let survey = Survey::new(&config);
    let found = survey.to_string().lines().map(Line::from).collect();
    let verdict = match VerbsFabric::new(config, Entropy::os()) {
        Ok(fabric) => {
            format!("verbs on {}, and tcp where the peer has none", fabric.devices().join(", "))
        }
        Err(why) => format!("tcp: {why}"),
    };
    (found, verdict)
}

#[cfg(not(feature = "verbs"))]
fn verbs() -> (Vec<Line>, String) {
    let remedy = "install libibverbs-dev librdmacm-dev libclang-14-dev clang-14 pkg-config, and \
                  build with `--features verbs`";
    let missing = Line::lack("this build has no feature `verbs`", remedy);
    (vec![missing], "tcp: this build has no feature `verbs`".into())
}
