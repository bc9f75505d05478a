//! The picture: the speed of each contestant as a bar, in multiples of the floor.

use std::fs;
use std::path::Path;

use ringpost_benches::Failure;
use ringpost_benches::contestant::Role;
use ringpost_benches::figure::Better;

use crate::results::{Entry, FigureResults, Results};
use crate::svg::{Anchor, Svg};

/// The figures that are drawn, where they were measured.
const DRAWN: [&str; 15] = [
    "ask_32",
    "ask_32_awake",
    "ask_1k_awake",
    "asks_16",
    "asks_128",
    "asks_1024",
    "tells_32",
    "tells_1k",
    "echo_64k",
    "tell_1m",
    "ask_1m",
    "tell_64m",
    "ask_64m",
    "local_tell",
    "local_ask",
];

/// The contestants, their names in the legend, and their colours, which colour-blind readers can
/// tell apart.
const COLOURS: [(&str, &str, &str); 7] = [
    ("ringpost", "Ringpost", "#d55e00"),
    ("ractor", "ractor, ractor_cluster", "#0072b2"),
    ("kameo", "kameo", "#56b4e9"),
    ("actix", "actix", "#cc79a7"),
    ("xtra", "xtra", "#999999"),
    ("tarpc", "tarpc", "#009e73"),
    ("tonic", "tonic", "#e6b800"),
];

/// Lengths in pixels: the whole width, the start and end of bars, and heights.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 215.0;
const RIGHT: f64 = 830.0;
const BAR: f64 = 11.0;
const GAP: f64 = 10.0;
const TOP: f64 = 84.0;
const BELOW: f64 = 44.0;

/// The ends of the axis: multiples of the floor, drawn by their logarithm.
const AXIS: (f64, f64) = (0.005, 4.0);
const TICKS: [f64; 8] = [0.01, 0.03, 0.1, 0.3, 0.5, 1.0, 2.0, 4.0];

/// Draws the results to a file.
pub(crate) fn draw(results: &Results, path: &Path) -> Result<(), Failure> {
    let drawn = picture(results).ok_or_else(|| {
        Failure::Failed(format!(
            "there is nothing to draw: none of {} has a floor",
            DRAWN.join(", ")
        ))
    })?;
    fs::write(path, drawn)
        .map_err(|error| Failure::Failed(format!("{} cannot be written: {error}", path.display())))
}

/// A bar: a contestant's colour, its speed in multiples of the floor, and the label at its end.
struct Bar {
    colour: &'static str,
    speed: f64,
    label: String,
}

/// Returns the picture, or `None` when there is nothing to draw.
fn picture(results: &Results) -> Option<String> {
    let figures = DRAWN.iter().filter_map(|name| results.figures.iter().find(|f| f.name == *name));
    let rows: Vec<(&FigureResults, Vec<Bar>)> =
        figures.map(|figure| (figure, bars(figure))).filter(|(_, bars)| !bars.is_empty()).collect();
    let count: usize = rows.iter().map(|(_, bars)| bars.len()).sum();
    if count == 0 {
        return None;
    }
    let bottom = TOP + count as f64 * BAR + rows.len() as f64 * GAP;
    let mut svg = Svg::new(WIDTH, bottom + BELOW);
    head(&mut svg, results);
    axis(&mut svg, bottom);
    let mut y = TOP + GAP / 2.0;
    for (figure, bars) in rows {
        let middle = y + bars.len() as f64 * BAR / 2.0 + 4.0;
        svg.words((LEFT - 10.0, middle), Anchor::End, 12, &figure.what);
        for bar in bars {
            let end = position(bar.speed);
            svg.rectangle((LEFT, y), (end - LEFT, BAR - 1.5), bar.colour);
            svg.words((end + 4.0, y + BAR - 2.5), Anchor::Start, 9, &bar.label);
            y += BAR;
        }
        y += GAP;
    }
    Some(svg.finish())
}

/// Returns the bars of a figure: Ringpost's and the peers'.
fn bars(figure: &FigureResults) -> Vec<Bar> {
    let Some((_, floor)) = figure.floor() else { return Vec::new() };
    let shown = |entry: &&Entry| matches!(entry.role, Role::Ours | Role::Peer);
    let entries = figure.entries.iter().filter(shown);
    let bars = entries.filter_map(|entry| {
        let median = entry.spread()?.median;
        let speed = match figure.better {
            Better::Less => floor.median / median,
            Better::More => median / floor.median,
        };
        let colour = COLOURS.iter().find(|(name, ..)| *name == entry.contestant)?.2;
        let decimals = if speed < 0.1 { 3 } else { 2 };
        Some(Bar { colour, speed, label: format!("{speed:.decimals$}") })
    });
    bars.collect()
}

/// Returns the horizontal position of a multiple of the floor.
fn position(speed: f64) -> f64 {
    let (low, high) = (AXIS.0.ln(), AXIS.1.ln());
    let share = (speed.clamp(AXIS.0, AXIS.1).ln() - low) / (high - low);
    LEFT + share * (RIGHT - LEFT)
}

/// Adds the title and the legend.
fn head(svg: &mut Svg, results: &Results) {
    svg.words((20.0, 26.0), Anchor::Start, 16, "Speed beside the floor: a longer bar is faster");
    let about = format!(
        "1 is the floor: bare tokio over loopback TCP, or tokio's channels for what is local. \
         Medians of {} rounds, commit {}",
        results.rounds, results.commit
    );
    svg.words((20.0, 44.0), Anchor::Start, 12, &about);
    let mut x = 20.0;
    for (name, shown, colour) in COLOURS {
        let mut entries = results.figures.iter().flat_map(|figure| &figure.entries);
        if entries.any(|entry| entry.contestant == name) {
            svg.rectangle((x, 56.0), (12.0, 12.0), colour);
            svg.words((x + 17.0, 66.0), Anchor::Start, 12, shown);
            x += 50.0 + shown.len() as f64 * 6.5;
        }
    }
}

/// Adds the axis: a line for each multiple of the floor in `TICKS`.
fn axis(svg: &mut Svg, bottom: f64) {
    for tick in TICKS {
        let x = position(tick);
        svg.upright(x, (TOP, bottom), if tick == 1.0 { "#000" } else { "#ddd" });
        svg.words((x, bottom + 16.0), Anchor::Middle, 12, &tick.to_string());
    }
    let middle = (LEFT + RIGHT) / 2.0;
    let scale = "multiples of the floor, on a logarithmic scale";
    svg.words((middle, bottom + 34.0), Anchor::Middle, 12, scale);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Entry;

    fn results(better: Better) -> Results {
        let entry = |contestant: &str, role, value| Entry {
            contestant: contestant.into(),
            role,
            reference: role == Role::Floor,
            values: vec![value],
            missing: None,
        };
        Results {
            commit: "abc".into(),
            machine: String::new(),
            seconds: 1.0,
            rounds: 5,
            actors: 100_000,
            load: String::new(),
            figures: vec![FigureResults {
                name: "ask_32".into(),
                what: "ask, < 1 KiB".into(),
                unit: "us".into(),
                better,
                entries: vec![
                    entry("tokio-tcp", Role::Floor, 20.0),
                    entry("ringpost", Role::Ours, 40.0),
                    entry("tarpc", Role::Peer, 200.0),
                ],
            }],
        }
    }

    #[test]
    fn a_bar_is_longer_for_what_is_faster() {
        let times = bars(&results(Better::Less).figures[0]);
        assert_eq!(
            times.iter().map(|bar| bar.label.as_str()).collect::<Vec<_>>(),
            ["0.50", "0.10"]
        );
        let rates = bars(&results(Better::More).figures[0]);
        assert_eq!(
            rates.iter().map(|bar| bar.label.as_str()).collect::<Vec<_>>(),
            ["2.00", "10.00"]
        );
        assert!(position(0.5) < position(1.0) && position(1e9) == RIGHT && position(0.0) == LEFT);
    }

    #[test]
    fn a_picture_names_the_contestants_and_figures_that_it_shows() {
        let svg = picture(&results(Better::Less)).unwrap();
        assert!(
            svg.contains("ask, &lt; 1 KiB") && svg.contains("Ringpost") && svg.contains("tarpc")
        );
        assert!(!svg.contains("kameo") && svg.ends_with("</svg>\n"));
        let nothing = Results { figures: Vec::new(), ..results(Better::Less) };
        assert_eq!(picture(&nothing), None);
    }
}
