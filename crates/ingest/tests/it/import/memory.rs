//! The memory budget of an import: the counted memory stays within it, whatever the rows are.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use tidegate_ingest::{Progress, import};
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Schema, TimeUnit, Value};
use tidegate_platform::SimDisk;

use super::hook::{Call, HookDisk};
use super::random::Random;
use crate::world::{World, assert_same_rows, schema_of, sort_rows};

/// The memory that an import used.
struct Peak {
    /// The maximum that was counted at any read or write.
    memory: u64,
    spilled: u64,
    rows: Vec<Vec<Value>>,
}

/// Imports with one worker.
fn peak_of(schema: &Schema, input: &[u8], memory_max: u64) -> Peak {
    let progress = Arc::new(Progress::new());
    let peak = Arc::new(AtomicU64::new(0));
    let (watched, highest) = (Arc::clone(&progress), Arc::clone(&peak));
    let disk = HookDisk::new(SimDisk::new(1), move |call| {
        if matches!(call, Call::Read(..) | Call::Write) {
            highest.fetch_max(watched.sample().memory_bytes, SeqCst);
        }
    });
    let world = World::on(Arc::new(disk), Path::new("/"));
    let path = world.put("a", input);
    let mut options = world.options(schema, &[path]);
    options.workers = NonZeroUsize::MIN;
    options.memory_max = ByteCount(memory_max);
    let summary = import(&world.database, &options, &progress, &AtomicBool::new(false)).unwrap();
    let memory = peak.load(SeqCst);
    Peak { memory, spilled: summary.spilled_bytes, rows: world.rows() }
}

/// Long texts that do not repeat: rows are few, and each is large.
#[test]
fn long_texts_are_spilled_before_they_outgrow_the_budget() {
    const MEMORY: u64 = 32 << 20;
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("text", ColumnType::Varchar)];
    for (designated, unit) in [(Some("ts"), PartitionUnit::Day), (None, PartitionUnit::None)] {
        let schema = schema_of(&columns, designated, unit);
        let mut random = Random::new(1);
        let (mut text, mut rows) = (Vec::new(), Vec::new());
        for row in 0..800 {
            let second = random.below(60);
            text.extend_from_slice(format!("2021-03-01T00:00:{second:02},").as_bytes());
            let start = text.len();
            text.extend_from_slice(format!("{row}-").as_bytes());
            while text.len() < start + 60_000 {
                // The bytes are letters, so that the column is text.
                let letters = random.next() & 0x0F0F_0F0F_0F0F_0F0F | 0x6060_6060_6060_6060;
                text.extend_from_slice(&letters.to_le_bytes());
            }
            let ts = 1_614_556_800_000_000 + i128::from(second) * 1_000_000;
            rows.push(vec![Value::Integer(ts), Value::Bytes(text[start..].to_vec())]);
            text.push(b'\n');
        }
        assert!(4 * MEMORY < 3 * text.len() as u64);
        sort_rows(&mut rows, &schema);
        let Peak { memory, spilled, rows: found } = peak_of(&schema, &text, MEMORY);
        assert!(memory <= MEMORY, "{memory} bytes were counted of {MEMORY}");
        assert!(spilled > 8 << 20, "{spilled}");
        assert_same_rows(&found, &rows, "spilled");
    }
}

/// Some rows are a thousand times as large as all others: by the mean of all rows they took no
/// memory, and all of them were sorted and encoded at once. The same happened with rows of one
/// timestamp, and with rows without a time, which could not be split.
#[test]
fn rows_far_larger_than_the_mean_stay_within_the_budget() {
    const MEMORY: u64 = 32 << 20;
    const LARGE: usize = 3 << 20;
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("text", ColumnType::Varchar)];
    let days = (Some("ts"), PartitionUnit::Month, 28);
    let instant = (Some("ts"), PartitionUnit::Day, 1);
    let none = (None, PartitionUnit::None, 28);
    for (name, (designated, unit, count)) in [("days", days), ("instant", instant), ("none", none)]
    {
        let schema = schema_of(&columns, designated, unit);
        let mut random = Random::new(1);
        let (mut text, mut rows) = (Vec::new(), Vec::new());
        for row in 0..6_000_u64 {
            let day = random.below(count);
            text.extend_from_slice(format!("2021-03-{:02},{row}", day + 1).as_bytes());
            let start = text.len() - row.to_string().len();
            match row % 400 {
                // One text is a repeated byte, the other has letters that do not repeat.
                7 => text.resize(start + LARGE, b'x'),
                207 => text.extend((0..LARGE / 8).flat_map(|_| {
                    let letters = random.next() & 0x0F0F_0F0F_0F0F_0F0F | 0x6060_6060_6060_6060;
                    letters.to_le_bytes()
                })),
                _ => {}
            }
            let ts = 1_614_556_800_000_000 + i128::from(day) * 86_400_000_000;
            rows.push(vec![Value::Integer(ts), Value::Bytes(text[start..].to_vec())]);
            text.push(b'\n');
        }
        sort_rows(&mut rows, &schema);
        let Peak { memory, rows: found, .. } = peak_of(&schema, &text, MEMORY);
        assert!(memory <= MEMORY, "{name}: {memory} bytes were counted of {MEMORY}");
        assert_same_rows(&found, &rows, name);
    }
}

/// Texts are compressed with a table that was trained on the first of them. Texts that are very
/// different took two bytes for each of their bytes, in memory and in the segment.
#[test]
fn texts_unlike_the_first_do_not_grow() {
    let schema = schema_of(&[("text", ColumnType::Varchar)], None, PartitionUnit::None);
    let mut random = Random::new(1);
    let (mut text, mut rows) = (Vec::new(), Vec::new());
    for row in 0..8_000_u64 {
        let start = text.len();
        text.extend_from_slice(
            format!("a sentence that is much like the others: {row}").as_bytes(),
        );
        if row % 2_000 == 1_999 {
            // The other texts contain none of its bytes.
            text.truncate(start);
            text.extend((0..1 << 20).map(|_| b'A' + u8::try_from(random.below(26)).unwrap()));
        }
        rows.push(vec![Value::Bytes(text[start..].to_vec())]);
        text.push(b'\n');
    }
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let options = world.options(&schema, &[world.put("a.csv", &text)]);
    let summary = world.import(&options).unwrap();
    let most = text.len() as u64 * 11 / 10;
    assert!(summary.bytes_written < most, "{} of {}", summary.bytes_written, text.len());
    assert_same_rows(&world.rows(), &rows, "texts");
}

/// A Parquet file of one row group, with `columns` copies of a column of texts.
fn parquet_of(rows: &[(i64, String)], columns: usize) -> Vec<u8> {
    let ts: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|(ts, _)| *ts)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, t)| t)));
    let named = (0..columns).map(|at| (format!("text{at}"), Arc::clone(&texts)));
    let batch = RecordBatch::try_from_iter([("ts".to_owned(), ts)].into_iter().chain(named));
    let batch = batch.unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_compression(Compression::SNAPPY)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn schema_of_texts(columns: usize) -> Schema {
    let names: Vec<String> = (0..columns).map(|at| format!("text{at}")).collect();
    let texts = names.iter().map(|name| (name.as_str(), ColumnType::Varchar));
    let ts = ("ts", ColumnType::Timestamp(TimeUnit::Micros));
    let columns: Vec<_> = std::iter::once(ts).chain(texts).collect();
    schema_of(&columns, Some("ts"), PartitionUnit::Day)
}

/// A batch was 4,096 rows, whatever the pages of the rows, and rows of one row group could not be
/// split.
#[test]
fn large_rows_of_a_parquet_file_stay_within_the_budget() {
    const MEMORY: u64 = 32 << 20;
    let row = |at: i64| {
        let length = if at % 40 == 7 { 2 << 20 } else { 5 };
        (at * 3_600_000_000, at.to_string() + &"x".repeat(length))
    };
    let written: Vec<_> = (0..1_000).map(row).collect();
    let mut rows: Vec<Vec<Value>> = written
        .iter()
        .map(|(ts, text)| vec![Value::Integer((*ts).into()), Value::Bytes(text.clone().into())])
        .collect();
    let schema = schema_of_texts(1);
    sort_rows(&mut rows, &schema);
    let Peak { memory, rows: found, .. } = peak_of(&schema, &parquet_of(&written, 1), MEMORY);
    assert!(memory <= MEMORY, "{memory} bytes were counted of {MEMORY}");
    assert_same_rows(&found, &rows, "parquet");
}

/// Each column has a page in memory, and these pages were not counted.
#[test]
fn pages_that_do_not_fit_the_memory_fail_the_import() {
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let bytes = parquet_of(&[(0, "x".repeat(1 << 20))], 40);
    let path = world.put("a.parquet", &bytes);
    let mut options = world.options(&schema_of_texts(40), &[path]);
    options.workers = NonZeroUsize::MIN;
    options.memory_max = ByteCount(32 << 20);
    let error = world.import(&options).unwrap_err().to_string();
    let begin = "/a.parquet, row group 1: its pages take 4";
    assert!(error.starts_with(begin), "{error}");
    let rest = "MiB while they are decoded, and --memory is 32.0 MiB: give the import at least 5";
    assert!(error.contains(rest), "{error}");
    options.memory_max = ByteCount(160 << 20);
    assert_eq!(world.import(&options).unwrap().rows_imported, 1);
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let bytes = parquet_of(&[(0, "x".repeat(9 << 20))], 1);
    let path = world.put("b.parquet", &bytes);
    let mut options = world.options(&schema_of_texts(1), &[path]);
    options.workers = NonZeroUsize::MIN;
    options.memory_max = ByteCount(32 << 20);
    assert_eq!(
        world.import(&options).unwrap_err().to_string(),
        "/b.parquet, row 1: the record has more than 8.0 MiB, which is a quarter of --memory 32.0 \
         MiB: give the import more memory"
    );
}

/// The record was joined, and took three times its size, whatever the memory.
#[test]
fn a_record_that_does_not_fit_the_memory_fails_the_import() {
    let columns = [("n", ColumnType::Int64), ("text", ColumnType::Varchar)];
    let schema = schema_of(&columns, None, PartitionUnit::None);
    for quote in ["", "\""] {
        let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
        let long = "x".repeat(9 << 20);
        let path = world.put("a.csv", format!("1,a\n2,{quote}{long}{quote}\n3,b\n").as_bytes());
        let mut options = world.options(&schema, &[path]);
        options.workers = NonZeroUsize::MIN;
        options.memory_max = ByteCount(32 << 20);
        let open = match quote {
            "" => "",
            _ => ", and a quote is open there that may never be closed",
        };
        assert_eq!(
            world.import(&options).unwrap_err().to_string(),
            format!(
                "/a.csv, line 2 (byte 4): the record has more than 8.0 MiB, which is a quarter of \
                 --memory 32.0 MiB{open}: give the import more memory"
            )
        );
        options.memory_max = ByteCount(64 << 20);
        assert_eq!(world.import(&options).unwrap().rows_imported, 3);
    }
}

/// Symbols that do not repeat are in memory until the end.
#[test]
fn memory_of_interners_is_counted() {
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("id", ColumnType::Symbol)];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let mut text = Vec::new();
    for row in 0..60_000 {
        let line =
            format!("2021-03-01T00:00:{:02},a symbol that stands only here: {row}\n", row % 60);
        text.extend_from_slice(line.as_bytes());
    }
    let Peak { memory, rows, .. } = peak_of(&schema, &text, 256 << 20);
    assert!(memory > 4 << 20, "{memory} bytes, of which 2.5 MB are the texts of symbols");
    assert_eq!(rows.len(), 60_000);
}
