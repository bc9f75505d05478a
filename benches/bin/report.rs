//! The report at the end: a table, and for each figure one line that other programs can read.

use std::fmt::Write;

use ringpost_benches::contestant::Role;
use ringpost_benches::figure::ONE_WORKER;

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
    for (of, end) in [("idle", ""), ("supervised", ""), ("idle", "_1"), ("supervised", "_1")] {
        crowd(&mut text, results, of, end);
    }
    text.push_str("\nfigure NAME OURS FLOOR BEST_PEER RATIO_TO_FLOOR RATIO_TO_PEER\n");
    for figure in &results.figures {
        text += &line(figure);
        text.push('\n');
    }
    for (role, heading) in [
        (Role::Sealed, "sealed NAME TCPS TCP RATIO"),
        (Role::Spinning, "spinning NAME LATENCY DEFAULT RATIO"),
    ] {
        let lines: String =
            results.figures.iter().filter_map(|figure| variant_line(figure, role)).collect();
        if !lines.is_empty() {
            text += &format!("\n{heading}\n{lines}");
        }
    }
    text
}

/// Returns the lines of the README: commit, machine and times, and a row for each figure.
pub(crate) fn readme(results: &Results) -> String {
    let figures = &results.figures;
    let with_peers = figures.iter().any(|figure| figure.best_peer().is_some());
    let mut text = format!(
        "Measured at commit {} on {}; medians of {} rounds of {} s.\n\n\
         | what | Ringpost | floor | ratio |{}\n|---|---|---|---|{}\n",
        results.commit,
        results.machine,
        results.rounds,
        results.seconds,
        if with_peers { " best peer | ratio |" } else { "" },
        if with_peers { "---|---|" } else { "" },
    );
    for figure in figures {
        let ours = figure.best(Role::Ours).map(|(_, spread)| spread);
        let floor = figure.floor().map(|(_, spread)| spread.median);
        let said = |value: Option<f64>| {
            value.map_or_else(|| "-".into(), |value| with_unit(value, &figure.unit))
        };
        let (said_ours, said_floor) = (said(ours.map(|spread| spread.median)), said(floor));
        let workers = if figure.name.ends_with(ONE_WORKER) { ", one worker" } else { "" };
        let ratio_to_floor = ratio(ours, floor);
        let what = &figure.what;
        text += &format!("| {what}{workers} | {said_ours} | {said_floor} | {ratio_to_floor} |");
        if with_peers {
            let peer = figure.best_peer();
            let median = peer.map(|(_, spread)| spread.median);
            let name = peer.map_or("", |(entry, _)| entry.contestant.as_str());
            let peer = format!("{name} {}", said(median));
            text += &format!(" {} | {} |", peer.trim_start(), ratio(ours, median));
        }
        text.push('\n');
    }
    text
}

/// Formats a value with its unit, as a sentence would have it.
fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "1/s" if value >= 1e6 => format!("{:.2} M/s", value / 1e6),
        "1/s" if value >= 1e3 => {
            let whole = value.round() as u64;
            format!("{},{:03}/s", whole / 1000, whole % 1000)
        }
        "1/s" => format!("{}/s", number(value)),
        _ => format!("{} {unit}", number(value)),
    }
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
                writeln!(text, "  {name:<13} {median:>9} {spread:<24} {ratio:>6}")
            }
            (None, Some(missing)) => writeln!(text, "  {name:<13} {}", sentence(missing)),
            (None, None) => writeln!(text, "  {name:<13} no value"),
        };
    }
}

/// Adds what a crowd of actors that wait takes of each contestant, all of them together: times are
/// of the whole crowd.
fn crowd(text: &mut String, results: &Results, of: &str, end: &str) {
    let figure = |part: &str| {
        let name = format!("{of}_{part}{end}");
        results.figures.iter().find(|figure| figure.name == name)
    };
    let Some(memory) = figure("bytes") else { return };
    let actors = results.actors;
    let _ = writeln!(
        text,
        "\n{actors} {of} actors ({}): bytes of each, seconds to spawn all, seconds to end all, \
         bytes kept of each",
        memory.name
    );
    for entry in &memory.entries {
        let name = &entry.contestant;
        let median = |part: &str| {
            let entries = &figure(part)?.entries;
            let own = entries.iter().find(|entry| &entry.contestant == name)?;
            own.spread().map(|spread| spread.median)
        };
        let seconds = |part: &str| median(part).map(|each| each * actors as f64 / 1e9);
        let row = [median("bytes"), seconds("spawn"), seconds("end"), median("left")].map(known);
        let [bytes, spawn, ends, left] = row;
        let _ = writeln!(text, "  {name:<12} {bytes:>9} {spawn:>9} {ends:>9} {left:>9}");
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
    let peer = figure.best_peer().map(|(_, spread)| spread.median);
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

/// Returns the line of Ringpost with other settings beside Ringpost as it comes: the word of the
/// role, the figure, both medians and their ratio.
fn variant_line(figure: &FigureResults, role: Role) -> Option<String> {
    let (_, variant) = figure.best(role)?;
    let word = format!("{role:?}").to_lowercase();
    let ours = figure.best(Role::Ours).map(|(_, spread)| spread.median);
    let (said, ratio) = (number(variant.median), ratio(Some(variant), ours));
    Some(format!("{word} {} {said} {} {ratio}\n", figure.name, known(ours)))
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
    fn ringpost_with_other_settings_has_a_line_with_its_ratio_to_ringpost_as_it_comes() {
        let ours = entry("ringpost", Role::Ours, &[250.0]);
        let sealed = entry("ringpost-tcps", Role::Sealed, &[200.0]);
        let spinning = entry("ringpost-latency", Role::Spinning, &[500.0]);
        let all = figure(vec![ours.clone(), sealed, spinning]);
        let line = variant_line(&all, Role::Sealed);
        assert_eq!(line.unwrap(), "sealed asks_16 200 250 0.80\n");
        let line = variant_line(&all, Role::Spinning);
        assert_eq!(line.unwrap(), "spinning asks_16 500 250 2.00\n");
        assert_eq!(variant_line(&figure(vec![ours]), Role::Sealed), None);
    }

    #[test]
    fn a_row_of_the_readme_has_units_and_says_where_there_is_one_worker() {
        let floor = entry("tokio-tcp", Role::Floor, &[2_000_000.0]);
        let two = figure(vec![floor, entry("ringpost", Role::Ours, &[1_234.4])]);
        let one = FigureResults { name: "asks_16_1".into(), ..two.clone() };
        let mut results = Results::begin(1.0, 5, 1000);
        results.figures = vec![two, one];
        let text = readme(&results);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        let row = "| asks, 16 in flight | 1,234/s | 2.00 M/s | 0.00 |";
        let one_row = "| asks, 16 in flight, one worker | 1,234/s | 2.00 M/s | 0.00 |";
        let head = ["| what | Ringpost | floor | ratio |", "|---|---|---|---|"];
        assert_eq!(rows, [head[0], head[1], row, one_row]);
        results.figures[1].entries.push(entry("tarpc", Role::Peer, &[617.2]));
        assert!(readme(&results).ends_with(" | 0.00 | tarpc 617/s | 2.00 |\n"));
    }

    #[test]
    fn a_crowd_has_a_row_for_each_contestant_with_times_of_all_actors() {
        let mut results = Results::begin(1.0, 1, 2_000_000);
        for (part, value) in [("bytes", 700.0), ("spawn", 500.0), ("end", 250.0), ("left", 1.5)] {
            let name = format!("supervised_{part}_1");
            let ours = entry("ringpost", Role::Ours, &[value]);
            results.figures.push(FigureResults { name, ..figure(vec![ours]) });
        }
        let mut text = String::new();
        crowd(&mut text, &results, "supervised", "");
        assert_eq!(text, "");
        crowd(&mut text, &results, "supervised", "_1");
        let row = text.lines().last().unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(row, ["ringpost", "700", "1.00", "0.500", "1.50"]);
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
