//! A run: each round measures every contestant once, in turn, each in fresh processes.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ringpost_benches::Failure;
use ringpost_benches::contestant::{Contestant, Role};
use ringpost_benches::figure::Measurement;

use crate::cost;
use crate::groups;
use crate::process::finish;
use crate::results::{Entry, Missing, Results};
use crate::select::Selection;

/// The contestants, measurements and options of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) selection: Selection,
    /// Seconds of each measurement.
    pub(crate) seconds: f64,
    pub(crate) rounds: usize,
    /// Actors of the figures of idle actors.
    pub(crate) actors: usize,
    /// The program that holds the peers.
    pub(crate) peers: Option<PathBuf>,
}

/// The outcome of one measurement: its values, or the reason why there are none.
type Outcome = Result<Vec<f64>, Missing>;

/// Measures all rounds. Prints each value on standard error as it comes.
pub(crate) fn run(plan: &Plan) -> Result<Results, Failure> {
    let mut results = Results::begin(plan.seconds, plan.rounds, plan.actors);
    for round in 1..=plan.rounds {
        for measurement in &plan.selection.measurements {
            let measurement = &measurement.clone().with_actors(plan.actors);
            if round > 1 && !measurement.is_timed() {
                continue;
            }
            for contestant in &plan.selection.contestants {
                if !contestant.takes_part(measurement) {
                    continue;
                }
                let outcome = measure(plan, contestant, measurement)?;
                tell(plan, round, contestant, measurement, &outcome);
                record(&mut results, contestant, measurement, outcome);
            }
        }
    }
    Ok(results)
}

fn tell(
    plan: &Plan,
    round: usize,
    contestant: &Contestant,
    measurement: &Measurement,
    outcome: &Outcome,
) {
    let said = match outcome {
        Ok(values) => {
            let figures = measurement.figures();
            let values = values.iter().zip(&figures);
            let values: Vec<String> =
                values.map(|(value, figure)| format!("{value:.2} {}", figure.unit)).collect();
            values.join(", ")
        }
        Err(Missing::Refused(why)) => format!("refused: {why}"),
        Err(Missing::Failed(why)) => format!("FAILED: {why}"),
        Err(Missing::Tool(why)) => format!("left out: {why}"),
    };
    let (name, rounds) = (contestant.name, plan.rounds);
    eprintln!("round {round}/{rounds}  {:<26} {name:<13} {said}", measurement.name);
}

fn record(
    results: &mut Results,
    contestant: &Contestant,
    measurement: &Measurement,
    outcome: Outcome,
) {
    for (at, figure) in measurement.figures().iter().enumerate() {
        let entries = &mut results.figure(figure).entries;
        let known = entries.iter().position(|entry| entry.contestant == contestant.name);
        let known = known.unwrap_or_else(|| {
            entries.push(Entry {
                contestant: contestant.name.into(),
                role: contestant.role,
                reference: contestant.is_floor_of(measurement),
                values: Vec::new(),
                missing: None,
            });
            entries.len() - 1
        });
        match &outcome {
            Ok(values) => entries[known].values.extend(values.get(at)),
            Err(missing) => entries[known].missing = Some(missing.clone()),
        }
    }
}

fn measure(
    plan: &Plan,
    contestant: &Contestant,
    measurement: &Measurement,
) -> Result<Outcome, Failure> {
    if !measurement.is_timed() {
        return cost::measure(contestant.name, measurement);
    }
    if let Some(how) = groups::missing(contestant, measurement)? {
        return Ok(Err(Missing::Tool(how)));
    }
    let program = match (&plan.peers, contestant.role) {
        (Some(peers), Role::Peer) => peers.clone(),
        (None, Role::Peer) => return Ok(Err(Missing::Tool("no program with peers".into()))),
        _ => std::env::current_exe()?,
    };
    let mut command = Command::new(program);
    command.args(["measure", contestant.name, &measurement.name]);
    command.args(["--seconds", &plan.seconds.to_string()]);
    command.args(["--actors", &plan.actors.to_string()]);
    let time = Duration::from_secs_f64(plan.seconds);
    Ok(finish(command, measurement.patience(time))?.and_then(|output| values(&output)))
}

/// Reads the values that a child has printed.
fn values(output: &str) -> Outcome {
    let mut values = Vec::new();
    for line in output.lines() {
        match line.split_once(' ') {
            Some(("refused", why)) => return Err(Missing::Refused(why.into())),
            Some(("value", rest)) => {
                let value = rest.rsplit(' ').next().and_then(|value| value.parse().ok());
                values.push(
                    value
                        .filter(|value: &f64| value.is_finite())
                        .ok_or_else(|| Missing::Failed(format!("it printed `{line}`")))?,
                );
            }
            _ => return Err(Missing::Failed(format!("it printed `{line}`"))),
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_prints_is_read() {
        assert_eq!(values("value a 1.5\nvalue b 2\n"), Ok(vec![1.5, 2.0]));
        assert_eq!(values("refused too large\n"), Err(Missing::Refused("too large".into())));
        assert!(values("value a x\n").is_err() && values("value a NaN\n").is_err());
        assert!(values("hello\n").is_err());
    }
}
