//! The little of Markdown that the checks read: code spans, links and table rows.

/// One row of a table.
pub(crate) struct Row<'a> {
    pub(crate) line: usize,
    pub(crate) cells: Vec<&'a str>,
}

/// The lines of a text that are not inside a fenced block, with their numbers.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((i + 1, line))
    })
}

/// Returns the texts between backticks on a line.
pub(crate) fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The targets of the links on a line.
pub(crate) fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The anchors of a document: what the usual renderers make of its headings, in their order.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut slugs: Vec<String> = Vec::new();
    let mut anchors = Vec::new();
    for (_, line) in prose(text) {
        let Some(title) = line.trim_start_matches('#').strip_prefix(' ') else { continue };
        if !line.starts_with('#') {
            continue;
        }
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let slug = kept.collect::<String>().to_lowercase().replace(' ', "-");
        // A heading that comes again has a number.
        anchors.push(match slugs.iter().filter(|earlier| **earlier == slug).count() {
            0 => slug.clone(),
            earlier => format!("{slug}-{earlier}"),
        });
        slugs.push(slug);
    }
    anchors
}

/// The rows of all tables, without the rulers below their headings.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    prose(text).filter_map(|(line, text)| {
        let inside = text.trim().strip_prefix('|')?;
        let inside = inside.strip_suffix('|').unwrap_or(inside);
        let ruler = inside.chars().all(|c| "|-: ".contains(c));
        let cells = inside.split('|').map(str::trim).collect();
        (!ruler).then_some(Row { line, cells })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_links_and_rows_are_read_outside_fences() {
        let text = "a `b c` `d`\n```\n`e` | [f](g)\n```\n| h | [`i`](j#k) |\n|---|:--|\n";
        let spans: Vec<&str> = prose(text).flat_map(|(_, line)| code_spans(line)).collect();
        assert_eq!(spans, ["b c", "d", "i"]);
        let links: Vec<&str> = prose(text).flat_map(|(_, line)| link_targets(line)).collect();
        assert_eq!(links, ["j#k"]);
        let rows: Vec<_> = rows(text).map(|row| (row.line, row.cells)).collect();
        assert_eq!(rows, [(5, vec!["h", "[`i`](j#k)"])]);
    }

    #[test]
    fn anchors_are_those_of_headings_outside_fences() {
        let text = "# A `b`: c, d\n```\n# e\n```\n## Three_words-and more\n## A b c d\n#f\n # g\n";
        assert_eq!(anchors(text), ["a-b-c-d", "three_words-and-more", "a-b-c-d-1"]);
    }
}
