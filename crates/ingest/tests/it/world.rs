//! A database for a test, options of imports, and the results as values that can be compared with
//! those of `plain`.

use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes as types;
use tidegate_ingest::options::Quote;
use tidegate_ingest::sniff::Header;
use tidegate_ingest::{
    ColumnSource, DialectOptions, EmptyFields, Error, Existing, ExtraFields, FileFormat,
    ImportOptions, ImportSummary, MissingFields, OnError, Progress, RejectList, RowsTo, Source,
    import,
};
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Schema, TimeUnit, Value};
use tidegate_platform::{Disk, IoMode, OpenMode, SimClock};
use tidegate_storage::segment::RowSelection;
use tidegate_storage::{Database, LogOptions, OpenOptions, Run, SegmentRun, Snapshot};

use crate::plain::Plain;

/// The table into which tests import.
pub(crate) const TABLE: &str = "t";

/// A disk with a directory for the database, one for inputs, and the open database.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    pub(crate) database: Arc<Database>,
}

impl World {
    /// Opens the database on this disk, or creates it.
    #[track_caller]
    pub(crate) fn on(disk: Arc<dyn Disk>, root: &Path) -> World {
        let database = open(&disk, root).unwrap();
        World { disk, root: root.to_path_buf(), database }
    }

    /// Writes an input and returns its path.
    #[track_caller]
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        put(&*self.disk, &self.root.join(name), bytes)
    }

    /// The path of the list of rejects.
    pub(crate) fn rejects(&self) -> PathBuf {
        self.root.join("rejects.ndjson")
    }

    /// The options of a CSV import with two workers, a comma, no header and nothing inferred.
    pub(crate) fn options(&self, schema: &Schema, paths: &[PathBuf]) -> ImportOptions {
        let columns = schema.columns().iter().map(|c| (c.name.clone(), c.ty)).collect();
        ImportOptions {
            source: Source::Files(paths.to_vec()),
            table: TABLE.to_owned(),
            columns: ColumnSource::Given(columns),
            fields: None,
            existing: Existing::Add,
            lengths: Vec::new(),
            timestamp: schema.designated_column().map(|(column, _)| column.name.clone()),
            partition_by: Some(schema.partition_by()),
            symbols: Vec::new(),
            skip_columns: Vec::new(),
            format: FileFormat::Auto,
            dialect: DialectOptions {
                delimiter: Some(b','),
                quote: Quote::Standard,
                header: Header::Absent,
                null_text: None,
                empty_fields: EmptyFields::Null,
                skip_lines: 0,
                missing_fields: MissingFields::Null,
                extra_fields: ExtraFields::Reject,
            },
            timestamp_format: None,
            column_formats: Vec::new(),
            on_error: OnError::SkipRow,
            errors_max: None,
            rejects: RejectList::File(self.rejects()),
            rows_to: RowsTo::Table,
            workers: NonZeroUsize::new(2).unwrap(),
            memory_max: ByteCount(256 << 20),
            io: IoMode::Sync,
        }
    }

    /// Runs an import to its end.
    pub(crate) fn import(&self, options: &ImportOptions) -> Result<ImportSummary, Error> {
        let (progress, cancel) = (Arc::new(Progress::new()), AtomicBool::new(false));
        import(&self.database, options, &progress, &cancel)
    }

    /// The rows of the table in order.
    #[track_caller]
    pub(crate) fn rows(&self) -> Vec<Vec<Value>> {
        read_table(&self.database.snapshot(TABLE).unwrap())
    }

    /// Asserts that nothing is damaged and that no file of an import is left.
    #[track_caller]
    pub(crate) fn check_sound(&self, context: &str) {
        let report = self.database.verify(&|_| {}).unwrap();
        assert!(report.problems.is_empty(), "{context}: {:?}", report.problems);
        let scratch = self.disk.list(&self.root.join("db/scratch")).unwrap_or_default();
        assert!(scratch.is_empty(), "{context}: scratch files are left: {scratch:?}");
    }
}

/// Opens the database below `root`: one sync after the other, with a small WAL.
pub(crate) fn open(disk: &Arc<dyn Disk>, root: &Path) -> tidegate_storage::Result<Arc<Database>> {
    let log = LogOptions {
        step_bytes: 8 << 10,
        file_bytes: 40 << 10,
        checkpoint_bytes: 1 << 30,
        bytes_max: 1 << 31,
        ..LogOptions::STANDARD
    };
    let options = OpenOptions {
        log,
        sync_threads: NonZeroUsize::MIN,
        ..OpenOptions::new(Arc::new(SimClock::new(7)))
    };
    let dir = root.join("db");
    Database::open(Arc::clone(disk), &dir, &options)
}

/// Writes a file.
#[track_caller]
pub(crate) fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> PathBuf {
    disk.create_dir_all(path.parent().expect("a folder")).unwrap();
    let file = disk.open(path, OpenMode::CreateOrTruncate).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    path.to_path_buf()
}

/// A schema of these columns.
#[track_caller]
pub(crate) fn schema_of(
    columns: &[(&str, ColumnType)],
    designated: Option<&str>,
    partition_by: PartitionUnit,
) -> Schema {
    let columns: Vec<_> = columns.iter().map(|&(name, ty)| (name.to_owned(), ty)).collect();
    Schema::new(&columns, designated, partition_by).unwrap()
}

/// A reject: the file's name, line or row, byte, column, reason.
pub(crate) type RejectLine = (String, u64, u64, Option<String>, String);

/// Reads the list of rejects, sorted.
pub(crate) fn read_rejects(disk: &dyn Disk, path: &Path) -> Vec<RejectLine> {
    let Ok(bytes) = disk.read(path) else { return Vec::new() };
    let text = String::from_utf8(bytes).expect("reject-2");
    let mut rejects: Vec<RejectLine> = text.lines().map(reject_of).collect();
    rejects.sort();
    rejects
}

/// The fields of a line, whose names have no character that JSON escapes. `reason` is the last
/// field, and `text`, which may contain anything, stands before it.
fn reject_of(line: &str) -> RejectLine {
    let between = |start: &str, end: &str| {
        let from = line.find(start).expect("the field is there") + start.len();
        let to = line[from..].find(end).expect("the field ends");
        &line[from..from + to]
    };
    let number = |start: &str| between(start, ",").parse().expect("a number");
    let column = between(",\"column\":", ",\"text\":");
    let column = (column != "null").then(|| column.trim_matches('"').to_owned());
    let reason = line.rfind(",\"reason\":\"").expect("a reason") + ",\"reason\":\"".len();
    let reason = line[reason..].trim_end_matches("\"}").to_owned();
    let file = name_of(Path::new(between("{\"file\":\"", "\",")));
    if line.contains(",\"row\":") {
        return (file, number(",\"row\":"), 0, column, reason);
    }
    (file, number(",\"line\":"), number(",\"byte\":"), column, reason)
}

/// The last part of a path: the files of a test have different names, so directories do not matter.
fn name_of(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned()
}

/// The results of the plain reader for all files together.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    pub(crate) rows: Vec<Vec<Value>>,
    pub(crate) rejects: Vec<RejectLine>,
    pub(crate) records: u64,
    /// The file and line of the first quote that is never closed.
    pub(crate) open_quote: Option<(String, u64)>,
}

impl Expected {
    /// Adds the contents of a file to those of the files before it.
    pub(crate) fn add(&mut self, path: &Path, plain: Plain) {
        let Plain { rows, rejects, records, open_quote } = plain;
        self.rows.extend(rows);
        self.records += records;
        let file = name_of(path);
        self.rejects.extend(rejects.into_iter().map(|reject| {
            let reason = reject.reason.to_string();
            (file.clone(), reject.line, reject.byte, reject.column, reason)
        }));
        if let (None, Some(line)) = (&self.open_quote, open_quote) {
            self.open_quote = Some((file, line));
        }
    }

    /// Sorts the rows in the order of the table.
    pub(crate) fn sorted(mut self, schema: &Schema) -> Expected {
        sort_rows(&mut self.rows, schema);
        self.rejects.sort();
        self
    }

    /// The number of records that are left out.
    pub(crate) fn rows_rejected(&self) -> u64 {
        self.records - self.rows.len() as u64
    }
}

/// Sorts rows by designated timestamp; equal ones keep their order.
pub(crate) fn sort_rows(rows: &mut [Vec<Value>], schema: &Schema) {
    if let Some(at) = designated(schema) {
        rows.sort_by_key(|row| instant(&row[at]));
    }
}

fn designated(schema: &Schema) -> Option<usize> {
    schema.columns().iter().position(|column| Some(column.id) == schema.designated())
}

fn instant(value: &Value) -> i128 {
    match value {
        Value::Integer(instant) => *instant,
        other => unreachable!("a designated timestamp is {other:?}"),
    }
}

/// Asserts that an import has the rows, rejects and counts of the plain reader, or the error that
/// follows from them.
#[track_caller]
pub(crate) fn check_import(
    world: &World,
    outcome: &Result<ImportSummary, Error>,
    expected: &Expected,
    context: &str,
) {
    if let Some(wanted) = &expected.open_quote {
        let found = match outcome {
            Err(Error::UnclosedQuote { path, line, .. }) => Some((name_of(path), *line)),
            _ => None,
        };
        assert_eq!(found.as_ref(), Some(wanted), "{context}: {outcome:?}");
        return;
    }
    if expected.rows.is_empty() {
        let is_right = match outcome {
            Err(Error::NoRecords { .. }) => expected.records == 0,
            Err(Error::AllRejected { count, .. }) => *count == expected.records,
            _ => false,
        };
        assert!(is_right, "{context}: {} records: {outcome:?}", expected.records);
    } else {
        let summary = outcome.as_ref().unwrap_or_else(|error| panic!("{context}: {error:?}"));
        check_counts(summary, expected, context);
        assert_same_rows(&world.rows(), &expected.rows, context);
    }
    let rejects = read_rejects(&*world.disk, &world.rejects());
    assert_eq!(rejects, expected.rejects, "{context}");
}

#[track_caller]
fn check_counts(summary: &ImportSummary, expected: &Expected, context: &str) {
    let rejected = expected.rows_rejected();
    let rejects = expected.rejects.len() as u64;
    assert_eq!(summary.rows_read, expected.records, "{context}");
    assert_eq!(summary.rows_imported, expected.rows.len() as u64, "{context}");
    assert_eq!(summary.rows_rejected, rejected, "{context}");
    assert_eq!(summary.cells_nulled, rejects - rejected, "{context}");
    assert_eq!(summary.rejects.is_some(), rejects > 0, "{context}");
    let reasons = summary.reject_reasons.iter().map(|(_, _, count)| count).sum::<u64>();
    assert_eq!(reasons, rejects, "{context}");
    let counts: Vec<u64> = summary.reject_reasons.iter().map(|(_, _, count)| *count).collect();
    assert!(counts.is_sorted_by_key(|&count| Reverse(count)), "{context}: {counts:?}");
}

/// Asserts that two lists of rows are equal, and shows the first that differs.
#[track_caller]
pub(crate) fn assert_same_rows(found: &[Vec<Value>], wanted: &[Vec<Value>], context: &str) {
    for (row, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let are_same = found.len() == wanted.len()
            && found.iter().zip(wanted).all(|(found, wanted)| same(found, wanted));
        assert!(are_same, "{context}: row {row}:\n  found {found:?}\n wanted {wanted:?}");
    }
    assert_eq!(found.len(), wanted.len(), "{context}: the number of rows");
}

/// Compares two values bit by bit, except that all NaN are equal.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => {
            a.is_nan() && b.is_nan() || a.to_bits() == b.to_bits()
        }
        (a, b) => a == b,
    }
}

/// The rows of a table, merged like in a query: group after group, within a group by timestamp and,
/// if that is equal, in the order of runs.
#[track_caller]
pub(crate) fn read_table(snapshot: &Snapshot) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for group in &snapshot.groups {
        let start = rows.len();
        for Run::Segment(run) in &group.runs {
            rows.extend(read_segment(snapshot, run).unwrap());
        }
        sort_rows(&mut rows[start..], &snapshot.schema);
    }
    assert_eq!(rows.len() as u64, snapshot.rows().0);
    if let Some(at) = designated(&snapshot.schema) {
        assert!(rows.is_sorted_by_key(|row| instant(&row[at])), "snapshot-1");
    }
    rows
}

fn read_segment(
    snapshot: &Snapshot,
    run: &SegmentRun,
) -> tidegate_storage::Result<Vec<Vec<Value>>> {
    let (reader, columns) = (run.reader()?, snapshot.schema.columns());
    let mut rows = Vec::new();
    for frame in 0..reader.frame_count() {
        let count = reader.frame_rows(frame);
        let arrays =
            reader.arrays(frame, &RowSelection::Range(0..count), columns, &snapshot.symbols)?;
        let cells = |row| {
            let cells = arrays.iter().zip(columns).map(|(array, c)| value(array, c.ty, row));
            cells.collect()
        };
        rows.extend((0..count).map(cells));
    }
    Ok(rows)
}

fn value(array: &ArrayRef, ty: ColumnType, row: usize) -> Value {
    fn at<T: ArrowPrimitiveType>(array: &ArrayRef, row: usize) -> T::Native {
        array.as_primitive::<T>().value(row)
    }
    if array.is_null(row) {
        return Value::Null;
    }
    let integer = |value: i128| Value::Integer(value);
    match ty {
        ColumnType::Boolean => Value::Bit(array.as_boolean().value(row)),
        ColumnType::Int8 => integer(at::<types::Int8Type>(array, row).into()),
        ColumnType::Int16 => integer(at::<types::Int16Type>(array, row).into()),
        ColumnType::Int32 => integer(at::<types::Int32Type>(array, row).into()),
        ColumnType::Int64 => integer(at::<types::Int64Type>(array, row).into()),
        ColumnType::UInt8 => integer(at::<types::UInt8Type>(array, row).into()),
        ColumnType::UInt16 => integer(at::<types::UInt16Type>(array, row).into()),
        ColumnType::UInt32 | ColumnType::Ipv4 => {
            integer(at::<types::UInt32Type>(array, row).into())
        }
        ColumnType::UInt64 => integer(at::<types::UInt64Type>(array, row).into()),
        ColumnType::Float32 => Value::Float(at::<types::Float32Type>(array, row).into()),
        ColumnType::Float64 => Value::Float(at::<types::Float64Type>(array, row)),
        ColumnType::Decimal { .. } => integer(at::<types::Decimal128Type>(array, row)),
        ColumnType::Timestamp(TimeUnit::Micros) => {
            integer(at::<types::TimestampMicrosecondType>(array, row).into())
        }
        ColumnType::Timestamp(TimeUnit::Nanos) => {
            integer(at::<types::TimestampNanosecondType>(array, row).into())
        }
        ColumnType::Date => integer(at::<types::Date32Type>(array, row).into()),
        ColumnType::Symbol | ColumnType::Varchar => {
            Value::Bytes(array.as_string_view().value(row).as_bytes().to_vec())
        }
        ColumnType::Binary => Value::Bytes(array.as_binary_view().value(row).to_vec()),
        ColumnType::Uuid => {
            Value::Fixed16(array.as_fixed_size_binary().value(row).try_into().unwrap())
        }
    }
}
