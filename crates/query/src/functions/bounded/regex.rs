//! Regular expressions: estimates of the steps of their matches, and the limits of a pattern and of
//! one match.
//!
//! - regex-1. A match takes at most as many steps as the states of its pattern times the bytes of
//!   its text; counted repetitions multiply the states. Most matches take far less, so only one
//!   that may take seconds is refused, because it cannot be interrupted.
//! - regex-2. A pattern has at most `PATTERN_BYTES`, with classes of characters counted as long
//!   texts: the parser makes hundreds of ranges of each, and looks for the other case of up to all
//!   characters, before the limit of compiled patterns is checked.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use datafusion::common::Result;
use tidegate_model::limits::{PATTERN_BYTES, PATTERNS_AT_A_TIME, REGEX_SLICE_STEPS, REGEX_STEPS};

use super::call::{Argument, Call, Texts};
use crate::error::ClauseProblem;

/// The states of a pattern that takes some milliseconds to compile; one with more takes longer.
const SIMPLE_STATES: u64 = 16;

/// The weight of a class of up to 100,000 characters: some KiB, and a millisecond at most.
const CLASS_BYTES: usize = 256;
/// The weight of a class of perhaps all characters: some tens of milliseconds if case is ignored.
const WIDE_CLASS_BYTES: usize = 1_024;

/// Checks regex-2.
pub(super) fn check_pattern(pattern: &str) -> Result<()> {
    if weight(pattern) <= PATTERN_BYTES {
        return Ok(());
    }
    Err(ClauseProblem::PatternTooLong { bytes: PATTERN_BYTES }.into())
}

/// Returns the bytes of a pattern, with the weights of its classes.
fn weight(pattern: &str) -> usize {
    // With the flag x, blanks within a class have no meaning.
    let is_sign = |byte: &u8| !byte.is_ascii_whitespace();
    let signs = pattern.bytes().filter(is_sign).collect::<Vec<_>>();
    let weight = |at: usize| match &signs[at..] {
        [b'\\', b'w' | b'd' | b's' | b'b' | b'B', ..] => CLASS_BYTES,
        [b'\\', b'W' | b'D' | b'S' | b'p' | b'P', ..] | [b'[', b':', ..] => WIDE_CLASS_BYTES,
        // Ranges up to another character than one of ASCII.
        [b'-', b'\\', b'x' | b'u' | b'U', ..] | [b'-', 0x80..=0xFF, ..] => WIDE_CLASS_BYTES,
        _ => 0,
    };
    (0..signs.len()).map(weight).fold(pattern.len(), usize::saturating_add)
}

/// Returns the steps of each row: those of its match, and of compiling a new pattern; an empty list
/// if they are few together.
pub(crate) fn regex_steps(function: &str, call: &Call<'_>) -> Result<Vec<u64>> {
    let (Some(texts), Some(patterns)) = (call.arg(0), call.arg(1)) else { return Ok(Vec::new()) };
    if !texts.value.data_type().is_string() {
        return Ok(Vec::new());
    }
    match patterns.texts()? {
        Texts::One(pattern) => {
            pattern.map(check_pattern).transpose()?;
            let states = pattern.map_or(0, count_states);
            steps_of_constant(function, states, texts)
        }
        patterns @ Texts::Each(_) => steps_of_each(function, &patterns, texts),
    }
}

fn steps_of_constant(function: &str, states: u64, texts: Argument<'_>) -> Result<Vec<u64>> {
    // The bytes of all rows together bound those of the longest.
    if texts.bytes().saturating_mul(states) <= REGEX_SLICE_STEPS {
        return Ok(Vec::new());
    }
    let steps = |bytes: u64| check_steps(function, bytes.saturating_mul(states));
    texts.sizes().into_iter().map(steps).collect()
}

fn steps_of_each(function: &str, patterns: &Texts<'_>, texts: Argument<'_>) -> Result<Vec<u64>> {
    let mut known = HashMap::new();
    let steps = |(row, bytes): (usize, u64)| {
        let Some(pattern) = patterns.of_row(row) else { return Ok(0) };
        let mut compiled = 0;
        let states = match known.entry(pattern) {
            Entry::Occupied(states) => *states.get(),
            Entry::Vacant(place) => {
                check_pattern(pattern)?;
                let states = count_states(pattern);
                compiled = compile_steps(states);
                *place.insert(states)
            }
        };
        Ok(check_steps(function, bytes.saturating_mul(states))?.saturating_add(compiled))
    };
    texts.sizes().into_iter().enumerate().map(steps).collect()
}

/// The steps of compiling a pattern: `PATTERNS_AT_A_TIME` simple ones are compiled between two
/// checks for cancellation, and fewer of those that take longer.
fn compile_steps(states: u64) -> u64 {
    let least = REGEX_SLICE_STEPS / PATTERNS_AT_A_TIME as u64;
    least.saturating_mul(1 + states / SIMPLE_STATES)
}

fn check_steps(function: &str, steps: u64) -> Result<u64> {
    if steps <= REGEX_STEPS {
        return Ok(steps);
    }
    Err(ClauseProblem::MatchTooLong { function: function.to_owned(), steps: REGEX_STEPS }.into())
}

/// Estimates the number of states of a pattern: its characters and classes, as often as they are
/// repeated.
fn count_states(pattern: &str) -> u64 {
    // The states of the open groups, and of the last part, which a repetition multiplies.
    let mut groups = vec![1_u64];
    let mut last = 0_u64;
    let mut rest = pattern.bytes().peekable();
    while let Some(byte) = rest.next() {
        let part = match byte {
            b'(' => {
                groups.push(0);
                0
            }
            b')' if 1 < groups.len() => groups.pop().unwrap_or(0),
            b'[' => {
                skip_class(&mut rest);
                1
            }
            b'\\' => {
                rest.next();
                1
            }
            b'{' => {
                let digits = std::iter::from_fn(|| rest.next_if(|it| !matches!(it, b'}')));
                let times = most_times(&digits.collect::<Vec<_>>());
                rest.next();
                last.saturating_mul(times.saturating_sub(1))
            }
            b'*' | b'+' | b'?' | b'|' | b'^' | b'$' => 0,
            _ => 1,
        };
        if let Some(group) = groups.last_mut() {
            *group = group.saturating_add(part);
        }
        last = match byte {
            b'{' => last.saturating_add(part),
            b'*' | b'+' | b'?' => last,
            _ => part,
        };
    }
    groups.into_iter().fold(0, u64::saturating_add)
}

/// Skips the rest of a class of characters.
fn skip_class(rest: &mut std::iter::Peekable<std::str::Bytes<'_>>) {
    let mut depth = 1;
    rest.next_if_eq(&b'^');
    rest.next_if_eq(&b']');
    while 0 < depth
        && let Some(byte) = rest.next()
    {
        match byte {
            b'\\' => drop(rest.next()),
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
    }
}

/// Returns the greatest count of `n`, `n,` and `n,m`; 1 for any other text.
fn most_times(counts: &[u8]) -> u64 {
    let counts = counts.split(|byte| *byte == b',');
    let count = |digits: &[u8]| std::str::from_utf8(digits).ok()?.trim().parse::<u64>().ok();
    counts.filter_map(count).max().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, expected: u64) {
        assert_eq!(count_states(pattern), expected + 1, "regex-1: {pattern}");
    }

    #[test]
    fn repetitions_multiply_the_states_of_a_pattern() {
        check("", 0);
        check("abc", 3);
        check("^a.*[a-z]+\\d$", 4);
        check("a{5}", 5);
        check("a{2,5}b", 6);
        check("(a|b){100}", 200);
        check("((ab){10}c){10}", 210);
        check("(a|b)*a(a|b){5000}c", 10_004);
        check("[]\\]{9}]{3}", 3);
        check("\\p{L}x", 2);
        check("x{y", 1);
        check(")(", 1);
        check("(a{1000000000}){1000000000}{1000000000}", u64::MAX - 1);
    }

    // Eight patterns were compiled between two checks for cancellation, however long each took.
    #[test]
    fn few_large_patterns_are_compiled_at_a_time() {
        let at_a_time = |pattern: &str| REGEX_SLICE_STEPS / compile_steps(count_states(pattern));
        assert_eq!(at_a_time("^[a-z]+x$"), PATTERNS_AT_A_TIME as u64);
        assert_eq!(at_a_time("0123456789abcdef0123456789abcdef\\w{60}"), 1);
        assert_eq!(at_a_time(".{1000}"), 0, "one alone");
    }

    // The parser made 700 ranges of each class of letters, and their other cases: a pattern of
    // 60,000 bytes took a gigabyte and ten seconds before it was refused as too large.
    #[test]
    fn patterns_of_many_classes_are_refused_before_they_are_parsed() {
        let most = PATTERN_BYTES / WIDE_CLASS_BYTES;
        for class in [r"\pL", r"[\W]", r"[!-\x{10FFFF}]", "[! - \u{ff}]", "[[:alpha:]]"] {
            assert!(weight(&class.repeat(most / 2)) <= PATTERN_BYTES, "regex-2: {class}");
            assert!(PATTERN_BYTES < weight(&class.repeat(most)), "regex-2: {class}");
        }
        let dates = vec![r"\d{4}-\d\d-\d\d"; 200].join("|");
        let hosts = vec!["host-1.example.com"; 5_000].join("|");
        assert!(check_pattern(&dates).is_ok() && check_pattern(&hosts).is_ok(), "regex-2");
        assert!(check_pattern(&"a".repeat(PATTERN_BYTES + 1)).is_err(), "regex-2");
    }
}
