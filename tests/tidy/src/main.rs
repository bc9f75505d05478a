//! Holds the source tree to the rules of the house and reports every place that breaks one.
//!
//! `tests/run tidy` runs it. With `--tighten` it lowers the budgets to the numbers of the tree, and
//! with `--english PATH` it lists the hard lines of the files below that path.
//!
//! Each rule has its own check, with tests that plant violations. In reading order: `tree` and
//! `tokens` (the input), `finding` (the output), then the checks: `cycles` (on `modules` and
//! `imports`), `layers`, `sizes`, `safety`, `sharing`, `invariants`, `promises`, `logs`, `docs`,
//! `bans`, `errors`, `manifests`, `reserved`, `budget` (on `counts` and `english`).

mod bans;
mod budget;
mod counts;
mod cycles;
mod docs;
mod english;
mod errors;
mod finding;
mod imports;
mod invariants;
mod layers;
mod logs;
mod manifests;
mod markdown;
mod modules;
mod promises;
mod reserved;
mod safety;
mod sharing;
mod sizes;
mod tokens;
mod tree;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use crate::english::HardLine;
use crate::finding::{Finding, Rule};
use crate::tree::Tree;

const RULES: [Rule; 23] = [
    Rule {
        name: "no import cycles",
        why: "A module can be read and tested after those it uses, and before those that use it.",
        check: cycles::no_cycles,
    },
    Rule {
        name: "no lost files",
        why: "A file that no module names is not compiled, so nothing in it is true.",
        check: cycles::no_orphans,
    },
    Rule {
        name: "layer words",
        why: "The transport serves any user, the runtime runs on any fabric; words leak first.",
        check: layers::words,
    },
    Rule {
        name: "layer borders",
        why: "The protocol is a pure state machine; one module alone talks to the layer below.",
        check: layers::borders,
    },
    Rule {
        name: "sizes",
        why: "A file is one noun, a function one screen: what is larger hides more than one thing.",
        check: sizes::sizes,
    },
    Rule {
        name: "list of what is shared without a lock",
        why: "An order of events that nobody thought of is found by a model, not by a test.",
        check: sharing::sharing,
    },
    Rule {
        name: "map of unsafe code",
        why: "Who audits memory safety reads docs/SAFETY.md and the files it lists, and no others.",
        check: safety::map,
    },
    Rule {
        name: "reasons of unsafe code",
        why: "An unsafe block is a claim; the comment is what a reader can prove wrong.",
        check: safety::reasons,
    },
    Rule {
        name: "invariants",
        why: "A rule is written once, where it is kept; what relies on it says so by its tag.",
        check: invariants::invariants,
    },
    Rule {
        name: "documents name real files",
        why: "A document that points at what is gone misleads, and is not trusted after that.",
        check: docs::files,
    },
    Rule {
        name: "the walk of a message",
        why: "docs/ARCHITECTURE.md leads through the code, function by function, and stays true.",
        check: docs::walk,
    },
    Rule {
        name: "promises, pitfalls and their tests",
        why: "What docs/SEMANTICS.md promises and docs/RDMA.md rules out is checked by a test.",
        check: promises::promises,
    },
    Rule {
        name: "log lines are explained",
        why: "An operator at night looks a line up, and finds what it means and what to do.",
        check: logs::logs,
    },
    Rule {
        name: "code of users runs behind the shield",
        why: "A log that cannot be written must not end the actor, or the node, that writes it.",
        check: logs::shield,
    },
    Rule {
        name: "modules say what they are for",
        why: "The first lines of a file tell whether it is the one you look for.",
        check: bans::openings,
    },
    Rule {
        name: "nothing unfinished",
        why: "What is in the tree works; what is missing is not in the tree.",
        check: bans::unfinished,
    },
    Rule {
        name: "lints are allowed with a reason",
        why: "Who allows a lint knows why it is wrong here; the next reader does not.",
        check: bans::allowances,
    },
    Rule {
        name: "names that say something",
        why: "What is called a helper has no owner, and grows.",
        check: bans::names,
    },
    Rule {
        name: "no places of one machine",
        why: "A fresh clone works anywhere.",
        check: bans::places,
    },
    Rule {
        name: "names of references are reserved",
        why: "A handler that is called like a method of every reference could not be called.",
        check: reserved::reserved,
    },
    Rule {
        name: "errors read as sentences",
        why: "A `main` that returns an error prints its `Debug`, which people have to understand.",
        check: errors::errors,
    },
    Rule {
        name: "manifests",
        why: "Every crate has the same licence, edition and lints, and dependencies point one way.",
        check: |tree| [manifests::members(tree), manifests::lock_file(tree)].concat(),
    },
    Rule {
        name: "budgets",
        why: "Each change adds a little; a person decides by how much, and takes away elsewhere.",
        check: budget::budgets,
    },
];

fn main() -> ExitCode {
    // Asked at run time: a build directory may serve several copies of the tree.
    let Some(package) = std::env::var_os("CARGO_MANIFEST_DIR") else {
        eprintln!("tidy: start it with `tests/run tidy` or `cargo run -p ringpost-tidy`");
        return ExitCode::FAILURE;
    };
    let root = Path::new(&package).join("../..");
    let tree = match Tree::read(&root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: cannot read the source tree: {error}");
            return ExitCode::FAILURE;
        }
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => check(&root, &tree),
        ["--tighten"] => tighten(&root, &tree),
        ["--english", path] => list_hard_lines(&tree, path),
        _ => {
            eprintln!("usage: tidy [--tighten | --english PATH]");
            ExitCode::from(2)
        }
    }
}

/// Holds the tree to all rules and prints what breaks one.
fn check(root: &Path, tree: &Tree) -> ExitCode {
    let mut text = String::from("modules, each after those it uses:\n");
    cycles::order(tree).iter().for_each(|line| text += &format!("  {line}\n"));
    text += &budget::table(tree);
    let licences = "Ringpost can be used wherever MIT or Apache-2.0 can.";
    let mut broken = 0;
    broken += report("licences of dependencies", licences, manifests::licences(root), &mut text);
    for rule in &RULES {
        broken += report(rule.name, rule.why, (rule.check)(tree), &mut text);
    }
    let rules = RULES.len() + 1;
    text += &format!("\ntidy: {rules} rules, {} files, {broken} findings\n", tree.files.len());
    let printed = std::io::stdout().write_all(text.as_bytes());
    if broken == 0 && printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lowers the budgets to the numbers of the tree.
fn tighten(root: &Path, tree: &Tree) -> ExitCode {
    let Some(text) = budget::tightened(tree) else {
        eprintln!("tidy: {} does not exist", budget::BUDGET);
        return ExitCode::FAILURE;
    };
    match std::fs::write(root.join(budget::BUDGET), text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidy: cannot write {}: {error}", budget::BUDGET);
            ExitCode::FAILURE
        }
    }
}

/// Prints the hard lines of the files whose path begins with `path`.
fn list_hard_lines(tree: &Tree, path: &str) -> ExitCode {
    let mut text = String::new();
    for file in tree.files.iter().filter(|file| file.path.starts_with(path)) {
        for HardLine { line, text: hard, advice } in english::hard_lines(file) {
            text += &format!("{}:{line}: {hard}   [{advice}]\n", file.path);
        }
    }
    let printed = std::io::stdout().write_all(text.as_bytes());
    if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Adds the findings of one rule to `text`, if there are any, and says how many.
fn report(name: &str, why: &str, mut findings: Vec<Finding>, text: &mut String) -> usize {
    findings.sort();
    findings.dedup();
    if !findings.is_empty() {
        *text += &format!("\n{name}: {why}\n");
    }
    findings.iter().for_each(|finding| *text += &format!("  {finding}\n"));
    findings.len()
}
