//! Hardware counters of the machine's adapters: `hw_counters` of each port, as Linux shows them.

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::path::Path;

/// Where Linux shows its RDMA devices.
pub(crate) const DEVICES: &str = "/sys/class/infiniband";

/// Counts by `device/port/counter`.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Reads the counters of all devices in `folder`; `None` where there is no device.
pub(crate) fn read(folder: &Path) -> Option<Counts> {
    let devices = names(folder);
    let mut counts = Counts::new();
    for device in &devices {
        let ports = folder.join(device).join("ports");
        for port in names(&ports) {
            let counters = ports.join(&port).join("hw_counters");
            for counter in names(&counters) {
                // A setting, the milliseconds for which the others are kept.
                let is_count = counter != "lifespan";
                let text = read_to_string(counters.join(&counter)).unwrap_or_default();
                if let (true, Ok(count)) = (is_count, text.trim().parse()) {
                    counts.insert(format!("{device}/{port}/{counter}"), count);
                }
            }
        }
    }
    (!devices.is_empty()).then_some(counts)
}

/// Returns by how much each counter has changed that has.
pub(crate) fn deltas(before: &Counts, after: &Counts) -> BTreeMap<String, i64> {
    let deltas = after.iter().map(|(name, count)| {
        let earlier = before.get(name).copied().unwrap_or_default();
        (name.clone(), count.wrapping_sub(earlier).cast_signed())
    });
    deltas.filter(|(_, delta)| *delta != 0).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
