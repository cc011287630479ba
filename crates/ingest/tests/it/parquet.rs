//! Parquet files through the same buckets and commit as text: the table has the values of the
//! files, whatever their row groups, encodings and types; and damage is an error.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, DictionaryArray, FixedSizeBinaryBuilder,
    Int32Array, Int64Array, LargeStringArray, ListArray, PrimitiveArray, RecordBatch, StringArray,
    StringViewArray, TimestampMillisecondArray,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Field, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Schema as ArrowSchema, TimeUnit as ArrowUnit, TimestampMicrosecondType,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use tidegate_ingest::timestamp::{EpochUnit, TimestampFormat};
use tidegate_ingest::{ColumnSource, Error, FileFormat, Header, ImportOptions, OnError};
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Schema, TimeUnit, Value};
use tidegate_platform::{Class, SimDisk};

use crate::import::random::Random;
use crate::world::{
    TABLE, World, assert_same_rows, check_import, read_rejects, schema_of, sort_rows,
};

fn world() -> World {
    World::on(Arc::new(SimDisk::new(1)), Path::new("/"))
}

/// The properties of a file.
#[derive(Debug, Clone, Copy)]
struct Writing {
    group_rows: usize,
    has_dictionaries: bool,
    has_statistics: bool,
    compression: Compression,
}

const PLAIN: Writing = Writing {
    group_rows: 700,
    has_dictionaries: true,
    has_statistics: true,
    compression: Compression::UNCOMPRESSED,
};

fn write(batch: &RecordBatch, writing: &Writing) -> Vec<u8> {
    let statistics = match writing.has_statistics {
        true => EnabledStatistics::Chunk,
        false => EnabledStatistics::None,
    };
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(writing.group_rows))
        .set_dictionary_enabled(writing.has_dictionaries)
        .set_statistics_enabled(statistics)
        .set_compression(writing.compression)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// Columns of every type that a flat file can have, with the types of the table and of the file.
fn columns() -> Vec<(&'static str, ColumnType, DataType)> {
    let symbol = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    vec![
        ("a", ColumnType::Boolean, DataType::Boolean),
        ("b", ColumnType::Int8, DataType::Int8),
        ("c", ColumnType::Int16, DataType::Int16),
        ("d", ColumnType::Int32, DataType::Int32),
        ("e", ColumnType::Int64, DataType::Int64),
        ("f", ColumnType::UInt8, DataType::UInt8),
        ("g", ColumnType::UInt16, DataType::UInt16),
        ("h", ColumnType::UInt32, DataType::UInt32),
        ("i", ColumnType::UInt64, DataType::UInt64),
        (
            "ts",
            ColumnType::Timestamp(TimeUnit::Micros),
            DataType::Timestamp(ArrowUnit::Microsecond, None),
        ),
        ("j", ColumnType::Float32, DataType::Float32),
        ("k", ColumnType::Float64, DataType::Float64),
        ("l", ColumnType::Decimal { precision: 20, scale: 3 }, DataType::Decimal128(20, 3)),
        (
            "m",
            ColumnType::Timestamp(TimeUnit::Nanos),
            DataType::Timestamp(ArrowUnit::Nanosecond, None),
        ),
        ("n", ColumnType::Date, DataType::Date32),
        ("o", ColumnType::Symbol, symbol),
        ("p", ColumnType::Varchar, DataType::Utf8),
        ("q", ColumnType::Varchar, DataType::LargeUtf8),
        ("r", ColumnType::Varchar, DataType::Utf8View),
        ("s", ColumnType::Binary, DataType::Binary),
        ("t", ColumnType::Uuid, DataType::FixedSizeBinary(16)),
    ]
}

fn schema() -> Schema {
    let columns = columns();
    let columns: Vec<_> = columns.iter().map(|(name, ty, _)| (*name, *ty)).collect();
    schema_of(&columns, Some("ts"), PartitionUnit::Day)
}

fn value(random: &mut Random, name: &str, ty: ColumnType) -> Value {
    if name != "ts" && random.percent(15) {
        return Value::Null;
    }
    let signed = |random: &mut Random| i128::from(random.next().cast_signed());
    let text = |random: &mut Random| match random.below(4) {
        0 => String::new(),
        1 => format!("value {}", random.below(20)),
        2 => "\u{e9}\u{20ac}\u{1F600} ".repeat(random.index(30)),
        _ => format!("{:x} is not seen again", random.next()),
    };
    match ty {
        ColumnType::Boolean => Value::Bit(random.percent(50)),
        ColumnType::Int8 => Value::Integer(signed(random) >> 56),
        ColumnType::Int16 => Value::Integer(signed(random) >> 48),
        ColumnType::Int32 => Value::Integer(signed(random) >> 32),
        ColumnType::Int64 => Value::Integer(signed(random)),
        ColumnType::UInt8 => Value::Integer((random.next() >> 56).into()),
        ColumnType::UInt16 => Value::Integer((random.next() >> 48).into()),
        ColumnType::UInt32 | ColumnType::Ipv4 => Value::Integer((random.next() >> 32).into()),
        ColumnType::UInt64 => Value::Integer(random.next().into()),
        ColumnType::Float32 => Value::Float(f64::from(f32::from_bits(
            0x3F80_0000 | u32::try_from(random.next() >> 42).unwrap(),
        ))),
        ColumnType::Float64 => match random.below(8) {
            0 => Value::Float(f64::NAN),
            1 => Value::Float(-0.0),
            2 => Value::Float(f64::NEG_INFINITY),
            _ => Value::Float(random.below(1_000_000) as f64 / 100.0),
        },
        ColumnType::Decimal { .. } => Value::Integer(signed(random)),
        ColumnType::Timestamp(TimeUnit::Micros) => {
            Value::Integer(1_600_000_000_000_000 + i128::from(random.below(9 * 86_400)) * 1_000_000)
        }
        ColumnType::Timestamp(TimeUnit::Nanos) => Value::Integer(signed(random) >> 1),
        ColumnType::Date => Value::Integer(i128::from(random.below(40_000)) - 10_000),
        ColumnType::Symbol => Value::Bytes(format!("s{}", random.below(50)).into_bytes()),
        ColumnType::Varchar => Value::Bytes(text(random).into_bytes()),
        ColumnType::Binary => {
            let bytes = random.next().to_le_bytes();
            Value::Bytes(bytes[..random.index(9)].to_vec())
        }
        ColumnType::Uuid => Value::Fixed16(u128::from(random.next()).to_le_bytes()),
    }
}

fn random_rows(random: &mut Random, count: usize) -> Vec<Vec<Value>> {
    let columns = columns();
    let row = |random: &mut Random| {
        columns.iter().map(|(name, ty, _)| value(random, name, *ty)).collect()
    };
    (0..count).map(|_| row(random)).collect()
}

fn batch(rows: &[Vec<Value>]) -> RecordBatch {
    let columns = columns();
    let fields: Vec<Field> =
        columns.iter().map(|(name, _, ty)| Field::new(*name, ty.clone(), true)).collect();
    let arrays = columns.iter().enumerate().map(|(at, (_, _, ty))| {
        let values: Vec<&Value> = rows.iter().map(|row| &row[at]).collect();
        array(ty, &values)
    });
    RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), arrays.collect()).unwrap()
}

#[expect(clippy::too_many_lines, reason = "one arm a type")]
#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
fn array(ty: &DataType, values: &[&Value]) -> ArrayRef {
    fn integers<T: ArrowPrimitiveType>(values: &[&Value]) -> ArrayRef
    where
        T::Native: TryFrom<i128>,
    {
        let native = |value: &&Value| match value {
            Value::Integer(value) => T::Native::try_from(*value).ok(),
            _ => None,
        };
        Arc::new(values.iter().map(native).collect::<PrimitiveArray<T>>())
    }
    let float = |value: &&Value| match value {
        Value::Float(value) => Some(*value),
        _ => None,
    };
    let bytes = |value: &&Value| match value {
        Value::Bytes(bytes) => Some(bytes.clone()),
        _ => None,
    };
    let text = |value: &&Value| bytes(value).map(|bytes| String::from_utf8(bytes).unwrap());
    match ty {
        DataType::Boolean => {
            let bit = |value: &&Value| match value {
                Value::Bit(bit) => Some(*bit),
                _ => None,
            };
            Arc::new(values.iter().map(bit).collect::<BooleanArray>())
        }
        DataType::Int8 => integers::<Int8Type>(values),
        DataType::Int16 => integers::<Int16Type>(values),
        DataType::Int32 => integers::<Int32Type>(values),
        DataType::Int64 => integers::<Int64Type>(values),
        DataType::UInt8 => integers::<UInt8Type>(values),
        DataType::UInt16 => integers::<UInt16Type>(values),
        DataType::UInt32 => integers::<UInt32Type>(values),
        DataType::UInt64 => integers::<UInt64Type>(values),
        DataType::Date32 => integers::<Date32Type>(values),
        DataType::Timestamp(ArrowUnit::Microsecond, _) => {
            integers::<TimestampMicrosecondType>(values)
        }
        DataType::Timestamp(_, _) => integers::<TimestampNanosecondType>(values),
        DataType::Float32 => {
            let narrow = |value: &&Value| float(value).map(|value| value as f32);
            Arc::new(values.iter().map(narrow).collect::<PrimitiveArray<Float32Type>>())
        }
        DataType::Float64 => {
            Arc::new(values.iter().map(float).collect::<PrimitiveArray<Float64Type>>())
        }
        DataType::Decimal128(precision, scale) => {
            let native = |value: &&Value| match value {
                Value::Integer(value) => Some(*value),
                _ => None,
            };
            let array = values.iter().map(native).collect::<Decimal128Array>();
            Arc::new(array.with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::Dictionary(_, _) => {
            let texts: Vec<Option<String>> = values.iter().map(text).collect();
            let texts = texts.iter().map(Option::as_deref);
            Arc::new(texts.collect::<DictionaryArray<Int32Type>>())
        }
        DataType::Utf8 => Arc::new(values.iter().map(text).collect::<StringArray>()),
        DataType::LargeUtf8 => Arc::new(values.iter().map(text).collect::<LargeStringArray>()),
        DataType::Utf8View => Arc::new(values.iter().map(text).collect::<StringViewArray>()),
        DataType::Binary => Arc::new(values.iter().map(bytes).collect::<BinaryArray>()),
        DataType::FixedSizeBinary(_) => {
            let mut builder = FixedSizeBinaryBuilder::new(16);
            for value in values {
                match value {
                    Value::Fixed16(bytes) => builder.append_value(bytes).unwrap(),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        ty => unreachable!("{ty}"),
    }
}

fn options(world: &World, schema: &Schema, paths: &[PathBuf]) -> ImportOptions {
    ImportOptions { columns: ColumnSource::Infer, ..world.options(schema, paths) }
}

#[test]
fn every_flat_type_is_inferred_and_every_value_is_there() {
    let mut random = Random::new(1);
    let rows = random_rows(&mut random, 3_000);
    let (batch, schema) = (batch(&rows), schema());
    let mut wanted = rows;
    sort_rows(&mut wanted, &schema);
    let zstd = Compression::ZSTD(ZstdLevel::try_new(1).unwrap());
    for (at, writing) in [
        PLAIN,
        Writing { group_rows: 1, has_dictionaries: false, ..PLAIN },
        Writing { group_rows: 100_000, compression: zstd, ..PLAIN },
        Writing { has_dictionaries: false, has_statistics: false, ..PLAIN },
        Writing { group_rows: 64, compression: Compression::SNAPPY, ..PLAIN },
    ]
    .into_iter()
    .enumerate()
    {
        let context = format!("{writing:?}");
        let batch = if writing.group_rows == 1 { batch.slice(0, 40) } else { batch.clone() };
        let world = world();
        let path = world.put("a.parquet", &write(&batch, &writing));
        let mut options = options(&world, &schema, &[path]);
        options.workers = NonZeroUsize::new(1 + at % 4).unwrap();
        let summary = world.import(&options).unwrap();
        assert!(summary.created_table);
        assert_eq!(summary.schema.columns(), schema.columns(), "{context}");
        assert_eq!(summary.rows_imported, batch.num_rows() as u64, "{context}");
        if batch.num_rows() == wanted.len() {
            assert_same_rows(&world.rows(), &wanted, &context);
        }
        world.check_sound(&context);
    }
}

#[test]
fn equal_instants_stand_in_the_order_of_files_row_groups_and_rows() {
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
        ("n", ColumnType::Int64),
        ("o", ColumnType::Symbol),
    ];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::None);
    for (workers, memory) in [(1, 64 << 20), (4, 128 << 20), (3, 1 << 30)] {
        let world = world();
        let mut paths = Vec::new();
        for file in 0..3 {
            let instants = (0..5_000).map(|row| Value::Integer(row * 7 % 11)).collect::<Vec<_>>();
            let numbers =
                (0..5_000).map(|row| Value::Integer(file * 5_000 + row)).collect::<Vec<_>>();
            let symbols = (0..5_000).map(|row| Value::Bytes(format!("s{}", row % 9).into_bytes()));
            let symbols = symbols.collect::<Vec<_>>();
            let micros = DataType::Timestamp(ArrowUnit::Microsecond, None);
            let batch = RecordBatch::try_from_iter([
                ("ts", array(&micros, &refs(&instants))),
                ("n", array(&DataType::Int64, &refs(&numbers))),
                ("o", array(&DataType::Utf8, &refs(&symbols))),
            ]);
            let writing = Writing { group_rows: 333, ..PLAIN };
            paths.push(world.put(&format!("{file}.parquet"), &write(&batch.unwrap(), &writing)));
        }
        let mut options = world.options(&schema, &paths);
        options.workers = NonZeroUsize::new(workers).unwrap();
        options.memory_max = ByteCount(memory);
        world.import(&options).unwrap();
        let rows = world.rows();
        assert_eq!(rows.len(), 15_000);
        let key = |row: &Vec<Value>| match (&row[0], &row[1]) {
            (Value::Integer(ts), Value::Integer(n)) => (*ts, *n),
            other => unreachable!("{other:?}"),
        };
        assert!(rows.is_sorted_by_key(key), "{workers} workers");
    }
}

fn refs(values: &[Value]) -> Vec<&Value> {
    values.iter().collect()
}

/// A file with a timestamp in milliseconds and a number of 64 bits.
fn numbers(rows: &[(Option<i64>, Option<i64>)]) -> RecordBatch {
    let instants: TimestampMillisecondArray = rows.iter().map(|row| row.0).collect();
    let numbers: Int64Array = rows.iter().map(|row| row.1).collect();
    let columns: [(&str, ArrayRef); 2] = [("ts", Arc::new(instants)), ("n", Arc::new(numbers))];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn values_that_a_column_cannot_hold_are_rejected_with_their_row() {
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("n", ColumnType::Int8)];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let rows = [
        (Some(3), Some(127)),
        (Some(1), Some(128)),
        (None, Some(3)),
        (Some(2), None),
        (Some(i64::MAX), Some(5)),
        (Some(0), Some(-129)),
    ];
    let bytes = write(&numbers(&rows), &Writing { group_rows: 4, ..PLAIN });
    let row = |ts: i128, n: Option<i128>| {
        vec![Value::Integer(ts * 1_000), n.map_or(Value::Null, Value::Integer)]
    };
    let skipped = vec![row(2, None), row(3, Some(127))];
    let nulled = vec![row(0, None), row(1, None), row(2, None), row(3, Some(127))];
    for (on_error, wanted) in [(OnError::SkipRow, skipped), (OnError::Null, nulled)] {
        let world = world();
        let path = world.put("a.parquet", &bytes);
        let options = ImportOptions { on_error, ..world.options(&schema, &[path]) };
        let summary = world.import(&options).unwrap();
        assert_eq!(summary.rows_read, 6);
        assert_eq!(summary.rows_rejected, 6 - wanted.len() as u64, "{on_error:?}");
        assert_same_rows(&world.rows(), &wanted, &format!("{on_error:?}"));
        let listed = String::from_utf8(world.disk.read(&world.rejects()).unwrap()).unwrap();
        // They had a wrong line, and byte 0.
        assert!(listed.contains("\"row\":2") && !listed.contains("\"line\""), "{listed}");
        assert!(!listed.contains("\"byte\""), "{listed}");
        let rejects = read_rejects(&*world.disk, &world.rejects());
        let lines: Vec<(u64, Option<&str>)> =
            rejects.iter().map(|reject| (reject.1, reject.3.as_deref())).collect();
        assert_eq!(lines, [(2, Some("n")), (3, Some("ts")), (5, Some("ts")), (6, Some("n"))]);
    }
}

/// Imports a file, which must be refused without a trace.
fn refused(bytes: &[u8], schema: &Schema, change: impl FnOnce(&mut ImportOptions)) -> Error {
    let world = world();
    let path = world.put("a.parquet", bytes);
    let mut options = world.options(schema, &[path]);
    change(&mut options);
    let error = world.import(&options).expect_err("it is refused");
    assert!(world.database.snapshot(TABLE).is_err());
    world.check_sound(&error.to_string());
    error
}

#[test]
fn types_that_do_not_fit_are_refused_by_name() {
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("n", ColumnType::Uuid)];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let bytes = write(&numbers(&[(Some(1), Some(2))]), &PLAIN);
    let error = refused(&bytes, &schema, |_| {});
    let wanted = "/a.parquet: column `n` has type Int64, which cannot become UUID: \
                  --skip-columns 'n' leaves it out";
    assert_eq!(error.to_string(), wanted);
    assert_eq!(error.class(), Class::Caller);
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None])]);
    let columns: [(&str, ArrayRef); 2] =
        [("x", Arc::new(Int32Array::from(vec![1]))), ("nested", Arc::new(lists))];
    let bytes = write(&RecordBatch::try_from_iter(columns).unwrap(), &PLAIN);
    let error = refused(&bytes, &schema, |options| {
        options.columns = ColumnSource::Infer;
        (options.timestamp, options.partition_by) = (None, None);
    });
    let shown = error.to_string();
    assert!(shown.starts_with("/a.parquet: column `nested` has type List("), "{shown}");
}

#[test]
fn files_without_rows_and_files_of_two_kinds_are_refused() {
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("n", ColumnType::Int64)];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let error = refused(&write(&numbers(&[]), &PLAIN), &schema, |_| {});
    let wanted = "/a.parquet: no records: a Parquet file without row groups, such as \
                  `_common_metadata`, has only a schema: import the files that have rows";
    assert_eq!(error.to_string(), wanted);
    assert_eq!(error.class(), Class::Caller);
    let error = refused(b"ts,n\n1,2\n", &schema, |options| options.format = FileFormat::Parquet);
    assert!(matches!(error, Error::Parquet { .. }), "{error:?}");
    let world = world();
    let bytes = write(&numbers(&[(Some(1), Some(2))]), &PLAIN);
    let paths = [world.put("a.csv", b"2021-03-01,2\n"), world.put("b.parquet", &bytes)];
    let error = world.import(&world.options(&schema, &paths)).unwrap_err();
    assert!(matches!(error, Error::MixedFormats { .. }), "{error:?}");
}

/// A file with checksums of its pages (which the Rust writer does not write), of 64 rows: `ts` in
/// steps of a second, `v` from 10^12 on, and `nothing`, a column with only NULL.
const WITH_CHECKSUMS: &[u8] = include_bytes!("data/page_checksums.parquet");

fn checksum_columns() -> [(&'static str, ColumnType); 3] {
    let instant = ColumnType::Timestamp(TimeUnit::Micros);
    [("ts", instant), ("v", ColumnType::Int64), ("nothing", ColumnType::Int32)]
}

#[test]
fn a_column_without_a_type_is_null_in_every_row() {
    let schema = schema_of(&checksum_columns(), Some("ts"), PartitionUnit::Day);
    for infer in [false, true] {
        let world = world();
        let path = world.put("a.parquet", WITH_CHECKSUMS);
        let mut options = world.options(&schema, &[path]);
        if infer {
            options.columns = ColumnSource::Infer;
        }
        let summary = world.import(&options).unwrap();
        assert_eq!((summary.rows_imported, summary.rows_rejected), (64, 0), "inferred: {infer}");
        let rows = world.rows();
        let numbers = rows.iter().map(|row| row[1].clone());
        assert!(numbers.eq((0..64).map(|row| Value::Integer(1_000_000_000_000 + row))));
        assert!(rows.iter().all(|row| row[2] == Value::Null));
    }
}

#[test]
fn a_page_that_is_not_what_its_checksum_says_is_refused() {
    let schema = schema_of(&checksum_columns(), Some("ts"), PartitionUnit::Day);
    let mut bytes = WITH_CHECKSUMS.to_vec();
    let value = 1_000_000_000_007_i64.to_le_bytes();
    let at = bytes.windows(8).position(|window| window == value).expect("stored as it is");
    bytes[at + 5] ^= 4;
    let error = refused(&bytes, &schema, |_| {});
    let shown = error.to_string();
    assert!(shown.starts_with("/a.parquet: row group 1, column `v`: "), "{error:?}");
    assert!(shown.contains("CRC"), "{shown}");
}

/// The damage: a file is cut off, a bit is inverted, a byte of the footer is changed.
#[test]
fn damaged_files_are_errors_and_never_panics() {
    let mut random = Random::new(7);
    let rows = random_rows(&mut random, 300);
    let (batch, schema) = (batch(&rows), schema());
    let writing = Writing { group_rows: 100, compression: Compression::SNAPPY, ..PLAIN };
    let bytes = write(&batch, &writing);
    let mut failed = 0;
    for round in 0..150_usize {
        let mut damaged = bytes.clone();
        match round % 3 {
            0 => damaged.truncate(4 + random.index(bytes.len() - 4)),
            1 => {
                let at = 4 + random.index(bytes.len() - 4);
                damaged[at] ^= 1 << random.below(8);
            }
            _ => {
                // The byte is in the footer.
                let at = bytes.len() - 1 - random.index(3_000);
                damaged[at] = random.next().to_le_bytes()[0];
            }
        }
        let world = world();
        let path = world.put("a.parquet", &damaged);
        let outcome = world.import(&options(&world, &schema, &[path]));
        match outcome {
            Ok(summary) => assert!(summary.rows_imported <= 300, "round {round}"),
            Err(error) => {
                failed += 1;
                assert!(!matches!(error, Error::WorkerPanicked), "round {round}");
                assert!(world.database.snapshot(TABLE).is_err(), "round {round}");
            }
        }
        world.check_sound(&format!("round {round}"));
    }
    assert!(failed > 60, "{failed} of 150 were refused");
}

/// There are more symbols than a worker can intern, in dictionaries of many row groups.
#[test]
fn dictionaries_of_row_groups_become_one_dictionary_of_the_table() {
    let schema = schema_of(&[("o", ColumnType::Symbol)], None, PartitionUnit::None);
    let texts: Vec<Value> = (0..60_000)
        .map(|row| Value::Bytes(format!("symbol {}", row * 31 % 40_009).into_bytes()))
        .collect();
    let batch = RecordBatch::try_from_iter([("o", array(&DataType::Utf8, &refs(&texts)))]);
    let world = world();
    let writing = Writing { group_rows: 5_000, ..PLAIN };
    let path = world.put("a.parquet", &write(&batch.unwrap(), &writing));
    let mut options = world.options(&schema, &[path]);
    options.workers = NonZeroUsize::new(3).unwrap();
    let expected = crate::world::Expected {
        rows: texts.into_iter().map(|text| vec![text]).collect(),
        records: 60_000,
        ..Default::default()
    };
    let outcome = world.import(&options);
    check_import(&world, &outcome, &expected, "dictionaries");
    let snapshot = world.database.snapshot(TABLE).unwrap();
    assert_eq!(snapshot.symbols.get(schema.columns()[0].id).unwrap().len(), 40_009);
    world.check_sound("dictionaries");
}

/// Integers were read as microseconds, whatever unit was given.
#[test]
fn integers_are_times_in_the_unit_that_is_given() {
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("n", ColumnType::Int64)];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let seconds: ArrayRef = Arc::new(Int64Array::from(vec![1_700_000_000, 1_600_000_000]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("ts", seconds), ("n", numbers)]).unwrap();
    let bytes = write(&batch, &PLAIN);
    for infer in [false, true] {
        let world = world();
        let path = world.put("a.parquet", &bytes);
        let mut options = world.options(&schema, &[path]);
        if infer {
            options.columns = ColumnSource::Infer;
        }
        let error = world.import(&options).unwrap_err();
        assert!(matches!(error, Error::TimestampNeedsFormat { .. }), "{error:?}");
        options.timestamp_format = Some(TimestampFormat::Epoch(EpochUnit::Seconds));
        world.import(&options).unwrap();
        let row = |ts: i128, n| vec![Value::Integer(ts * 1_000_000), Value::Integer(n)];
        let wanted = [row(1_600_000_000, 2), row(1_700_000_000, 1)];
        assert_same_rows(&world.rows(), &wanted, &format!("inferred: {infer}"));
    }
}

#[test]
fn options_of_text_are_said_to_be_of_no_use() {
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("n", ColumnType::Int64)];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let world = world();
    let path = world.put("a.parquet", &write(&numbers(&[(Some(1), Some(2))]), &PLAIN));
    let mut options = world.options(&schema, &[path]);
    options.dialect.header = Header::Auto;
    options.dialect.delimiter = Some(b';');
    options.dialect.skip_lines = 3;
    let notes = world.import(&options).unwrap().notes;
    let expected = "Parquet says how it is to be read: --delimiter, --skip-lines not used";
    assert_eq!(notes, [expected]);
}

/// A file with one column of times in any form, and a number for each row.
fn times(times: ArrayRef) -> Vec<u8> {
    let numbers = (0..).take(times.len()).map(Some).collect::<Int64Array>();
    let columns: [(&str, ArrayRef); 2] = [("ts", times), ("n", Arc::new(numbers))];
    write(&RecordBatch::try_from_iter(columns).unwrap(), &PLAIN)
}

/// Dictionaries of integers and numbers with fractions were read as microseconds.
#[test]
fn times_are_what_is_said_of_them_or_refused() {
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("n", ColumnType::Int64)];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let millis = Int64Array::from(vec![1_700_000_000_000]);
    let dictionary = DictionaryArray::new(Int32Array::from(vec![0]), Arc::new(millis));
    let dictionary = times(Arc::new(dictionary));
    let iso = |options: &mut ImportOptions| {
        options.columns = ColumnSource::Infer;
        options.timestamp_format = Some(TimestampFormat::Iso);
    };
    let error = refused(&dictionary, &schema, iso);
    assert!(matches!(error, Error::TimestampNeedsFormat { .. }), "{error:?}");
    let seconds = times(Arc::new(PrimitiveArray::<Float64Type>::from(vec![1.5])));
    let error = refused(&seconds, &schema, |options| {
        options.timestamp_format = Some(TimestampFormat::Epoch(EpochUnit::Seconds));
    });
    assert!(matches!(error, Error::ParquetTarget { .. }), "{error:?}");
    let texts = ["2025-01-02T03:04", "x", "2025-01-01"].map(Some);
    let texts = times(Arc::new(StringArray::from(texts.to_vec())));
    let epoch = Some(TimestampFormat::Epoch(EpochUnit::Millis));
    for (bytes, format, wanted) in [
        (dictionary, epoch, vec![(1_700_000_000_000_000, 0)]),
        (texts, None, vec![(1_735_689_600_000_000, 2), (1_735_787_040_000_000, 0)]),
    ] {
        for infer in [false, true] {
            let world = world();
            let path = world.put("a.parquet", &bytes);
            let mut options = world.options(&schema, &[path]);
            if infer {
                options.columns = ColumnSource::Infer;
            }
            options.timestamp_format.clone_from(&format);
            let summary = world.import(&options).unwrap();
            let wanted = wanted.iter().map(|&(ts, n)| vec![Value::Integer(ts), Value::Integer(n)]);
            assert_same_rows(&world.rows(), &wanted.collect::<Vec<_>>(), &format!("{format:?}"));
            let reasons: Vec<String> =
                summary.reject_reasons.iter().map(|(_, reason, _)| reason.to_string()).collect();
            assert!(reasons.is_empty() || reasons == ["not a timestamp"], "{reasons:?}");
        }
    }
}

/// A value that a column cannot hold became a different one: an infinity, or an integer without its
/// fraction.
#[test]
fn numbers_do_not_lose_what_they_are() {
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
        ("i", ColumnType::Int32),
        ("f", ColumnType::Float32),
        ("d", ColumnType::Decimal { precision: 9, scale: 1 }),
    ];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let instants = TimestampMillisecondArray::from(vec![1, 2, 3, 4]);
    let whole = PrimitiveArray::<Float64Type>::from(vec![2.0, 1.9, -3.0, 4.0]);
    let large = PrimitiveArray::<Float64Type>::from(vec![1.5, 2.5, 1e300, f64::INFINITY]);
    let fine = Decimal128Array::from(vec![150, 250, 350, 455]);
    let fine = fine.with_precision_and_scale(9, 2).unwrap();
    let columns: [(&str, ArrayRef); 4] = [
        ("ts", Arc::new(instants)),
        ("i", Arc::new(whole)),
        ("f", Arc::new(large)),
        ("d", Arc::new(fine)),
    ];
    let bytes = write(&RecordBatch::try_from_iter(columns).unwrap(), &PLAIN);
    let world = world();
    let path = world.put("a.parquet", &bytes);
    let summary = world.import(&world.options(&schema, &[path])).unwrap();
    assert_eq!((summary.rows_imported, summary.rows_rejected), (2, 2));
    let lines = read_rejects(&*world.disk, &world.rejects());
    let lines: Vec<(u64, Option<&str>)> =
        lines.iter().map(|reject| (reject.1, reject.3.as_deref())).collect();
    assert_eq!(lines, [(2, Some("i")), (3, Some("f"))]);
    // The value is 4.55, rounded like its text.
    assert_eq!(world.rows()[1][3], Value::Integer(46));
}

#[test]
fn dictionaries_of_other_values_than_texts_are_read() {
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("n", ColumnType::Boolean)];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let instants = TimestampMillisecondArray::from(vec![1, 2]);
    let flags = Arc::new(BooleanArray::from(vec![true, false]));
    let flags = DictionaryArray::new(Int32Array::from(vec![1, 0]), flags);
    let columns: [(&str, ArrayRef); 2] = [("ts", Arc::new(instants)), ("n", Arc::new(flags))];
    let world = world();
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let path = world.put("a.parquet", &write(&batch, &PLAIN));
    world.import(&world.options(&schema, &[path])).unwrap();
    let flags: Vec<Value> = world.rows().iter().map(|row| row[1].clone()).collect();
    assert_eq!(flags, [Value::Bit(false), Value::Bit(true)]);
}
