//! Handling of parse errors: bad fields and records are rejected, become NULL, or fail the import.
//!
//! - A bad record is listed once, with its first bad field. If bad fields become NULL, each of them
//!   is listed.
//! - parse_errors-1. A row whose designated timestamp is bad or NULL is always rejected.

use std::borrow::Cow;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_model::TimeUnit;
use tidegate_model::time::{TIMESTAMP_MAX, TIMESTAMP_MIN};

use crate::convert::{ParseError, RowsOfText};
use crate::error::{Error, Result};
use crate::excerpt::shown;
use crate::index::Structure;
use crate::layout::RowLayout;
use crate::multiline::lines_of;
use crate::options::OnError;
use crate::parsed_batch::{ParsedBatch, Values};
use crate::progress::Progress;
use crate::reject::{Action, Reason, Reject, RejectLog, RejectPlace};
use crate::tally::Tallies;
use crate::timestamp::{TimestampFormat, TimestampParser};

/// The settings for handling parse errors.
#[derive(Debug)]
pub(crate) struct ParseErrorHandler<'a> {
    pub(crate) on_error: OnError,
    pub(crate) layout: &'a RowLayout,
    /// The unit of the designated timestamp.
    pub(crate) unit: TimeUnit,
    pub(crate) paths: &'a [PathBuf],
    pub(crate) rejects: &'a RejectLog,
    pub(crate) progress: &'a Progress,
    pub(crate) cells_nulled: AtomicU64,
    pub(crate) tallies: &'a Tallies,
}

/// The place at which a stretch of text or a record begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextPlace {
    pub(crate) file: usize,
    pub(crate) line: u64,
    pub(crate) offset: u64,
}

/// The place of a bad record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordPlace {
    pub(crate) file: usize,
    pub(crate) place: RejectPlace,
}

impl From<TextPlace> for RecordPlace {
    fn from(TextPlace { file, line, offset }: TextPlace) -> RecordPlace {
        RecordPlace { file, place: RejectPlace::Line { line, byte: offset } }
    }
}

/// The lines of a stretch of text, counted only up to the positions that were asked for, which
/// mostly ascend.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    text: &'a [u8],
    line_end: u8,
    start: TextPlace,
    /// A position, and the number of lines that end before it.
    counted: Cell<(usize, u64)>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a [u8], line_end: u8, start: TextPlace) -> Lines<'a> {
        Lines { text, line_end, start, counted: Cell::new((0, 0)) }
    }

    /// The place of a byte of the stretch.
    pub(crate) fn at(&self, position: usize) -> TextPlace {
        let (from, before) = match self.counted.get() {
            (from, before) if from <= position => (from, before),
            _ => (0, 0),
        };
        let between = memchr::memchr_iter(self.line_end, &self.text[from..position]).count();
        let lines = before + between as u64;
        self.counted.set((position, lines));
        let TextPlace { file, line, offset } = self.start;
        TextPlace { file, line: line + lines, offset: offset + position as u64 }
    }
}

/// The origin of the rows of a parsed batch, for messages.
pub(crate) trait RowOrigin {
    /// The place of a row.
    fn place(&self, row: u32) -> RecordPlace;
    /// The number of lines of text that it has.
    fn lines(&self, _row: u32) -> u64 {
        1
    }
    /// The text of the field.
    fn text(&self, error: &ParseError) -> Cow<'_, [u8]>;
    /// Returns true if the parse error shows that the guess of its column's date order was wrong.
    fn contradicts(&self, _error: &ParseError) -> bool {
        false
    }
}

/// Rows of text.
pub(crate) struct TextOrigin<'a> {
    pub(crate) rows: &'a RowsOfText<'a>,
    /// For each column, the field of a record.
    pub(crate) sources: &'a [Option<usize>],
    pub(crate) lines: &'a Lines<'a>,
    pub(crate) structure: &'a Structure,
    /// True if there are line ends within quotes.
    pub(crate) has_lines: bool,
    /// For each column, true if its dates can be read in two ways, of which one is a guess.
    pub(crate) ambiguous: &'a [bool],
}

impl RowOrigin for TextOrigin<'_> {
    fn place(&self, row: u32) -> RecordPlace {
        self.lines.at(self.rows.rows[row as usize].start as usize).into()
    }

    fn lines(&self, row: u32) -> u64 {
        if !self.has_lines {
            return 1;
        }
        let rest = &self.rows.text[self.rows.rows[row as usize].start as usize..];
        lines_of(&rest[..record_end(rest, self.structure)], self.structure.line_end)
    }

    fn text(&self, error: &ParseError) -> Cow<'_, [u8]> {
        let field = self.sources[error.column as usize];
        Cow::Borrowed(field.map_or(&[], |field| self.rows.raw_field(error.row, field)))
    }

    fn contradicts(&self, error: &ParseError) -> bool {
        if !self.ambiguous.get(error.column as usize).is_some_and(|is_ambiguous| *is_ambiguous) {
            return false;
        }
        let raw = self.text(error);
        let quote = self.rows.quote.map_or(&[][..], |_| self.rows.quote.as_slice());
        let text = raw.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
        let text = text.unwrap_or(&raw);
        // True if the format has not the order in which the column is read.
        let has_order =
            |format| TimestampParser::new(&format, TimeUnit::Micros).parse(text).is_ok();
        has_order(TimestampFormat::DayFirst) || has_order(TimestampFormat::MonthFirst)
    }
}

impl ParseErrorHandler<'_> {
    /// Handles the parse errors of a parsed batch: rows are rejected, fields become NULL, or the
    /// import fails.
    pub(crate) fn resolve(
        &self,
        errors: &mut Vec<ParseError>,
        origin: &dyn RowOrigin,
        parsed: &mut ParsedBatch,
    ) -> Result<()> {
        self.check_timestamps(errors, parsed);
        if errors.is_empty() {
            return Ok(());
        }
        errors.sort_by_key(|error| (error.row, error.column));
        for row_errors in errors.chunk_by(|a, b| a.row == b.row) {
            self.resolve_row(row_errors, origin, parsed)?;
        }
        Ok(())
    }

    fn resolve_row(
        &self,
        errors: &[ParseError],
        origin: &dyn RowOrigin,
        parsed: &mut ParsedBatch,
    ) -> Result<()> {
        let timestamp = self.layout.timestamp;
        // If text follows a closing quote, the fields of the record are not known.
        let is_fatal = |error: &&ParseError| {
            Some(error.column as usize) == timestamp || error.reason == Reason::TextAfterQuote
        };
        let (place, lines) = (origin.place(errors[0].row), origin.lines(errors[0].row));
        if let Some(error) = errors.iter().find(|error| origin.contradicts(error)) {
            return Err(self.ambiguous_dates(error, origin, &place));
        }
        let is_dead = match self.on_error {
            OnError::Abort => return self.abort(&errors[0], origin, &place, lines),
            OnError::SkipRow => true,
            OnError::Null => errors.iter().any(|error| is_fatal(&error)),
        };
        if is_dead {
            let first = match self.on_error {
                OnError::Null => errors.iter().find(is_fatal).expect("just seen"),
                _ => &errors[0],
            };
            self.record(first, origin, &place, lines, Action::RowSkipped)?;
            parsed.rejected.push(first.row);
            self.count_rejected(place.file, first.reason, lines);
            return Ok(());
        }
        for error in errors {
            self.record(error, origin, &place, lines, Action::CellNulled)?;
            parsed.columns[error.column as usize].nullify(error.row);
            self.cells_nulled.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// The error of a value that only the other reading of an ambiguous column can have: values
    /// before it may have been read wrongly, so that rejecting this one is not enough.
    #[cold]
    fn ambiguous_dates(
        &self,
        error: &ParseError,
        origin: &dyn RowOrigin,
        place: &RecordPlace,
    ) -> Error {
        Error::AmbiguousDates {
            path: self.paths[place.file].clone(),
            place: place.place,
            column: self.layout.columns[error.column as usize].column.name.clone(),
            text: shown(&origin.text(error)),
        }
    }

    fn record(
        &self,
        error: &ParseError,
        origin: &dyn RowOrigin,
        place: &RecordPlace,
        lines: u64,
        action: Action,
    ) -> Result<()> {
        let column = &self.layout.columns[error.column as usize].column;
        self.rejects.record(&Reject {
            file: &self.paths[place.file].to_string_lossy(),
            place: place.place,
            lines,
            column: Some(&column.name),
            text: &origin.text(error),
            reason: error.reason,
            action,
        })?;
        Ok(())
    }

    fn abort(
        &self,
        error: &ParseError,
        origin: &dyn RowOrigin,
        place: &RecordPlace,
        lines: u64,
    ) -> Result<()> {
        self.record(error, origin, place, lines, Action::Aborted)?;
        let text = origin.text(error);
        Err(Error::BadValue {
            path: self.paths[place.file].clone(),
            place: place.place,
            column: Some(self.layout.columns[error.column as usize].column.name.clone()),
            text: shown(&text),
            reason: error.reason,
        })
    }

    /// Rejects a record whose fields are not known.
    pub(crate) fn reject_record(
        &self,
        place: &TextPlace,
        text: &[u8],
        line_end: u8,
        reason: Reason,
    ) -> Result<()> {
        let lines = lines_of(text, line_end);
        let RecordPlace { file, place } = (*place).into();
        let path = &self.paths[file];
        let action = match self.on_error {
            OnError::Abort => Action::Aborted,
            OnError::SkipRow | OnError::Null => Action::RowSkipped,
        };
        self.rejects.record(&Reject {
            file: &path.to_string_lossy(),
            place,
            lines,
            column: None,
            text,
            reason,
            action,
        })?;
        if self.on_error == OnError::Abort {
            let (path, text) = (path.clone(), shown(text));
            return Err(Error::BadValue { path, place, column: None, text, reason });
        }
        self.count_rejected(file, reason, lines);
        Ok(())
    }

    fn count_rejected(&self, file: usize, reason: Reason, lines: u64) {
        let tally = self.tallies.of(file);
        tally.rejected_lines.fetch_add(lines.saturating_sub(1), Relaxed);
        tally.rejected.fetch_add(1, Relaxed);
        tally.misshapen.fetch_add(u64::from(reason.is_of_shape()), Relaxed);
        self.progress.add_rows_rejected(1);
    }

    /// Adds a parse error for each row whose designated timestamp is NULL (parse_errors-1).
    fn check_timestamps(&self, errors: &mut Vec<ParseError>, parsed: &ParsedBatch) {
        let Some(index) = self.layout.timestamp else { return };
        let column = &parsed.columns[index];
        let Values::W8(values) = &column.values else { return };
        let is_outside = |&value: &u64| {
            let value = value.cast_signed();
            !(TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(&value)
        };
        if column.nulls.is_empty() && !values.iter().any(is_outside) {
            return;
        }
        let mut add_error = |row: u32, reason| {
            let column = u32::try_from(index).expect("limits::TABLE_COLUMNS");
            errors.push(ParseError { row, column, reason });
        };
        for &row in &column.nulls {
            add_error(row, Reason::NullTimestamp);
        }
        for (row, value) in values.iter().enumerate() {
            if is_outside(value) {
                let row = u32::try_from(row).expect("PARSED_BATCH_ROWS");
                add_error(row, Reason::TimestampOutOfRange(self.unit));
            }
        }
    }

    /// The error of a record whose quote is open at the end of its file.
    pub(crate) fn unclosed_quote(
        &self,
        place: &TextPlace,
        text: &[u8],
        structure: &Structure,
    ) -> Error {
        let opened = place_of_quote(place, text, structure);
        let path = self.paths[place.file].clone();
        Error::UnclosedQuote { path, line: opened.line, offset: opened.offset }
    }

    /// The error of a record that is too long and has an open quote. The quote may be closed
    /// further on, but it is unknown where the records after it begin.
    pub(crate) fn record_too_long(
        &self,
        place: &TextPlace,
        text: &[u8],
        structure: &Structure,
    ) -> Error {
        let opened = place_of_quote(place, text, structure);
        let path = self.paths[place.file].clone();
        let (quote_line, offset) = (opened.line, opened.offset);
        Error::RecordTooLong { path, line: place.line, quote_line, offset }
    }
}

/// The place of the quote that is open at the end of the text, which begins at `place`.
pub(crate) fn place_of_quote(place: &TextPlace, text: &[u8], structure: &Structure) -> TextPlace {
    let opened = opening_quote(text, structure);
    Lines::new(text, structure.line_end, *place).at(opened)
}

/// The end of the record that a text begins with.
fn record_end(text: &[u8], structure: &Structure) -> usize {
    let (mut is_inside, mut at_start) = (false, true);
    for (position, &byte) in text.iter().enumerate() {
        let is_quote = Some(byte) == structure.quote;
        if is_inside {
            is_inside = !is_quote;
            at_start = is_quote;
        } else if byte == structure.line_end {
            return position;
        } else {
            is_inside = is_quote && at_start;
            at_start = byte == structure.delimiter;
        }
    }
    text.len()
}

/// The position of the quote that is open at the end of the text.
fn opening_quote(text: &[u8], structure: &Structure) -> usize {
    let (mut opened, mut is_inside, mut at_start) = (0, false, true);
    for (position, &byte) in text.iter().enumerate() {
        let is_quote = Some(byte) == structure.quote;
        if is_inside {
            is_inside = !is_quote;
            // A quote right after a closing one continues the same field.
            at_start = is_quote;
        } else if is_quote && at_start {
            is_inside = true;
            if position == 0 || Some(text[position - 1]) != structure.quote {
                opened = position;
            }
        } else {
            at_start = byte == structure.delimiter || byte == structure.line_end;
        }
    }
    opened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_record_is_outside_of_quotes() {
        let csv = Structure { delimiter: b',', quote: Some(b'"'), line_end: b'\n' };
        for (text, expected) in [
            ("a,b\nc", 3),
            ("a,\"b\n\"\"\n\"\nc", 9),
            ("\"a\nb\"c\nd", 6),
            ("a\"b\nc", 3),
            ("a,\"b", 4),
        ] {
            assert_eq!(record_end(text.as_bytes(), &csv), expected, "{text}");
        }
    }

    #[test]
    fn the_quote_that_is_never_closed_is_found() {
        let csv = Structure { delimiter: b',', quote: Some(b'"'), line_end: b'\n' };
        for (text, expected) in [
            ("\"abc", 0),
            ("a,\"b\",\"c", 6),
            ("a,\"b\"\"c", 2),
            ("a,\"b\"\"", 2),
            ("6\" pipe,\"x,\n", 8),
        ] {
            assert_eq!(opening_quote(text.as_bytes(), &csv), expected, "{text}");
        }
    }
}
