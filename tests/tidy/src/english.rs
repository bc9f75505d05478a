//! Hard lines: comments and prose with a shape that a reader has to read twice.
//!
//! A shape points and does not judge: a line may be clear nevertheless. So no line is a finding;
//! their number has a budget (`budget`), and `tidy --english PATH` lists them.

use crate::markdown;
use crate::tree::File;

/// A shape is one of `first` and one of `then` with a space between, both as whole words.
struct Shape {
    place: Place,
    first: &'static [&'static str],
    /// Empty where `first` is all of it.
    then: &'static [&'static str],
    advice: &'static str,
}

/// Where in a line a shape is looked for.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Anywhere,
    /// At the start of a line that asks nothing.
    LineStart,
    /// At the start of a line, or after a full stop, a colon or a semicolon.
    ClauseStart,
}

const SHAPES: [Shape; 6] = [
    Shape {
        place: Place::LineStart,
        first: &[
            "What",
            "Who",
            "Whoever",
            "Whom",
            "Whose",
            "Whether",
            "Of what",
            "That which",
            "How it",
            "Nobody",
            "None but",
            "All that",
            "All there",
        ],
        then: &[],
        advice: "begin with a verb or with a noun that names the thing",
    },
    Shape {
        place: Place::Anywhere,
        first: &["What", "what"],
        then: &[
            "is", "was", "were", "has", "had", "waits", "comes", "came", "goes", "went", "lies",
            "stands", "it", "they", "no", "nobody", "another", "other", "such", "only", "belongs",
            "ends", "ended", "still", "others",
        ],
        advice: "name it: the message, pending writes, the last frame",
    },
    Shape {
        place: Place::ClauseStart,
        first: &["Has", "Have", "Had", "Lets"],
        then: &[
            "the", "a", "an", "it", "its", "them", "each", "all", "another", "every", "one",
            "this", "that", "those", "what", "whoever",
        ],
        advice: "use the plain verb: resizes the pool, fails the send",
    },
    Shape {
        place: Place::Anywhere,
        first: &["One", "one", "Those", "those", "That", "that", "Such", "such"],
        then: &["that", "which", "of which", "by which", "to which", "who", "whose"],
        advice: "repeat the noun: a worker that ..., the deadline of the ask",
    },
    Shape {
        place: Place::Anywhere,
        first: &["that", "those", "as"],
        then: &["of"],
        advice: "repeat the noun: a worker that ..., the deadline of the ask",
    },
    Shape {
        place: Place::Anywhere,
        first: &[
            "be it",
            "so many",
            "so much",
            "so long as",
            "nor is",
            "nor does",
            "nor are",
            "nor do",
            "no more than has to",
            "than is",
            "than are",
            "also where",
            "also when",
            "all the same",
            "as it is",
            "as they are",
            "by itself",
            "for good",
            "in vain",
            "anew",
            "thereby",
            "therefore it",
        ],
        then: &[],
        advice: "use the usual order and the usual word: again, even if, at most",
    },
];

/// A line with one of the shapes.
pub(crate) struct HardLine<'a> {
    pub(crate) line: usize,
    pub(crate) text: &'a str,
    pub(crate) advice: &'static str,
}

/// Returns the hard lines of a document, or of the comments of a Rust file.
pub(crate) fn hard_lines(file: &File) -> Vec<HardLine<'_>> {
    let lines: Vec<(usize, &str)> = match file.path.rsplit('.').next() {
        Some("rs") => file.lines().filter_map(|(n, text)| Some((n, comment(text)?))).collect(),
        Some("md") => markdown::prose(&file.text).collect(),
        _ => Vec::new(),
    };
    let hard = lines.into_iter().filter_map(|(line, text)| {
        let text = text.trim();
        let shape = SHAPES.iter().find(|shape| shape.is_in(text))?;
        Some(HardLine { line, text, advice: shape.advice })
    });
    hard.collect()
}

/// Returns the text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text).trim())
}

impl Shape {
    fn is_in(&self, line: &str) -> bool {
        if self.place == Place::LineStart && line.ends_with('?') {
            return false;
        }
        self.first.iter().any(|first| {
            line.match_indices(first).any(|(at, _)| {
                let (before, rest) = (&line[..at], &line[at + first.len()..]);
                self.may_begin_after(before) && self.is_complete(rest)
            })
        })
    }

    fn may_begin_after(&self, before: &str) -> bool {
        match self.place {
            Place::Anywhere => !before.ends_with(is_word),
            Place::LineStart => before.is_empty(),
            Place::ClauseStart => {
                before.is_empty() || [". ", ": ", "; "].iter().any(|end| before.ends_with(end))
            }
        }
    }

    /// Returns true if one of `then` follows, or nothing has to.
    fn is_complete(&self, rest: &str) -> bool {
        let ends = |rest: &str| !rest.starts_with(is_word);
        let mut then = self.then.iter();
        (self.then.is_empty() && ends(rest))
            || rest
                .strip_prefix(' ')
                .is_some_and(|next| then.any(|words| next.strip_prefix(words).is_some_and(ends)))
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hard(path: &str, text: &str) -> Vec<usize> {
        hard_lines(&File::new(path, text.into())).iter().map(|hard| hard.line).collect()
    }

    #[test]
    fn each_shape_is_found_where_it_stands_and_nothing_close_by() {
        let text = "Whether it is over.\n\
                    Whether it is over?\n\
                    It asks whether; Whoever.\n\
                    Keeps what was read.\n\
                    Keeps somewhat was, what wasted, what  was.\n\
                    Ends. Has the pool grow.\n\
                    It Has the pool; Has then.\n\
                    Finds one that waits.\n\
                    Finds someone that thatched.\n\
                    The length is that of a frame.\n\
                    Sends it anew.\n\
                    In a newer, vain way.\n";
        assert_eq!(hard("a.md", text), [1, 4, 6, 8, 10, 11]);
    }

    #[test]
    fn code_is_not_read() {
        let rust = "/// what is a\nlet x = \"what is\"; // what is b\n    // what is c\n//! What\n";
        assert_eq!(hard("a.rs", rust), [1, 3, 4]);
        assert_eq!(hard("a.md", "what is\n```\nwhat is\n```\n| what is |\n"), [1, 5]);
        assert_eq!(hard("a.toml", "what is\n"), [0; 0]);
    }
}
