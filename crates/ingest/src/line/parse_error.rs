//! Parse errors: the reasons why lines were refused.
//!
//! - parse_error-1. A parse error names the physical line where its line begins, and has at most
//!   the first `RAW_BYTES` bytes of it; a message has at most `limits::LINE_MESSAGE_BYTES`.

use std::fmt;

use thiserror::Error;
use tidegate_model::{ColumnType, limits};

use crate::parse::CellError;

/// The bytes of a bad line that are kept.
pub(super) const RAW_BYTES: usize = 1 << 10;

/// The bytes of a name or value that a message shows.
const SHOWN_BYTES: usize = 160;

/// A line that was refused.
#[derive(Debug, Clone, PartialEq)]
pub struct ParseError {
    /// The number of its first physical line, counted from 1.
    pub line: u64,
    /// Its table, as far as the name was parsed.
    pub table: Option<String>,
    /// Its first bytes.
    pub raw: Vec<u8>,
    /// The reason.
    pub reason: Reason,
}

impl ParseError {
    /// The column at fault, if there is one.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        self.reason.column()
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// The reason why a line was refused. Texts in it are already shortened.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Reason {
    #[error("the line has no table name")]
    NoTable,
    #[error("'{name}' cannot be the name of a table: {why}")]
    TableName { name: String, why: NameError },
    #[error("'{name}' cannot be the name of a column: {why}")]
    ColumnName { name: String, why: NameError },
    #[error("table '{table}' has neither tags nor fields")]
    NoColumns { table: String },
    #[error("expected a tag with '=', found '{text}'")]
    TagWithoutEquals { text: String },
    #[error("tag '{column}' has an '=' in its value that is not escaped by a backslash")]
    EqualsInTag { column: String },
    #[error("expected a field with '=', found '{text}'")]
    FieldWithoutEquals { text: String },
    #[error("field '{column}' has value '{value}', which is not a number, boolean or string")]
    BadValue { column: String, value: String },
    #[error("field '{column}' has a string whose quote is never closed")]
    OpenString { column: String },
    #[error("the line ends with a backslash that escapes nothing")]
    OpenEscape,
    #[error("the connection ended within the line")]
    Cut,
    #[error("field '{column}' has a binary value, which this protocol version does not have")]
    BinaryValue { column: String },
    #[error("'{text}' is not a timestamp: digits, optionally followed by n, t or m")]
    BadTime { text: String },
    #[error("timestamp '{text}' is out of range")]
    TimeOutOfRange { text: String },
    #[error("expected the end of the line after the timestamp, found '{text}'")]
    AfterTime { text: String },
    #[error("the line is not UTF-8")]
    NotUtf8,
    #[error("the line has a NUL byte")]
    Nul,
    #[error("the line is longer than {max} bytes")]
    LineTooLong { max: usize },
    #[error(
        "the lines before it name so few of their table's columns that the NULLs of the others \
         take more than {max} bytes: send fewer lines at a time"
    )]
    TooManyNulls { max: usize },
    #[error("column '{column}' would exceed the limit of {max} columns of a table")]
    TooManyColumns { column: String, max: usize },
    #[error("table '{table}' does not exist, and the server creates no tables")]
    NoSuchTable { table: String },
    #[error("'{view}' is a view: rows can be written to tables only")]
    IsView { view: String },
    #[error("column '{column}' does not exist, and the server creates no columns")]
    NoSuchColumn { column: String },
    #[error("table '{table}' has no designated timestamp")]
    NoDesignatedTimestamp { table: String },
    #[error("{kind} '{value}' cannot go into column '{column}' of type {}: {why}", .ty.sql())]
    Lossy { column: String, ty: ColumnType, kind: &'static str, value: String, why: Misfit },
    #[error(
        "{kind} '{value}' cannot create column '{column}': {}",
        "integers of 256 bits are not supported"
    )]
    NoTypeFor { column: String, kind: &'static str, value: String },
    #[error("tag '{column}' has the name of the designated timestamp")]
    TimeAsTag { column: String },
}

/// The reason why a name is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NameError {
    #[error("it is empty")]
    Empty,
    #[error("it has more than {} bytes", limits::NAME_BYTES)]
    TooLong,
    #[error("'{}' may not be in a name", printable(*.0))]
    Character(char),
    #[error("it begins or ends with a dot")]
    Dot,
    #[error("tables of the schema `sys` are the system's own")]
    System,
}

/// The reason why a value does not fit a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Misfit {
    #[error("the types do not go together")]
    Type,
    #[error("it is not whole")]
    Fraction,
    #[error("it would be rounded")]
    Inexact,
    #[error("it is not finite")]
    NotFinite,
    #[error(transparent)]
    Cell(#[from] CellError),
}

impl Reason {
    /// The column at fault, if there is one.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        match self {
            Reason::ColumnName { name: column, .. }
            | Reason::EqualsInTag { column }
            | Reason::BadValue { column, .. }
            | Reason::OpenString { column }
            | Reason::BinaryValue { column }
            | Reason::TooManyColumns { column, .. }
            | Reason::NoSuchColumn { column }
            | Reason::Lossy { column, .. }
            | Reason::NoTypeFor { column, .. }
            | Reason::TimeAsTag { column } => Some(column),
            Reason::NoTable
            | Reason::TableName { .. }
            | Reason::NoColumns { .. }
            | Reason::TagWithoutEquals { .. }
            | Reason::FieldWithoutEquals { .. }
            | Reason::BadTime { .. }
            | Reason::TimeOutOfRange { .. }
            | Reason::AfterTime { .. }
            | Reason::OpenEscape
            | Reason::Cut
            | Reason::NotUtf8
            | Reason::Nul
            | Reason::LineTooLong { .. }
            | Reason::TooManyNulls { .. }
            | Reason::NoSuchTable { .. }
            | Reason::IsView { .. }
            | Reason::NoDesignatedTimestamp { .. } => None,
        }
    }

    /// The kind of the reason, one word for all lines with the same error.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Reason::NoTable | Reason::TableName { .. } | Reason::ColumnName { .. } => "name",
            Reason::NoColumns { .. }
            | Reason::TagWithoutEquals { .. }
            | Reason::EqualsInTag { .. }
            | Reason::FieldWithoutEquals { .. }
            | Reason::AfterTime { .. }
            | Reason::OpenString { .. }
            | Reason::OpenEscape => "syntax",
            Reason::Cut => "cut",
            Reason::BadValue { .. } | Reason::BinaryValue { .. } => "value",
            Reason::BadTime { .. } | Reason::TimeOutOfRange { .. } | Reason::TimeAsTag { .. } => {
                "timestamp"
            }
            Reason::NotUtf8 | Reason::Nul => "encoding",
            Reason::LineTooLong { .. } => "too_long",
            Reason::TooManyNulls { .. } => "too_many_nulls",
            Reason::TooManyColumns { .. }
            | Reason::NoSuchTable { .. }
            | Reason::IsView { .. }
            | Reason::NoSuchColumn { .. }
            | Reason::NoDesignatedTimestamp { .. } => "schema",
            Reason::Lossy { .. } | Reason::NoTypeFor { .. } => "conversion",
        }
    }

    /// Returns true if the line was refused for its size, or that of its batch, alone.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        matches!(self, Reason::LineTooLong { .. } | Reason::TooManyNulls { .. })
    }
}

/// A character for a message: itself, or an escape if it is invisible. Quotes and backslashes are
/// not escaped; the caller that puts the message into another text has to do it.
fn printable(character: char) -> String {
    match character {
        '"' | '\'' | '\\' => character.to_string(),
        other => other.escape_debug().to_string(),
    }
}

/// Text for a message: bytes that are not UTF-8 are replaced, and long text is cut.
pub(super) fn shown(text: &[u8]) -> String {
    let cut = text.len().min(SHOWN_BYTES);
    let mut shown: String = String::from_utf8_lossy(&text[..cut]).chars().map(printable).collect();
    // A character of one byte may have become several bytes.
    if SHOWN_BYTES < shown.len() {
        shown.truncate(shown.floor_char_boundary(SHOWN_BYTES));
    }
    if cut < text.len() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_characters_are_shown_unescaped() {
        assert_eq!(shown(b"a \"b\" 'c' \\d"), "a \"b\" 'c' \\d");
        assert_eq!(shown(b"a\n\x01\xff"), "a\\n\\u{1}\u{fffd}");
        assert_eq!(NameError::Character('"').to_string(), "'\"' may not be in a name");
        assert_eq!(NameError::Character('\t').to_string(), "'\\t' may not be in a name");
    }

    #[test]
    fn the_longest_message_is_within_its_bound() {
        let long = shown(&[1; 4_000]);
        assert!(long.ends_with("...") && long.len() <= SHOWN_BYTES + 3);
        let reason = Reason::Lossy {
            column: long.clone(),
            ty: ColumnType::Decimal { precision: 38, scale: 38 },
            kind: "timestamp",
            value: long,
            why: Misfit::Cell(CellError::TimeOfDayInDate),
        };
        let error = ParseError { line: u64::MAX, table: None, raw: Vec::new(), reason };
        assert!(error.to_string().len() <= limits::LINE_MESSAGE_BYTES, "parse_error-1");
    }
}
