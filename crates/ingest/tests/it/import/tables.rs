//! The table of an import: its other rows, symbols, formats of times, and buckets that are larger
//! than the sample showed.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use tidegate_ingest::sniff::Header;
use tidegate_ingest::timestamp::TimestampFormat;
use tidegate_ingest::{ColumnSource, OnError};
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Schema, TimeUnit, Value};
use tidegate_platform::SimDisk;

use super::random::Random;
use crate::plain::{self, PlainOptions};
use crate::world::{Expected, TABLE, World, assert_same_rows, check_import, schema_of, sort_rows};

fn world() -> World {
    World::on(Arc::new(SimDisk::new(1)), Path::new("/"))
}

fn three_columns(partition_by: PartitionUnit) -> Schema {
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
        ("host", ColumnType::Symbol),
        ("n", ColumnType::Int64),
    ];
    schema_of(&columns, Some("ts"), partition_by)
}

/// The order of rows in a file.
#[derive(Debug, Clone, Copy)]
enum Order {
    Sorted,
    Reversed,
    Stripes,
    Shuffled,
    Equal,
}

impl Order {
    const ALL: [Order; 5] =
        [Order::Sorted, Order::Reversed, Order::Stripes, Order::Shuffled, Order::Equal];

    /// The seconds of this many rows, some of them twice.
    fn seconds(self, rows: usize, span: usize) -> Vec<usize> {
        let mut seconds: Vec<usize> = (0..rows).map(|row| row * span / rows / 2 * 2).collect();
        match self {
            Order::Sorted => {}
            Order::Reversed => seconds.reverse(),
            Order::Stripes => {
                seconds = (0..7).flat_map(|s| seconds.iter().skip(s).step_by(7).copied()).collect();
            }
            Order::Shuffled => Random::new(5).shuffle(&mut seconds),
            Order::Equal => seconds.fill(span / 2),
        }
        seconds
    }
}

fn date_time(seconds: usize) -> String {
    let (day, rest) = (1 + seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("2021-03-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

fn text_of(seconds: &[usize]) -> Vec<u8> {
    let mut text = Vec::new();
    for (row, &seconds) in seconds.iter().enumerate() {
        let line = format!("{},host-{},{row}\n", date_time(seconds), row % 13);
        text.extend_from_slice(line.as_bytes());
    }
    text
}

fn expected_of(text: &[u8], options: &PlainOptions<'_>) -> Expected {
    let mut expected = Expected::default();
    expected.add(Path::new("a.csv"), plain::read(text, options));
    expected.sorted(options.schema)
}

/// Enough rows to fill several buckets.
#[test]
fn rows_of_many_buckets_are_sorted_whatever_their_order() {
    let units = [PartitionUnit::Day, PartitionUnit::Hour, PartitionUnit::None];
    for (at, order) in Order::ALL.into_iter().enumerate() {
        let schema = three_columns(units[at % units.len()]);
        let text = text_of(&order.seconds(60_000, 2 * 86_400));
        let expected = expected_of(&text, &PlainOptions::of(&schema));
        let world = world();
        let path = world.put("a.csv", &text);
        let mut options = world.options(&schema, &[path]);
        options.workers = NonZeroUsize::new(1 + at % 3).unwrap();
        let outcome = world.import(&options);
        check_import(&world, &outcome, &expected, &format!("{order:?}"));
        world.check_sound(&format!("{order:?}"));
    }
}

#[test]
fn rows_of_later_imports_stand_behind_those_of_the_same_instant() {
    let schema = three_columns(PartitionUnit::Day);
    let (world, mut wanted) = (world(), Vec::new());
    for (import, order) in Order::ALL.into_iter().enumerate() {
        let text = text_of(&order.seconds(400 + import, 5 * 86_400));
        let path = world.put("a.csv", &text);
        let mut options = world.options(&schema, &[path]);
        if import > 0 {
            // The table defines the columns.
            options.columns = ColumnSource::Infer;
            (options.timestamp, options.partition_by) = (None, None);
        }
        let summary = world.import(&options).unwrap();
        assert_eq!(summary.created_table, import == 0);
        wanted.extend(expected_of(&text, &PlainOptions::of(&schema)).rows);
        sort_rows(&mut wanted, &schema);
        assert_same_rows(&world.rows(), &wanted, &format!("import {import}"));
    }
    world.check_sound("five imports");
}

#[test]
fn two_hundred_thousand_symbols_are_found_again_by_later_imports() {
    let columns = [("a", ColumnType::Symbol), ("b", ColumnType::Symbol)];
    let schema = schema_of(&columns, None, PartitionUnit::None);
    let world = world();
    let mut wanted = Vec::new();
    for import in 0..2_usize {
        let mut text = Vec::new();
        for row in 0..120_000_usize {
            let a = (row * 7_919 + import * 60_000) % 200_000;
            text.extend_from_slice(format!("symbol {a},{}\n", row % 3).as_bytes());
        }
        let path = world.put("a.csv", &text);
        let mut options = world.options(&schema, &[path]);
        options.workers = NonZeroUsize::new(3).unwrap();
        world.import(&options).unwrap();
        wanted.extend(plain::read(&text, &PlainOptions::of(&schema)).rows);
    }
    assert_same_rows(&world.rows(), &wanted, "symbols");
    let snapshot = world.database.snapshot(TABLE).unwrap();
    let symbols = snapshot.symbols.get(schema.columns()[0].id).unwrap();
    let distinct: std::collections::BTreeSet<&[u8]> = symbols.texts().collect();
    assert_eq!(distinct.len(), symbols.len(), "every text has one id");
    assert!(symbols.len() > 150_000, "{}", symbols.len());
    world.check_sound("symbols");
}

#[test]
fn a_row_without_its_timestamp_is_rejected() {
    let schema = three_columns(PartitionUnit::Day);
    let text = b",a,1\n2021-03-01,b,2\n\"\",c,3\nnonsense,d,4\n9999999-01-01,e,x\n2021-03-02,f,x\n";
    for on_error in [OnError::SkipRow, OnError::Null] {
        let world = world();
        let path = world.put("a.csv", text);
        let mut options = world.options(&schema, &[path]);
        options.on_error = on_error;
        let plain = PlainOptions {
            bad_cell: match on_error {
                OnError::Null => plain::BadCell::IsNull,
                _ => plain::BadCell::SkipsRow,
            },
            ..PlainOptions::of(&schema)
        };
        let expected = expected_of(text, &plain);
        let outcome = world.import(&options);
        check_import(&world, &outcome, &expected, &format!("{on_error:?}"));
        let rows = if on_error == OnError::Null { 2 } else { 1 };
        assert_eq!(expected.rows.len(), rows);
    }
}

#[test]
fn an_instant_out_of_range_is_rejected() {
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Nanos)), ("n", ColumnType::Int64)];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Year);
    let format = TimestampFormat::parse("epoch_ns").unwrap();
    let text = format!("{},1\n{},2\n0,3\n9223372036854775808,4\n", i64::MAX, i64::MIN);
    let world = world();
    let path = world.put("a.csv", text.as_bytes());
    let mut options = world.options(&schema, &[path]);
    options.timestamp_format = Some(format.clone());
    let formats = vec![Some(format); 2];
    let plain = PlainOptions { formats, ..PlainOptions::of(&schema) };
    let expected = expected_of(text.as_bytes(), &plain);
    assert_eq!((expected.rows.len(), expected.rejects.len()), (1, 3));
    check_import(&world, &world.import(&options), &expected, "ingest_read-1");
}

#[test]
fn epochs_of_every_unit_are_instants_of_both_types() {
    for (name, factor) in
        [("epoch_s", 1), ("epoch_ms", 1_000), ("epoch_us", 1_000_000), ("epoch_ns", 1_000_000_000)]
    {
        for unit in [TimeUnit::Micros, TimeUnit::Nanos] {
            let columns = [("n", ColumnType::Int64), ("ts", ColumnType::Timestamp(unit))];
            let schema = schema_of(&columns, Some("ts"), PartitionUnit::Month);
            let format = TimestampFormat::parse(name).unwrap();
            let mut text = String::new();
            for row in 0..500_i64 {
                let seconds = 1_600_000_000 - row * 40_000;
                text.push_str(&format!("{row},{}\n", seconds * factor + row % 7));
            }
            let world = world();
            let path = world.put("a.csv", text.as_bytes());
            let mut options = world.options(&schema, &[path]);
            options.timestamp_format = Some(format.clone());
            let formats = vec![None, Some(format)];
            let plain = PlainOptions { formats, ..PlainOptions::of(&schema) };
            let expected = expected_of(text.as_bytes(), &plain);
            assert_eq!(expected.rows.len(), 500);
            check_import(&world, &world.import(&options), &expected, name);
        }
    }
}

#[test]
fn a_pattern_reads_the_designated_timestamp() {
    let schema = three_columns(PartitionUnit::Day);
    let world = world();
    let text = b"03.02.2021 10:00:01,a,1\n02.02.2021 23:59:59,b,2\n2021-02-02,c,3\n";
    let path = world.put("a.csv", text);
    let mut options = world.options(&schema, &[path]);
    options.timestamp_format = Some(TimestampFormat::parse("%d.%m.%Y %H:%M:%S").unwrap());
    let summary = world.import(&options).unwrap();
    assert_eq!((summary.rows_imported, summary.rows_rejected), (2, 1));
    let instants: Vec<Value> = world.rows().into_iter().map(|row| row[0].clone()).collect();
    let day = 1_612_224_000_000_000; // 2021-02-02
    let wanted = [day + 86_399_000_000, day + 86_400_000_000 + 36_001_000_000];
    assert_eq!(instants, wanted.map(Value::Integer));
}

/// The beginning of a compressed file has one day, and the rest another: all of the rest goes into
/// one bucket, which exceeds the memory.
#[test]
fn a_bucket_that_no_sample_has_foreseen_is_split() {
    let mut columns = vec![("ts", ColumnType::Timestamp(TimeUnit::Micros))];
    let names: Vec<String> = (0..16).map(|at| format!("d{at}")).collect();
    let decimal = ColumnType::Decimal { precision: 30, scale: 0 };
    columns.extend(names.iter().map(|name| (name.as_str(), decimal)));
    columns.push(("text", ColumnType::Varchar));
    columns.push(("host", ColumnType::Symbol));
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let mut random = Random::new(3);
    let mut text = Vec::new();
    for row in 0..90_000 {
        let seconds =
            if row < 42_000 { random.index(600) } else { 86_400 + random.index(6 * 86_400) };
        text.extend_from_slice(date_time(seconds).as_bytes());
        for at in 0..16 {
            let cell = if (row + at) % 12 == 0 { format!(",{}", row % 7) } else { ",".into() };
            text.extend_from_slice(cell.as_bytes());
        }
        let line = format!(",text {row} that fills the sample,{}\n", row % 11);
        text.extend_from_slice(line.as_bytes());
    }
    assert!(text.len() > 5 << 20, "{}", text.len());
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&text).unwrap();
    let gz = gz.finish().unwrap();
    let expected = expected_of(&text, &PlainOptions::of(&schema));
    for (workers, memory_mib) in [(1, 32), (3, 96), (2, 1_024)] {
        let world = world();
        let path = world.put("a.csv", &gz);
        let mut options = world.options(&schema, &[path]);
        options.workers = NonZeroUsize::new(workers).unwrap();
        options.memory_max = ByteCount(memory_mib << 20);
        let outcome = world.import(&options);
        let context = format!("{workers} workers, {memory_mib} MiB");
        check_import(&world, &outcome, &expected, &context);
        world.check_sound(&context);
    }
}

#[test]
fn a_new_table_gets_the_types_that_its_cells_show() {
    let text = "Time,ok,n,x,d,who,id\n\
        2021-03-01T10:00:00,true,1,1.5,2021-01-01,a,01234567-89ab-cdef-0011-223344556677\n\
        2021-03-02T10:00:00,false,-2,2,2021-01-02,b,01234567-89ab-cdef-0011-223344556678\n";
    let world = world();
    let path = world.put("a.csv", text.as_bytes());
    let mut options = world.options(&three_columns(PartitionUnit::Day), &[path]);
    options.columns = ColumnSource::Infer;
    options.dialect.header = Header::Auto;
    options.dialect.delimiter = None;
    options.timestamp = Some("time".to_owned());
    options.symbols = vec!["WHO".to_owned()];
    let summary = world.import(&options).unwrap();
    let types: Vec<(&str, ColumnType)> =
        summary.schema.columns().iter().map(|column| (column.name.as_str(), column.ty)).collect();
    let wanted = [
        ("Time", ColumnType::Timestamp(TimeUnit::Micros)),
        ("ok", ColumnType::Boolean),
        ("n", ColumnType::Int64),
        ("x", ColumnType::Float64),
        ("d", ColumnType::Date),
        ("who", ColumnType::Symbol),
        ("id", ColumnType::Uuid),
    ];
    assert_eq!(types, wanted);
    assert_eq!((summary.partitions, summary.segments, world.rows().len()), (2, 2, 2));
}
