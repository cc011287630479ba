//! Time to encode a column of a segment, and to decode it into Arrow arrays: one page frame, by
//! encoding. Throughput is in bytes of values, which are eight each, or those of the strings.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tidegate_model::{
    Column, ColumnId, ColumnType, PartitionKey, RowCount, SegmentId, SymbolId, TableId, limits,
};
use tidegate_platform::{Disk, OpenMode, SimDisk};
use tidegate_storage::segment::encode::{ColumnEncoder, EncodedColumn, FrameValues};
use tidegate_storage::segment::strings::{DictionaryRows, StringCompressor, StringRows, TextForm};
use tidegate_storage::segment::{Direct, Reader, RowSelection, Writer, WriterSpec};
use tidegate_storage::{SymbolTable, SymbolTables};

/// A page frame.
const ROWS: u64 = limits::FRAME_ROWS.0;
/// Distinct values of a dictionary.
const VALUES: u64 = 1_000;
const COLUMN: ColumnId = ColumnId(0);
const TABLE: TableId = TableId(1);

/// Spreads rows over all numbers.
fn mixed(row: u64) -> u64 {
    (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1
}

/// A kind of column: its values and the encoding of a frame.
struct Kind {
    name: &'static str,
    ty: ColumnType,
    value_bytes: u64,
    encode: Box<dyn Fn(Vec<u8>) -> EncodedColumn>,
}

fn integers(name: &'static str, value: fn(u64) -> u64) -> Kind {
    let values: Vec<i64> = (0..ROWS).map(|row| value(row).cast_signed()).collect();
    let encode = move |spare| {
        let mut encoder = ColumnEncoder::new(COLUMN, ColumnType::Int64, spare);
        encoder.push(&mut FrameValues::I64(&mut values.clone()), None);
        encoder.finish()
    };
    Kind { name, ty: ColumnType::Int64, value_bytes: ROWS * 8, encode: Box::new(encode) }
}

fn floats(name: &'static str, value: fn(u64) -> f64) -> Kind {
    let values: Vec<f64> = (0..ROWS).map(value).collect();
    let encode = move |spare| {
        let mut encoder = ColumnEncoder::new(COLUMN, ColumnType::Float64, spare);
        encoder.push(&mut FrameValues::F64(&mut values.clone()), None);
        encoder.finish()
    };
    Kind { name, ty: ColumnType::Float64, value_bytes: ROWS * 8, encode: Box::new(encode) }
}

/// Every second row is NULL.
fn half_null() -> Kind {
    let values: Vec<i64> = (0..ROWS).map(|row| (row % 999).cast_signed()).collect();
    let validity = vec![0x5555_5555_5555_5555_u64; values.len().div_ceil(64)];
    let encode = move |spare| {
        let mut encoder = ColumnEncoder::new(COLUMN, ColumnType::Int64, spare);
        encoder.push(&mut FrameValues::I64(&mut values.clone()), Some(&validity));
        encoder.finish()
    };
    let encode = Box::new(encode);
    Kind { name: "narrow_half_null", ty: ColumnType::Int64, value_bytes: ROWS * 8, encode }
}

/// Contiguous strings, some of them worth compressing.
fn strings(name: &'static str, of: fn(u64) -> String) -> Kind {
    let texts: Vec<String> = (0..ROWS).map(of).collect();
    let value_bytes = texts.iter().map(|text| text.len() as u64).sum();
    // Trained once for an import, so not measured.
    let compressor = StringCompressor::default();
    let encode = move |spare| {
        let mut encoder = ColumnEncoder::new(COLUMN, ColumnType::Varchar, spare);
        let rows: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let rows = StringRows { texts: &rows, form: TextForm::Raw, validity: None };
        encoder.push_strings(rows, &compressor);
        encoder.finish()
    };
    Kind { name, ty: ColumnType::Varchar, value_bytes, encode: Box::new(encode) }
}

fn value_of(id: u64) -> String {
    format!("a value of the dictionary {id}")
}

/// Codes of a thousand values, or of symbols.
fn dictionary(name: &'static str, ty: ColumnType) -> Kind {
    let narrow = |id: u64| u32::try_from(id).expect("few values");
    let values: Vec<String> = (0..VALUES).map(value_of).collect();
    let ids: Vec<u32> = (0..ROWS).map(|row| narrow(mixed(row) % VALUES)).collect();
    let value_bytes = ids.iter().map(|&id| values[id as usize].len() as u64).sum();
    let symbols: Vec<SymbolId> = (0..VALUES).map(|id| SymbolId(narrow(id))).collect();
    let encode = move |spare| {
        let mut encoder = ColumnEncoder::new(COLUMN, ty, spare);
        let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
        let rows =
            DictionaryRows { ids: &ids, values: &values, form: TextForm::Raw, validity: None };
        match ty {
            ColumnType::Symbol => encoder.push_symbols(rows, &symbols),
            _ => encoder.push_dictionary(rows, &StringCompressor::default()),
        }
        encoder.finish()
    };
    Kind { name, ty, value_bytes, encode: Box::new(encode) }
}

fn kinds() -> Vec<Kind> {
    let page = |row| format!("https://example.org/a/b?page={}", mixed(row) % 99_999);
    vec![
        integers("constant", |_| 7),
        integers("sequence", |row| row * 1_000),
        integers("narrow_1", |row| mixed(row) % 200),
        integers("narrow_2", |row| mixed(row) % 50_000 * 10),
        integers("narrow_4", |row| mixed(row) % 1_000_000_000),
        integers("narrow_8", mixed),
        half_null(),
        floats("decimal", |row| (mixed(row) % 100_000) as f64 / 100.0),
        floats("doubles", |row| f64::from_bits(mixed(row) >> 2)),
        dictionary("dictionary", ColumnType::Varchar),
        dictionary("symbols", ColumnType::Symbol),
        strings("strings_fsst", page),
        strings("strings_plain", |row| format!("{:016x}", mixed(row))),
    ]
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    for kind in kinds() {
        group.throughput(Throughput::Bytes(kind.value_bytes));
        let mut spare = Vec::new();
        group.bench_function(kind.name, |bencher| {
            bencher.iter(|| {
                let encoded = (kind.encode)(std::mem::take(&mut spare));
                spare = black_box(encoded).bytes;
            });
        });
    }
    group.finish();
}

/// A segment of one column.
fn reader(encoded: EncodedColumn) -> Reader {
    let (disk, path) = (SimDisk::new(1), Path::new("/segment"));
    let file = disk.open(path, OpenMode::CreateNew).expect("an empty disk");
    let spec = WriterSpec {
        table: TABLE,
        segment: SegmentId(1),
        partition: PartitionKey(0),
        rows: RowCount(ROWS),
        min_ts: 0,
        max_ts: 0,
    };
    let writer = Writer::new(spec, file);
    writer.add(encoded, &mut Direct).expect("an endless disk");
    let written = writer.finish(&mut Direct).expect("an endless disk");
    Reader::open(&disk, path, TABLE, &written.meta).expect("it was just written")
}

fn decode(criterion: &mut Criterion) {
    let texts: Vec<String> = (0..VALUES).map(value_of).collect();
    let symbols = SymbolTables::from_iter([(COLUMN, Arc::new(SymbolTable::of(&texts)))]);
    let mut group = criterion.benchmark_group("decode");
    for kind in kinds() {
        let reader = reader((kind.encode)(Vec::new()));
        let columns = [Column { id: COLUMN, name: "c".to_owned(), ty: kind.ty }];
        group.throughput(Throughput::Bytes(kind.value_bytes));
        group.bench_function(kind.name, |bencher| {
            let rows = reader.frame_rows(0);
            bencher.iter(|| {
                let arrays = reader.arrays(0, &RowSelection::Range(0..rows), &columns, &symbols);
                black_box(arrays.expect("sound"))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, encode, decode);
criterion_main!(benches);
