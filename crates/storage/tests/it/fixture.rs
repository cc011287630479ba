//! Databases on simulated disks, tables and segments of a few rows.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::{
    ColumnId, ColumnType, PartitionUnit, RowCount, Schema, SymbolId, TableId, TimeUnit, Timestamp,
    View, ViewRead,
};
use tidegate_platform::{SimClock, SimDisk};
use tidegate_storage::segment::encode::{ColumnEncoder, FrameValues};
use tidegate_storage::segment::strings::{DictionaryRows, TextForm};
use tidegate_storage::segment::{Direct, Writer, WriterSpec};
use tidegate_storage::{
    AppendOptions, BatchColumn, BatchTexts, BatchValues, Database, Error, ImportTarget, ImportTxn,
    LogOptions, NewTableOptions, OpenOptions, Result, RowBatch, TableAppend, WrittenSegment,
};

pub(crate) const DIR: &str = "/srv/db";
pub(crate) const DAY: i64 = 86_400_000_000;

/// A row of a test: its timestamp, a symbol and a number.
pub(crate) type Row = (i64, &'static str, i64);

/// A log that is small enough to be rotated and purged within a test.
pub(crate) fn options() -> OpenOptions {
    let log = LogOptions {
        step_bytes: 8 << 10,
        file_bytes: 40 << 10,
        checkpoint_bytes: 1 << 30,
        bytes_max: 1 << 31,
        ..LogOptions::STANDARD
    };
    // One thread, so that the same calls come in the same order.
    let sync_threads = NonZeroUsize::new(1).unwrap();
    OpenOptions { log, sync_threads, ..OpenOptions::new(Arc::new(SimClock::new(77))) }
}

pub(crate) fn try_open(disk: &SimDisk) -> Result<Arc<Database>> {
    Database::open(Arc::new(disk.clone()), Path::new(DIR), &options())
}

#[track_caller]
pub(crate) fn open(disk: &SimDisk) -> Arc<Database> {
    try_open(disk).unwrap()
}

pub(crate) fn new_database() -> (SimDisk, Arc<Database>) {
    let disk = SimDisk::new(1);
    let database = open(&disk);
    (disk, database)
}

/// The schema of a view with this query, and the columns of `schema`.
pub(crate) fn view(query: &str) -> Schema {
    let columns = schema();
    let columns = columns.columns().iter();
    let columns = columns.map(|column| (column.name.clone(), column.ty)).collect::<Vec<_>>();
    let read = ViewRead {
        name: "cpu".to_owned(),
        table: TableId(1),
        columns: vec![(ColumnId(0), "ts".to_owned())],
    };
    let view = View { query: query.to_owned(), reads: vec![read] };
    Schema::of_view(&columns, Some("ts"), view).unwrap()
}

/// `ts TIMESTAMP, host SYMBOL, value BIGINT`, by day.
pub(crate) fn schema() -> Schema {
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
        ("host", ColumnType::Symbol),
        ("value", ColumnType::Int64),
    ];
    let columns = columns.map(|(name, ty)| (name.to_owned(), ty));
    Schema::new(&columns, Some("ts"), PartitionUnit::Day).unwrap()
}

/// Columns added by a statement.
pub(crate) fn columns(added: &[(&str, ColumnType)]) -> Vec<(String, ColumnType)> {
    added.iter().map(|&(name, ty)| (name.to_owned(), ty)).collect()
}

/// Imports rows into a table that exists.
pub(crate) fn import(database: &Arc<Database>, table: &str, rows: &[Row]) -> Result<u64> {
    import_into(database, ImportTarget::Existing(table), rows)
}

pub(crate) fn import_into(
    database: &Arc<Database>,
    target: ImportTarget<'_>,
    rows: &[Row],
) -> Result<u64> {
    let txn = database.begin_import(target)?;
    let segments = write(&txn, rows)?;
    txn.commit(segments).map(|seq_txn| seq_txn.0)
}

/// Writes rows as one segment for each partition. They need not be in order.
pub(crate) fn write(txn: &ImportTxn, rows: &[Row]) -> Result<Vec<WrittenSegment>> {
    let (unit, by) = (txn.schema().time_unit(), txn.schema().partition_by());
    let mut partitions: BTreeMap<_, Vec<Row>> = BTreeMap::new();
    for row in rows {
        partitions.entry(by.floor(Timestamp(row.0), unit)).or_default().push(*row);
    }
    partitions
        .into_iter()
        .map(|(partition, mut rows)| {
            rows.sort_by_key(|row| row.0);
            let (segment, file) = txn.new_segment(partition)?;
            let spec = WriterSpec {
                table: txn.table(),
                segment,
                partition,
                rows: RowCount(rows.len() as u64),
                min_ts: rows[0].0,
                max_ts: rows[rows.len() - 1].0,
            };
            let writer = Writer::new(spec, file);
            write_columns(txn, &writer, &rows)?;
            writer.finish(&mut Direct)
        })
        .collect()
}

/// Writes the columns of `Row`; others are not in the segment and read as NULL.
fn write_columns(txn: &ImportTxn, writer: &Writer, rows: &[Row]) -> Result<()> {
    for column in txn.schema().columns() {
        let mut encoder = ColumnEncoder::new(column.id, column.ty, Vec::new());
        match column.ty {
            ColumnType::Timestamp(_) => {
                let mut values: Vec<i64> = rows.iter().map(|row| row.0).collect();
                encoder.push(&mut FrameValues::I64(&mut values), None);
            }
            ColumnType::Int64 => {
                let mut values: Vec<i64> = rows.iter().map(|row| row.2).collect();
                encoder.push(&mut FrameValues::I64(&mut values), None);
            }
            ColumnType::Symbol => {
                let mut values: Vec<&[u8]> = Vec::new();
                let mut ids = Vec::new();
                for row in rows {
                    let text = row.1.as_bytes();
                    let known = values.iter().position(|value| *value == text);
                    let id = known.unwrap_or_else(|| {
                        values.push(text);
                        values.len() - 1
                    });
                    ids.push(u32::try_from(id).unwrap());
                }
                let symbols: Vec<SymbolId> = txn.intern(column.id, &values)?;
                let form = TextForm::Raw;
                let rows = DictionaryRows { ids: &ids, values: &values, form, validity: None };
                encoder.push_symbols(rows, &symbols);
            }
            _ => continue,
        }
        writer.add(encoder.finish(), &mut Direct)?;
    }
    Ok(())
}

/// Rows as a batch; if `extra` is a name, with one more column of ten times the value.
pub(crate) fn batch(rows: &[Row], extra: Option<&str>) -> RowBatch {
    let column =
        |name: &str, ty, values| BatchColumn { name: name.to_owned(), ty, values, validity: None };
    let mut texts = BatchTexts::default();
    let mut known: Vec<&str> = Vec::new();
    let codes = rows.iter().map(|row| {
        let at = known.iter().position(|text| *text == row.1).unwrap_or_else(|| {
            texts.push(row.1.as_bytes());
            known.push(row.1);
            known.len() - 1
        });
        u32::try_from(at).unwrap()
    });
    let codes = codes.collect();
    let numbers = |value: &dyn Fn(&Row) -> i64| BatchValues::I64(rows.iter().map(value).collect());
    let mut columns = vec![
        column("ts", ColumnType::Timestamp(TimeUnit::Micros), numbers(&|row| row.0)),
        column("host", ColumnType::Symbol, BatchValues::Symbols { codes, texts }),
        column("value", ColumnType::Int64, numbers(&|row| row.2)),
    ];
    if let Some(name) = extra {
        columns.push(column(name, ColumnType::Int64, numbers(&|row| row.2 * 10)));
    }
    RowBatch::new(rows.len(), columns)
}

/// An append that creates its table and columns if necessary.
pub(crate) fn append_of(table: &str, rows: &[Row], extra: Option<&str>) -> TableAppend {
    let create = NewTableOptions { designated: "ts".to_owned(), partition_by: PartitionUnit::Day };
    TableAppend {
        table: table.to_owned(),
        id: None,
        create: Some(create),
        add_columns: true,
        made_for: None,
        rows: batch(rows, extra),
    }
}

/// Appends rows to one table.
pub(crate) fn append(database: &Arc<Database>, table: &str, rows: &[Row]) -> Result<u64> {
    let appends = [append_of(table, rows, None)];
    database.append(&appends, &AppendOptions::default()).map(|appended| appended.seq_txns[0].0)
}

/// The files of the database whose names end with `end`.
pub(crate) fn files(disk: &SimDisk, end: &str) -> Vec<PathBuf> {
    let files = disk.files().into_iter().map(|(path, _)| path);
    files.filter(|path| path.to_str().unwrap().ends_with(end)).collect()
}

/// The error and its causes, in one line.
pub(crate) fn chain(error: &Error) -> String {
    let mut line = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        line.push_str(": ");
        line.push_str(&cause.to_string());
        source = cause.source();
    }
    line
}
