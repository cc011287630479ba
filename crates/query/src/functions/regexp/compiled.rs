//! Compiled patterns: those of PostgreSQL with their flags, in the syntax of the `regex` crate.

use datafusion::common::Result;
use regex::{CaptureLocations, Regex};

use crate::account::check_canceled;
use crate::error::ClauseProblem;

/// In a longer text, cancellation is checked at each match (regexp-1).
const SHORT_BYTES: usize = 4_096;

/// A compiled pattern.
pub(super) struct Compiled {
    pub(super) regex: Regex,
    pub(super) locations: CaptureLocations,
    /// True if all matches are replaced, counted, or found.
    pub(super) is_global: bool,
    /// True for `^..(..)...*$` if only the group is used, not the text behind it.
    pub(super) is_cut: bool,
}

impl Compiled {
    pub(super) fn new(
        function: &str,
        pattern: &str,
        flags: &str,
        is_group: bool,
    ) -> Result<Compiled> {
        let options = Options::read(function, flags)?;
        let text = options.applied(pattern);
        // A match that begins at the start of the text needs no look at the text that `.*$`
        // matches.
        let is_cut = is_group
            && flags.is_empty()
            && pattern.starts_with('^')
            && !pattern.contains('|')
            && pattern.strip_suffix(".*$").is_some_and(|head| !head.ends_with('\\'));
        let problem = |error: regex::Error| match error {
            regex::Error::CompiledTooBig(bytes) => ClauseProblem::PatternTooLarge { bytes },
            error => {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().trim();
                let reason = reason.strip_prefix("error: ").unwrap_or(reason).to_owned();
                ClauseProblem::RegexpPattern { reason }
            }
        };
        let head = text.strip_suffix(".*$").filter(|_| is_cut);
        let short = head.and_then(|head| Regex::new(head).ok());
        let short = short.filter(|it| it.captures_len() == 2);
        let is_cut = short.is_some();
        let regex = short.map_or_else(|| Regex::new(&text), Ok).map_err(problem)?;
        let locations = regex.capture_locations();
        Ok(Compiled { regex, locations, is_global: options.is_global, is_cut })
    }

    /// Calls `of_match` with the matches from a place of the text on, until it returns false.
    pub(super) fn each(
        &mut self,
        text: &str,
        from: usize,
        mut of_match: impl FnMut(&CaptureLocations, (usize, usize)) -> Result<bool>,
    ) -> Result<()> {
        let mut at = from;
        while at <= text.len() {
            if SHORT_BYTES < text.len() {
                check_canceled()?;
            }
            if self.regex.captures_read_at(&mut self.locations, text, at).is_none() {
                return Ok(());
            }
            let place = self.locations.get(0).unwrap_or((at, at));
            let is_empty = place.0 == place.1;
            // An empty match may follow directly behind one that is not empty.
            if !of_match(&self.locations, place)? {
                return Ok(());
            }
            at = match is_empty {
                true => place.1 + text[place.1..].chars().next().map_or(1, char::len_utf8),
                false => place.1,
            };
        }
        Ok(())
    }
}

/// The flags of PostgreSQL.
#[derive(Default)]
struct Options {
    is_global: bool,
    ignores_case: bool,
    /// True if lines are separate for `.`, `^` and `$`.
    is_by_lines: bool,
    is_spaced: bool,
    is_literal: bool,
}

impl Options {
    fn read(function: &str, flags: &str) -> Result<Options> {
        let mut options = Options::default();
        for flag in flags.chars() {
            match flag {
                'g' => options.is_global = true,
                'i' => options.ignores_case = true,
                'c' => options.ignores_case = false,
                'n' | 'm' => options.is_by_lines = true,
                's' => options.is_by_lines = false,
                'x' => options.is_spaced = true,
                't' => options.is_spaced = false,
                'q' => options.is_literal = true,
                'e' => {}
                _ => {
                    let (function, value) = (function.to_owned(), format!("the flag {flag}"));
                    let what = "those that there are are c, e, g, i, m, n, q, s, t and x";
                    return Err(ClauseProblem::ArgumentValue { function, value, what }.into());
                }
            }
        }
        Ok(options)
    }

    fn applied(&self, pattern: &str) -> String {
        let mut text = String::with_capacity(pattern.len() + 8);
        for (is_on, flag) in [
            (self.ignores_case, "(?i)"),
            (self.is_spaced, "(?x)"),
            (self.is_by_lines, "(?m)"),
            (!self.is_by_lines, "(?s)"),
        ] {
            text.push_str(if is_on { flag } else { "" });
        }
        match self.is_literal {
            true => text.push_str(&regex::escape(pattern)),
            false => push_pattern(pattern, &mut text),
        }
        text
    }
}

/// Returns the pattern with these flags; `None` if it is not valid.
pub(crate) fn regex_of(pattern: &str, flags: &str) -> Option<Regex> {
    Regex::new(&Options::read("", flags).ok()?.applied(pattern)).ok()
}

/// Returns the pattern of an operator in the syntax of the `regex` crate.
pub(crate) fn pattern_text(pattern: &str) -> String {
    let mut text = String::new();
    if pattern.contains('.') {
        text.push_str("(?s)");
    }
    push_pattern(pattern, &mut text);
    text
}

/// Parts of patterns that the `regex` crate writes differently.
const TRANSLATED: [(&str, &str); 7] = [
    ("[[:<:]]", r"\b{start}"),
    ("[[:>:]]", r"\b{end}"),
    (r"\y", r"\b"),
    (r"\Y", r"\B"),
    (r"\m", r"\b{start}"),
    (r"\M", r"\b{end}"),
    (r"\Z", r"\z"),
];

/// The classes of POSIX in brackets: those of the `regex` crate have ASCII letters only.
const CLASSES: [(&str, &str); 9] = [
    ("[:alpha:]", r"\p{Alphabetic}"),
    ("[:alnum:]", r"[\p{Alphabetic}\p{Nd}]"),
    ("[:upper:]", r"\p{Uppercase}"),
    ("[:lower:]", r"\p{Lowercase}"),
    ("[:space:]", r"\s"),
    ("[:punct:]", r"[\p{P}\p{S}]"),
    ("[:graph:]", r"[^\p{C}\p{Z}]"),
    ("[:print:]", r"[^\p{C}\p{Zl}\p{Zp}]"),
    ("[:word:]", r"\w"),
];

/// Returns what a class such as `[:alpha:]` is in the syntax of the `regex` crate.
pub(in crate::functions) fn posix_class(class: &str) -> String {
    let known = CLASSES.iter().find(|(theirs, _)| *theirs == class);
    known.map_or(class, |(_, ours)| *ours).to_owned()
}

/// Adds a pattern, with boundaries of words and texts and with classes in the syntax of the
/// `regex` crate.
fn push_pattern(pattern: &str, text: &mut String) {
    let mut rest = pattern;
    let mut is_in_brackets = false;
    while let Some(at) = rest.find(['\\', '[', ']']) {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        let known = if is_in_brackets { CLASSES.as_slice() } else { TRANSLATED.as_slice() };
        let found = known.iter().find(|(theirs, _)| from.starts_with(theirs));
        let taken = match found {
            Some((theirs, ours)) => {
                text.push_str(ours);
                theirs.len()
            }
            None => {
                let second = from.chars().nth(1).map_or(0, char::len_utf8);
                let taken = match from.as_bytes()[0] {
                    b'\\' => 1 + second,
                    b'[' if !is_in_brackets => {
                        is_in_brackets = true;
                        // A bracket at the beginning of a class is one of its characters.
                        1 + ["^]", "]", "^"]
                            .iter()
                            .find(|it| from[1..].starts_with(*it))
                            .map_or(0, |it| it.len())
                    }
                    // Another class.
                    b'[' if from.starts_with("[:") => from.find(":]").map_or(1, |end| end + 2),
                    b']' => {
                        is_in_brackets = false;
                        1
                    }
                    _ => 1,
                };
                text.push_str(&from[..taken]);
                taken
            }
        };
        rest = &from[taken..];
    }
    text.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_words_and_texts_are_translated() {
        assert_eq!(pattern_text("a+"), "a+");
        assert_eq!(pattern_text("a.b"), "(?s)a.b");
        assert_eq!(pattern_text(r"\yx\Y\m\M\Z\\y"), r"\bx\B\b{start}\b{end}\z\\y");
        assert_eq!(pattern_text("[[:<:]]a[[:>:]][a]"), r"\b{start}a\b{end}[a]");
        assert_eq!(pattern_text("[^[:alpha:] ]x[[:digit:]]"), r"[^\p{Alphabetic} ]x[[:digit:]]");
        assert_eq!(pattern_text("[[:digit:][:alpha:]]"), r"[[:digit:]\p{Alphabetic}]");
        assert_eq!(pattern_text("[][:upper:]][:upper:]"), r"[]\p{Uppercase}][:upper:]");
        assert_eq!(pattern_text(r"[\]a]\y[:space:]"), r"[\]a]\b[:space:]");
    }
}
