//! Positions in the text of a statement: byte, line and column.

use std::fmt;

use datafusion::sql::sqlparser::tokenizer::Location;

/// A place in a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Bytes before it.
    pub offset: usize,
    /// From 1.
    pub line: usize,
    /// Characters from the start of the line, from 1.
    pub column: usize,
}

impl Position {
    /// Returns the position of a byte. An offset inside of a character counts as that character's.
    #[must_use]
    pub fn at(sql: &str, offset: usize) -> Position {
        let before = &sql.as_bytes()[..offset.min(sql.len())];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let starts_character = |byte: &&u8| **byte & 0xC0 != 0x80;
        Position {
            offset,
            line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
            column: before[line_start..].iter().filter(starts_character).count() + 1,
        }
    }

    /// Returns the position of a line and column, both from 1; the end of the text if it has no
    /// such place.
    #[must_use]
    pub fn of_line(sql: &str, line: usize, column: usize) -> Position {
        let start = sql.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
        let rest = sql.get(start..).unwrap_or_default();
        let within = rest.char_indices().nth(column.saturating_sub(1));
        Position::at(sql, start + within.map_or(rest.len(), |(at, _)| at))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

pub(crate) fn position_at(sql: &str, location: Location) -> Position {
    let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Position::of_line(sql, place(location.line), place(location.column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let sql = "a\n\u{fc}b c";
        let at = |offset| {
            let Position { line, column, .. } = Position::at(sql, offset);
            (line, column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(2), (2, 1));
        assert_eq!(at(4), (2, 2));
        assert_eq!(at(99), (2, 5));
        assert_eq!(Position::of_line(sql, 2, 2).offset, 4);
        assert_eq!(Position::of_line(sql, 2, 50).offset, sql.len());
        assert_eq!(Position::of_line(sql, 9, 1).offset, sql.len());
    }
}
