//! Detection of records of several lines that were several records, joined by a quote that is text.
//!
//! - Lines look like records if nearly all of them have as many fields as a record, and
//!   values in the columns that are not text: a text of several lines has neither.
//!
//! Not here: the places where such records occur (`sniff::dialect`, `read`), the decision about
//! them (`import::text`).

use crate::exact::{Number, is_true_or_false, number_of};
use crate::parse::trimmed;

/// The shape of a record, to which lines are compared.
#[derive(Debug, Clone)]
pub(crate) struct LineShape {
    pub(crate) delimiter: u8,
    pub(crate) line_end: u8,
    /// The number of fields of a record.
    pub(crate) fields: usize,
    /// The fields that are not text.
    pub(crate) typed: Vec<(usize, Kind)>,
}

/// The kind of value of a field that is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    Number,
    /// A date or a time, in any form.
    Time,
}

/// The number of lines of ten that must look like records.
const MOST: usize = 9;
/// The number of lines that must look like records where all columns are text: two lines of prose
/// may have as many commas by chance.
const TEXT_LINES_MIN: usize = 5;

impl LineShape {
    /// The number of lines of a record, if they look like records.
    pub(crate) fn joined(&self, record: &[u8]) -> Option<u64> {
        if self.fields < 2 {
            return None;
        }
        let (mut lines, mut like, mut valued) = (0, 0, 0);
        for line in record.split(|&byte| byte == self.line_end) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            lines += 1;
            if let Some(has_values) = self.like(line) {
                like += 1;
                valued += usize::from(has_values);
            }
        }
        let lines_min = if self.typed.is_empty() { TEXT_LINES_MIN } else { 2 };
        let are_valued = self.typed.is_empty() || like * MOST <= valued * 10;
        let are_like = lines_min <= lines && lines * MOST <= like * 10 && are_valued;
        are_like.then_some(lines as u64)
    }

    /// Returns true if a line that could be a record has values; `None` if it is no record.
    fn like(&self, line: &[u8]) -> Option<bool> {
        if memchr::memchr_iter(self.delimiter, line).count() + 1 != self.fields {
            return None;
        }
        let mut typed = self.typed.iter().peekable();
        let mut has_values = false;
        for (field, text) in line.split(|&byte| byte == self.delimiter).enumerate() {
            let Some((_, kind)) = typed.next_if(|(typed, _)| *typed == field) else { continue };
            let text = trimmed(text);
            let text = text.strip_prefix(b"\"").unwrap_or(text);
            let text = text.strip_suffix(b"\"").unwrap_or(text);
            if text.is_empty() {
                continue;
            }
            let is_value = match kind {
                Kind::Boolean => is_true_or_false(text) || number_of(text) != Number::None,
                Kind::Number => number_of(text) != Number::None,
                Kind::Time => text.iter().any(u8::is_ascii_digit),
            };
            if !is_value {
                return None;
            }
            has_values = true;
        }
        Some(has_values)
    }
}

/// The number of lines of a text.
pub(crate) fn lines_of(text: &[u8], line_end: u8) -> u64 {
    let text = text.strip_suffix(&[line_end]).unwrap_or(text);
    memchr::memchr_iter(line_end, text).count() as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_records_are_told_from_lines_of_text() {
        let shape = |typed: &[(usize, Kind)]| LineShape {
            delimiter: b',',
            line_end: b'\n',
            fields: 3,
            typed: typed.to_vec(),
        };
        let typed = shape(&[(0, Kind::Number), (2, Kind::Time)]);
        let joined = |shape: &LineShape, text: &str| shape.joined(text.as_bytes());
        assert_eq!(joined(&typed, "1,\"open,2024-01-01\n2,say \"x\",2024-01-02"), Some(2));
        assert_eq!(joined(&typed, "1,\"a,2024-01-01\r\n\n2,b,\r\n3,c\",2024-01-03"), Some(3));
        assert_eq!(joined(&typed, "1,\"dear sir\nfoo, bar, baz\",2024-01-03"), None);
        assert_eq!(joined(&typed, "1,\"dear, sir\nfoo, bar, baz\",2024-01-03"), None);
        assert_eq!(joined(&typed, "1,\"one line\",2024-01-03"), None);
        let text = shape(&[]);
        assert_eq!(joined(&text, "a,\"b,c\nd,e\",f"), None);
        assert_eq!(joined(&text, &["a,b,c"; 7].join("\n")), Some(7));
    }
}
