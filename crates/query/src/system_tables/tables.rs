//! Information about tables: their columns, partitions, rows, bytes and commits.
//!
//! - A damaged table is listed with the facts of its manifest: it is suspended, columns that depend
//!   on rows are NULL, and `wal_tables()` names the damage.
//! - Bytes are those of segments on disk. Rows of the memtable count as rows, and their bytes as
//!   none.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, TimestampMicrosecondArray,
    TimestampNanosecondArray, new_null_array,
};
use datafusion::arrow::datatypes::DataType;
use tidegate_model::types::Physical;
use tidegate_model::{ByteCount, ColumnType, PartitionKey, PartitionUnit, Schema, TimeUnit, Ttl};
use tidegate_storage::{
    Error as StorageError, Run, Snapshot, TableDescription, TableWrites, VisibleTables,
};

use super::{batch, counts, flags, texts};
use crate::error::Result;

/// The bytes of a symbol in `rawSize`: those of its id.
const SYMBOL_BYTES: u64 = 4;

/// The snapshots of tables, each with the damage that keeps it from being read, if there is any.
struct DescribedTables {
    snapshots: Vec<Arc<Snapshot>>,
    damages: Vec<Option<StorageError>>,
}

/// Returns all tables as they are now; not as of one moment, and without those that are dropped
/// meanwhile.
fn described(visible: &VisibleTables<'_>) -> Result<DescribedTables> {
    let (mut snapshots, mut damages) = (Vec::new(), Vec::new());
    for table in visible.tables() {
        match visible.describe(&table.name) {
            Ok(TableDescription { snapshot, damage }) => {
                snapshots.push(snapshot);
                damages.push(damage);
            }
            Err(StorageError::NoSuchTable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(DescribedTables { snapshots, damages })
}

/// Removes views, which have no files.
fn without_views(described: DescribedTables) -> DescribedTables {
    let all = described.snapshots.into_iter().zip(described.damages);
    let (snapshots, damages) = all.filter(|(snapshot, _)| snapshot.schema.view().is_none()).unzip();
    DescribedTables { snapshots, damages }
}

/// Returns the message of an error, with its causes.
fn with_causes(error: &StorageError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

pub(super) fn tables(visible: &VisibleTables<'_>) -> Result<RecordBatch> {
    let DescribedTables { snapshots, damages } = described(visible)?;
    let rows = snapshots.len();
    let totals = snapshots.iter().map(|snapshot| totals(snapshot)).collect::<Vec<_>>();
    let sums = |of: fn(&PartitionTotals) -> u64| {
        counts(totals.iter().map(|totals| totals.iter().map(of).sum::<u64>()))
    };
    let row_counts = row_counts(&snapshots, &totals, &damages);
    let designated =
        |it: &Arc<Snapshot>| it.schema.designated_column().map(|(column, _)| column.name.clone());
    // Nanoseconds are truncated: one column has one type.
    let times = |bound: fn(&[PartitionTotals]) -> Option<i64>| {
        let of_table = |(snapshot, totals): (&Arc<Snapshot>, &Vec<PartitionTotals>)| {
            let worth = snapshot.schema.time_unit().per_second() / 1_000_000;
            snapshot.schema.designated().and(bound(totals)).map(|at| at.div_euclid(worth))
        };
        let times = snapshots.iter().zip(&totals).map(of_table);
        Arc::new(times.collect::<TimestampMicrosecondArray>()) as ArrayRef
    };
    let ttls = snapshots.iter().map(|it| it.schema.ttl());
    let ttl_units = ttls.clone().map(|ttl| ttl.map_or(PartitionUnit::Hour, |ttl| ttl.unit));
    let ttl_count = |ttl: Ttl| i32::try_from(ttl.count).unwrap_or(i32::MAX);
    let is_view = |it: &Arc<Snapshot>| it.schema.view().is_some();
    let kind = |it: &Arc<Snapshot>| Some(if is_view(it) { "V" } else { "T" }.to_owned());
    batch(vec![
        ("id", counts(snapshots.iter().map(|it| it.table.0))),
        ("table_name", texts(snapshots.iter().map(|it| Some(it.name.clone())))),
        ("designatedTimestamp", texts(snapshots.iter().map(designated))),
        (
            "partitionBy",
            texts(snapshots.iter().map(|it| Some(it.schema.partition_by().sql().to_owned()))),
        ),
        ("walEnabled", flags(snapshots.iter().map(|it| !is_view(it)))),
        ("dedup", flags(snapshots.iter().map(|it| !it.schema.dedup().is_empty()))),
        ("ttlValue", Arc::new(ttls.map(|ttl| ttl.map_or(0, ttl_count)).collect::<Int32Array>())),
        ("ttlUnit", texts(ttl_units.map(|unit| Some(unit.sql().to_owned())))),
        ("matView", flags(vec![false; rows])),
        ("directoryName", texts(snapshots.iter().map(|it| Some(it.table.0.to_string())))),
        ("maxUncommittedRows", new_null_array(&DataType::Int64, rows)),
        ("o3MaxLag", new_null_array(&DataType::Int64, rows)),
        ("table_suspended", flags(damages.iter().map(Option::is_some))),
        ("table_type", texts(snapshots.iter().map(kind))),
        ("table_row_count", row_counts),
        ("table_min_timestamp", times(|it| it.iter().map(|it| it.min_ts).min())),
        ("table_max_timestamp", times(|it| it.iter().map(|it| it.max_ts).max())),
        ("disk_size", sums(|it| it.bytes)),
        ("last_txn", counts(snapshots.iter().map(|it| it.seq_txn.0))),
        ("write_amplification", write_amplification(visible, &snapshots)),
    ])
}

/// Returns the numbers of rows; NULL where the deletion vectors for them may be damaged, and
/// for a view, whose rows are not counted.
fn row_counts(
    snapshots: &[Arc<Snapshot>],
    totals: &[Vec<PartitionTotals>],
    damages: &[Option<StorageError>],
) -> ArrayRef {
    let of_table = |((snapshot, totals), damage): ((&Arc<Snapshot>, &Vec<_>), &Option<_>)| {
        let rows = totals.iter().map(|it: &PartitionTotals| it.rows).sum::<u64>();
        let is_known = damage.is_none() && snapshot.schema.view().is_none();
        is_known.then(|| i64::try_from(rows).unwrap_or(i64::MAX))
    };
    let tables = snapshots.iter().zip(totals).zip(damages);
    Arc::new(tables.map(of_table).collect::<Int64Array>())
}

/// Returns the bytes written for each byte of log, since the database was opened.
fn write_amplification(visible: &VisibleTables<'_>, snapshots: &[Arc<Snapshot>]) -> ArrayRef {
    let of_table = |it: &Arc<Snapshot>| {
        let TableWrites { log_bytes, flushed_bytes, compacted_bytes } =
            visible.database().table_writes(it.table)?;
        let written = log_bytes + flushed_bytes + compacted_bytes;
        (0 < log_bytes).then(|| written as f64 / log_bytes as f64)
    };
    Arc::new(snapshots.iter().map(of_table).collect::<Float64Array>())
}

pub(super) fn table_storage(visible: &VisibleTables<'_>) -> Result<RecordBatch> {
    let DescribedTables { snapshots, damages } = without_views(described(visible)?);
    let totals = snapshots.iter().map(|snapshot| totals(snapshot)).collect::<Vec<_>>();
    let row_counts = row_counts(&snapshots, &totals, &damages);
    let sums = |of: fn(&PartitionTotals) -> u64| {
        counts(totals.iter().map(|totals| totals.iter().map(of).sum::<u64>()))
    };
    let partition_by = |it: &Arc<Snapshot>| Some(it.schema.partition_by().sql().to_owned());
    batch(vec![
        ("tableName", texts(snapshots.iter().map(|it| Some(it.name.clone())))),
        ("walEnabled", flags(vec![true; snapshots.len()])),
        ("partitionBy", texts(snapshots.iter().map(partition_by))),
        ("partitionCount", sums(|_| 1)),
        ("rowCount", row_counts),
        ("diskSize", sums(|it| it.bytes)),
    ])
}

/// Returns the state of commits. They are applied when they are made: nothing waits, and only
/// damage suspends a table.
pub(super) fn wal_tables(visible: &VisibleTables<'_>) -> Result<RecordBatch> {
    let DescribedTables { snapshots, damages } = without_views(described(visible)?);
    let rows = snapshots.len();
    let commits = || counts(snapshots.iter().map(|it| it.seq_txn.0));
    batch(vec![
        ("name", texts(snapshots.iter().map(|it| Some(it.name.clone())))),
        ("suspended", flags(damages.iter().map(Option::is_some))),
        ("writerTxn", commits()),
        ("bufferedTxnSize", counts(vec![0; rows])),
        ("sequencerTxn", commits()),
        ("errorTag", texts(damages.iter().map(|it| it.as_ref().map(|_| "DAMAGED".to_owned())))),
        ("errorMessage", texts(damages.iter().map(|it| it.as_ref().map(with_causes)))),
        ("memoryPressure", Arc::new(Int32Array::from(vec![0; rows]))),
    ])
}

/// Returns the name of a type in QuestDB, or ours where it has none.
fn type_name(ty: ColumnType) -> String {
    match ty {
        ColumnType::Int8 => "BYTE".to_owned(),
        ColumnType::Int16 => "SHORT".to_owned(),
        ColumnType::Int64 => "LONG".to_owned(),
        ColumnType::Ipv4 => "IPv4".to_owned(),
        other => other.sql(),
    }
}

pub(super) fn columns(snapshot: &Snapshot) -> Result<RecordBatch> {
    let columns = snapshot.schema.columns();
    let rows = columns.len();
    let is_symbol = |ty| ty == ColumnType::Symbol;
    let symbols = |column: &tidegate_model::Column| {
        snapshot.symbols.get(column.id).map_or(0, |table| table.len() as u64)
    };
    let (designated, keys) = (snapshot.schema.designated(), snapshot.schema.dedup());
    let none = || vec![false; rows];
    batch(vec![
        ("column", texts(columns.iter().map(|column| Some(column.name.clone())))),
        ("type", texts(columns.iter().map(|column| Some(type_name(column.ty))))),
        ("indexed", flags(none())),
        ("indexBlockCapacity", Arc::new(Int32Array::from(vec![0; rows]))),
        ("symbolCached", flags(columns.iter().map(|column| is_symbol(column.ty)))),
        ("symbolCapacity", new_null_array(&DataType::Int64, rows)),
        ("symbolTableSize", counts(columns.iter().map(symbols))),
        ("designated", flags(columns.iter().map(|column| designated == Some(column.id)))),
        ("upsertKey", flags(columns.iter().map(|column| keys.contains(&column.id)))),
        ("indexType", new_null_array(&DataType::Utf8View, rows)),
        ("indexInclude", new_null_array(&DataType::Utf8View, rows)),
    ])
}

/// The totals of the segments of a partition.
struct PartitionTotals {
    key: PartitionKey,
    min_ts: i64,
    max_ts: i64,
    rows: u64,
    bytes: u64,
    segments: u64,
}

/// Returns the bytes of an unencoded row; `None` if they depend on the row's texts, whose lengths
/// are not in the metadata.
fn raw_row_bytes(schema: &Schema) -> Option<u64> {
    let of_column = |ty: ColumnType| match ty.physical() {
        _ if ty == ColumnType::Symbol => Some(SYMBOL_BYTES),
        Physical::Bit => Some(1),
        Physical::Signed(bytes) | Physical::Unsigned(bytes) => Some(u64::from(bytes)),
        Physical::Float32 => Some(4),
        Physical::Float64 => Some(8),
        Physical::Wide | Physical::Fixed16 => Some(16),
        Physical::Bytes => None,
    };
    schema.columns().iter().map(|column| of_column(column.ty)).sum()
}

fn totals(snapshot: &Snapshot) -> Vec<PartitionTotals> {
    let mut all: Vec<PartitionTotals> = Vec::new();
    for group in &snapshot.groups {
        for Run::Segment(run) in &group.runs {
            if all.last().is_none_or(|last| last.key != group.partition) {
                all.push(PartitionTotals {
                    key: group.partition,
                    min_ts: run.meta.min_ts,
                    max_ts: run.meta.max_ts,
                    rows: 0,
                    bytes: 0,
                    segments: 0,
                });
            }
            let totals = all.last_mut().expect("one was pushed");
            totals.min_ts = totals.min_ts.min(run.meta.min_ts);
            totals.max_ts = totals.max_ts.max(run.meta.max_ts);
            totals.rows += run.rows().0;
            if !run.is_in_memory() {
                totals.bytes += run.meta.bytes.0;
                totals.segments += 1;
            }
        }
    }
    all
}

pub(super) fn partitions(snapshot: &Snapshot) -> Result<RecordBatch> {
    let totals = totals(snapshot);
    let (unit, partition_by) = (snapshot.schema.time_unit(), snapshot.schema.partition_by());
    let rows = totals.len();
    let times = |bound: fn(&PartitionTotals) -> i64| -> ArrayRef {
        let has_time = snapshot.schema.designated().is_some();
        let values = totals.iter().map(|totals| has_time.then(|| bound(totals)));
        match unit {
            TimeUnit::Micros => Arc::new(values.collect::<TimestampMicrosecondArray>()),
            TimeUnit::Nanos => Arc::new(values.collect::<TimestampNanosecondArray>()),
        }
    };
    let row_bytes = raw_row_bytes(&snapshot.schema);
    let raw_size: ArrayRef = match row_bytes {
        Some(bytes) => counts(totals.iter().map(|totals| totals.rows.saturating_mul(bytes))),
        None => new_null_array(&DataType::Int64, rows),
    };
    let human = |totals: &PartitionTotals| Some(ByteCount(totals.bytes).to_string());
    let none = || flags(vec![false; rows]);
    let index = (0..rows).map(|at| i32::try_from(at).ok()).collect::<Int32Array>();
    batch(vec![
        ("index", Arc::new(index)),
        ("partitionBy", texts(vec![Some(partition_by.sql().to_owned()); rows])),
        ("name", texts(totals.iter().map(|totals| Some(partition_by.name(totals.key, unit))))),
        ("minTimestamp", times(|totals| totals.min_ts)),
        ("maxTimestamp", times(|totals| totals.max_ts)),
        ("numRows", counts(totals.iter().map(|totals| totals.rows))),
        ("diskSize", counts(totals.iter().map(|totals| totals.bytes))),
        ("diskSizeHuman", texts(totals.iter().map(human))),
        ("readOnly", none()),
        ("active", flags((0..rows).map(|at| at + 1 == rows))),
        ("attached", flags(vec![true; rows])),
        ("detached", none()),
        ("attachable", none()),
        ("hasParquetGenerated", none()),
        ("isParquet", none()),
        ("parquetFileSize", new_null_array(&DataType::Int64, rows)),
        ("segments", counts(totals.iter().map(|totals| totals.segments))),
        ("rawSize", raw_size),
    ])
}
