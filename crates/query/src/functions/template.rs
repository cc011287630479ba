//! PostgreSQL's patterns of times: `YYYY-MM-DD HH24:MI:SS.US`.
//!
//! - Texts are written and read as by PostgreSQL's `to_char` and `to_timestamp`, with English
//!   names. Parts that PostgreSQL reads and then ignores are ignored here: `Q`, and the name of a
//!   day beside a date.
//! - template-1. A pattern is PostgreSQL's, QuestDB's, or refused: parts that only one of them has
//!   decide ([`form`]).
//!
//! Not here: the patterns of QuestDB (`pattern`). Patterns of numbers are not supported.

mod keywords;
mod read;
mod write;

use keywords::{Keyword, keyword_at};

pub(crate) use write::Zoned;

/// A pattern of PostgreSQL, split into its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
    /// `FX`: separators must match exactly.
    is_exact: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Field(Field),
    Space,
    Separator(char),
    Text(char),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    keyword: Keyword,
    /// The text of the keyword, whose case is that of a name.
    text: &'static str,
    /// `FM`: without padding.
    is_short: bool,
    ordinal: Option<Ordinal>,
}

/// `1ST` or `1st`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ordinal {
    Upper,
    Lower,
}

impl Template {
    pub(crate) fn new(pattern: &str) -> Template {
        let mut template = Template { parts: Vec::new(), is_exact: false };
        let mut rest = pattern;
        while !rest.is_empty() {
            if let Some(behind) = strip_prefix_ignoring_case(rest, "FX") {
                (rest, template.is_exact) = (behind, true);
                continue;
            }
            rest = match template.field(rest) {
                Some(behind) => behind,
                None => template.literal(rest),
            };
        }
        template
    }

    /// Reads a field with its modifiers; `None` if there is none.
    fn field<'a>(&mut self, pattern: &'a str) -> Option<&'a str> {
        let (mut rest, mut is_short) = (pattern, false);
        loop {
            if let Some(behind) = strip_prefix_ignoring_case(rest, "FM") {
                (rest, is_short) = (behind, true);
            } else if let Some(behind) = rest.strip_prefix("TM") {
                // Names of the locale, which is English, are not padded.
                (rest, is_short) = (behind, true);
            } else {
                break;
            }
        }
        let Some((keyword, text)) = keyword_at(rest) else {
            // A modifier without a field has no effect.
            return (rest.len() < pattern.len()).then_some(rest);
        };
        rest = &rest[text.len()..];
        let ordinal = if let Some(behind) = rest.strip_prefix("TH") {
            rest = behind;
            Some(Ordinal::Upper)
        } else if let Some(behind) = rest.strip_prefix("th") {
            rest = behind;
            Some(Ordinal::Lower)
        } else {
            None
        };
        rest = rest.strip_prefix("SP").unwrap_or(rest);
        self.parts.push(Part::Field(Field { keyword, text, is_short, ordinal }));
        Some(rest)
    }

    /// Reads a quoted text, or one character.
    fn literal<'a>(&mut self, pattern: &'a str) -> &'a str {
        let mut letters = pattern.chars();
        match letters.next() {
            Some('"') => {
                while let Some(letter) = letters.next() {
                    match letter {
                        '"' => break,
                        '\\' => self.parts.extend(letters.next().map(Part::Text)),
                        letter => self.parts.push(Part::Text(letter)),
                    }
                }
            }
            Some('\\') if letters.as_str().starts_with('"') => {
                self.parts.extend(letters.next().map(Part::Text));
            }
            Some(' ') => self.parts.push(Part::Space),
            Some(letter) if is_separator(letter) => self.parts.push(Part::Separator(letter)),
            Some(letter) => self.parts.push(Part::Text(letter)),
            None => {}
        }
        letters.as_str()
    }
}

pub(crate) fn is_separator(letter: char) -> bool {
    letter.is_ascii_graphic() && !letter.is_ascii_alphanumeric()
}

/// Returns the rest behind a word in capitals or in small letters.
fn strip_prefix_ignoring_case<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.strip_prefix(word).or_else(|| text.strip_prefix(word.to_ascii_lowercase().as_str()))
}

/// A time in the parts of patterns, or an interval.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moment {
    pub(super) year: i64,
    /// The month, 1 to 12; 0 in an interval without months.
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) micros: i64,
    /// Days since 1970; `None` for an interval.
    pub(super) days: Option<i64>,
}

/// The database whose pattern it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Postgres,
    QuestDb,
    /// Both of them accept it with different meanings: `yyyy-mm-dd` has months or minutes.
    Unclear,
    /// A pattern such as `%Y-%m-%d`.
    Percent,
}

/// Returns the database whose pattern it is (template-1).
pub(crate) fn form(pattern: &str) -> Form {
    let runs = runs(pattern);
    let is_percent = |pair: [u8; 2]| pair[0] == b'%' && pair[1].is_ascii_alphabetic();
    if pattern.as_bytes().array_windows::<2>().any(|pair| is_percent(*pair)) {
        return Form::Percent;
    }
    if pattern.starts_with("epoch_") {
        return Form::QuestDb;
    }
    let has = |wanted: &dyn Fn(&str) -> bool| runs.iter().any(|run| wanted(run));
    let of_postgres = has(&|run| {
        let lower = run.to_ascii_lowercase();
        run.contains('Y')
            || run.contains("DD") && !run.contains("DDD")
            || run.contains("MI")
            || run.contains("US")
            || run == "MS"
            || run == "SS"
            || run.contains("HH24")
            || run.contains("HH12")
            || run.starts_with("FF")
            || ["mi", "mon", "month", "day", "dy", "am", "pm", "us", "ms", "tzh", "iyyy", "iw"]
                .contains(&lower.as_str())
            || lower.contains("hh24")
            || lower.contains("hh12")
            || lower.starts_with("fm")
    });
    // In QuestDB's reading, minutes without an hour are months by mistake.
    let minutes = has(&|run| run.contains('m'));
    let hours = has(&|run| run.contains('H') || run.contains('h'));
    match (of_postgres, minutes && !hours) {
        (true, _) if has(&|run| run.contains("SSS") || run.contains("UUU")) => Form::Unclear,
        (true, _) if has(&|run| run == "mm") && has(&|run| run == "MM") => Form::Unclear,
        (true, _) => Form::Postgres,
        (false, true) => Form::Unclear,
        (false, false) => Form::QuestDb,
    }
}

/// Returns the runs of letters and digits of a pattern, without quoted text; the `T` of `ddTHH` is
/// a run of its own.
fn runs(pattern: &str) -> Vec<String> {
    let (mut runs, mut run) = (Vec::new(), String::new());
    let mut quote = None;
    for letter in pattern.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            None if letter.is_ascii_alphanumeric() && letter != 'T' => {
                run.push(letter);
                continue;
            }
            None => {}
        }
        if !run.is_empty() {
            runs.push(std::mem::take(&mut run));
        }
    }
    if !run.is_empty() {
        runs.push(run);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_recognised_as_postgresql_or_questdb() {
        for (pattern, expected) in [
            ("YYYY-MM-DD HH24:MI:SS.US", Form::Postgres),
            ("yyyy-mm-dd hh24:mi:ss", Form::Postgres),
            ("DD Mon YYYY", Form::Postgres),
            ("FMMonth", Form::Postgres),
            ("yyyy-MM-ddTHH:mm:ss.SSSUUUZ", Form::QuestDb),
            ("dd/MM/yyyy HH:mm", Form::QuestDb),
            ("MMM d, yyyy hh:mm a", Form::QuestDb),
            ("EEEE, d MMM yy h a", Form::QuestDb),
            ("yyyy", Form::QuestDb),
            ("epoch_ms", Form::QuestDb),
            ("yyyy-DDD", Form::QuestDb),
            ("YYYY-DDD", Form::Postgres),
            ("yyyy-mm-dd", Form::Unclear),
            ("YYYY-MM-DD HH:mm:ss", Form::Unclear),
            ("%Y-%m-%d", Form::Percent),
        ] {
            assert_eq!(form(pattern), expected, "template-1: {pattern}");
        }
    }
}
