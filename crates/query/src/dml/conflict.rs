//! `ON CONFLICT`, accepted where it describes the behaviour that the table has anyway.
//!
//! - DO UPDATE is for tables with DEDUP keys: it names the keys, and sets every other column to the
//!   new row's value.
//! - DO NOTHING without columns is for tables without keys, where no two rows are in conflict. With
//!   keys it would keep the existing row, which the table replaces.

use tidegate_model::Schema;

use crate::error::{Error, Result};
use crate::parse::{Insert, Name, OnConflict};
use crate::position::Position;

/// Checks that the clause of an INSERT describes the behaviour of its table.
pub(super) fn check_conflict(sql: &str, insert: &Insert, schema: &Schema) -> Result<()> {
    let Some(OnConflict { offset, columns, sets }) = &insert.conflict else { return Ok(()) };
    let position = Position::at(sql, *offset);
    let keys = schema.dedup().iter().filter_map(|&id| schema.column(id));
    let keys = keys.map(|column| column.name.as_str()).collect::<Vec<_>>();
    let others = schema.columns().iter().map(|column| column.name.as_str());
    let others = others.filter(|name| !keys.contains(name)).collect::<Vec<_>>();
    if keys.is_empty() {
        return match (columns, sets) {
            (None, None) => Ok(()),
            _ => Err(Error::NoKeys { position, table: insert.table.text.clone() }),
        };
    }
    let is_same = |names: &[Name], expected: &[&str]| {
        let is_one = |name: &Name| expected.iter().any(|it| it.eq_ignore_ascii_case(&name.text));
        names.len() == expected.len() && names.iter().all(is_one)
    };
    let refused = |feature, instead| Err(Error::Refused { position, feature, instead });
    match (columns, sets) {
        (_, None) => refused(
            "ON CONFLICT DO NOTHING for a table with keys of DEDUP",
            "its rows replace those with the same keys: ON CONFLICT (keys) DO UPDATE, or no clause",
        ),
        (Some(columns), _) if !is_same(columns, &keys) => {
            Err(Error::NoKeys { position, table: insert.table.text.clone() })
        }
        (_, Some(sets)) if !is_same(sets, &others) => refused(
            "ON CONFLICT DO UPDATE of some columns",
            "the whole row is replaced: SET every column that is no key to EXCLUDED",
        ),
        _ => Ok(()),
    }
}
