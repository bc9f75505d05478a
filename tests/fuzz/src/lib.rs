//! Fuzz targets: each takes any bytes, as a peer would send them, and may not panic.
//!
//! `tests/fuzz/run` runs libFuzzer, which looks for bytes that cause a panic; the tests here run
//! the targets on the bytes that it found before (`tests/fuzz/corpus/`), and change them at random.

mod archives;

pub use archives::archives;
use ringpost_transport::fuzz;

/// A name, and what takes the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
#[cfg(not(feature = "verbs"))]
pub const TARGETS: [Target; 6] = WITHOUT_VERBS;

/// All targets.
#[cfg(feature = "verbs")]
pub const TARGETS: [Target; 7] = {
    let [a, b, c, d, e, f] = WITHOUT_VERBS;
    [a, b, c, d, e, f, ("offers", fuzz::offers)]
};

const WITHOUT_VERBS: [Target; 6] = [
    ("frames", fuzz::frames),
    ("handshakes", fuzz::handshakes),
    ("messages", fuzz::messages),
    ("streams", fuzz::streams),
    ("seals", fuzz::seals),
    ("archives", archives),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    /// The corpus of a target.
    fn corpus(target: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        let files = std::fs::read_dir(folder).unwrap();
        files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
    }

    #[test]
    fn every_target_takes_its_corpus() {
        for (name, target) in TARGETS {
            let corpus = corpus(name);
            assert!(!corpus.is_empty(), "{name}");
            corpus.iter().for_each(|bytes| target(bytes));
        }
    }

    #[test]
    fn every_target_takes_its_corpus_with_bytes_changed() {
        for (name, target) in TARGETS {
            let corpus = corpus(name);
            let changes = proptest::collection::vec((any::<usize>(), any::<u8>()), 0..8);
            let mut runner = proptest::test_runner::TestRunner::default();
            let input = (any::<prop::sample::Index>(), changes, any::<usize>());
            runner
                .run(&input, |(file, changes, cut)| {
                    let mut bytes = file.get(&corpus).clone();
                    for (at, change) in changes {
                        let length = bytes.len().max(1);
                        if let Some(byte) = bytes.get_mut(at % length) {
                            *byte = change;
                        }
                    }
                    bytes.truncate(cut % (2 * bytes.len() + 1));
                    target(&bytes);
                    Ok(())
                })
                .unwrap_or_else(|failure| panic!("{name}: {failure}"));
        }
    }
}
