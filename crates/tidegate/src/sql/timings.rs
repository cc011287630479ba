//! `sql --repeat N --timings`: times of a statement in this process, with planning and with all
//! batches taken.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use super::script::words;
use super::{Runner, Script};
use crate::error::{Error, Result};

/// Measures a statement, and returns one line of JSON: `{"milliseconds":[1.234,1.2],"rows":3}`. The
/// rows are those of the last run.
pub(super) fn measure(
    runner: &Runner,
    script: &Script,
    repeat: Option<NonZeroUsize>,
    interrupted: &AtomicBool,
) -> Result<String> {
    let statements: Vec<String> = script.statements().collect();
    let [statement] = statements.as_slice() else {
        return Err(Error::ManyStatements { count: statements.len() });
    };
    let runs = repeat.map_or(1, NonZeroUsize::get);
    if let Some(word) = changing_word(statement).filter(|_| runs > 1) {
        return Err(Error::ChangeRepeated { word: word.to_ascii_uppercase() });
    }
    let mut nanos = Vec::new();
    let mut rows = 0;
    for _ in 0..runs {
        let (taken, counted) =
            runner.measure(statement, interrupted).map_err(|error| script.place(error))?;
        nanos.push(taken);
        rows = counted;
    }
    Ok(json(&nanos, rows))
}

/// True if a statement that begins with this word would fail or have another effect when it is
/// repeated.
fn is_change(word: &str) -> bool {
    const CHANGES: [&str; 10] = [
        "CREATE", "DROP", "ALTER", "RENAME", "TRUNCATE", "INSERT", "UPDATE", "DELETE", "COPY",
        "CANCEL",
    ];
    CHANGES.iter().any(|change| change.eq_ignore_ascii_case(word))
}

/// Returns the word that begins the change of a statement, if it changes something.
fn changing_word(statement: &str) -> Option<&str> {
    let mut words = words(statement).peekable();
    let mut take = |word: &str| words.next_if(|it| it.eq_ignore_ascii_case(word)).is_some();
    // EXPLAIN without ANALYZE executes nothing.
    if take("EXPLAIN") && !take("ANALYZE") {
        return None;
    }
    take("VERBOSE");
    words.next().filter(|word| is_change(word))
}

fn json(nanos: &[u64], rows: u64) -> String {
    let mut text = String::from("{\"milliseconds\":[");
    for (position, nanos) in nanos.iter().enumerate() {
        let comma = if position > 0 { "," } else { "" };
        write!(text, "{comma}{:.3}", *nanos as f64 / 1e6).expect("a String takes everything");
    }
    writeln!(text, "],\"rows\":{rows}}}").expect("a String takes everything");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_by_their_first_words() {
        for (statement, expected) in [
            ("create TABLE t (n INT)", true),
            ("\n -- SELECT\n /* x */DROP TABLE t", true),
            ("SHOW CREATE TABLE t", false),
            ("SELECT 1", false),
            ("created", false),
            ("-- nothing", false),
            ("(SELECT 1)", false),
            ("cancel query 7", true),
            ("EXPLAIN DELETE FROM t", false),
            ("EXPLAIN ANALYZE /* x */ VERBOSE DELETE FROM t", true),
            ("EXPLAIN ANALYZE SELECT 1", false),
        ] {
            assert_eq!(changing_word(statement).is_some(), expected, "{statement}");
        }
    }

    #[test]
    fn times_are_milliseconds_with_three_digits() {
        let expected = "{\"milliseconds\":[1.234,0.100,2000.000],\"rows\":7}\n";
        assert_eq!(json(&[1_234_400, 100_000, 2_000_000_000], 7), expected);
    }
}
