//! The report at the end: a table, and for each figure one line that other programs can read.

use std::fmt::Write;

use ringpost_benches::contestant::Role;

use crate::results::{Entry, FigureResults, Missing, Results, Spread};

/// Returns the whole report.
pub(crate) fn text(results: &Results) -> String {
    let mut text = format!(
        "\ncommit {}; {}; load before {}; {} rounds of {} s; median (least to greatest), x floor\n",
        results.commit, results.machine, results.load, results.rounds, results.seconds
    );
    for figure in &results.figures {
        block(&mut text, figure);
    }
    text.push_str("\nfigure NAME OURS FLOOR BEST_PEER RATIO_TO_FLOOR RATIO_TO_PEER\n");
    for figure in &results.figures {
        text += &line(figure);
        text.push('\n');
    }
    text
}

/// Adds one figure with all its contestants to the table.
fn block(text: &mut String, figure: &FigureResults) {
    let better = format!("{:?}", figure.better).to_lowercase();
    // Writing to a string never fails.
    let _ =
        writeln!(text, "\n{}: {}, {}, {better} is better", figure.name, figure.what, figure.unit);
    let floor = figure.floor().map(|(_, spread)| spread.median);
    for entry in &figure.entries {
        let name = &entry.contestant;
        let _ = match (entry.spread(), &entry.missing) {
            (Some(Spread { median, min, max }), _) => {
                let (median, min, max) = (number(median), number(min), number(max));
                let ratio = ratio(entry.spread(), floor);
                let spread = format!("({min} to {max})");
                writeln!(text, "  {name:<12} {median:>9} {spread:<24} {ratio:>6}")
            }
            (None, Some(missing)) => writeln!(text, "  {name:<12} {}", sentence(missing)),
            (None, None) => writeln!(text, "  {name:<12} no value"),
        };
    }
}

fn sentence(missing: &Missing) -> String {
    match missing {
        Missing::Refused(why) => format!("refused: {why}"),
        Missing::Failed(why) => format!("FAILED: {why}"),
        Missing::Tool(why) => format!("left out: {why}"),
    }
}

/// Returns the line `figure NAME OURS FLOOR BEST_PEER RATIO_TO_FLOOR RATIO_TO_PEER`.
fn line(figure: &FigureResults) -> String {
    let ours = figure.entries.iter().find(|entry| entry.role == Role::Ours);
    let spread = ours.and_then(Entry::spread);
    let floor = figure.floor().map(|(_, spread)| spread.median);
    let peer = figure.best(Role::Peer).map(|(_, spread)| spread.median);
    let said = match ours.and_then(|entry| entry.missing.as_ref()) {
        Some(Missing::Refused(_)) => "refused".into(),
        Some(Missing::Failed(_)) => "failed".into(),
        _ => known(spread.map(|spread| spread.median)),
    };
    format!(
        "figure {} {said} {} {} {} {}",
        figure.name,
        known(floor),
        known(peer),
        ratio(spread, floor),
        ratio(spread, peer)
    )
}

fn known(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), number)
}

/// Returns the median divided by the value that it is compared with.
fn ratio(spread: Option<Spread>, to: Option<f64>) -> String {
    match (spread, to) {
        (Some(spread), Some(to)) if to != 0.0 => format!("{:.2}", spread.median / to),
        _ => "-".into(),
    }
}

/// Formats a number with about three significant digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use ringpost_benches::figure::Better;

    use super::*;

    fn entry(contestant: &str, role: Role, values: &[f64]) -> Entry {
        Entry {
            contestant: contestant.into(),
            role,
            reference: role == Role::Floor,
            values: values.to_vec(),
            missing: None,
        }
    }

    fn figure(entries: Vec<Entry>) -> FigureResults {
        let (name, what, unit) = ("asks_16".into(), "asks, 16 in flight".into(), "1/s".into());
        FigureResults { name, what, unit, better: Better::More, entries }
    }

    #[test]
    fn a_line_has_ratios_to_the_floor_and_to_the_best_peer() {
        let entries = vec![
            entry("tokio-tcp", Role::Floor, &[200.0]),
            entry("ringpost", Role::Ours, &[300.0, 100.0, 250.0]),
            entry("tarpc", Role::Peer, &[125.0]),
            entry("tonic", Role::Peer, &[50.0]),
        ];
        assert_eq!(line(&figure(entries)), "figure asks_16 250 200 125 1.25 2.00");
    }

    #[test]
    fn a_line_has_a_dash_for_what_is_not_there() {
        let mut ours = entry("ringpost", Role::Ours, &[]);
        ours.missing = Some(Missing::Refused("too large".into()));
        let floor = entry("tokio-tcp", Role::Floor, &[200.0]);
        let line = line(&figure(vec![floor.clone(), ours]));
        assert_eq!(line, "figure asks_16 refused 200 - - -");
        assert_eq!(super::line(&figure(vec![floor])), "figure asks_16 - 200 - - -");
    }
}
