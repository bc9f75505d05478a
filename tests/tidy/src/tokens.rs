//! A Rust file as a flat list of tokens, groups opened and closed by tokens of their own.
//!
//! Macro bodies are included, comments are not; string literals are one token each, so that a word
//! inside a string is never taken for an identifier.

use std::collections::HashSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One identifier, literal, bracket or punctuation character, and its line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// The tokens of a stream in order of the text.
pub(crate) fn flatten(stream: TokenStream) -> Vec<Token> {
    let mut tokens = Vec::new();
    push_all(stream, &mut tokens);
    tokens
}

/// The names of the functions that are defined among `tokens`.
pub(crate) fn functions(tokens: &[Token]) -> HashSet<String> {
    let defined = tokens.windows(2).filter(|window| window[0].text == "fn");
    defined.map(|window| window[1].text.clone()).collect()
}

/// The lines on which `pattern` occurs as consecutive tokens.
pub(crate) fn lines_with<'a>(
    tokens: &'a [Token],
    pattern: &'a [&str],
) -> impl Iterator<Item = usize> + 'a {
    let first = pattern[0]; // looked at alone, as most windows differ there
    let matches = move |window: &&[Token]| {
        window[0].text == first && window.iter().zip(pattern).all(|(t, p)| t.text == *p)
    };
    tokens.windows(pattern.len()).filter(matches).map(|window| window[0].line)
}

/// The attributes among `tokens`, each as the tokens between its brackets.
pub(crate) fn attributes(tokens: &[Token]) -> Vec<&[Token]> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.text != "#" {
            continue;
        }
        let bang = tokens.get(at + 1).is_some_and(|t| t.text == "!");
        let open = at + 1 + usize::from(bang);
        if tokens.get(open).is_some_and(|t| t.text == "[") {
            found.push(group(&tokens[open..]));
        }
    }
    found
}

/// The tokens inside the group that the first of `tokens` opens.
pub(crate) fn group(tokens: &[Token]) -> &[Token] {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &tokens[1..at.max(1)];
        }
    }
    &[]
}

/// The paths of two or more names (`a::b::c`) that are spelled in `tokens`.
pub(crate) fn paths(tokens: &[Token]) -> Vec<(Vec<String>, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let mut names = Vec::new();
        let line = tokens[at].line;
        while tokens.get(at).is_some_and(|t| is_name(&t.text)) {
            names.push(tokens[at].text.clone());
            at += 1;
            if lines_with(&tokens[at..tokens.len().min(at + 2)], &[":", ":"]).next().is_none() {
                break;
            }
            at += 2;
        }
        if names.len() > 1 {
            found.push((names, line));
        } else {
            at += usize::from(names.is_empty());
        }
    }
    found
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn push_all(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        let mut push = |text: String, line| tokens.push(Token { text, line });
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                push(open.into(), line);
                push_all(group.stream(), tokens);
                tokens.push(Token { text: close.into(), line: group.span_close().end().line });
            }
            other => push(other.to_string(), line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_hold_no_names_and_macros_do() {
        let tokens = flatten("f(\"a::b\"); /* c::d */\nm!(e::f::g);".parse().unwrap());
        assert_eq!(paths(&tokens), [(vec!["e".into(), "f".into(), "g".into()], 2)]);
    }

    #[test]
    fn an_attribute_is_what_its_brackets_hold() {
        let tokens = flatten("#![a(b[1])] #[c] fn f() { x[0] }".parse().unwrap());
        let texts: Vec<usize> = attributes(&tokens).iter().map(|a| a.len()).collect();
        assert_eq!(texts, [7, 1]);
    }
}
