//! The rows of one table in a batch.
//!
//! - line_table-1. Only complete rows count. The values of a row, and columns and keys that it has
//!   added, are removed when it is rolled back.
//! - line_table-2. The types of columns are those of the table at its first row of the batch; a
//!   column that it lacks has the type of the first value.
//! - line_table-3. The first of a row's values for a column counts, whatever the case of its name.
//!
//! Not here: lines (`parser`).

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_model::time::{TIMESTAMP_MAX, TIMESTAMP_MIN};
use tidegate_model::{ColumnType, Schema, TimeUnit, limits};
use tidegate_storage::{BatchColumn, BatchValues, RowBatch};

use super::LineOptions;
use super::column::{Column, NULL_CODE};
use super::key_cache::KeyCache;
use super::parse_error::{Misfit, NameError, Reason, shown};
use super::rows::TableRows;
use super::scan;
use super::value_syntax::{Cell, RawValue};
use crate::parse::CellError;

/// The number of the designated timestamp among columns.
pub(super) const TIME: u32 = u32::MAX - 1;

/// The rows of one table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// The schema (line_table-2); `None` if there is no such table.
    schema: Option<Arc<Schema>>,
    designated: String,
    pub(super) unit: TimeUnit,
    pub(super) columns: Vec<Column>,
    /// The columns by name in lower case.
    names: HashMap<String, u32>,
    pub(super) key_cache: KeyCache,
    pub(super) rows: usize,
    times: Vec<i64>,
    /// The lines of rows, counted from the first of the batch.
    lines: Vec<u32>,
    /// True if the table occurs in this batch.
    pub(super) is_active: bool,
    new_columns: usize,
    /// The value of the present row for the designated timestamp; the outer option is `Some` if a
    /// field has given one.
    time_field: Option<Option<i64>>,
    savepoint: Savepoint,
    rows_before: usize,
    /// The memory that is kept between batches.
    pub(super) kept_bytes: usize,
}

/// The state at the beginning of the row.
#[derive(Debug, Clone, Copy, Default)]
struct Savepoint {
    columns: usize,
    keys: usize,
}

impl Table {
    pub(super) fn new(name: &str) -> Table {
        Table {
            name: name.to_owned(),
            schema: None,
            designated: String::new(),
            unit: TimeUnit::Micros,
            columns: Vec::new(),
            names: HashMap::new(),
            key_cache: KeyCache::default(),
            rows: 0,
            times: Vec::new(),
            lines: Vec::new(),
            is_active: false,
            new_columns: 0,
            time_field: None,
            savepoint: Savepoint::default(),
            rows_before: 0,
            kept_bytes: 0,
        }
    }

    /// Begins a batch. Returns false if the cached state of the table was invalid.
    pub(super) fn begin(
        &mut self,
        schema: Option<Arc<Schema>>,
        options: &LineOptions,
    ) -> Result<bool, Reason> {
        if schema.is_none() && !options.create_tables {
            return Err(Reason::NoSuchTable { table: shown(self.name.as_bytes()) });
        }
        let is_same = schema.is_some() && schema == self.schema && self.new_columns == 0;
        if !is_same {
            if schema.as_ref().is_some_and(|schema| schema.view().is_some()) {
                return Err(Reason::IsView { view: shown(self.name.as_bytes()) });
            }
            let (designated, unit) = match &schema {
                None => (options.timestamp_name.clone(), TimeUnit::Micros),
                Some(schema) => {
                    let Some((column, unit)) = schema.designated_column() else {
                        let table = shown(self.name.as_bytes());
                        return Err(Reason::NoDesignatedTimestamp { table });
                    };
                    (column.name.clone(), unit)
                }
            };
            let (rows_before, kept_bytes) = (self.rows_before, self.kept_bytes);
            *self = Table {
                schema,
                designated,
                unit,
                rows_before,
                kept_bytes,
                ..Table::new(&self.name)
            };
        }
        self.is_active = true;
        self.times.reserve(self.rows_before);
        self.lines.reserve(self.rows_before);
        for column in &mut self.columns {
            column.reserve(self.rows_before);
        }
        Ok(is_same)
    }

    /// Begins a row.
    #[inline]
    pub(super) fn begin_row(&mut self) {
        self.time_field = None;
        self.savepoint = Savepoint { columns: self.columns.len(), keys: self.key_cache.len() };
    }

    /// Removes the present row (line_table-1).
    pub(super) fn roll_back(&mut self) {
        for column in self.columns.drain(self.savepoint.columns.min(self.columns.len())..) {
            self.names.remove(&column.name.to_lowercase());
            self.new_columns -= usize::from(column.is_new);
        }
        if self.savepoint.keys < self.key_cache.len() {
            self.key_cache.truncate(self.savepoint.keys);
        }
        for column in &mut self.columns {
            column.roll_back(self.rows);
        }
    }

    /// The designated timestamp of the row, if a field gives it.
    #[inline]
    pub(super) fn time_field(&self) -> Option<i64> {
        self.time_field.flatten()
    }

    /// Ends a row.
    #[inline]
    pub(super) fn end_row(&mut self, time: i64, line: u32) -> Result<(), CellError> {
        if !(TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(&time) {
            return Err(CellError::TimeOutOfRange);
        }
        self.times.push(time);
        self.lines.push(line);
        self.rows += 1;
        Ok(())
    }

    /// The column of a key, which includes its `=`, and the key's number if it is cached.
    pub(super) fn resolve(
        &mut self,
        key: &[u8],
        options: &LineOptions,
    ) -> Result<(Option<u32>, u32), Reason> {
        if let Some((key, column)) = self.key_cache.find(key) {
            return Ok((Some(key), column));
        }
        let mut name = Vec::new();
        scan::unescape_name(&key[..key.len() - 1], &mut name);
        let name =
            checked_name(&name).map_err(|why| Reason::ColumnName { name: shown(&name), why })?;
        let column = self.column_of(name, options)?;
        // There are as many keys of a name as ways to write it.
        let has_room = self.key_cache.len() < options.max_columns.saturating_mul(2).max(64);
        Ok((has_room.then(|| self.key_cache.insert(key, column)), column))
    }

    /// The column with this name, a new one if the table has none.
    pub(super) fn column_of(&mut self, name: &str, options: &LineOptions) -> Result<u32, Reason> {
        let lower = name.to_lowercase();
        if let Some(&column) = self.names.get(&lower) {
            return Ok(column);
        }
        if lower == self.designated.to_lowercase() {
            self.names.insert(lower, TIME);
            return Ok(TIME);
        }
        let there = self.schema.as_ref().and_then(|schema| schema.find(name));
        let column = match there {
            Some(column) => {
                let length = self.schema.as_ref().and_then(|schema| schema.length(column.id));
                Column::new(&column.name, Some(column.ty)).with_length(length)
            }
            None => {
                self.may_create(name, options)?;
                self.new_columns += 1;
                Column::new(name, None)
            }
        };
        let number = u32::try_from(self.columns.len()).expect("limits::TABLE_COLUMNS");
        self.columns.push(column);
        self.names.insert(lower, number);
        Ok(number)
    }

    fn may_create(&self, name: &str, options: &LineOptions) -> Result<(), Reason> {
        let column = || shown(name.as_bytes());
        if self.schema.is_some() && !options.create_columns {
            return Err(Reason::NoSuchColumn { column: column() });
        }
        // A new table has its designated timestamp besides.
        let there = self.schema.as_ref().map_or(1, |schema| schema.columns().len());
        let max = options.max_columns.min(limits::TABLE_COLUMNS);
        if max <= there + self.new_columns {
            return Err(Reason::TooManyColumns { column: column(), max });
        }
        Ok(())
    }

    /// Adds a value of the row, of any kind.
    pub(super) fn push(
        &mut self,
        column: u32,
        raw: RawValue<'_>,
        options: &LineOptions,
    ) -> Result<(), Reason> {
        if column == TIME {
            return self.push_time(raw);
        }
        let column = &mut self.columns[column as usize];
        if !column.prepare(self.rows) {
            return Ok(()); // line_table-3
        }
        let Some(ty) = column.ty.or_else(|| raw.created_type(options.integer_type)) else {
            let (column, value) = (shown(column.name.as_bytes()), shown(raw.text()));
            return Err(Reason::NoTypeFor { column, kind: raw.kind(), value });
        };
        column.push(raw, ty).map_err(|why| lossy(&column.name, ty, raw, why))
    }

    /// Adds a value of the row that already has the type of the column.
    pub(super) fn push_cell(
        &mut self,
        column: u32,
        cell: Cell<'_>,
        ty: ColumnType,
    ) -> Result<(), Misfit> {
        let column = &mut self.columns[column as usize];
        if column.prepare(self.rows) { column.push_cell(cell, ty) } else { Ok(()) }
    }

    /// The type of a column, if it has one.
    pub(super) fn type_of(&self, column: u32) -> Option<ColumnType> {
        self.columns[column as usize].ty
    }

    /// Adds tags that were checked by `tag_cell` before.
    #[inline]
    pub(super) fn push_tags(&mut self, cells: &[(u32, u32)]) {
        for &(column, code) in cells {
            self.columns[column as usize].push_tag(code, self.rows);
        }
    }

    /// The number of a tag's text in its column.
    pub(super) fn tag_code(&mut self, column: u32, text: &[u8]) -> Result<u32, Reason> {
        if column == TIME {
            return Err(Reason::TimeAsTag { column: shown(self.designated.as_bytes()) });
        }
        let column = &mut self.columns[column as usize];
        if text.is_empty() {
            return Ok(NULL_CODE);
        }
        let ty = column.ty.unwrap_or(ColumnType::Symbol);
        column.tag_code(text, ty).map_err(|why| lossy(&column.name, ty, RawValue::Tag(text), why))
    }

    pub(super) fn push_null(&mut self, column: u32) {
        if column == TIME {
            self.time_field.get_or_insert(None);
            return;
        }
        let column = &mut self.columns[column as usize];
        if column.len() <= self.rows {
            column.push_null(self.rows);
        }
    }

    fn push_time(&mut self, raw: RawValue<'_>) -> Result<(), Reason> {
        if self.time_field.is_none() {
            let instant = raw.instant(self.unit).map_err(|why| {
                lossy(&self.designated, ColumnType::Timestamp(self.unit), raw, why)
            })?;
            self.time_field = Some(Some(instant));
        }
        Ok(())
    }

    /// The approximate size of its rows when they are taken.
    pub(super) fn value_bytes(&self) -> usize {
        let bytes = |column: &Column| column.value_bytes(self.rows);
        self.columns.iter().map(bytes).sum::<usize>() + self.rows * 12
    }

    fn cache_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(Column::cache_bytes).sum();
        columns + self.key_cache.memory_bytes() + size_of::<Table>()
    }

    /// Takes all rows; `None` if there are none.
    pub(super) fn take(&mut self, first_line: u64) -> Option<TableRows> {
        self.is_active = false;
        self.rows_before = self.rows;
        let rows = std::mem::take(&mut self.rows);
        let mut columns: Vec<BatchColumn> =
            self.columns.iter_mut().filter_map(|column| column.take(rows)).collect();
        self.kept_bytes = self.cache_bytes();
        if rows == 0 {
            return None;
        }
        columns.push(BatchColumn {
            name: self.designated.clone(),
            ty: ColumnType::Timestamp(self.unit),
            values: BatchValues::I64(std::mem::take(&mut self.times)),
            validity: None,
        });
        Some(TableRows {
            table: self.name.clone(),
            designated: self.designated.clone(),
            schema: self.schema.clone(),
            lines: std::mem::take(&mut self.lines),
            first_line,
            rows: RowBatch::new(rows, columns),
        })
    }
}

fn lossy(column: &str, ty: ColumnType, raw: RawValue<'_>, why: Misfit) -> Reason {
    let (column, value) = (shown(column.as_bytes()), shown(raw.text()));
    Reason::Lossy { column, ty, kind: raw.kind(), value, why }
}

/// Checks the name of a table or column.
pub(super) fn checked_name(name: &[u8]) -> Result<&str, NameError> {
    const FORBIDDEN: &str = "?,'\"\\/:()+*%~";
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if limits::NAME_BYTES < name.len() {
        return Err(NameError::TooLong);
    }
    let name = str::from_utf8(name).map_err(|_| NameError::Character('\u{FFFD}'))?;
    let bad = name.chars().find(|&c| c.is_control() || FORBIDDEN.contains(c));
    if let Some(bad) = bad {
        return Err(NameError::Character(bad));
    }
    if name.starts_with('.') || name.ends_with('.') {
        return Err(NameError::Dot);
    }
    Ok(name)
}
