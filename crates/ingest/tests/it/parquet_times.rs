//! Times in Parquet files: INT96, texts, and instants outside of every calendar; and texts that are
//! not UTF-8.

use std::path::Path;
use std::sync::Arc;

use arrow::array::TimestampMicrosecondArray;
use arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::data_type::{Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tidegate_ingest::{ColumnSource, Error, ImportSummary, OnError};
use tidegate_model::{ColumnType, PartitionUnit, TimeUnit, Value};
use tidegate_platform::SimDisk;

use crate::world::{World, read_rejects, schema_of};

const MICROS: ColumnType = ColumnType::Timestamp(TimeUnit::Micros);
const NANOS: ColumnType = ColumnType::Timestamp(TimeUnit::Nanos);

/// A file of INT96 values, as Spark and Impala write them: nanoseconds of the day, Julian day.
fn int96_file(values: &[Option<(u64, u32)>]) -> Vec<u8> {
    let schema = parse_message_type("message m { OPTIONAL INT96 t; }").unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, Arc::new(schema), properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let words = |&(nanos, day): &(u64, u32)| {
        let [low, high] =
            [nanos, nanos >> 32].map(|word| u32::try_from(word & 0xFFFF_FFFF).unwrap());
        let mut value = Int96::new();
        value.set_data(low, high, day);
        value
    };
    let own: Vec<Int96> = values.iter().flatten().map(words).collect();
    column.typed::<Int96Type>().write_batch(&own, Some(&levels), None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

fn written(column: ArrayRef) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter([("t", column)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn texts(texts: &[&str]) -> Vec<u8> {
    written(Arc::new(texts.iter().map(Some).collect::<StringArray>()))
}

fn world() -> World {
    World::on(Arc::new(SimDisk::new(1)), Path::new("/"))
}

/// The values of the column, its bad cells, and the summary of the import.
type Imported = (Vec<Value>, Vec<(u64, String)>, ImportSummary);

/// Imports a column into a column of this type; bad cells are NULL, and listed as row and reason.
fn import_into(bytes: &[u8], ty: ColumnType) -> Result<Imported, Error> {
    let world = world();
    let schema = schema_of(&[("t", ty)], None, PartitionUnit::None);
    let path = world.put("a.parquet", bytes);
    let mut options = world.options(&schema, &[path]);
    options.on_error = OnError::Null;
    let summary = world.import(&options)?;
    let rows = world.rows().into_iter().map(|mut row| row.remove(0)).collect();
    let rejects = read_rejects(&*world.disk, &world.rejects());
    let bad = rejects.into_iter().map(|reject| (reject.1, reject.4)).collect();
    Ok((rows, bad, summary))
}

const DAY_NANOS: u64 = 86_400_000_000_000;
const EPOCH: u32 = 2_440_588;

/// The date 9999-12-31 became 1816.
#[test]
fn int96_is_read_in_all_its_range_and_never_wraps() {
    let values = [
        Some((0, EPOCH)),
        None,
        Some((1_999, EPOCH)),
        Some((DAY_NANOS - 1, EPOCH - 1)),
        Some((0, EPOCH + 2_932_896)), // 9999-12-31
        Some((0, 1_721_426)),         // 0001-01-01
        Some((0, u32::MAX)),          // in eleven million years
        Some((0, 0)),
    ];
    let bytes = int96_file(&values);
    let day = |days: i128| Value::Integer(days * 86_400_000_000);
    let (rows, bad, _) = import_into(&bytes, MICROS).unwrap();
    let wanted = [
        day(0),
        Value::Null,
        Value::Integer(1),
        Value::Integer(-1),
        day(2_932_896),
        day(-719_162),
        Value::Null,
        day(-2_440_588),
    ];
    assert_eq!(rows, wanted);
    assert_eq!(bad, [(7, "date or time out of range".to_owned())]);
    let (rows, bad, _) = import_into(&bytes, NANOS).unwrap();
    let wanted = [Value::Integer(0), Value::Null, Value::Integer(1_999), Value::Integer(-1)];
    assert_eq!(rows[..4], wanted);
    assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [5, 6, 7, 8]);
    // A new table gets a type with the full range.
    let world = world();
    let path = world.put("a.parquet", &bytes);
    let schema = schema_of(&[("t", MICROS)], None, PartitionUnit::None);
    let mut options = world.options(&schema, &[path]);
    options.columns = ColumnSource::Infer;
    assert_eq!(world.import(&options).unwrap().schema.columns()[0].ty, MICROS);
}

/// Dates were read day first, each by itself, and those that are valid only month first were
/// rejected.
#[test]
fn the_order_of_days_and_months_is_found_for_the_whole_column() {
    let bytes = texts(&["01/02/2024", "12/25/2024", "02/01/2024"]);
    for (ty, unit) in [(MICROS, 86_400_000_000), (NANOS, 86_400_000_000_000), (ColumnType::Date, 1)]
    {
        let (rows, bad, summary) = import_into(&bytes, ty).unwrap();
        let wanted = [19_724_i128, 20_082, 19_754].map(|days| Value::Integer(days * unit));
        assert_eq!((rows.as_slice(), bad.len()), (&wanted[..], 0), "{}", ty.sql());
        assert!(!summary.notes.iter().any(|note| note.contains("month first")));
    }
    let either = texts(&["01/02/2024", "02/01/2024"]);
    let (rows, _, summary) = import_into(&either, ColumnType::Date).unwrap();
    assert_eq!(rows, [19_754, 19_724].map(Value::Integer));
    let note = "column `t` could be month first; read as day first".to_owned();
    assert!(summary.notes.contains(&note), "{:?}", summary.notes);
}

/// A date behind the sample that contradicts the guess fails the import with its place.
#[test]
fn a_date_that_contradicts_the_guess_fails_the_import() {
    let mut dates = vec!["01/02/2024"; 5_000];
    dates[4_500] = "12/25/2024";
    let error = import_into(&texts(&dates), ColumnType::Date).unwrap_err().to_string();
    let wanted = "/a.parquet, row 4501, column `t`: `12/25/2024` is a date only with the month";
    assert!(error.starts_with(wanted), "{error}");
    // A text that is not a date at all is a bad cell.
    dates[4_500] = "soon";
    let (rows, bad, _) = import_into(&texts(&dates), ColumnType::Date).unwrap();
    assert_eq!((rows.len(), bad), (5_000, vec![(4_501, "not a date".to_owned())]));
}

/// Instants that Arrow's calendar does not have ended the process.
#[test]
fn the_last_instant_of_all_is_written_or_refused() {
    let bytes = written(Arc::new(TimestampMicrosecondArray::from(vec![i64::MAX, i64::MIN, 0])));
    for ty in [ColumnType::Varchar, ColumnType::Symbol] {
        let (rows, bad, _) = import_into(&bytes, ty).unwrap();
        assert!(bad.is_empty(), "{bad:?}");
        let zero = Value::Bytes(b"1970-01-01T00:00:00.000000Z".to_vec());
        assert!(rows.contains(&zero), "{rows:?}");
        let last = Value::Bytes(b"294247-01-10T04:00:54.775807Z".to_vec());
        assert!(rows.contains(&last), "{rows:?}");
    }
    let (rows, bad, _) = import_into(&bytes, ColumnType::Date).unwrap();
    assert_eq!(rows, [Value::Null, Value::Null, Value::Integer(0)]);
    assert!(bad.iter().all(|(_, reason)| reason == "a date with a time of day"), "{bad:?}");
}

/// Such texts failed the import.
#[test]
fn texts_that_are_not_utf8_are_bad_cells() {
    // The column has bytes, but its file declares text: the writer does not accept such text.
    let values = [&b"fine"[..], b"\xFF\xFE", b"a\0b", "\u{20ac}".as_bytes()];
    let schema = parse_message_type("message m { REQUIRED BYTE_ARRAY t (UTF8); }").unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, Arc::new(schema), properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let own: Vec<_> = values.iter().map(|value| value.to_vec().into()).collect();
    column.typed::<parquet::data_type::ByteArrayType>().write_batch(&own, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    for ty in [ColumnType::Varchar, ColumnType::Symbol] {
        let (rows, bad, _) = import_into(&bytes, ty).unwrap();
        let text = |text: &[u8]| Value::Bytes(text.to_vec());
        assert_eq!(rows, [text(values[0]), Value::Null, Value::Null, text(values[3])]);
        let wanted = [(2, "not UTF-8"), (3, "NUL in text")];
        assert_eq!(bad, wanted.map(|(row, reason)| (row, reason.to_owned())));
    }
}

/// Values are listed in their text form, and text unchanged.
#[test]
fn the_list_of_rejects_shows_the_value() {
    let binary: ArrayRef = Arc::new(BinaryArray::from(vec![&b"\x00\xFF"[..]]));
    let number: ArrayRef = Arc::new(Int64Array::from(vec![9_007_199_254_740_993]));
    for (bytes, ty, wanted) in [
        (written(binary), ColumnType::Varchar, "\"text\":\"\\\\x00ff\",\"reason\":\"not UTF-8\""),
        (
            written(number),
            ColumnType::Float64,
            "\"text\":\"9007199254740993\",\"reason\":\"would lose digits\"",
        ),
        (
            texts(&["10.0.0.256"]),
            ColumnType::Ipv4,
            "\"text\":\"10.0.0.256\",\"reason\":\"not an IPv4 address\"",
        ),
    ] {
        let world = world();
        let schema = schema_of(&[("t", ty)], None, PartitionUnit::None);
        let path = world.put("a.parquet", &bytes);
        world.import(&world.options(&schema, &[path])).unwrap_err();
        let listed = String::from_utf8(world.disk.read(&world.rejects()).unwrap()).unwrap();
        assert!(listed.contains(wanted), "{listed}");
    }
}
