//! Runs the target that `RINGPOST_FUZZ` names under libFuzzer; `tests/fuzz/run` does so for each. A
//! build with planted bugs plants the bug that `RINGPOST_MUTANT` names, to see it found.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::{Corpus, fuzz_target};

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| -> Corpus {
    TARGET.get_or_init(chosen)(bytes);
    Corpus::Keep
});

fn chosen() -> fn(&[u8]) {
    #[cfg(feature = "mutants")]
    ringpost_transport::mutants::plant(Some(planted()));
    let name = std::env::var("RINGPOST_FUZZ").unwrap_or_default();
    let target = ringpost_fuzz::TARGETS.iter().find(|(target, _)| *target == name);
    let names = ringpost_fuzz::TARGETS.map(|(target, _)| target);
    target.unwrap_or_else(|| panic!("RINGPOST_FUZZ is none of {names:?}")).1
}

#[cfg(feature = "mutants")]
fn planted() -> ringpost_transport::mutants::Mutant {
    use ringpost_transport::mutants::Mutant;
    match std::env::var("RINGPOST_MUTANT").unwrap_or_default().as_str() {
        "UncheckedLength" => Mutant::UncheckedLength,
        "SkippedForgery" => Mutant::SkippedForgery,
        other => panic!("RINGPOST_MUTANT is no bug for the fuzzer: {other}"),
    }
}
