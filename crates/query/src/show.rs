//! `SHOW TABLES`, `SHOW COLUMNS`, `SHOW PARTITIONS`, `SHOW CREATE TABLE`, and the functions
//! `tables()`, `table_columns('t')` and `table_partitions('t')`.
//!
//! Columns are called and typed as QuestDB's, whose tools read them; what has no meaning here is
//! false or NULL.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, new_null_array,
};
use datafusion::arrow::datatypes::DataType;
use tidegate_model::{ByteCount, ColumnType, PartitionKey, PartitionUnit, Schema, TimeUnit, Ttl};
use tidegate_storage::{Database, Run, Snapshot};

use crate::error::{Error, Result};
use crate::parse::{Name, Position, Show, shown_ttl};

/// The answer to a SHOW. `sql` is the statement, for places in errors.
pub(crate) fn show(database: &Database, sql: &str, what: &Show) -> Result<RecordBatch> {
    match what {
        Show::Tables => {
            let names = database.tables().into_iter().map(|table| table.name);
            batch(vec![("table_name", texts(names.map(Some)))])
        }
        Show::Columns { table } => columns(snapshot(database, sql, table)?.as_ref()),
        Show::Partitions { table } => partitions(snapshot(database, sql, table)?.as_ref()),
        Show::CreateTable { table } => {
            let snapshot = snapshot(database, sql, table)?;
            let ddl = create_statement(&snapshot.name, &snapshot.schema);
            batch(vec![("ddl", texts([Some(ddl)]))])
        }
    }
}

/// The rows of a function of tables; `None` if it is no such function. The argument is a table.
pub(crate) fn table_function(
    database: &Database,
    name: &str,
    argument: Option<&str>,
) -> Result<Option<RecordBatch>> {
    let of_table = |rows: fn(&Snapshot) -> Result<RecordBatch>| match argument {
        Some(table) => rows(database.snapshot(table)?.as_ref()).map(Some),
        None => Ok(None),
    };
    match (name, argument) {
        ("tables", None) => tables(database).map(Some),
        ("table_columns", _) => of_table(columns),
        ("table_partitions", _) => of_table(partitions),
        _ => Ok(None),
    }
}

fn tables(database: &Database) -> Result<RecordBatch> {
    let mut snapshots = Vec::new();
    for table in database.tables() {
        match database.snapshot(&table.name) {
            Ok(snapshot) => snapshots.push(snapshot),
            // Dropped meanwhile.
            Err(tidegate_storage::Error::NoSuchTable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let rows = snapshots.len();
    let totals = snapshots.iter().map(|snapshot| totals(snapshot)).collect::<Vec<_>>();
    let sums = |of: fn(&PartitionTotals) -> u64| {
        counts(totals.iter().map(|totals| totals.iter().map(of).sum::<u64>()))
    };
    let designated =
        |it: &Arc<Snapshot>| it.schema.designated_column().map(|(column, _)| column.name.clone());
    // Nanoseconds are cut: one column has one type.
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
    let same = |text: &str| texts(vec![Some(text.to_owned()); rows]);
    batch(vec![
        ("id", counts(snapshots.iter().map(|it| it.table.0))),
        ("table_name", texts(snapshots.iter().map(|it| Some(it.name.clone())))),
        ("designatedTimestamp", texts(snapshots.iter().map(designated))),
        (
            "partitionBy",
            texts(snapshots.iter().map(|it| Some(it.schema.partition_by().sql().to_owned()))),
        ),
        ("walEnabled", flags(vec![true; rows])),
        ("dedup", flags(snapshots.iter().map(|it| !it.schema.dedup().is_empty()))),
        ("ttlValue", Arc::new(ttls.map(|ttl| ttl.map_or(0, ttl_count)).collect::<Int32Array>())),
        ("ttlUnit", texts(ttl_units.map(|unit| Some(unit.sql().to_owned())))),
        ("matView", flags(vec![false; rows])),
        ("directoryName", texts(snapshots.iter().map(|it| Some(it.table.0.to_string())))),
        ("maxUncommittedRows", new_null_array(&DataType::Int64, rows)),
        ("o3MaxLag", new_null_array(&DataType::Int64, rows)),
        ("table_suspended", flags(vec![false; rows])),
        ("table_type", same("T")),
        ("table_row_count", sums(|it| it.rows)),
        ("table_min_timestamp", times(|it| it.iter().map(|it| it.min_ts).min())),
        ("table_max_timestamp", times(|it| it.iter().map(|it| it.max_ts).max())),
        ("disk_size", sums(|it| it.bytes)),
        ("last_txn", counts(snapshots.iter().map(|it| it.seq_txn.0))),
        ("write_amplification", new_null_array(&DataType::Float64, rows)),
    ])
}

fn snapshot(database: &Database, sql: &str, table: &Name) -> Result<Arc<Snapshot>> {
    database.snapshot(&table.text).map_err(|error| match error {
        tidegate_storage::Error::NoSuchTable { table: name } => {
            Error::NoSuchTable { position: Some(Position::at(sql, table.offset)), table: name }
        }
        error => Error::Storage(error),
    })
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns);
    Ok(batch.map_err(datafusion::common::DataFusionError::from)?)
}

fn texts(values: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringViewArray>())
}

fn flags(values: impl IntoIterator<Item = bool>) -> ArrayRef {
    Arc::new(values.into_iter().map(Some).collect::<BooleanArray>())
}

fn counts(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    let signed = values.into_iter().map(|value| i64::try_from(value).unwrap_or(i64::MAX));
    Arc::new(signed.map(Some).collect::<Int64Array>())
}

/// The name that QuestDB has for a type, ours where it has none.
fn type_name(ty: ColumnType) -> String {
    match ty {
        ColumnType::Int8 => "BYTE".to_owned(),
        ColumnType::Int16 => "SHORT".to_owned(),
        ColumnType::Int64 => "LONG".to_owned(),
        ColumnType::Ipv4 => "IPv4".to_owned(),
        other => other.sql(),
    }
}

fn columns(snapshot: &Snapshot) -> Result<RecordBatch> {
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

/// What the segments of a partition add up to.
struct PartitionTotals {
    key: PartitionKey,
    min_ts: i64,
    max_ts: i64,
    rows: u64,
    bytes: u64,
    segments: u64,
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
            totals.bytes += run.meta.bytes.0;
            totals.segments += 1;
        }
    }
    all
}

fn partitions(snapshot: &Snapshot) -> Result<RecordBatch> {
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
        ("rawSize", new_null_array(&DataType::Int64, rows)),
    ])
}

/// Words that mean something where a column's definition starts.
const RESERVED: [&str; 5] = ["LIKE", "SELECT", "WITH", "INDEX", "CONSTRAINT"];

/// The statement that makes an empty table like this one.
fn create_statement(name: &str, schema: &Schema) -> String {
    let mut ddl = format!("CREATE TABLE {} (\n", quoted(name));
    for (at, column) in schema.columns().iter().enumerate() {
        let separator = if at == 0 { "" } else { ",\n" };
        // Writing to a String cannot fail.
        let _ = write!(ddl, "{separator}    {} {}", quoted(&column.name), column.ty.sql());
    }
    ddl.push_str("\n)");
    if let Some((column, _)) = schema.designated_column() {
        let _ = write!(ddl, " TIMESTAMP({})", quoted(&column.name));
        let _ = write!(ddl, " PARTITION BY {}", schema.partition_by().sql());
    }
    if let Some(ttl) = schema.ttl() {
        let _ = write!(ddl, " TTL {}", shown_ttl(ttl));
    }
    if !schema.dedup().is_empty() {
        let keys = schema.dedup().iter().filter_map(|&id| schema.column(id));
        let keys = keys.map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ");
        let _ = write!(ddl, " DEDUP UPSERT KEYS({keys})");
    }
    assert!(
        schema.designated().is_some() || schema.partition_by() == PartitionUnit::None,
        "S3: a table is partitioned only by its designated timestamp"
    );
    ddl.push(';');
    ddl
}

/// The name as it can stand in a statement.
fn quoted(name: &str) -> String {
    let mut characters = name.chars();
    let is_word = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !RESERVED.iter().any(|word| word.eq_ignore_ascii_case(name));
    if is_word { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_create_table;

    use super::*;

    #[test]
    fn the_statement_shown_makes_an_equal_table() {
        let columns = [
            ("Event Time", ColumnType::Timestamp(TimeUnit::Nanos)),
            ("a\"b", ColumnType::Decimal { precision: 9, scale: 2 }),
            ("Like", ColumnType::Symbol),
            ("plain_1", ColumnType::UInt8),
        ];
        let columns = columns.map(|(name, ty)| (name.to_owned(), ty));
        let schema = Schema::new(&columns, Some("event time"), PartitionUnit::Week).unwrap();
        let ttl = Some(Ttl { count: 2, unit: PartitionUnit::Week });
        let schema = schema.with_dedup(&["event time", "LIKE"]).unwrap().with_ttl(ttl).unwrap();
        let ddl = create_statement("My Table", &schema);
        let read = parse_create_table(&ddl).unwrap();
        assert_eq!((read.name.as_str(), read.partition_by), ("My Table", PartitionUnit::Week));
        assert_eq!(read.columns, columns);
        assert_eq!(read.timestamp.as_deref(), Some("Event Time"));
        assert_eq!(read.ttl.map(|clause| clause.ttl), Some(ttl));
        let keys = read.keys.iter().map(|key| key.text.as_str()).collect::<Vec<_>>();
        assert_eq!(keys, ["Event Time", "Like"]);
        assert_eq!(read.notices, Vec::<String>::new());
    }
}
