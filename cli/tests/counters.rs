//! The hardware counters of devices, read from a folder that looks like Linux's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "../src/counters.rs"]
mod source;

use source::{deltas, read};

/// A folder of devices; deleted when dropped.
struct Devices(PathBuf);

impl Devices {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).unwrap();
        Devices(folder)
    }

    fn count(&self, counter: &str, text: &str) {
        let (port, name) = counter.rsplit_once('/').unwrap();
        let (device, port) = port.split_once('/').unwrap();
        let folder = self.0.join(device).join("ports").join(port).join("hw_counters");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), text).unwrap();
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn a_machine_without_a_device_has_no_counters() {
    let devices = Devices::new("no-devices");
    assert_eq!(read(&devices.0), None);
    assert_eq!(read(&devices.0.join("missing")), None);
    assert_eq!(source::DEVICES, "/sys/class/infiniband");
}

#[test]
fn what_has_changed_is_told_by_device_port_and_counter() {
    let devices = Devices::new("devices");
    devices.count("mlx5_0/1/out_of_sequence", "7\n");
    devices.count("mlx5_0/1/lifespan", "10\n");
    devices.count("mlx5_0/2/packet_seq_err", "3\n");
    devices.count("mlx5_1/1/odd", "no number\n");
    let before = read(&devices.0).expect("there are devices");
    assert_eq!(before.len(), 2, "{before:?}");
    devices.count("mlx5_0/1/out_of_sequence", "12\n");
    devices.count("mlx5_0/2/packet_seq_err", "1\n");
    devices.count("mlx5_1/1/duplicate_request", "2\n");
    devices.count("mlx5_0/1/lifespan", "20\n");
    let changed = deltas(&before, &read(&devices.0).expect("there are devices"));
    let expected = [
        ("mlx5_0/1/out_of_sequence".to_owned(), 5),
        ("mlx5_0/2/packet_seq_err".to_owned(), -2),
        ("mlx5_1/1/duplicate_request".to_owned(), 2),
    ];
    assert_eq!(changed, BTreeMap::from(expected));
}
