//! Input at the prompt: its end, its meaning, and its completion.

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use tidegate_query::split_statements;

use super::names::Names;
use crate::sql::runner::Runner;

/// Meaning of a complete line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Quit,
    Help,
    Timing,
    Tables,
    Describe(&'a str),
    Unknown(&'a str),
    Statements,
}

/// Parses a line.
pub(super) fn parse_line(line: &str) -> Line<'_> {
    let line = line.trim();
    let mut words = line.trim_end_matches(';').split_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next());
    match (first, second) {
        ("\\q", _) => Line::Quit,
        ("exit" | "quit", None) => Line::Quit,
        ("\\?" | "\\h" | "help", None) => Line::Help,
        ("\\timing", _) => Line::Timing,
        ("\\dt", _) | ("\\d", None) => Line::Tables,
        ("\\d", Some(table)) => Line::Describe(table.trim_matches('"')),
        _ if first.starts_with('\\') => Line::Unknown(first),
        _ => Line::Statements,
    }
}

/// Returns true if the input is complete (prompt-1): a command, or statements that end with `;`.
pub(super) fn is_complete(text: &str) -> bool {
    if text.trim().is_empty() || parse_line(text) != Line::Statements {
        return true;
    }
    // The input is complete if a further word would begin another statement. Within a quote or a
    // comment it would not; after a line comment it does because it stands in a new line.
    let longer = format!("{text}\nx");
    split_statements(&longer).len() > split_statements(text).len()
}

/// The helper of the line editor: completion, and the check for complete input.
pub(super) struct Typist<'a> {
    names: Names<'a>,
}

impl Typist<'_> {
    pub(super) fn new(runner: &Runner) -> Typist<'_> {
        Typist { names: Names::new(runner) }
    }
}

impl Helper for Typist<'_> {}
impl Highlighter for Typist<'_> {}

impl Hinter for Typist<'_> {
    type Hint = String;
}

impl Validator for Typist<'_> {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_complete(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

impl Completer for Typist<'_> {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\\' | '?');
        let start = typed.trim_end_matches(is_part).len();
        Ok((start, self.names.completions(line, &typed[..start], &typed[start..])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_waits_for_its_end() {
        for text in ["SELECT 1;", "SELECT ';';", "\\dt", "", "SELECT 1; -- done", "quit", "\\d t"] {
            assert!(is_complete(text), "prompt-1: {text}");
        }
        for text in ["SELECT 1", "SELECT ';", "SELECT 1; SELECT", "SELECT 1 -- ;", "/* ;", "quit x"]
        {
            assert!(!is_complete(text), "prompt-1: {text}");
        }
    }

    #[test]
    fn commands_are_told_from_statements() {
        assert_eq!(parse_line(" \\d  \"Hits\" ;"), Line::Describe("Hits"));
        assert_eq!(parse_line("\\d"), Line::Tables);
        assert_eq!(parse_line("\\x"), Line::Unknown("\\x"));
        assert_eq!(parse_line("exit;"), Line::Quit);
        assert_eq!(parse_line("SELECT 1;"), Line::Statements);
    }
}
