//! The parser of a table's `TTL` and `DEDUP UPSERT KEYS`.

use tidegate_model::{PartitionUnit, Ttl};

use super::cursor::{Cursor, Name};
use super::token::TokenKind;
use crate::error::{Error, Result, SyntaxError};

/// A TTL and its place in the statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TtlClause {
    /// The TTL; `None` keeps rows for ever.
    pub(crate) ttl: Option<Ttl>,
    pub(crate) offset: usize,
}

/// The units and their names.
const UNITS: [(PartitionUnit, [&str; 3]); 5] = [
    (PartitionUnit::Hour, ["H", "HOUR", "HOURS"]),
    (PartitionUnit::Day, ["D", "DAY", "DAYS"]),
    (PartitionUnit::Week, ["W", "WEEK", "WEEKS"]),
    (PartitionUnit::Month, ["M", "MONTH", "MONTHS"]),
    (PartitionUnit::Year, ["Y", "YEAR", "YEARS"]),
];

impl TtlClause {
    /// Reads the text behind `TTL`: `3 DAYS`, `12h`; 0 for ever.
    pub(super) fn expect(cursor: &mut Cursor<'_>) -> Result<TtlClause> {
        let offset = cursor.offset();
        let count = cursor.expect_integer("a number of hours, days, weeks, months or years")?;
        let unit = cursor.peek().filter(|token| token.kind == TokenKind::Word).and_then(|token| {
            let is_it = |(_, names): &&(PartitionUnit, [&str; 3])| {
                names.iter().any(|name| token.is_word(name))
            };
            UNITS.iter().find(is_it).map(|(unit, _)| *unit)
        });
        match unit {
            Some(_) => cursor.skip(),
            None if count == 0 => return Ok(TtlClause { ttl: None, offset }),
            None => return Err(cursor.unexpected("HOURS, DAYS, WEEKS, MONTHS or YEARS")),
        }
        let Ok(count) = u32::try_from(count) else {
            let (what, bounds) = ("TTL", "at most 4,294,967,295 units");
            let what = SyntaxError::OutOfBounds { what, bounds, found: count.to_string() };
            return Err(Error::syntax(cursor.sql(), offset, what));
        };
        let ttl = unit.filter(|_| count > 0).map(|unit| Ttl { count, unit });
        Ok(TtlClause { ttl, offset })
    }

    /// Returns the TTL, if it is a whole number of partitions of this width.
    pub(crate) fn checked(&self, sql: &str, by: PartitionUnit) -> Result<Option<Ttl>> {
        match self.ttl {
            Some(ttl) if !is_whole(ttl, by) => {
                let (what, bounds) = ("TTL", "a whole number of partitions");
                let found = shown(ttl);
                let what = SyntaxError::OutOfBounds { what, bounds, found };
                Err(Error::syntax(sql, self.offset, what))
            }
            ttl => Ok(ttl),
        }
    }
}

/// Formats a TTL as a statement writes it: `3 DAYS`.
pub(crate) fn shown(ttl: Ttl) -> String {
    let plural = if ttl.count == 1 { "" } else { "S" };
    format!("{} {}{plural}", ttl.count, ttl.unit.sql())
}

/// Returns true if this TTL is a whole number of partitions, for months of any length.
fn is_whole(ttl: Ttl, by: PartitionUnit) -> bool {
    let Ttl { count, unit } = ttl;
    match by {
        // The schema checks that there are partitions at all.
        PartitionUnit::None | PartitionUnit::Hour => true,
        PartitionUnit::Day => unit != PartitionUnit::Hour || count % 24 == 0,
        PartitionUnit::Week => match unit {
            PartitionUnit::Hour => count % (7 * 24) == 0,
            PartitionUnit::Day => count % 7 == 0,
            PartitionUnit::Week => true,
            PartitionUnit::None | PartitionUnit::Month | PartitionUnit::Year => false,
        },
        PartitionUnit::Month => matches!(unit, PartitionUnit::Month | PartitionUnit::Year),
        PartitionUnit::Year => match unit {
            PartitionUnit::Year => true,
            PartitionUnit::Month => count % 12 == 0,
            _ => false,
        },
    }
}

/// Reads the text behind `DEDUP` or `DEDUP ENABLE`: `UPSERT KEYS (a, b)`.
pub(crate) fn expect_keys(cursor: &mut Cursor<'_>) -> Result<Vec<Name>> {
    cursor.expect_words(&["UPSERT", "KEYS"])?;
    cursor.expect_sign('(')?;
    let keys = cursor.expect_list(|cursor| cursor.expect_name("the name of a column"))?;
    cursor.expect_sign(')')?;
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, by: PartitionUnit, expected: &str) {
        let mut cursor = Cursor::new(text).unwrap();
        let ttl = TtlClause::expect(&mut cursor).and_then(|clause| clause.checked(text, by));
        let actual = match ttl {
            Ok(ttl) => ttl.map_or("for ever".to_owned(), shown),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(actual, expected, "{text} {}", by.sql());
    }

    #[test]
    fn times_are_whole_numbers_of_partitions() {
        check("3 DAYS", PartitionUnit::Day, "3 DAYS");
        check("1d", PartitionUnit::Hour, "1 DAY");
        check("48h", PartitionUnit::Day, "48 HOURS");
        check("2 w", PartitionUnit::Week, "2 WEEKS");
        check("24 months", PartitionUnit::Year, "24 MONTHS");
        check("0", PartitionUnit::Day, "for ever");
        check("0 HOURS", PartitionUnit::Day, "for ever");
        let whole = "error: line 1, column 1: TTL must be a whole number of partitions, not ";
        check("25 HOURS", PartitionUnit::Day, &format!("{whole}25 HOURS"));
        check("30 DAYS", PartitionUnit::Month, &format!("{whole}30 DAYS"));
        check("1 MONTH", PartitionUnit::Week, &format!("{whole}1 MONTH"));
        check("18M", PartitionUnit::Year, &format!("{whole}18 MONTHS"));
    }

    #[test]
    fn a_time_has_a_number_and_a_unit() {
        let expected = "expected a number of hours, days, weeks, months or years, found `DAYS`";
        check("DAYS", PartitionUnit::Day, &format!("error: line 1, column 1: {expected}"));
        let expected = "expected HOURS, DAYS, WEEKS, MONTHS or YEARS, found the end";
        check("3", PartitionUnit::Day, &format!("error: line 1, column 2: {expected}"));
    }
}
