//! Commits rows of several tables at once.
//!
//! - commit-1. If a table has changed since its rows were parsed, they are converted to its new
//!   schema, so that a retry loses nothing.
//! - commit-2. The error returns rows that were not committed and may be tried again.

use std::mem;
use std::sync::Arc;

use thiserror::Error;
use tidegate_ingest::line::{LineOptions, OnBadLine, ParseError, TableRows};
use tidegate_model::PartitionUnit;
use tidegate_platform::Class;
use tidegate_storage::{
    AppendOptions, BatchId, Database, Error as StorageError, NewTableOptions, TableAppend,
};

/// The most conversions of rows while other commits keep changing their table.
const ATTEMPTS: usize = 16;

/// The options of a commit.
#[derive(Clone, Debug)]
pub(crate) struct CommitOptions {
    /// The tables and columns that may be created, and the effect of a row that no longer fits.
    pub(crate) lines: LineOptions,
    /// The partitioning of created tables.
    pub(crate) partition_by: PartitionUnit,
    /// The identity of the batch: the same rows with the same key are committed once.
    pub(crate) batch: Option<NamedBatch>,
}

/// The batch of a request with an idempotency key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedBatch {
    /// The hash of the key and of the content.
    pub(crate) id: BatchId,
    /// The identity in earlier versions, which consists of the key only.
    pub(crate) older: BatchId,
}

/// The result of a commit.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// The number of committed rows.
    pub(crate) rows: u64,
    /// The first rows that no longer fitted.
    pub(crate) parse_errors: Vec<ParseError>,
    /// The number of rows that no longer fitted.
    pub(crate) rejected: u64,
    /// True if the rows had already been committed, with the key of their batch.
    pub(crate) is_repeat: bool,
}

/// The reason why rows were not committed.
#[derive(Debug, Error)]
pub(crate) enum CommitError {
    /// A row no longer fits, and bad lines are not skipped.
    #[error("{0}")]
    ParseError(Box<ParseError>),
    #[error("{source}")]
    Storage { source: StorageError, rows: Vec<TableRows> },
}

impl CommitError {
    /// Returns true if a retry with the same rows may succeed (commit-2).
    pub(crate) fn can_pass(&self) -> bool {
        match self {
            CommitError::ParseError(_)
            | CommitError::Storage { source: StorageError::InDoubt { .. }, .. } => false,
            CommitError::Storage { source, .. } => {
                is_race(source) || source.class() == Class::Environment
            }
        }
    }
}

/// Returns true if a concurrent change of the table has caused the error.
pub(crate) fn is_race(error: &StorageError) -> bool {
    matches!(
        error,
        StorageError::SchemaChanged { .. }
            | StorageError::NoSuchTable { .. }
            | StorageError::TableExists { .. }
            | StorageError::TableDropped { .. }
            | StorageError::TableTruncated { .. }
            | StorageError::ColumnDropped { .. }
    )
}

/// Commits all rows with one record. It computes, and waits for the disk.
pub(crate) fn commit(
    database: &Arc<Database>,
    mut rows: Vec<TableRows>,
    options: &CommitOptions,
) -> Result<Committed, CommitError> {
    let mut committed = Committed::default();
    let append_options = AppendOptions {
        batch_id: options.batch.map(|batch| batch.id),
        older_id: options.batch.map(|batch| batch.older),
    };
    for _ in 0..ATTEMPTS {
        if rows.is_empty() {
            return Ok(committed);
        }
        let appends = appends(&mut rows, options);
        let outcome = database.append(&appends, &append_options);
        let source = match outcome {
            Ok(appended) => {
                committed.is_repeat = !appended.is_new;
                committed.rows = appends.iter().map(|append| append.rows.rows() as u64).sum();
                return Ok(committed);
            }
            Err(source) => source,
        };
        give_back(&mut rows, appends);
        match &source {
            StorageError::SchemaChanged { table } => {
                convert(database, &mut rows, table, &options.lines, &mut committed)?;
            }
            error if is_race(error) => {}
            _ => return Err(CommitError::Storage { source, rows }),
        }
    }
    let table = rows.first().map(|rows| rows.table.clone()).unwrap_or_default();
    Err(CommitError::Storage { source: StorageError::SchemaChanged { table }, rows })
}

fn appends(rows: &mut [TableRows], options: &CommitOptions) -> Vec<TableAppend> {
    let append = |rows: &mut TableRows| TableAppend {
        table: rows.table.clone(),
        id: None,
        create: options.lines.create_tables.then(|| NewTableOptions {
            designated: rows.designated.clone(),
            partition_by: options.partition_by,
        }),
        add_columns: options.lines.create_columns,
        made_for: None,
        rows: mem::take(&mut rows.rows),
    };
    rows.iter_mut().map(append).collect()
}

fn give_back(rows: &mut [TableRows], appends: Vec<TableAppend>) {
    for (rows, append) in rows.iter_mut().zip(appends) {
        rows.rows = append.rows;
    }
}

/// Converts the rows of a table to its current schema (commit-1).
fn convert(
    database: &Arc<Database>,
    all: &mut Vec<TableRows>,
    table: &str,
    options: &LineOptions,
    committed: &mut Committed,
) -> Result<(), CommitError> {
    let is_meant = |rows: &TableRows| rows.table.eq_ignore_ascii_case(table);
    let found = all.iter().position(is_meant);
    // The name differs only in letters beyond ASCII: all rows are converted again.
    let meant = found.map_or(0..all.len(), |at| at..at + 1);
    let mut converted = Vec::new();
    for rows in &all[meant.clone()] {
        let mut new = rows.convert(database.schema_of(&rows.table), options);
        if options.on_bad_line == OnBadLine::Stop && !new.errors.is_empty() {
            return Err(CommitError::ParseError(Box::new(new.errors.swap_remove(0))));
        }
        committed.parse_errors.append(&mut new.errors);
        committed.rejected += new.rejected;
        converted.extend(new.rows);
    }
    all.splice(meant, converted);
    Ok(())
}

/// Returns the hash of an idempotency key: the first half of its FNV-1a hash of 128 bits, which is
/// the same in every version.
pub(crate) fn batch_name(key: &str) -> [u8; 8] {
    older_batch_id(key).name()
}

/// Returns the whole hash, which identified a batch before its content became a part of the
/// identity.
pub(crate) fn older_batch_id(key: &str) -> BatchId {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mix = |hash: u128, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    BatchId(key.bytes().fold(BASIS, mix).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_batches_never_change() {
        // The test vectors of the hash's authors for "" and "a".
        let hash = |key| u64::from_le_bytes(batch_name(key));
        assert_eq!(hash(""), 0x62b8_2175_6295_c58d);
        assert_eq!(hash("a"), 0x7891_2b70_4e4a_8964);
    }
}
