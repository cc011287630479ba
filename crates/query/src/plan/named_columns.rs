//! Resolution of the columns that a statement names in the table that it changes.

use tidegate_model::{Column, Schema};

use crate::error::{Error, Result};
use crate::parse::{Insert, Name};
use crate::position::Position;

/// Returns the columns that an INSERT has values for.
pub(crate) fn insert_columns(sql: &str, insert: &Insert, schema: &Schema) -> Result<Vec<Column>> {
    if insert.query.is_empty() {
        // DEFAULT VALUES gives one column DEFAULT, and the others are filled alike.
        let first = schema.columns().first().cloned();
        return match schema.designated_column() {
            Some((time, _)) if schema.default_of(time.id).is_none() => {
                Err(Error::TimestampMissing { position: None, column: time.name.clone() })
            }
            _ => Ok(first.into_iter().collect()),
        };
    }
    let Some(names) = &insert.columns else { return Ok(schema.columns().to_vec()) };
    let mut columns: Vec<Column> = Vec::with_capacity(names.len());
    for name in names {
        let column = find_column(sql, schema, name)?;
        if columns.iter().any(|known| known.id == column.id) {
            let position = Position::at(sql, name.offset);
            return Err(Error::ColumnTwice { position, column: name.text.clone() });
        }
        columns.push(column.clone());
    }
    match schema.designated_column() {
        Some((time, _))
            if columns.iter().all(|column| column.id != time.id)
                && schema.default_of(time.id).is_none() =>
        {
            let position = names.first().map(|name| Position::at(sql, name.offset));
            Err(Error::TimestampMissing { position, column: time.name.clone() })
        }
        _ => Ok(columns),
    }
}

/// Checks that an UPDATE can set its columns.
pub(super) fn check_sets(sql: &str, sets: &[Name], schema: &Schema) -> Result<()> {
    for (at, set) in sets.iter().enumerate() {
        let column = find_column(sql, schema, set)?;
        let position = Position::at(sql, set.offset);
        if schema.designated() == Some(column.id) {
            let feature = "UPDATE of the designated timestamp";
            return Err(Error::NotSupported { position: Some(position), feature });
        }
        if sets[..at].iter().any(|other| other.text.eq_ignore_ascii_case(&set.text)) {
            return Err(Error::ColumnTwice { position, column: set.text.clone() });
        }
    }
    Ok(())
}

fn find_column<'a>(sql: &str, schema: &'a Schema, name: &Name) -> Result<&'a Column> {
    schema.find(&name.text).ok_or_else(|| {
        let position = Some(Position::at(sql, name.offset));
        Error::NoSuchColumn { position, column: name.text.clone(), similar: None }
    })
}
