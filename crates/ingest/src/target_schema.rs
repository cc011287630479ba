//! The schema of the rows of an import: that of the table, which the options must agree with, or a
//! new one.
//!
//! Not here: the inference of columns (`sniff`, `parquet_file`).

use std::path::Path;
use std::sync::Arc;

use tidegate_model::schema::same_name;
use tidegate_model::{Column, ColumnType, PartitionUnit, Schema, TableId, TimeUnit};
use tidegate_storage::Database;

use crate::error::{Error, Result};
use crate::options::{ColumnSource, Existing, ImportOptions};
use crate::timestamp::TimestampFormat;

/// The schema of the rows: that of the table if it exists, else a new one.
pub(crate) struct TargetSchema {
    pub(crate) schema: Schema,
    pub(crate) exists: bool,
    /// The table of the database that has this schema.
    pub(crate) table: Option<TableId>,
}

/// A table that exists.
pub(crate) struct ExistingTable {
    pub(crate) schema: Schema,
    /// `None` for a table that is not one of the database.
    pub(crate) id: Option<TableId>,
}

/// The table of the import, if it exists; the options of the caller must agree with its schema.
pub(crate) fn existing_table(
    database: &Database,
    options: &ImportOptions,
) -> Result<Option<ExistingTable>> {
    let found = match &options.existing {
        Existing::Replace => return Ok(None),
        Existing::Elsewhere(schema) => Ok((options.table.clone(), Arc::clone(schema), None)),
        Existing::Add | Existing::Require => database
            .snapshot(&options.table)
            .map(|it| (it.name.clone(), Arc::clone(&it.schema), Some(it.table))),
    };
    let (table, schema, id) = match found {
        Ok(found) => found,
        Err(tidegate_storage::Error::NoSuchTable { .. }) if options.existing == Existing::Add => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(given) = &options.timestamp {
        let own = schema.designated_column().map(|(column, _)| column.name.clone());
        if !own.as_ref().is_some_and(|own| same_name(own, given)) {
            return Err(Error::OtherTimestamp { table, own, given: given.clone() });
        }
    }
    let own = schema.partition_by();
    if let Some(given) = options.partition_by.filter(|&given| given != own) {
        return Err(Error::OtherPartitioning { table, own, given });
    }
    if let Some(fields) = &options.fields {
        let is_given = |column: &Column| fields.iter().any(|field| same_name(field, &column.name));
        // The caller has refused such a list before, so the column is new.
        if let Some(column) = schema.unknown_default(is_given) {
            let column = column.name.clone();
            return Err(tidegate_storage::Error::ColumnAdded { table, column }.into());
        }
    }
    if let ColumnSource::Given(columns) = &options.columns {
        check_same_columns(schema.columns(), columns, &table)?;
    }
    for name in &options.symbols {
        let column = schema.find(name).ok_or_else(|| Error::NoSuchColumn {
            name: name.clone(),
            place: format!("table `{table}`"),
        })?;
        if column.ty != ColumnType::Symbol {
            return Err(Error::NotASymbol { name: column.name.clone(), ty: column.ty });
        }
    }
    Ok(Some(ExistingTable { schema: Schema::clone(&schema), id }))
}

fn check_same_columns(own: &[Column], given: &[(String, ColumnType)], table: &str) -> Result<()> {
    let differing = own
        .iter()
        .map(Some)
        .chain(std::iter::repeat(None))
        .zip(given)
        .find(|(own, (name, ty))| {
            own.is_none_or(|own| !same_name(&own.name, name) || own.ty != *ty)
        })
        .map(|(_, (name, _))| name.clone())
        .or_else(|| own.get(given.len()).map(|column| column.name.clone()));
    match differing {
        None => Ok(()),
        Some(column) => Err(Error::OtherSchema { table: table.to_owned(), column }),
    }
}

/// Checks that the file has the designated timestamp, without which there is no row. `sources` has
/// the field in the file of each column of the table.
pub(crate) fn require_designated(
    schema: &Schema,
    sources: &[Option<usize>],
    path: &Path,
) -> Result<()> {
    let mut columns = schema.columns().iter().zip(sources);
    let designated = columns.find(|(column, _)| Some(column.id) == schema.designated());
    match designated {
        Some((column, None)) => {
            let (name, place) = (column.name.clone(), path.display().to_string());
            Err(Error::NoSuchColumn { name, place })
        }
        _ => Ok(()),
    }
}

/// The unit that keeps all digits of the timestamps in their given format.
pub(crate) fn given_unit(options: &ImportOptions) -> TimeUnit {
    let has_nanos = options.timestamp_format.as_ref().is_some_and(TimestampFormat::has_nanos);
    if has_nanos { TimeUnit::Nanos } else { TimeUnit::Micros }
}

/// Checks that a unit is given for integers that are to be timestamps.
fn check_epoch(column: &str, ty: ColumnType, options: &ImportOptions) -> Result<()> {
    if options.timestamp_format.is_none() && ty.is_integer() {
        return Err(Error::TimestampNeedsFormat { column: column.to_owned(), ty });
    }
    Ok(())
}

/// The schema of a new table with inferred or given columns.
pub(crate) fn new_schema(
    mut columns: Vec<(String, ColumnType)>,
    options: &ImportOptions,
    path: &Path,
) -> Result<Schema> {
    let is_given = matches!(options.columns, ColumnSource::Given(_));
    let find = |columns: &[(String, ColumnType)], name: &str| {
        columns.iter().position(|(own, _)| same_name(own, name)).ok_or_else(|| {
            Error::NoSuchColumn { name: name.to_owned(), place: path.display().to_string() }
        })
    };
    for name in &options.symbols {
        let at = find(&columns, name)?;
        // An inferred type is a guess, which the user may overrule.
        if is_given && !matches!(columns[at].1, ColumnType::Varchar | ColumnType::Symbol) {
            return Err(Error::NotASymbol { name: name.clone(), ty: columns[at].1 });
        }
        columns[at].1 = ColumnType::Symbol;
    }
    if let Some(name) = &options.timestamp {
        let at = find(&columns, name)?;
        if !is_given {
            check_epoch(&columns[at].0, columns[at].1, options)?;
        }
        let is_guess = !is_given && columns[at].1.time_unit().is_none();
        let has_format = options.timestamp_format.is_some();
        if is_guess && (columns[at].1 == ColumnType::Date || has_format) {
            columns[at].1 = ColumnType::Timestamp(given_unit(options));
        }
    }
    let partition_by = options.partition_by.unwrap_or(PartitionUnit::None);
    let schema = Schema::new(&columns, options.timestamp.as_deref(), partition_by)?;
    Ok(schema.with_lengths(&options.lengths)?)
}
