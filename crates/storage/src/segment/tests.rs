//! Round trips of every type through every encoding, and detection of damage.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes as arrow_types;
use tidegate_model::layout::Encoding;
use tidegate_model::{
    ByteCount, Column, ColumnId, ColumnType, PartitionKey, PartitionUnit, RowCount, RowRange,
    Schema, SegmentId, TableId, TimeRange, TimeUnit, Value,
};
use tidegate_platform::{Disk, OpenMode, SimDisk};

use super::encode::{ColumnEncoder, EncodedColumn, FrameValues};
use super::strings::{DictionaryRows, StringCompressor, StringRows, TextForm};
use super::{Direct, MemSegmentWriter, Reader, RowSelection, SegmentMeta, Writer, WriterSpec};
use crate::error::Result;
use crate::symbols::{SymbolTable, SymbolTables};

const PATH: &str = "/s.seg";
const TABLE: TableId = TableId(7);

fn column(ty: ColumnType) -> Column {
    Column { id: ColumnId(3), name: "c".to_owned(), ty }
}

/// Writes a segment of these columns and opens it.
fn written(rows: usize, columns: Vec<EncodedColumn>, range: (i64, i64)) -> (SimDisk, SegmentMeta) {
    let disk = SimDisk::new(1);
    let file = disk.open(Path::new(PATH), OpenMode::CreateNew).expect("a new file");
    let spec = WriterSpec {
        table: TABLE,
        segment: SegmentId(5),
        partition: PartitionKey(0),
        rows: RowCount(rows as u64),
        min_ts: range.0,
        max_ts: range.1,
    };
    let writer = Writer::new(spec, file);
    for column in columns {
        writer.add(column, &mut Direct).expect("written");
    }
    let meta = writer.finish(&mut Direct).expect("written").meta;
    (disk, meta)
}

/// A reader of an in-memory segment of one column.
fn in_memory(ty: ColumnType, rows: usize, push: impl Fn(&mut ColumnEncoder)) -> Reader {
    let spec = WriterSpec {
        table: TABLE,
        segment: SegmentId(5),
        partition: PartitionKey(0),
        rows: RowCount(rows as u64),
        min_ts: 0,
        max_ts: 0,
    };
    let mut writer = MemSegmentWriter::new(spec, vec![1; 100]);
    // A column before it, so that its offset differs from that in a file.
    let mut encoder = writer.begin(ColumnId(2), ColumnType::Boolean);
    for start in (0..rows).step_by(65_536) {
        let mut bits = vec![0; (rows - start).min(65_536)];
        bits[0] = 1;
        encoder.push(&mut FrameValues::Bits(&mut bits), None);
    }
    writer.add(encoder.finish());
    let mut encoder = writer.begin(ColumnId(3), ty);
    push(&mut encoder);
    writer.add(encoder.finish());
    let (meta, bytes) = writer.finish();
    assert_eq!(meta.bytes.0, bytes.len() as u64);
    Reader::in_memory(bytes.into(), TABLE, &meta).expect("opens")
}

fn opened(disk: &SimDisk, meta: &SegmentMeta) -> Result<Reader> {
    Reader::open(disk, Path::new(PATH), TABLE, meta)
}

fn bitmap(values: &[Value]) -> Option<Vec<u64>> {
    let mut words = vec![0_u64; values.len().div_ceil(64)];
    for (row, value) in values.iter().enumerate() {
        words[row / 64] |= u64::from(*value != Value::Null) << (row % 64);
    }
    values.contains(&Value::Null).then_some(words)
}

/// Encodes values as an import would.
fn encoded(ty: ColumnType, values: &[Value], symbols: &mut Vec<Vec<u8>>) -> EncodedColumn {
    let mut encoder = ColumnEncoder::new(ColumnId(3), ty, Vec::new());
    push(ty, values, &mut encoder, symbols);
    encoder.finish()
}

fn push(ty: ColumnType, values: &[Value], encoder: &mut ColumnEncoder, symbols: &mut Vec<Vec<u8>>) {
    if matches!(ty, ColumnType::Symbol | ColumnType::Varchar | ColumnType::Binary) {
        return push_texts(ty, values, encoder, symbols);
    }
    for frame in values.chunks(65_536) {
        push_frame(ty, frame, encoder);
    }
}

fn push_texts(
    ty: ColumnType,
    values: &[Value],
    encoder: &mut ColumnEncoder,
    symbols: &mut Vec<Vec<u8>>,
) {
    let mut texts: Vec<&[u8]> = values
        .iter()
        .map(|value| match value {
            Value::Bytes(bytes) => bytes.as_slice(),
            _ => &[],
        })
        .collect();
    let validity = bitmap(values);
    let mut distinct: Vec<&[u8]> = Vec::new();
    let mut ids = Vec::new();
    for (value, text) in values.iter().zip(&texts) {
        if *value == Value::Null {
            ids.push(0);
            continue;
        }
        let id = distinct.iter().position(|known| known == text).unwrap_or_else(|| {
            distinct.push(text);
            distinct.len() - 1
        });
        ids.push(u32::try_from(id).unwrap());
    }
    let compressor = StringCompressor::default();
    let validity = validity.as_deref();
    if ty == ColumnType::Symbol {
        // Ids in another order than the strings.
        symbols.extend(distinct.iter().rev().map(|text| text.to_vec()));
        let last = distinct.len();
        let of = |at| tidegate_model::SymbolId(u32::try_from(last - 1 - at).unwrap());
        let rows = DictionaryRows { ids: &ids, values: &distinct, form: TextForm::Raw, validity };
        encoder.push_symbols(rows, &(0..last).map(of).collect::<Vec<_>>());
        return;
    }
    // Strings that are worth it are passed compressed every other time.
    let asked = values.len().is_multiple_of(2) && !distinct.is_empty();
    let form = match asked && (0..64).any(|_| compressor.is_worthwhile(&distinct)) {
        true => TextForm::Compressed,
        false => TextForm::Raw,
    };
    let (mut bytes, mut ends) = (Vec::new(), vec![0]);
    if form == TextForm::Compressed {
        compressor.compress(&distinct, &mut bytes, &mut ends);
        let end = |id: usize| usize::try_from(ends[id]).expect("a few bytes");
        let of = |id: usize| &bytes[end(id)..end(id + 1)];
        for (text, (&id, value)) in texts.iter_mut().zip(ids.iter().zip(values)) {
            *text = if *value == Value::Null { &[] } else { of(id as usize) };
        }
        distinct = (0..distinct.len()).map(of).collect();
    }
    if distinct.len() * 2 <= values.len() {
        let rows = DictionaryRows { ids: &ids, values: &distinct, form, validity };
        encoder.push_dictionary(rows, &compressor);
    } else {
        encoder.push_strings(StringRows { texts: &texts, form, validity }, &compressor);
    }
}

macro_rules! frame {
    ($encoder:expr, $frame:expr, $variant:ident, $of:expr) => {{
        let mut values: Vec<_> = $frame.iter().map($of).collect();
        let validity = bitmap($frame);
        $encoder.push(&mut FrameValues::$variant(&mut values), validity.as_deref());
    }};
}

#[expect(clippy::cast_possible_truncation, reason = "test values fit their types")]
fn push_frame(ty: ColumnType, frame: &[Value], encoder: &mut ColumnEncoder) {
    let int = |value: &Value| if let Value::Integer(n) = value { *n } else { 77 };
    let float = |value: &Value| if let Value::Float(x) = value { *x } else { 7.5 };
    match ty {
        ColumnType::Boolean => {
            frame!(encoder, frame, Bits, |v| u8::from(*v == Value::Bit(true)));
        }
        ColumnType::Int8 => frame!(encoder, frame, I8, |v| int(v) as i8),
        ColumnType::Int16 => frame!(encoder, frame, I16, |v| int(v) as i16),
        ColumnType::Int32 | ColumnType::Date => frame!(encoder, frame, I32, |v| int(v) as i32),
        ColumnType::Int64 | ColumnType::Timestamp(_) => {
            frame!(encoder, frame, I64, |v| int(v) as i64);
        }
        ColumnType::UInt8 => frame!(encoder, frame, U8, |v| int(v) as u8),
        ColumnType::UInt16 => frame!(encoder, frame, U16, |v| int(v) as u16),
        ColumnType::UInt32 | ColumnType::Ipv4 => frame!(encoder, frame, U32, |v| int(v) as u32),
        ColumnType::UInt64 => frame!(encoder, frame, U64, |v| int(v) as u64),
        ColumnType::Decimal { .. } => frame!(encoder, frame, I128, int),
        ColumnType::Float32 => frame!(encoder, frame, F32, |v| float(v) as f32),
        ColumnType::Float64 => frame!(encoder, frame, F64, float),
        ColumnType::Uuid => frame!(encoder, frame, Fixed16, |v| match v {
            Value::Fixed16(bytes) => *bytes,
            _ => [9; 16],
        }),
        _ => unreachable!("texts go elsewhere"),
    }
}

pub(crate) fn value_at(ty: ColumnType, array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    macro_rules! integer {
        ($ty:ident) => {
            Value::Integer(array.as_primitive::<arrow_types::$ty>().value(row).into())
        };
    }
    match ty {
        ColumnType::Boolean => Value::Bit(array.as_boolean().value(row)),
        ColumnType::Int8 => integer!(Int8Type),
        ColumnType::Int16 => integer!(Int16Type),
        ColumnType::Int32 => integer!(Int32Type),
        ColumnType::Int64 => integer!(Int64Type),
        ColumnType::UInt8 => integer!(UInt8Type),
        ColumnType::UInt16 => integer!(UInt16Type),
        ColumnType::UInt32 | ColumnType::Ipv4 => integer!(UInt32Type),
        ColumnType::UInt64 => integer!(UInt64Type),
        ColumnType::Date => integer!(Date32Type),
        ColumnType::Timestamp(TimeUnit::Micros) => integer!(TimestampMicrosecondType),
        ColumnType::Timestamp(TimeUnit::Nanos) => integer!(TimestampNanosecondType),
        ColumnType::Decimal { .. } => integer!(Decimal128Type),
        ColumnType::Float32 => {
            Value::Float(array.as_primitive::<arrow_types::Float32Type>().value(row).into())
        }
        ColumnType::Float64 => {
            Value::Float(array.as_primitive::<arrow_types::Float64Type>().value(row))
        }
        ColumnType::Symbol | ColumnType::Varchar => {
            Value::Bytes(array.as_string_view().value(row).as_bytes().to_vec())
        }
        ColumnType::Binary => Value::Bytes(array.as_binary_view().value(row).to_vec()),
        ColumnType::Uuid => {
            Value::Fixed16(array.as_fixed_size_binary().value(row).try_into().unwrap())
        }
    }
}

/// Returns true if values are equal, floats bit by bit.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

/// The one test of all types and shapes: encode, read in parts, verify.
#[track_caller]
fn conforms(ty: ColumnType, values: &[Value], what: &str) -> Vec<Encoding> {
    let mut symbols = Vec::new();
    let encoded_in_memory = |encoder: &mut ColumnEncoder| push(ty, values, encoder, &mut vec![]);
    let encoded = encoded(ty, values, &mut symbols);
    let (disk, meta) = written(values.len(), vec![encoded], (0, 0));
    let reader = opened(&disk, &meta).expect("opens");
    let tables = SymbolTables([(ColumnId(3), Arc::new(SymbolTable::of(&symbols)))].into());
    let column = column(ty);
    reads_as(&reader, &column, values, &tables, what);
    let mem_segment = in_memory(ty, values.len(), encoded_in_memory);
    reads_as(&mem_segment, &column, values, &tables, what);
    let encodings = |reader: &Reader| -> Vec<Encoding> {
        let column = reader.footer().columns.last().expect("one at least");
        column.frames.iter().map(|frame| frame.encoding).collect()
    };
    assert_eq!(encodings(&mem_segment), encodings(&reader), "mem_segment-1 {ty:?} {what}");
    encodings(&reader)
}

/// Checks that a column has these values when read in parts; and `verify` agrees.
#[track_caller]
fn reads_as(reader: &Reader, column: &Column, values: &[Value], tables: &SymbolTables, what: &str) {
    let (ty, mut row) = (column.ty, 0);
    for frame in 0..reader.frame_count() {
        let rows = reader.frame_rows(frame);
        let columns = std::slice::from_ref(column);
        let arrays_of = |rows| reader.arrays(frame, &rows, columns, tables).expect("decodes");
        let some: Vec<u32> = (0..rows).step_by(3).map(|at| u32::try_from(at).unwrap()).collect();
        let picked = arrays_of(RowSelection::List(&some));
        counts(reader, frame, &RowSelection::List(&some), column, &picked[0]);
        for (at, &place) in some.iter().enumerate() {
            let (found, wanted) = (value_at(ty, &picked[0], at), &values[row + place as usize]);
            assert!(same(&found, wanted), "segment-3 {ty:?} {what} picked row {place}: {found:?}");
        }
        for part in [0..rows / 3, rows / 3..rows] {
            let arrays = arrays_of(RowSelection::Range(part.clone()));
            assert_eq!(arrays[0].len(), part.len());
            counts(reader, frame, &RowSelection::Range(part.clone()), column, &arrays[0]);
            for at in 0..part.len() {
                let found = value_at(ty, &arrays[0], at);
                assert!(same(&found, &values[row]), "segment-3 {ty:?} {what} row {row}: {found:?}");
                row += 1;
            }
        }
    }
    assert_eq!(row, values.len());
    let columns = [("c".to_owned(), ty)];
    let schema = Schema::new(&columns, None, PartitionUnit::None).expect("a schema");
    reader.verify(&schema, tables).unwrap_or_else(|error| panic!("{ty:?} {what}: {error}"));
}

/// The bytes of the texts of an array.
fn text_bytes(array: &ArrayRef) -> u64 {
    array.to_data().buffers().iter().skip(1).map(|texts| texts.len() as u64).sum()
}

/// Checks that the texts of decoded rows have no more bytes than were counted before.
#[track_caller]
fn counts(reader: &Reader, frame: u64, rows: &RowSelection<'_>, column: &Column, array: &ArrayRef) {
    let Some(mut sizes) = reader.text_sizes(frame, column, 0).expect("reads") else { return };
    let count = (0..rows.count()).map(|at| sizes.count_row(rows.at(at))).sum::<u64>();
    let (made, most) = (text_bytes(array), sizes.bytes_max(rows));
    assert!(made <= count && count <= most, "text_sizes-1: {made}, {count}, {most}");
    for at in (0..rows.count().min(20)).filter(|_| column.ty == ColumnType::Varchar) {
        let text = array.as_string_view().value(at);
        assert!(array.is_null(at) || sizes.bytes_of_row(rows.at(at)) == text.len() as u64);
    }
}

/// The least, the greatest and some other values of a type.
pub(crate) fn extremes(ty: ColumnType) -> Vec<Value> {
    let ints = |list: &[i128]| list.iter().map(|&n| Value::Integer(n)).collect();
    let texts = |list: &[&[u8]]| list.iter().map(|text| Value::Bytes(text.to_vec())).collect();
    match ty {
        ColumnType::Boolean => vec![Value::Bit(false), Value::Bit(true)],
        ColumnType::Int8 => ints(&[i8::MIN.into(), -1, 0, 5, i8::MAX.into()]),
        ColumnType::Int16 => ints(&[i16::MIN.into(), -1, 0, 500, i16::MAX.into()]),
        ColumnType::Int32 | ColumnType::Date => ints(&[i32::MIN.into(), -1, 0, i32::MAX.into()]),
        ColumnType::Int64 | ColumnType::Timestamp(_) => {
            ints(&[i64::MIN.into(), -1, 0, 1 << 40, i64::MAX.into()])
        }
        ColumnType::UInt8 => ints(&[0, 5, u8::MAX.into()]),
        ColumnType::UInt16 => ints(&[0, 5, u16::MAX.into()]),
        ColumnType::UInt32 | ColumnType::Ipv4 => ints(&[0, 5, u32::MAX.into()]),
        ColumnType::UInt64 => ints(&[0, 5, 1 << 63, u64::MAX.into()]),
        ColumnType::Decimal { .. } => {
            let most = 10_i128.pow(18) - 1;
            ints(&[-most, -1, 0, 12_345, most])
        }
        ColumnType::Float32 | ColumnType::Float64 => {
            [0.0, -0.0, 1.5, -2.25, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]
                .map(Value::Float)
                .to_vec()
        }
        ColumnType::Symbol | ColumnType::Varchar => texts(&[
            b"",
            b"a",
            "h\u{e9}llo w\u{f6}rld, \u{1f600}".as_bytes(),
            b"a\tb",
            &[b'x'; 5_000],
        ]),
        ColumnType::Binary => texts(&[b"", b"\0\xFF\xFE", &[0; 300]]),
        ColumnType::Uuid => [[0; 16], [1; 16], [255; 16]].map(Value::Fixed16).to_vec(),
    }
}

#[test]
fn every_type_survives_with_one_row_all_null_extremes_and_several_frames() {
    for ty in ColumnType::ALL {
        let extremes = extremes(ty);
        conforms(ty, &extremes[..1], "one row");
        assert_eq!(conforms(ty, &vec![Value::Null; 130], "all null"), [Encoding::Null]);
        conforms(ty, &extremes, "extremes");
        let mut mixed: Vec<Value> = extremes.iter().cycle().take(70_001).cloned().collect();
        conforms(ty, &mixed, "two frames");
        for row in (0..mixed.len()).filter(|row| row % 7 == 3 || row / 4_096 == 2) {
            mixed[row] = Value::Null;
        }
        conforms(ty, &mixed, "with nulls");
        let mut same = vec![extremes[extremes.len() - 1].clone(); 5_000];
        conforms(ty, &same, "constant");
        same[4_999] = Value::Null;
        conforms(ty, &same, "constant with a null");
    }
}

#[test]
fn encodings_are_the_narrow_ones() {
    let ints = |f: &dyn Fn(i64) -> i64| -> Vec<Value> {
        (0..9_000).map(|row| Value::Integer(f(row).into())).collect()
    };
    let floats = |f: &dyn Fn(i64) -> f64| -> Vec<Value> {
        (0..9_000).map(|row| Value::Float(f(row))).collect()
    };
    let micros = ColumnType::Timestamp(TimeUnit::Micros);
    let encoding_of = |ty, values: &[Value]| {
        let encoded = encoded(ty, values, &mut Vec::new());
        let frame = encoded.footer.frames[0];
        (frame.encoding, frame.width)
    };
    // A regular series stores no code.
    let regular = ints(&|row| row * 1_000_000);
    assert_eq!(encoding_of(micros, &regular), (Encoding::Narrow, 0));
    conforms(micros, &regular, "regular");
    // Seconds of a day in microseconds fit four bytes, minutes two.
    let seconds = ints(&|row| row * 7_919 % 86_400 * 1_000_000);
    assert_eq!(encoding_of(micros, &seconds), (Encoding::Narrow, 4));
    conforms(micros, &seconds, "seconds");
    let minutes = ints(&|row| row * 7_919 % 1_440 * 60_000_000);
    assert_eq!(encoding_of(micros, &minutes), (Encoding::Narrow, 2));
    conforms(micros, &minutes, "minutes");
    // Two values take a bit each, however far apart they are.
    let two: Vec<Value> =
        (0..9_000).map(|row| Value::Integer([-5, 1 << 60][row % 7 % 2])).collect();
    assert_eq!(encoded(ColumnType::Int64, &two, &mut Vec::new()).footer.frames[0].scale, 1);
    assert_eq!(encoding_of(ColumnType::Int64, &two), (Encoding::Narrow, 0));
    conforms(ColumnType::Int64, &two, "two values");
    let decimals = floats(&|row| (row * 7_919 % 1_000) as f64 / 100.0);
    assert_eq!(encoding_of(ColumnType::Float64, &decimals), (Encoding::Decimal, 2));
    conforms(ColumnType::Float64, &decimals, "decimals");
    let singles: Vec<Value> =
        (0..9_000_u16).map(|row| Value::Float(f64::from(f32::from(row % 1_000) / 100.0))).collect();
    assert_eq!(encoding_of(ColumnType::Float32, &singles), (Encoding::Decimal, 2));
    conforms(ColumnType::Float32, &singles, "decimals as floats");
    let mut odd = decimals;
    odd[7] = Value::Float(std::f64::consts::PI);
    odd[8_000] = Value::Float(f64::NAN);
    odd[8_001] = Value::Float(-0.0);
    odd[8_002] = Value::Null;
    assert_eq!(encoding_of(ColumnType::Float64, &odd), (Encoding::Decimal, 2));
    conforms(ColumnType::Float64, &odd, "decimals with exceptions");
    let noise = floats(&|row| (row as f64).sqrt());
    assert_eq!(encoding_of(ColumnType::Float64, &noise), (Encoding::Fixed, 8));
    conforms(ColumnType::Float64, &noise, "noise");
    let wide: Vec<Value> = (0..500).map(|row| Value::Integer(i128::from(row) << 100)).collect();
    let decimal = ColumnType::Decimal { precision: 38, scale: 2 };
    assert_eq!(encoding_of(decimal, &wide), (Encoding::Fixed, 16));
    conforms(decimal, &wide, "wide");
}

#[test]
fn long_and_repeating_texts_are_compressed_and_come_back() {
    let url = |row: usize| format!("http://example.org/{}/page?id={}&ref=main", row % 13, row);
    let texts: Vec<Value> = (0..3_000).map(|row| Value::Bytes(url(row).into_bytes())).collect();
    assert_eq!(conforms(ColumnType::Varchar, &texts, "distinct"), [Encoding::Strings]);
    let plain: usize = (0..3_000).map(|row| url(row).len()).sum();
    let packed = encoded(ColumnType::Varchar, &texts, &mut Vec::new());
    assert!(packed.bytes.len() * 3 < plain * 2, "strings-2: {} of {plain}", packed.bytes.len());
    let repeating: Vec<Value> = (0..3_000).map(|row| texts[row % 700].clone()).collect();
    assert_eq!(conforms(ColumnType::Varchar, &repeating, "repeating"), [Encoding::Dictionary]);
    conforms(ColumnType::Symbol, &repeating, "symbols");
}

/// A segment kept all texts of its dictionaries decoded, of any length, for as long as it was open.
#[test]
fn dictionaries_of_long_texts_are_not_kept() {
    const BYTES: usize = 6 << 20;
    let texts = [b'a', b'b', b'c'].map(|byte| vec![byte; BYTES]);
    let values = texts.each_ref().map(Vec::as_slice);
    let ids = [2, 0, 2, 1, 0, 2];
    let rows = DictionaryRows { ids: &ids, values: &values, form: TextForm::Raw, validity: None };
    let (ty, compressor) = (ColumnType::Varchar, StringCompressor::never());
    let reader = in_memory(ty, ids.len(), |encoder| encoder.push_dictionary(rows, &compressor));
    let column = column(ty);
    let columns = std::slice::from_ref(&column);
    let picked = RowSelection::Range(0..3);
    let arrays = reader.arrays(0, &picked, columns, &SymbolTables::default()).expect("decodes");
    let firsts = arrays[0].as_string_view().iter().map(|text| text.unwrap().as_bytes()[0]);
    assert_eq!(firsts.collect::<Vec<_>>(), *b"cac");
    assert_eq!(text_bytes(&arrays[0]), 2 * BYTES as u64, "decode-2: each text once");
    assert!(reader.dictionaries.iter().all(|kept| kept.get().is_none()), "decode-2");
    let mut sizes = reader.text_sizes(0, &column, 0).expect("reads").expect("texts");
    let counted = (0..4).map(|row| sizes.count_row(row)).collect::<Vec<_>>();
    let bytes = BYTES as u64;
    assert_eq!(counted, [bytes, bytes, 0, bytes], "text_sizes-1");
    let all = reader.text_sizes(0, &column, 1 << 40).expect("reads");
    assert!(all.is_none(), "the footer alone says that they are less");
}

#[test]
fn rows_of_a_time_range_are_found_in_every_frame() {
    let micros = ColumnType::Timestamp(TimeUnit::Micros);
    let instants: Vec<i64> = (0..150_000).map(|row| row / 3 * 10).collect();
    let values: Vec<Value> = instants.iter().map(|&ts| Value::Integer(ts.into())).collect();
    let range = (instants[0], *instants.last().unwrap());
    let encoded = encoded(micros, &values, &mut Vec::new());
    let (disk, meta) = written(values.len(), vec![encoded], range);
    let reader = opened(&disk, &meta).expect("opens");
    for (start, end) in
        [(0, 1), (5, 15), (0, 500_000), (-9, 0), (499_990, 600_000), (70, 70), (218_450, 218_461)]
    {
        let found = reader
            .rows_in(&column(micros), TimeRange { unit: TimeUnit::Micros, start, end })
            .expect("reads");
        let first = instants.partition_point(|&ts| ts < start) as u64;
        let last = instants.partition_point(|&ts| ts < end) as u64;
        if first < last {
            assert_eq!(found, RowRange { start: first, end: last }, "{start}..{end}");
        } else {
            assert!(found.is_empty(), "{start}..{end}");
        }
    }
}

#[test]
fn every_damaged_byte_is_found_by_verify_or_at_open() {
    let values: Vec<Value> = (0..300).map(|row| Value::Integer((row * row % 251).into())).collect();
    let texts: Vec<Value> =
        (0..300).map(|row| Value::Bytes(format!("text {}", row % 9).into_bytes())).collect();
    let mut other = encoded(ColumnType::Varchar, &texts, &mut Vec::new());
    other.footer.id = ColumnId(4);
    let columns = vec![encoded(ColumnType::Int64, &values, &mut Vec::new()), other];
    let (disk, meta) = written(300, columns, (0, 0));
    let list = [("a".to_owned(), ColumnType::Int64), ("b".to_owned(), ColumnType::Varchar)];
    let schema = Schema::new(&list, None, PartitionUnit::None).expect("a schema");
    let tables = SymbolTables::default();
    let check = |disk: &SimDisk| opened(disk, &meta)?.verify(&schema, &tables);
    check(&disk).expect("clean");
    let footer = opened(&disk, &meta).expect("opens").footer().clone();
    let mut regions = Vec::new();
    for column in &footer.columns {
        regions.extend(column.frames.iter().map(|frame| frame.region));
        regions.extend([column.zones, column.string_table]);
        regions.extend(column.dictionary.map(|dictionary| dictionary.region));
    }
    let first_end = regions.iter().map(|region| region.offset + region.bytes).max().unwrap();
    let in_use = |at: u64| {
        at < 12
            || at >= first_end.next_multiple_of(8)
            || regions.iter().any(|r| r.offset <= at && at < r.offset + r.bytes)
    };
    for at in (0..meta.bytes.0).filter(|&at| in_use(at)) {
        disk.corrupt(Path::new(PATH), at, 0x10);
        assert!(check(&disk).is_err(), "byte {at} of {}", meta.bytes);
        disk.corrupt(Path::new(PATH), at, 0x10);
    }
    for bytes in [0, 10, meta.bytes.0 / 2, meta.bytes.0 - 1] {
        let disk = disk.clone();
        let (copy, meta) = (disk, SegmentMeta { bytes: ByteCount(bytes), ..meta });
        assert!(opened(&copy, &meta).is_err(), "a length of {bytes}");
    }
}
