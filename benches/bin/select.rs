//! The selection that `--only` makes.

use std::collections::BTreeSet;

use ringpost_benches::Failure;
use ringpost_benches::contestant::{Contestant, Role, contestants};
use ringpost_benches::figure::{Measurement, measurements};

/// The contestants and measurements of a run.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) contestants: Vec<Contestant>,
    pub(crate) measurements: Vec<Measurement>,
}

/// Selects by words: names of contestants or groups of them narrow the contestants, names of
/// figures or groups of them narrow the figures. No words select everything.
pub(crate) fn select(words: &[String]) -> Result<Selection, Failure> {
    let (mut who, mut what) = (BTreeSet::new(), BTreeSet::new());
    for word in words {
        let named: Vec<&str> =
            contestants().iter().filter(|c| stands_for(word, c)).map(|c| c.name).collect();
        let measured: Vec<String> = measurements()
            .into_iter()
            .filter(|measurement| gives(measurement, word))
            .map(|measurement| measurement.name)
            .collect();
        if named.is_empty() && measured.is_empty() {
            return Err(unknown(word));
        }
        who.extend(named);
        what.extend(measured);
    }
    let contestants = contestants().into_iter().filter(|c| who.is_empty() || who.contains(c.name));
    let contestants: Vec<Contestant> = contestants.collect();
    let mut measurements = measurements();
    measurements.retain(|measurement| {
        let wanted = what.is_empty() || what.contains(&measurement.name);
        wanted && contestants.iter().any(|contestant| contestant.takes_part(measurement))
    });
    Ok(Selection { contestants, measurements })
}

fn stands_for(word: &str, contestant: &Contestant) -> bool {
    let group = match contestant.role {
        Role::Floor => "floors",
        Role::Ours => "ringpost",
        Role::Sealed => "ringpost-tcps",
        Role::Spinning => "ringpost-latency",
        Role::Peer => "peers",
        Role::Mpi => "mpi",
    };
    word == group || word == contestant.name
}

fn gives(measurement: &Measurement, word: &str) -> bool {
    measurement.group == word || measurement.figures().iter().any(|figure| figure.name == word)
}

/// Returns the error of an unknown word; it names the list of words.
fn unknown(word: &str) -> Failure {
    Failure::Failed(format!("--only: there is no `{word}`; benches/run --help lists what there is"))
}

#[cfg(test)]
mod tests {
    use ringpost_benches::figure::ONE_WORKER;

    use super::*;

    #[test]
    fn the_help_of_the_script_names_every_contestant_and_every_figure() {
        let help = include_str!("../run").split("HELP").nth(1).unwrap_or_default();
        let words: BTreeSet<&str> =
            help.split([' ', ',', ';', ':', '\n', '(', ')']).map(|word| word.trim()).collect();
        let names = contestants().into_iter().map(|contestant| contestant.name.to_owned());
        let figures = measurements()
            .into_iter()
            .filter(|of| of.workers == 2 || !of.name.ends_with(ONE_WORKER));
        let names = names.chain(figures.flat_map(|of| [of.name, of.group.to_owned()]));
        let missing: Vec<String> = names.filter(|name| !words.contains(name.as_str())).collect();
        assert_eq!(missing, Vec::<String>::new());
    }

    fn selected(words: &[&str]) -> (usize, Vec<String>) {
        let words: Vec<String> = words.iter().map(|word| (*word).into()).collect();
        let selection = select(&words).unwrap();
        let names = selection.measurements.into_iter().map(|of| of.name).collect();
        (selection.contestants.len(), names)
    }

    #[test]
    fn words_narrow_contestants_and_figures_each_for_themselves() {
        let (all, figures) = (contestants().len(), measurements().len());
        assert_eq!(selected(&[]).0, all);
        assert_eq!(selected(&[]).1.len(), figures);
        assert_eq!(selected(&["ringpost"]), (1, selected(&[]).1));
        assert_eq!(selected(&["ask_32"]), (all, vec!["ask_32".into()]));
        assert_eq!(selected(&["ask_32_cpu", "ringpost"]), (1, vec!["ask_32".into()]));
        assert_eq!(selected(&["xtra", "local_ask", "ask_32"]), (1, vec!["local_ask".into()]));
    }

    #[test]
    fn a_word_that_selects_nothing_is_refused() {
        let error = select(&["asc_32".into()]).unwrap_err().to_string();
        assert!(error.contains("`asc_32`"), "{error}");
    }
}
