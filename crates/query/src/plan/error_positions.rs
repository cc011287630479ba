//! Positions of planning errors in the text of a query.
//!
//! DataFusion keeps the places of columns; for other parts an error has only their text, which is
//! searched for among the tokens. A text that occurs twice is located at its first occurrence.

use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError, TableReference};
use tidegate_filter::Error as FilterError;
use tidegate_model::{ColumnType, Value};
use tidegate_storage::Error as StorageError;

use crate::error::{ClauseProblem, Condition, Error, TextProblem, innermost, is_about_arguments};
use crate::names::{OUTER_SCHEMA, name_of_hidden};
use crate::parse::{Token, TokenKind, column_type, tokenize};
use crate::position::Position;

/// The maximal number of differing letters of a suggested name.
const DISTANCE_MAX: usize = 2;

/// Returns the error with its place, if it can be found.
pub(crate) fn locate(sql: &str, error: Error) -> Error {
    let at = |offset: usize| Some(Position::at(sql, offset));
    match error {
        Error::BadText { position: None, text, ty, reason } => {
            let is_it = |token: &Token<'_>| match token.kind {
                TokenKind::Text => token.unquoted() == text,
                TokenKind::Number => token.text == text.trim_start_matches('-'),
                _ => false,
            };
            let position = find(sql, is_it).and_then(|token| at(token.offset));
            Error::BadText { position, text, ty, reason }
        }
        Error::NoSuchTable { position: None, table } => {
            let Some((offset, written)) = written_table(sql, &table) else {
                return Error::NoSuchTable { position: None, table };
            };
            Error::NoSuchTable { position: at(offset), table: written }
        }
        Error::Storage(StorageError::NoSuchTable { table }) => {
            locate(sql, Error::NoSuchTable { position: None, table })
        }
        Error::Clause { position: None, what } => {
            let name = match &what {
                ClauseProblem::NoDesignated { clause } => {
                    clause.split(' ').next().map(str::to_owned)
                }
                ClauseProblem::NotTimestamp { column } => Some(column.clone()),
                ClauseProblem::Operands { operator: text, .. }
                | ClauseProblem::AmbiguousOperator { operator: text, .. } => {
                    // A text of several characters is several tokens.
                    let is_it = |token: &Token<'_>| sql[token.offset..].starts_with(text.as_str());
                    let position = find(sql, is_it).and_then(|token| at(token.offset));
                    return Error::Clause { position, what };
                }
                ClauseProblem::Stride { stride: text }
                | ClauseProblem::Unit { unit: text }
                | ClauseProblem::NoTimeZone { zone: text }
                | ClauseProblem::Offset { offset: text }
                | ClauseProblem::Argument { function: text, .. } => Some(text.clone()),
                _ => None,
            };
            let is_it = |token: &Token<'_>| {
                name.as_ref().is_some_and(|name| token.unquoted().eq_ignore_ascii_case(name))
            };
            Error::Clause { position: find(sql, is_it).and_then(|token| at(token.offset)), what }
        }
        error if error.condition() == Condition::DivisionByZero => divided_by_zero(sql, error),
        Error::Engine { position: None, foreign } => located(sql, foreign),
        error => error,
    }
}

/// Does the same for an error during execution: its cause is no text of the statement, but a value.
/// Its place is that of the only cast or division that can have raised it.
pub(crate) fn locate_running(sql: &str, error: DataFusionError) -> DataFusionError {
    let located = match Error::from(error) {
        Error::BadText { position: None, text, ty, reason } => {
            Error::BadText { position: cast_position(sql, ty), text, ty, reason }
        }
        Error::Filter(FilterError::CastRange { value, to }) => {
            let text = match &value {
                Value::Integer(value) => Some(value.to_string()),
                Value::Float(value) => Some(value.to_string()),
                _ => None,
            };
            match (text, cast_position(sql, to)) {
                (Some(text), Some(position)) => {
                    let reason = TextProblem::OutOfRange;
                    Error::BadText { position: Some(position), text, ty: to, reason }
                }
                _ => Error::Filter(FilterError::CastRange { value, to }),
            }
        }
        error if error.condition() == Condition::DivisionByZero => divided_by_zero(sql, error),
        error => error,
    };
    located.into()
}

fn divided_by_zero(sql: &str, error: Error) -> Error {
    match (error.position(), division_position(sql)) {
        (None, Some(position)) => Error::Engine {
            position: Some(position),
            foreign: Box::new(DataFusionError::ArrowError(
                Box::new(ArrowError::DivideByZero),
                None,
            )),
        },
        _ => error,
    }
}

/// Returns the place of the division that can have been one by zero, if there is only one.
fn division_position(sql: &str) -> Option<Position> {
    let tokens = tokenize(sql).ok()?;
    let is_constant = |token: &Token<'_>| {
        token.kind == TokenKind::Number && token.text.parse().is_ok_and(|by: f64| by != 0.0)
    };
    let divisions = tokens.iter().enumerate().filter(|(at, token)| {
        let is_division = token.is_sign('/') || token.is_sign('%') || token.is_word("mod");
        is_division && !tokens.get(at + 1).is_some_and(is_constant)
    });
    only(divisions.map(|(_, token)| Position::at(sql, token.offset)))
}

/// Returns the place of the cast to a type, if there is only one.
fn cast_position(sql: &str, ty: ColumnType) -> Option<Position> {
    /// `DECIMAL(18, 3)`
    const TYPE_TOKENS_MAX: usize = 6;
    let tokens = tokenize(sql).ok()?;
    let is_type = |at: usize| {
        let is_cast = match at.checked_sub(2).map(|before| &tokens[before..at]) {
            Some([_, word]) if word.is_word("AS") => true,
            Some([first, second]) => first.is_sign(':') && second.is_sign(':'),
            _ => false,
        };
        let start = tokens[at].offset;
        let named = tokens[at..].iter().take(TYPE_TOKENS_MAX);
        let mut named = named.map(|last| &sql[start..last.offset + last.text.len()]);
        is_cast && named.any(|name| column_type(name) == Some(ty))
    };
    let casts = (0..tokens.len()).filter(|&at| is_type(at));
    only(casts.map(|at| Position::at(sql, tokens[at].offset)))
}

fn only<T>(mut found: impl Iterator<Item = T>) -> Option<T> {
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

fn located(sql: &str, foreign: Box<DataFusionError>) -> Error {
    if let DataFusionError::SchemaError(problem, _) = innermost(&foreign) {
        match problem.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                return no_such_column(sql, field, valid_fields);
            }
            SchemaError::AmbiguousReference { field } => {
                let position = column_position(sql, field);
                let column = written_name(sql, position, field);
                return Error::AmbiguousColumn { position, column };
            }
            _ => {}
        }
    }
    let position = match foreign.as_ref() {
        DataFusionError::Diagnostic(diagnostic, _) => {
            diagnostic.span.and_then(|span| position_of(sql, span.start.line, span.start.column))
        }
        _ => match innermost(&foreign) {
            DataFusionError::Plan(message) if let Some(place) = written_place(sql, message) => {
                Some(place)
            }
            DataFusionError::Plan(message)
            | DataFusionError::Internal(message)
            | DataFusionError::NotImplemented(message) => function_name(message).and_then(|name| {
                let token = find(sql, |token| token.is_word(name))?;
                Some(Position::at(sql, token.offset))
            }),
            _ => None,
        },
    };
    Error::Engine { position, foreign }
}

/// Returns the place of a part that only a message names: a position in ORDER BY or GROUP BY, or
/// the second of two names in WITH.
fn written_place(sql: &str, message: &str) -> Option<Position> {
    let number =
        ["Order by column out of bounds, specified: ", "Cannot find column with position "]
            .iter()
            .find_map(|text| message.strip_prefix(text));
    if let Some(number) = number.and_then(|rest| rest.split([',', ' ']).next()) {
        let tokens = tokenize(sql).ok()?;
        let by = tokens.iter().rposition(|token| token.is_word("BY"))?;
        let found = tokens[by..].iter().find(|token| token.text == number)?;
        return Some(Position::at(sql, found.offset));
    }
    let name = message.strip_prefix("WITH query name \"")?.split('"').next()?;
    let tokens = tokenize(sql).ok()?;
    let is_named = |pair: &&[Token<'_>]| {
        pair[0].unquoted().eq_ignore_ascii_case(name) && pair[1].is_word("AS")
    };
    let second = tokens.windows(2).filter(is_named).nth(1)?;
    Some(Position::at(sql, second[0].offset))
}

fn no_such_column(sql: &str, field: &Column, valid_fields: &[Column]) -> Error {
    let position = column_position(sql, field);
    let column = written_name(sql, position, field);
    let of = written_relation(field);
    let is_repeated = |valid: &Column| {
        let is_it = name_of_hidden(&valid.name) == Some(field.name.as_str());
        is_it && of.as_ref().is_none_or(|of| valid.relation.as_ref() == Some(of))
    };
    if valid_fields.iter().any(is_repeated) {
        return Error::AmbiguousColumn { position, column };
    }
    let similar = valid_fields.iter().map(|valid| valid.name.as_str());
    let similar = similar.map(|name| (distance(name, &field.name), name));
    let is_close = |(distance, _): &(usize, &str)| *distance <= DISTANCE_MAX;
    // The table is wrong, not the name.
    let column = match (&of, similar.clone().any(|(distance, _)| distance == 0)) {
        (Some(table), true) => format!("{table}.{column}"),
        _ => column,
    };
    let similar = similar.filter(|(distance, _)| *distance > 0).min();
    Error::NoSuchColumn {
        position,
        column,
        similar: similar.filter(is_close).map(|(_, name)| name.to_owned()),
    }
}

/// Returns the table of a column, without a schema that the statement does not name
/// (outer_names-1).
fn written_relation(column: &Column) -> Option<TableReference> {
    match column.relation.as_ref()? {
        TableReference::Partial { schema, table } if **schema == *OUTER_SCHEMA => {
            Some(TableReference::Bare { table: Arc::clone(table) })
        }
        relation => Some(relation.clone()),
    }
}

/// Returns the name of a column as it is written at its place.
fn written_name(sql: &str, position: Option<Position>, column: &Column) -> String {
    written_name_at(sql, position, &column.name)
}

/// Returns a name in lower case as it is written at its place.
pub(super) fn written_name_at(sql: &str, position: Option<Position>, name: &str) -> String {
    let written = position.and_then(|position| {
        // For `t.x` the place may be that of `t`.
        let is_name = |token: &Token<'_>| {
            token.offset >= position.offset && token.unquoted().to_lowercase() == name
        };
        find(sql, is_name).map(|token| token.unquoted())
    });
    written.unwrap_or_else(|| name.to_owned())
}

fn column_position(sql: &str, column: &Column) -> Option<Position> {
    let by_span =
        column.spans.first().and_then(|span| position_of(sql, span.start.line, span.start.column));
    let by_name = || {
        let token = find(sql, |token| token.unquoted().to_lowercase() == column.name)?;
        Some(Position::at(sql, token.offset))
    };
    by_span.or_else(by_name)
}

fn position_of(sql: &str, line: u64, column: u64) -> Option<Position> {
    let (line, column) = (usize::try_from(line).ok()?, usize::try_from(column).ok()?);
    (line > 0).then(|| Position::of_line(sql, line, column))
}

/// Returns the name in `Invalid function 'name'`, in messages about arguments, and in those about
/// types.
fn function_name(message: &str) -> Option<&str> {
    if let Some(name) = message.strip_prefix("Unsupported SQL type ") {
        return name.split('(').next();
    }
    if let Some((name, _)) = message.split_once(" takes ") {
        return (!name.contains(' ')).then_some(name);
    }
    let rest = match is_about_arguments(message) {
        true => message.split_once("Function '")?.1,
        false => message.strip_prefix("Invalid function '")?,
    };
    rest.split('\'').next()
}

/// Returns the place of a table's name and its text: `t`, or `schema.t`.
fn written_table(sql: &str, table: &str) -> Option<(usize, String)> {
    let tokens = tokenize(sql).ok()?;
    let is = |token: &Token<'_>, name: &str| token.unquoted().to_lowercase() == name;
    let table = table.to_lowercase();
    if let Some(token) = tokens.iter().find(|token| is(token, &table)) {
        return Some((token.offset, token.unquoted()));
    }
    let (schema, name) = table.split_once('.')?;
    let mut triples = tokens.windows(3).map(|it| (&it[0], &it[1], &it[2]));
    let (schema, _, name) =
        triples.find(|(a, point, b)| is(a, schema) && point.is_sign('.') && is(b, name))?;
    Some((schema.offset, format!("{}.{}", schema.unquoted(), name.unquoted())))
}

fn find<'a>(sql: &'a str, is_it: impl Fn(&Token<'a>) -> bool) -> Option<Token<'a>> {
    tokenize(sql).ok()?.into_iter().find(is_it)
}

/// Returns the edit distance of two names: letters to be changed, added or removed.
fn distance(a: &str, b: &str) -> usize {
    let b = b.chars().collect::<Vec<_>>();
    let mut row = (0..=b.len()).collect::<Vec<_>>();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_letters() {
        for (a, b, expected) in [
            ("", "", 0),
            ("abc", "", 3),
            ("watchid", "watchid", 0),
            ("url", "ur", 1),
            ("abc", "cab", 2),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn a_bad_text_is_located_at_its_literal() {
        let error = Error::BadText {
            position: None,
            text: "2013-13".to_owned(),
            ty: tidegate_model::ColumnType::Date,
            reason: crate::error::TextProblem::NotInCalendar,
        };
        let located = locate("SELECT 1\nWHERE d > '2013-13'", error);
        assert_eq!(
            located.to_string(),
            "line 2, column 11: '2013-13' is not a valid DATE: there is no such date or time"
        );
    }

    #[track_caller]
    fn check_place(found: Option<Position>, expected: Option<usize>) {
        assert_eq!(found.map(|position| position.column), expected);
    }

    #[test]
    fn the_only_cast_or_division_is_where_a_value_was_wrong() {
        check_place(division_position("SELECT a / b, c / 2 FROM t"), Some(10));
        check_place(division_position("SELECT a / b, c % d FROM t"), None);
        check_place(division_position("SELECT '1/2', 1 / 0 -- 1/3"), Some(17));
        check_place(division_position("SELECT 1"), None);
        let decimal = ColumnType::Decimal { precision: 5, scale: 2 };
        check_place(cast_position("SELECT a::INT, b::BIGINT", ColumnType::Int32), Some(11));
        check_place(cast_position("SELECT a::INT, b::INT", ColumnType::Int32), None);
        check_place(cast_position("SELECT CAST(a AS DECIMAL(5, 2)) AS INT", decimal), Some(18));
        check_place(cast_position("SELECT a AS x", ColumnType::Int32), None);
    }

    #[test]
    fn a_missing_table_is_named_as_it_is_written() {
        for (table, sql, expected) in [
            ("hits", "SELECT * FROM Hits", "line 1, column 15: table `Hits` does not exist"),
            ("a.b", "SELECT * FROM \"A.b\"", "line 1, column 15: table `A.b` does not exist"),
            ("my.t", "SELECT t.a FROM My.t", "line 1, column 17: table `My.t` does not exist"),
            ("t", "SELECT 1", "table `t` does not exist"),
        ] {
            let error = Error::NoSuchTable { position: None, table: table.to_owned() };
            assert_eq!(locate(sql, error).to_string(), expected);
        }
    }
}
