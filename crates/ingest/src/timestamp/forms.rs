//! General parsers of the forms without a pattern: ISO 8601 and dates with slashes.

use tidegate_model::time::CivilDate;

use super::cursor::Cursor;
use super::moment::{Fields, Moment, Offset};
use super::prefix::DateOrder;
use crate::parse::CellError;

/// Parses `yyyy-MM-dd`, alone or followed by a time.
pub(super) fn parse_iso(text: &[u8]) -> Result<Moment, CellError> {
    let mut cursor = Cursor::new(text);
    let fields = iso_date(&mut cursor).and_then(|date| after_date(&mut cursor, date));
    fields.ok_or(CellError::NotATimestamp)?.moment()
}

/// Parses `dd/MM/yyyy` or `MM/dd/yyyy`, alone or followed by a time.
pub(super) fn parse_slashes(text: &[u8], order: DateOrder) -> Result<Moment, CellError> {
    let mut cursor = Cursor::new(text);
    let fields = slash_date(&mut cursor, order).and_then(|date| after_date(&mut cursor, date));
    fields.ok_or(CellError::NotATimestamp)?.moment()
}

fn iso_date(cursor: &mut Cursor<'_>) -> Option<CivilDate> {
    let year = cursor.number(4)?;
    let month = cursor.eat(b"-").then(|| cursor.number(2))??;
    let day = cursor.eat(b"-").then(|| cursor.number(2))??;
    Some(CivilDate { year: i64::from(year), month, day })
}

fn slash_date(cursor: &mut Cursor<'_>, order: DateOrder) -> Option<CivilDate> {
    let first = cursor.digits(1, 2)?.value;
    let second = cursor.eat(b"/").then(|| cursor.digits(1, 2))??.value;
    let year = cursor.eat(b"/").then(|| cursor.number(4))??;
    let (day, month) = match order {
        DateOrder::MonthDayYear => (second, first),
        DateOrder::DayMonthYear | DateOrder::YearMonthDay => (first, second),
    };
    Some(CivilDate { year: i64::from(year), month, day })
}

/// Parses the text behind a date: nothing, or `T` or a space, `HH:mm`, perhaps `:ss`, perhaps a
/// fraction, perhaps an offset.
fn after_date(cursor: &mut Cursor<'_>, date: CivilDate) -> Option<Fields> {
    let mut fields = Fields { date, hour: 0, minute: 0, second: 0, nanos: 0, offset: Offset::UTC };
    if cursor.is_at_end() {
        return Some(fields);
    }
    if !cursor.eat_word("T") && !cursor.eat(b" ") {
        return None;
    }
    fields.hour = cursor.number(2)?;
    fields.minute = cursor.eat(b":").then(|| cursor.number(2))??;
    if cursor.eat(b":") {
        fields.second = cursor.number(2)?;
        if cursor.eat(b".") {
            fields.nanos = cursor.digits(1, 9)?.as_fraction(9);
        }
    }
    if !cursor.is_at_end() {
        fields.offset = offset_or_utc(cursor)?;
    }
    cursor.is_at_end().then_some(fields)
}

/// Parses an offset or the word UTC, perhaps behind a space: some tools write `... 10:00:00 UTC`.
fn offset_or_utc(cursor: &mut Cursor<'_>) -> Option<Offset> {
    cursor.eat(b" ");
    if cursor.eat_word("UTC") { Some(Offset::UTC) } else { cursor.offset() }
}
