//! In-memory segments of random rows of all types, compared with the rows in order.

use std::collections::BTreeMap;

use proptest::prelude::{ProptestConfig, proptest};
use tidegate_model::{Column, PartitionUnit, TimeUnit, Value};

use super::*;
use crate::batch::BatchTexts;
use crate::segment::tests::{extremes, same, value_at};
use crate::segment::{Reader, RowSelection};
use crate::symbols::{SymbolTable, SymbolTables};

/// The values of a row, in the order of the schema's columns.
pub(crate) type Row = Vec<Value>;

/// Pseudo-random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
}

/// An in-memory segment of table 1 that has one row.
pub(crate) fn mem_segment_of_one_row() -> MemSegment {
    let columns = [("x".to_owned(), ColumnType::Int64)];
    let schema = Schema::new(&columns, None, PartitionUnit::None).unwrap();
    let values = BatchValues::I64(vec![5]);
    let column = &schema.columns()[0];
    let column = MemSegmentColumn {
        id: column.id,
        ty: column.ty,
        values: &values,
        validity: None,
        symbols: &[],
    };
    let batch = MemSegmentBatch { table: TableId(1), schema: &schema, rows: 1, columns: &[column] };
    encode(&batch, &mut || SegmentId(3)).unwrap().remove(0)
}

/// A table in a test: its symbols, and ids for its segments.
pub(crate) struct TestTable {
    symbols: BTreeMap<ColumnId, Vec<Vec<u8>>>,
    pub(crate) next_segment: u64,
}

pub(crate) const TABLE: TableId = TableId(9);

impl TestTable {
    pub(crate) fn new() -> TestTable {
        TestTable { symbols: BTreeMap::new(), next_segment: 0 }
    }

    pub(crate) fn new_id(&mut self) -> SegmentId {
        self.next_segment += 1;
        SegmentId(self.next_segment)
    }

    pub(crate) fn tables(&self, schema: &Schema) -> SymbolTables {
        let columns = schema.columns().iter().filter(|column| column.ty == ColumnType::Symbol);
        let none = Vec::new();
        let table = |column: &Column| {
            Arc::new(SymbolTable::of(self.symbols.get(&column.id).unwrap_or(&none)))
        };
        columns.map(|column| (column.id, table(column))).collect()
    }

    /// Encodes rows as a writer would pass them.
    pub(crate) fn mem_segments(
        &mut self,
        schema: &Schema,
        rows: &[Row],
    ) -> Result<Vec<MemSegment>> {
        let mut columns = Vec::new();
        for (at, column) in schema.columns().iter().enumerate() {
            let values: Vec<&Value> = rows.iter().map(|row| &row[at]).collect();
            let known = self.symbols.entry(column.id).or_default();
            columns.push((column, batch_values(column.ty, &values, known), validity(&values)));
        }
        // A column that is NULL in all rows may be missing.
        columns.retain(|(_, _, validity)| validity.as_ref().is_none_or(|w| w != &[0]));
        let columns: Vec<MemSegmentColumn<'_>> = columns
            .iter()
            .map(|(column, (values, symbols), validity)| MemSegmentColumn {
                id: column.id,
                ty: column.ty,
                values,
                validity: validity.as_deref(),
                symbols,
            })
            .collect();
        let batch = MemSegmentBatch { table: TABLE, schema, rows: rows.len(), columns: &columns };
        encode(&batch, &mut || {
            self.next_segment += 1;
            SegmentId(self.next_segment)
        })
    }
}

fn validity(values: &[&Value]) -> Option<Vec<u64>> {
    let mut words = vec![0_u64; values.len().div_ceil(64)];
    for (row, value) in values.iter().enumerate() {
        words[row / 64] |= u64::from(**value != Value::Null) << (row % 64);
    }
    values.iter().any(|value| **value == Value::Null).then_some(words)
}

#[expect(clippy::cast_possible_truncation, reason = "test values fit their types")]
#[expect(clippy::cast_sign_loss, reason = "test values fit their types")]
fn batch_values(
    ty: ColumnType,
    values: &[&Value],
    known: &mut Vec<Vec<u8>>,
) -> (BatchValues, Vec<SymbolId>) {
    // The value under a NULL is arbitrary (storage_batch-2).
    let ints = values.iter().map(|v| if let Value::Integer(n) = v { *n } else { 99 });
    let floats = values.iter().map(|v| if let Value::Float(x) = v { *x } else { 0.5 });
    let of = match ty {
        ColumnType::Boolean => {
            let bits = values.iter().map(|v| u8::from(**v == Value::Bit(true)));
            BatchValues::Bits(bits.collect())
        }
        ColumnType::Int8 => BatchValues::I8(ints.map(|n| n as i8).collect()),
        ColumnType::Int16 => BatchValues::I16(ints.map(|n| n as i16).collect()),
        ColumnType::Int32 | ColumnType::Date => BatchValues::I32(ints.map(|n| n as i32).collect()),
        ColumnType::Int64 | ColumnType::Timestamp(_) => {
            BatchValues::I64(ints.map(|n| n as i64).collect())
        }
        ColumnType::UInt8 => BatchValues::U8(ints.map(|n| n as u8).collect()),
        ColumnType::UInt16 => BatchValues::U16(ints.map(|n| n as u16).collect()),
        ColumnType::UInt32 | ColumnType::Ipv4 => BatchValues::U32(ints.map(|n| n as u32).collect()),
        ColumnType::UInt64 => BatchValues::U64(ints.map(|n| n as u64).collect()),
        ColumnType::Decimal { .. } => BatchValues::I128(ints.collect()),
        ColumnType::Float32 => BatchValues::F32(floats.map(|x| x as f32).collect()),
        ColumnType::Float64 => BatchValues::F64(floats.collect()),
        ColumnType::Uuid => {
            let of = |v: &&Value| if let Value::Fixed16(bytes) = v { *bytes } else { [3; 16] };
            BatchValues::Fixed16(values.iter().map(of).collect())
        }
        ColumnType::Varchar | ColumnType::Binary => {
            let mut texts = BatchTexts::default();
            for value in values {
                texts.push(if let Value::Bytes(text) = value { text } else { b"nothing" });
            }
            BatchValues::Texts(texts)
        }
        ColumnType::Symbol => return symbol_values(values, known),
    };
    (of, Vec::new())
}

fn symbol_values(values: &[&Value], known: &mut Vec<Vec<u8>>) -> (BatchValues, Vec<SymbolId>) {
    let narrow = |at: usize| u32::try_from(at).unwrap();
    let (mut texts, mut list, mut codes) = (BatchTexts::default(), Vec::new(), Vec::new());
    // A string that no row has.
    for text in [b"unused".as_slice()].into_iter().filter(|_| values.len() % 2 == 1) {
        texts.push(text);
        list.push(text);
    }
    for value in values {
        let Value::Bytes(text) = value else {
            codes.push(u32::MAX);
            continue;
        };
        let at = list.iter().position(|known| known == text).unwrap_or_else(|| {
            texts.push(text);
            list.push(text);
            list.len() - 1
        });
        codes.push(narrow(at));
    }
    let mut symbols = Vec::new();
    for text in list {
        let at = known.iter().position(|known| known == text).unwrap_or_else(|| {
            known.push(text.to_vec());
            known.len() - 1
        });
        symbols.push(SymbolId(narrow(at)));
    }
    (BatchValues::Symbols { codes, texts }, symbols)
}

/// A table with some or all types.
pub(crate) fn random_schema(random: &mut Random) -> Schema {
    let partition_by = PartitionUnit::ALL[random.below(6)].0;
    let unit = [TimeUnit::Micros, TimeUnit::Nanos][random.below(2)];
    let mut columns: Vec<(String, ColumnType)> = Vec::new();
    for ty in ColumnType::ALL {
        if random.below(3) > 0 {
            columns.push((format!("c{}", columns.len()), ty));
        }
    }
    columns.insert(random.below(columns.len() + 1), ("ts".to_owned(), ColumnType::Timestamp(unit)));
    if random.below(10) == 0 {
        return Schema::new(&columns, None, PartitionUnit::None).unwrap();
    }
    Schema::new(&columns, Some("ts"), partition_by).unwrap()
}

/// The style in which the values of a column are made.
#[derive(Debug, Clone, Copy)]
struct Style {
    /// One of this many rows is NULL; 0 for none.
    nulls: usize,
    /// Approximate number of different values.
    values: usize,
}

/// Rows with timestamps a few hours apart, mostly in order or mostly not.
pub(crate) fn random_rows(random: &mut Random, schema: &Schema, count: usize) -> Vec<Row> {
    let styles: Vec<Style> = schema
        .columns()
        .iter()
        .map(|_| Style {
            nulls: [0, 0, 2, 7, 1][random.below(5)],
            values: [1, 2, 5, 300, 1 << 40][random.below(5)],
        })
        .collect();
    let hour = schema.time_unit().per_second() * 3_600;
    let jitter = [0, 0, 3 * hour, hour / 9][random.below(4)];
    let step = [0, 1, hour / 1_000, hour / 11][random.below(4)];
    let start = random.below(4) as i64 * hour - hour / 2;
    let row = |at: usize, random: &mut Random| {
        let mut value = |column: &Column, style: &Style| {
            if Some(column.id) == schema.designated() {
                let late = if jitter == 0 { 0 } else { random.next() as i64 % jitter };
                return Value::Integer((start + at as i64 * step - late.abs()).into());
            }
            match style.nulls {
                0 => random_value(random, column.ty, style.values),
                of if random.below(of) == 0 => Value::Null,
                _ => random_value(random, column.ty, style.values),
            }
        };
        schema.columns().iter().zip(&styles).map(|(c, s)| value(c, s)).collect()
    };
    (0..count).map(|at| row(at, random)).collect()
}

fn random_value(random: &mut Random, ty: ColumnType, values: usize) -> Value {
    let extremes = extremes(ty);
    if values == 5 || random.below(50) == 0 {
        return extremes[random.below(extremes.len())].clone();
    }
    let number = random.below(values);
    match &extremes[0] {
        Value::Bit(_) => Value::Bit(number % 2 == 1),
        Value::Integer(_) => Value::Integer((number % 100) as i128),
        Value::Float(_) => Value::Float(f64::from((number % 10_000) as f32 / 8.0)),
        Value::Bytes(_) => Value::Bytes(format!("a text like number {number}").into_bytes()),
        Value::Fixed16(_) => Value::Fixed16((number as u128).to_be_bytes()),
        Value::Null => unreachable!("no extreme is NULL"),
    }
}

/// All rows of a segment.
pub(crate) fn rows_of(reader: &Reader, schema: &Schema, symbols: &SymbolTables) -> Vec<Row> {
    let mut rows = Vec::new();
    for frame in 0..reader.frame_count() {
        let count = reader.frame_rows(frame);
        let picked = RowSelection::Range(0..count);
        let arrays = reader.arrays(frame, &picked, schema.columns(), symbols).expect("decodes");
        for row in 0..count {
            let columns = schema.columns().iter().zip(&arrays);
            rows.push(columns.map(|(column, array)| value_at(column.ty, array, row)).collect());
        }
    }
    rows
}

/// The timestamp of a row.
pub(crate) fn timestamp(schema: &Schema, row: &Row) -> i64 {
    let Some(id) = schema.designated() else { return 0 };
    let at = schema.columns().iter().position(|column| column.id == id).unwrap();
    let Value::Integer(ts) = row[at] else { panic!("no timestamp") };
    i64::try_from(ts).unwrap()
}

#[track_caller]
pub(crate) fn assert_rows(found: &[Row], wanted: &[Row], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}: rows");
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        for (column, (found, wanted)) in found.iter().zip(wanted).enumerate() {
            assert!(same(found, wanted), "{what}: row {at} column {column}: {found:?} {wanted:?}");
        }
    }
}

fn mem_segments_are_the_rows_in_order(seed: u64) {
    let mut random = Random(seed);
    let schema = random_schema(&mut random);
    let count = [1, 2, 63, 64, 65, 700, 5_000][random.below(7)];
    let mut rows = random_rows(&mut random, &schema, count);
    let mut table = TestTable::new();
    let mem_segments = table.mem_segments(&schema, &rows).expect("encodes");
    rows.sort_by_key(|row| timestamp(&schema, row));
    let symbols = table.tables(&schema);
    let mut found = Vec::new();
    for mem_segment in &mem_segments {
        let reader = Reader::in_memory(Arc::clone(&mem_segment.bytes), TABLE, &mem_segment.meta);
        let reader = reader.expect("mem_segment-1");
        reader.verify(&schema, &symbols).expect("mem_segment-1");
        assert_eq!(
            crate::manifest::check_segment(&schema, &mem_segment.meta),
            Ok(()),
            "mem_segment-2"
        );
        found.extend(rows_of(&reader, &schema, &symbols));
    }
    assert_rows(&found, &rows, &format!("mem_segment-2, seed {seed}"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn mem_segments_are_the_rows_of_a_batch_in_order(seed in 0_u64..u64::MAX) {
        mem_segments_are_the_rows_in_order(seed);
    }
}

/// Bytes between a valid header and a valid trailer, with the CRC of the footer.
fn framed(mut bytes: Vec<u8>, footer_bytes: usize) -> (Vec<u8>, u32) {
    let footer_bytes = footer_bytes.min(bytes.len());
    let crc = crc32c::crc32c(&bytes[bytes.len() - footer_bytes..]);
    let mut framed = b"TIDESEG\0\x01\0\0\0".to_vec();
    framed.resize(64, 0);
    framed.append(&mut bytes);
    framed.extend_from_slice(&(footer_bytes as u64).to_le_bytes());
    framed.extend_from_slice(&crc.to_le_bytes());
    framed.extend_from_slice(b"\x01\0\0\0TIDESEG\0");
    (framed, crc)
}

proptest! {
    #[test]
    fn any_bytes_are_a_mem_segment_or_an_error(
        bytes in proptest::collection::vec(0_u8..=255, 0..400),
        footer_bytes in 0_usize..400,
        is_framed in proptest::bool::ANY,
    ) {
        let (bytes, footer_crc) = if is_framed { framed(bytes, footer_bytes) } else { (bytes, 0) };
        let meta = SegmentMeta {
            id: SegmentId(1),
            partition: PartitionKey(0),
            rows: RowCount(1),
            bytes: tidegate_model::ByteCount(bytes.len() as u64),
            min_ts: 0,
            max_ts: 0,
            seq_first: tidegate_model::SeqTxn(1),
            seq_last: tidegate_model::SeqTxn(1),
            footer_crc,
        };
        // Arbitrary bytes cause no panic, and are hardly ever a segment.
        let read = Reader::in_memory(bytes.into(), TABLE, &meta);
        assert!(read.is_err(), "{read:?}");
    }
}

#[test]
fn a_timestamp_that_is_missing_or_out_of_range_is_named() {
    let columns = [("ts".to_owned(), ColumnType::Timestamp(TimeUnit::Micros))];
    let schema = Schema::new(&columns, Some("ts"), PartitionUnit::Day).unwrap();
    let rows = |list: &[Option<i64>]| -> Vec<Row> {
        list.iter().map(|ts| vec![ts.map_or(Value::Null, |ts| Value::Integer(ts.into()))]).collect()
    };
    let refused = |list: &[Option<i64>]| {
        let refused = TestTable::new().mem_segments(&schema, &rows(list)).expect_err("refused");
        refused.to_string()
    };
    assert_eq!(refused(&[Some(1), None]), "row 1 has no designated timestamp");
    assert_eq!(
        refused(&[Some(1), Some(7), Some(i64::MAX)]),
        "the designated timestamp of row 2, 9223372036854775807, is out of range"
    );
    assert!(TestTable::new().mem_segments(&schema, &[]).expect("nothing").is_empty());
}
