//! Time of an import by phase: the structural index alone, then whole imports of one kind of column
//! with one worker, of which one phase is measured. Throughput is in bytes of text while reading,
//! and in bytes of values while segments are built.
//!
//! The phases are those of `ImportSummary`: reading is index, conversion and scattering; building
//! is sort, gather, encoding and write. Files are in the page cache. Not here: single cells
//! (`parse`), encodings alone (`storage/benches/segment.rs`).

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;
use tidegate_ingest::index::{Before, FieldIndex, Kernel, QuoteState, Start, Structure};
use tidegate_ingest::sniff::Header;
use tidegate_ingest::{
    ColumnSource, DialectOptions, EmptyFields, Existing, ExtraFields, FileFormat, ImportOptions,
    MissingFields, OnError, Phase, Progress, Quote, RejectList, RowsTo, Source, import,
};
use tidegate_model::time::IsoTimestamp;
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, TimeUnit, Timestamp};
use tidegate_platform::{Disk, IoMode, OpenMode, RealDisk, SystemClock};
use tidegate_storage::{Database, OpenOptions};

/// Several input chunks, several parsed batches each, one page frame.
const ROWS: u64 = 60_000;
/// Columns of one kind in a table: many of them, so that the cost that all kinds share weighs
/// little.
const COLUMNS: u64 = 6;

/// A pseudo-random number for a row, over the whole range.
fn mixed(row: u64) -> u64 {
    (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1
}

/// A function that makes the cell of a row.
type CellOf = fn(u64) -> String;

fn instant(seconds: u64) -> String {
    let micros = 1_600_000_000_000_000 + i64::try_from(seconds).expect("some days") * 1_000_000;
    IsoTimestamp(Timestamp(micros), TimeUnit::Micros).to_string()[..19].to_owned()
}

/// Every family of types, with typical cells.
const KINDS: [(&str, ColumnType, CellOf); 14] = [
    ("boolean", ColumnType::Boolean, |n| (mixed(n) % 2).to_string()),
    ("smallint", ColumnType::Int16, |n| (mixed(n) % 1_000).to_string()),
    ("bigint", ColumnType::Int64, |n| (mixed(n) >> 3).to_string()),
    ("bigint_constant", ColumnType::Int64, |_| "0".to_owned()),
    ("double_short", ColumnType::Float64, |n| format!("{}.{:02}", mixed(n) % 1_000, n % 100)),
    ("double_long", ColumnType::Float64, |n| format!("0.{:017}", mixed(n) >> 8)),
    ("decimal", ColumnType::Decimal { precision: 18, scale: 3 }, |n| {
        format!("{}.5", mixed(n) % 9_999)
    }),
    ("timestamp", ColumnType::Timestamp(TimeUnit::Micros), |n| instant(mixed(n) % 2_000_000)),
    ("date", ColumnType::Date, |n| instant(mixed(n) % 20_000_000)[..10].to_owned()),
    ("symbol", ColumnType::Symbol, |n| format!("host-{}", mixed(n) % 1_000)),
    ("varchar_repeated", ColumnType::Varchar, |n| {
        format!("a text of some length {}", mixed(n) % 500)
    }),
    ("varchar_distinct", ColumnType::Varchar, |n| format!("https://example.org/p/{:x}", mixed(n))),
    ("uuid", ColumnType::Uuid, |n| format!("{:032x}", u128::from(mixed(n)) << 60)),
    ("ipv4", ColumnType::Ipv4, |n| format!("10.{}.{}.7", mixed(n) % 256, n % 256)),
];

/// A file in its own directory, and the database beside it.
struct Files {
    folder: TempDir,
    path: PathBuf,
    text_bytes: u64,
    columns: Vec<(String, ColumnType)>,
    timestamp: Option<String>,
}

impl Files {
    fn new(text: &[u8], columns: Vec<(String, ColumnType)>, timestamp: Option<&str>) -> Files {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("input.csv");
        let file = RealDisk.open(&path, OpenMode::CreateNew).expect("a new folder");
        file.write_all_at(text, 0).expect("room on the disk");
        let (text_bytes, timestamp) = (text.len() as u64, timestamp.map(str::to_owned));
        Files { folder, path, text_bytes, columns, timestamp }
    }

    /// Imports into a new database, and returns the duration of a phase.
    fn import(&self, phase: Phase) -> Duration {
        let dir = self.folder.path().join("db");
        RealDisk.remove_dir_all(&dir).expect("removed");
        let options = OpenOptions::new(Arc::new(SystemClock));
        let database = Database::open(Arc::new(RealDisk), &dir, &options).expect("a new database");
        let (progress, cancel) = (Arc::new(Progress::new()), AtomicBool::new(false));
        let summary = import(&database, &self.options(&dir), &progress, &cancel).expect("imported");
        assert_eq!(summary.rows_imported, ROWS);
        let nanos = summary.phases.iter().filter(|(found, _)| *found == phase);
        Duration::from_nanos(nanos.map(|(_, nanos)| nanos).sum())
    }

    fn options(&self, dir: &Path) -> ImportOptions {
        ImportOptions {
            source: Source::Files(vec![self.path.clone()]),
            table: "t".to_owned(),
            columns: ColumnSource::Given(self.columns.clone()),
            fields: None,
            existing: Existing::Add,
            lengths: Vec::new(),
            timestamp: self.timestamp.clone(),
            partition_by: Some(PartitionUnit::None),
            symbols: Vec::new(),
            skip_columns: Vec::new(),
            format: FileFormat::Csv,
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
            on_error: OnError::Abort,
            errors_max: None,
            rejects: RejectList::File(dir.join("rejects.ndjson")),
            rows_to: RowsTo::Table,
            workers: NonZeroUsize::MIN,
            memory_max: ByteCount(512 << 20),
            io: IoMode::Auto,
        }
    }
}

/// A file of `COLUMNS` columns of one kind, without a timestamp.
fn files_of(ty: ColumnType, cell: CellOf) -> Files {
    let mut text = Vec::new();
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            text.extend_from_slice(cell(row * COLUMNS + column).as_bytes());
            text.push(if column + 1 == COLUMNS { b'\n' } else { b',' });
        }
    }
    let columns = (0..COLUMNS).map(|column| (format!("c{column}"), ty)).collect();
    Files::new(&text, columns, None)
}

/// Counts and indexes by every kernel, of text with and without quotes.
fn index(criterion: &mut Criterion) {
    let structure = Structure { delimiter: b',', quote: Some(b'"'), line_end: b'\n' };
    let start = Start { state: QuoteState::Outside, after: Before::FieldStart };
    let line = |row: u64| format!("{},{},host-{},{}.5\n", instant(row), row, row % 50, row % 90);
    let quoted = |row: u64| format!("\"{}\",\"a, \"\"b\"\"\n{row}\",{row}\n", row % 7);
    let texts: [(&str, String); 2] =
        [("bare", (0..4_000).map(line).collect()), ("quoted", (0..8_000).map(quoted).collect())];
    let mut group = criterion.benchmark_group("index");
    for (name, text) in &texts {
        let text = text.as_bytes();
        group.throughput(Throughput::Bytes(text.len() as u64));
        for kernel in Kernel::available() {
            group.bench_function(BenchmarkId::new(format!("count_{kernel:?}"), name), |bencher| {
                bencher.iter(|| black_box(kernel.count(black_box(text), &structure)));
            });
            let mut index = FieldIndex::default();
            group.bench_function(BenchmarkId::new(format!("{kernel:?}"), name), |bencher| {
                bencher.iter(|| {
                    let outcome = kernel.index(black_box(text), start, &structure, &mut index);
                    assert!(outcome.is_regular);
                    black_box(index.field_ends.len())
                });
            });
        }
    }
    group.finish();
}

/// Index, conversion and scattering of each kind of column.
fn read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    group.sample_size(10);
    for (name, ty, cell) in KINDS {
        let files = files_of(ty, cell);
        group.throughput(Throughput::Bytes(files.text_bytes));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| files.import(Phase::Read)).sum());
        });
    }
    group.finish();
}

/// Gather, encoding and write of each kind of column; the rows keep the order of the input.
fn build(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build");
    group.sample_size(10);
    for (name, ty, cell) in KINDS {
        let files = files_of(ty, cell);
        group.throughput(Throughput::Bytes(value_bytes(ty, cell)));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| files.import(Phase::Build)).sum());
        });
    }
    group.finish();
}

/// The size of the values of a kind before they are encoded.
fn value_bytes(ty: ColumnType, cell: CellOf) -> u64 {
    let width = |cell: String| match ty {
        ColumnType::Symbol | ColumnType::Varchar | ColumnType::Binary => cell.len() as u64,
        ColumnType::Boolean => 1,
        ColumnType::Int16 => 2,
        ColumnType::Date | ColumnType::Ipv4 => 4,
        ColumnType::Decimal { .. } | ColumnType::Uuid => 16,
        _ => 8,
    };
    (0..ROWS * COLUMNS).map(|at| width(cell(at))).sum()
}

/// Sort and gather by different orders of rows; the values are always the same.
fn sort(criterion: &mut Criterion) {
    let columns = || {
        let mut columns = vec![("ts".to_owned(), ColumnType::Timestamp(TimeUnit::Micros))];
        columns.extend((1..COLUMNS).map(|column| (format!("c{column}"), ColumnType::Int64)));
        columns
    };
    type Order = (&'static str, fn(u64) -> u64);
    let orders: [Order; 3] = [
        ("sorted", |row| row),
        ("stripes", |row| row % 10 * (ROWS / 10) + row / 10),
        ("shuffled", |row| mixed(row) % ROWS),
    ];
    let mut group = criterion.benchmark_group("sort");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(ROWS * COLUMNS * 8));
    for (name, order) in orders {
        let line = |row: u64| {
            let numbers = (1..COLUMNS).map(|column| format!(",{}", mixed(row * column) % 10_000));
            format!("{}{}\n", instant(order(row)), numbers.collect::<String>())
        };
        let text: String = (0..ROWS).map(line).collect();
        let files = Files::new(text.as_bytes(), columns(), Some("ts"));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| files.import(Phase::Build)).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, index, read, build, sort);
criterion_main!(benches);
