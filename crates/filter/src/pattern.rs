//! LIKE patterns: `%` is any text, `_` any character, `\` escapes the next character.
//!
//! - filter_pattern-1. A backslash at the end is a backslash.
//! - filter_pattern-2. ILIKE folds ASCII letters, and the two letters beyond ASCII that fold to one
//!   of them: U+017F to `s` and U+212A, the sign of kelvin, to `k`. Its pattern is ASCII.
//!
//! The pieces of a pattern are its parts between `%`. A pattern without `_`, which is the common
//! case, is searched piece by piece in linear time. A pattern with `_` is matched character by
//! character, in time proportional to the length of the text times the length of its longest piece
//! with `_` ([`Pattern::stepwise_length`]).

use memchr::memmem;

/// The number of steps between two cancel checks: some milliseconds.
const CHECK_STEPS: usize = 1 << 20;
/// The number of places where only the first byte of a piece matched, after which the piece is
/// searched by an algorithm of linear time.
const FALSE_STARTS_MAX: usize = 32;

/// A pattern prepared for matching.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    parts: Vec<Part>,
    folds: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// These bytes; folded for ILIKE.
    Text(Vec<u8>),
    /// One character.
    AnyOne,
    /// Any text.
    AnyText,
}

/// A pattern as an automaton over the bytes of a text.
pub(crate) struct ByteAutomaton {
    /// For each state and byte the next state.
    pub(crate) next: Vec<[u8; 256]>,
    /// The state before the first byte.
    pub(crate) start: usize,
    /// For each state, true if a text that ends there matches.
    pub(crate) accepts: Vec<bool>,
}

/// The maximal number of states of a `ByteAutomaton`.
const STATES_MAX: usize = 128;
/// The state of texts that cannot match any more.
const DEAD: usize = 0;

/// A counter of steps that checks for cancellation from time to time.
struct CancelCheck<F> {
    steps: usize,
    may_continue: F,
}

impl<F: FnMut() -> bool> CancelCheck<F> {
    /// Counts steps; `None` if the match was cancelled.
    fn count_steps(&mut self, steps: usize) -> Option<()> {
        self.steps += steps;
        if self.steps < CHECK_STEPS {
            return Some(());
        }
        self.steps = 0;
        (self.may_continue)().then_some(())
    }
}

impl Pattern {
    /// Prepares a pattern of LIKE, or of ILIKE, which must be ASCII (filter_pattern-2).
    #[must_use]
    pub fn new(pattern: &str, case_insensitive: bool) -> Pattern {
        let mut parts: Vec<Part> = Vec::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            match c {
                '%' if parts.last() == Some(&Part::AnyText) => {}
                '%' => parts.push(Part::AnyText),
                '_' => parts.push(Part::AnyOne),
                '\\' => push_char(&mut parts, chars.next().unwrap_or('\\')), // filter_pattern-1
                c => push_char(&mut parts, c),
            }
        }
        if case_insensitive {
            for part in &mut parts {
                if let Part::Text(text) = part {
                    text.make_ascii_lowercase();
                }
            }
        }
        Pattern { parts, folds: case_insensitive }
    }

    /// The prefix that a text must have, if that is all that the pattern requires.
    pub(crate) fn as_prefix(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            _ if self.folds => None,
            [Part::AnyText] => Some(&[]),
            [Part::Text(text), Part::AnyText] => Some(text),
            _ => None,
        }
    }

    /// The only text that matches, if there is exactly one.
    pub(crate) fn as_text(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            _ if self.folds => None,
            [] => Some(&[]),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The length of the longest piece that is matched character by character, because it has a
    /// `_`; 0 if there is none.
    #[must_use]
    pub fn stepwise_length(&self) -> usize {
        let length = |piece: &[Part]| {
            let of_part = |part: &Part| match part {
                Part::Text(text) => text.len(),
                Part::AnyOne | Part::AnyText => 1,
            };
            match piece.contains(&Part::AnyOne) {
                true => piece.iter().map(of_part).sum(),
                false => 0,
            }
        };
        let pieces = self.parts.split(|part| *part == Part::AnyText);
        pieces.map(length).max().unwrap_or(0)
    }

    /// Returns the automaton of the pattern; `None` if it has `_`, folds letters, or has too many
    /// bytes.
    pub(crate) fn automaton(&self) -> Option<ByteAutomaton> {
        let bytes = self.parts.iter().map(|part| match part {
            Part::Text(text) => Some(text.len()),
            Part::AnyText => Some(0),
            Part::AnyOne => None,
        });
        // One for each byte, the dead state, and the state after the last byte.
        let states = bytes.sum::<Option<usize>>()? + 2;
        if self.folds || states > STATES_MAX {
            return None;
        }
        let mut automaton = ByteAutomaton::new(states);
        let mut state = automaton.start;
        for (at, part) in self.parts.iter().enumerate() {
            let Part::Text(piece) = part else { continue };
            let is_last = at + 1 == self.parts.len();
            match at {
                0 => automaton.add_prefix(state, piece),
                _ => automaton.add_searched(state, piece, is_last),
            }
            state += piece.len();
        }
        automaton.accepts[state] = true;
        if self.parts.last() == Some(&Part::AnyText) {
            automaton.next[state].fill(narrow(state));
        }
        Some(automaton)
    }

    /// Returns true if the text matches.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        self.matches_while(text, || true).expect("it is not cancelled")
    }

    /// Returns true if the text matches; `None` if `may_continue`, which is called every few
    /// milliseconds, returns false.
    pub fn matches_while(&self, text: &[u8], may_continue: impl FnMut() -> bool) -> Option<bool> {
        let mut cancel_check = CancelCheck { steps: 0, may_continue };
        if self.folds {
            return match_parts(&self.parts, &fold(text), &mut cancel_check);
        }
        match_parts(&self.parts, text, &mut cancel_check)
    }
}

impl ByteAutomaton {
    /// Creates an automaton in which every state leads to the dead one.
    fn new(states: usize) -> ByteAutomaton {
        let next = vec![[narrow(DEAD); 256]; states];
        ByteAutomaton { next, start: DEAD + 1, accepts: vec![false; states] }
    }

    /// Adds the states of a piece with which a text begins.
    fn add_prefix(&mut self, first: usize, piece: &[u8]) {
        for (at, &byte) in piece.iter().enumerate() {
            self.next[first + at][usize::from(byte)] = narrow(first + at + 1);
        }
    }

    /// Adds the states of a piece that is searched from state `first` on. If the text has to end
    /// with it, the search continues from the state after it.
    fn add_searched(&mut self, first: usize, piece: &[u8], is_last: bool) {
        // As in the algorithm of Knuth, Morris and Pratt: the state after the longest proper suffix
        // of the bytes read that is a prefix of the piece.
        let mut fallback = first;
        self.next[first].fill(narrow(first));
        for (at, &byte) in piece.iter().enumerate() {
            if at > 0 {
                self.next[first + at] = self.next[fallback];
                fallback = usize::from(self.next[fallback][usize::from(byte)]);
            }
            self.next[first + at][usize::from(byte)] = narrow(first + at + 1);
        }
        if is_last {
            self.next[first + piece.len()] = self.next[fallback];
        }
    }
}

fn narrow(state: usize) -> u8 {
    u8::try_from(state).expect("STATES_MAX")
}

fn push_char(parts: &mut Vec<Part>, c: char) {
    let mut buffer = [0; 4];
    let bytes = c.encode_utf8(&mut buffer).as_bytes();
    match parts.last_mut() {
        Some(Part::Text(text)) => text.extend_from_slice(bytes),
        _ => parts.push(Part::Text(bytes.to_vec())),
    }
}

/// Folds letters for ILIKE (filter_pattern-2).
fn fold(text: &[u8]) -> Vec<u8> {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut folded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, left) = match rest {
            [0xC5, 0xBF, left @ ..] => (b's', left),
            [0xE2, 0x84, 0xAA, left @ ..] => (b'k', left),
            _ => (first.to_ascii_lowercase(), after),
        };
        folded.push(byte);
        rest = left;
    }
    folded
}

/// Matches greedily: if a part after a `%` fails, this `%` takes more of the text. Only the last
/// `%` has to be tried again: if an earlier one took more, less text would be left for the parts
/// after it.
fn match_parts(
    parts: &[Part],
    text: &[u8],
    cancel_check: &mut CancelCheck<impl FnMut() -> bool>,
) -> Option<bool> {
    let (mut part, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match parts.get(part) {
            None if at == text.len() => return Some(true),
            None => None,
            Some(Part::AnyText) if part + 1 == parts.len() => return Some(true),
            Some(Part::AnyText) => {
                retry = Some((part + 1, at));
                Some(at)
            }
            Some(Part::AnyOne) => after_character(text, at),
            Some(Part::Text(wanted)) => {
                cancel_check.count_steps(wanted.len() / 16)?;
                text[at..].starts_with(wanted).then_some(at + wanted.len())
            }
        };
        cancel_check.count_steps(1)?;
        match (step, &mut retry) {
            (Some(next), _) => (part, at) = (part + 1, next),
            (None, None) => return Some(false),
            (None, Some((after, from))) => {
                let Some(next) = next_try(&parts[*after..], text, *from) else {
                    return Some(false);
                };
                cancel_check.count_steps((next - *from) / 16)?;
                (part, at) = (*after, next);
                *from = next;
            }
        }
    }
}

/// The next position after `from` at which the part after a `%` may begin.
fn next_try(parts: &[Part], text: &[u8], from: usize) -> Option<usize> {
    let next = after_character(text, from)?;
    match parts {
        // Only the end of the text can follow.
        [Part::Text(wanted)] => {
            let at = text.len().checked_sub(wanted.len())?;
            (next <= at && text.ends_with(wanted)).then_some(at)
        }
        [Part::Text(wanted), ..] => find(&text[next..], wanted).map(|at| next + at),
        _ => Some(next),
    }
}

/// The position after the character at `at`.
fn after_character(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at + 1..)?;
    Some(at + 1 + rest.iter().take_while(|&&byte| byte & 0xC0 == 0x80).count())
}

/// The position of `wanted` in `text`.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let (&first, rest) = wanted.split_first()?;
    let last = text.len().checked_sub(wanted.len())?;
    let mut from = 0;
    for _ in 0..FALSE_STARTS_MAX {
        if last < from {
            return None;
        }
        from += position(&text[from..=last], first)?;
        if text[from + 1..].starts_with(rest) {
            return Some(from);
        }
        from += 1;
    }
    memmem::find(text.get(from..)?, wanted).map(|at| from + at)
}

/// The position of a byte, searched 32 bytes at a time.
fn position(text: &[u8], byte: u8) -> Option<usize> {
    let (whole, rest) = text.as_chunks::<32>();
    for (index, lane) in whole.iter().enumerate() {
        if lane.iter().fold(false, |found, &b| found | (b == byte)) {
            let at = lane.iter().position(|&b| b == byte)?;
            return Some(index * 32 + at);
        }
    }
    rest.iter().position(|&b| b == byte).map(|at| whole.len() * 32 + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let compiled = Pattern::new(pattern, false);
        for text in matching {
            assert!(compiled.matches(text.as_bytes()), "{text} LIKE {pattern}");
        }
        for text in others {
            assert!(!compiled.matches(text.as_bytes()), "{text} NOT LIKE {pattern}");
        }
    }

    #[test]
    fn patterns_match_as_like_says() {
        check("", &[""], &["a"]);
        check("abc", &["abc"], &["ab", "abcd", "xabc"]);
        check("a%", &["a", "ab"], &["", "ba"]);
        check("%a", &["a", "ba", "aba"], &["", "ab"]);
        check("%google%", &["google", "www.google.com", "ggoogle"], &["", "goog%le"]);
        check("a%b%c", &["abc", "aXbXc", "abbcc"], &["acb", "ab", "abcX"]);
        check("%ab%ab", &["abab", "xabxab"], &["ab", "aba", "abaab "]);
        check("_", &["a", "\u{e4}", "\u{1f600}"], &["", "ab"]);
        check("%_b", &["ab", "\u{e4}b", "bb"], &["b", ""]);
        check("a\\%", &["a%"], &["ab", "a\\%"]);
        check("a\\", &["a\\"], &["a"]);
        check("%aab%", &["aaab", "xaab"], &["aaa"]);
        check("%", &["", "x"], &[]);
    }

    #[test]
    fn ilike_folds_ascii_and_two_letters_beyond() {
        let pattern = Pattern::new("%KILOs%", true);
        for text in ["kilos", "xKiLoSx", "\u{212a}ilo\u{17f}"] {
            assert!(pattern.matches(text.as_bytes()), "{text}");
        }
        assert!(!pattern.matches("kil\u{f6}s".as_bytes()));
    }

    #[test]
    fn pieces_of_text_are_found_in_linear_time() {
        let text = "a".repeat(1 << 22);
        let wanted = "a".repeat(1 << 21);
        // A naive search would compare two megabytes at each position, which takes minutes.
        check(&format!("%{wanted}b%"), &[&format!("{text}b")], &[&text]);
        check(&format!("%{wanted}b%c"), &[&format!("{text}bc")], &[&text, &format!("{text}b")]);
        assert_eq!(Pattern::new("%abc%de", false).stepwise_length(), 0);
        assert_eq!(Pattern::new("%abc%d_e%f%", false).stepwise_length(), 3);
    }

    #[test]
    fn a_long_match_checks_for_cancellation() {
        let text = "a".repeat(1 << 20);
        let pattern = Pattern::new(&format!("%{}b", "_a".repeat(1 << 16)), false);
        let mut calls = 0;
        let matched = pattern.matches_while(text.as_bytes(), || {
            calls += 1;
            calls < 3
        });
        assert_eq!((matched, calls), (None, 3));
        assert_eq!(Pattern::new("%b", false).matches_while(b"ab", || false), Some(true));
    }

    #[test]
    fn invalid_utf8_does_not_panic() {
        for pattern in ["%_a%_", "_", "%\u{e4}_"] {
            for text in [&[0x80_u8, 0xBF][..], &[0xC3], &[b'a', 0xFF, 0x80]] {
                let _ = Pattern::new(pattern, false).matches(text);
                let _ = Pattern::new(pattern, true).matches(text);
            }
        }
    }
}
