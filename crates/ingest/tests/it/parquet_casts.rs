//! Every type of a Parquet file into every type of a table, with values at the edges of all of
//! them, against decimal texts: a column accepts the exact value, and all others are bad cells.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Decimal256Array, FixedSizeBinaryArray,
    PrimitiveArray, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes as types;
use arrow::datatypes::ArrowPrimitiveType;
use parquet::arrow::ArrowWriter;
use tidegate_ingest::timestamp::{EpochUnit, TimestampFormat};
use tidegate_ingest::{Error, ImportOptions, OnError};
use tidegate_model::{ColumnType, PartitionUnit, TimeUnit, Value};
use tidegate_platform::SimDisk;

use crate::import::random::Random;
use crate::world::{World, read_rejects, schema_of};

/// A value of a file, in the form of the test.
#[derive(Debug, Clone, PartialEq)]
enum Item {
    Boolean(bool),
    Integer(i128),
    Float32(f32),
    Float64(f64),
    /// All digits as a number, and the count of those behind the point.
    Decimal(i128, usize),
    Days(i64),
    /// Nanoseconds since 1970, and those of one unit of the file.
    Instant(i128, i128),
    Text(String),
    Binary(Vec<u8>),
    Uuid([u8; 16]),
}

const DAY: i128 = 86_400_000_000_000;

/// The number as decimal digits: exactly, or in its written form if it has a fraction.
fn digits(item: &Item) -> Option<String> {
    let text = match item {
        Item::Boolean(value) => u8::from(*value).to_string(),
        Item::Integer(value) => value.to_string(),
        Item::Float32(value) if value.fract() == 0.0 => format!("{value:.0}"),
        Item::Float32(value) => value.to_string(),
        Item::Float64(value) if value.fract() == 0.0 => format!("{value:.0}"),
        Item::Float64(value) => value.to_string(),
        Item::Decimal(value, places) => {
            let digits = format!("{:0>width$}", value.unsigned_abs(), width = places + 1);
            let (whole, fraction) = digits.split_at(digits.len() - places);
            format!("{}{whole}.{fraction}", if *value < 0 { "-" } else { "" })
        }
        _ => return None,
    };
    if text.contains("NaN") || text.contains("inf") {
        return None;
    }
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    Some(if text == "-0" && !matches!(item, Item::Float32(_) | Item::Float64(_)) {
        "0".to_owned()
    } else {
        text
    })
}

/// The value in a column; `None` for a bad cell.
fn expected(item: &Item, ty: ColumnType) -> Option<Value> {
    let digits = || digits(item);
    let integer = || digits()?.parse::<i128>().ok();
    match ty {
        ColumnType::Boolean => match digits()?.as_str() {
            "0" => Some(Value::Bit(false)),
            "1" => Some(Value::Bit(true)),
            _ => None,
        },
        ColumnType::Int8 => Some(Value::Integer(i8::try_from(integer()?).ok()?.into())),
        ColumnType::Int16 => Some(Value::Integer(i16::try_from(integer()?).ok()?.into())),
        ColumnType::Int32 => Some(Value::Integer(i32::try_from(integer()?).ok()?.into())),
        ColumnType::Int64 => Some(Value::Integer(i64::try_from(integer()?).ok()?.into())),
        ColumnType::UInt8 => Some(Value::Integer(u8::try_from(integer()?).ok()?.into())),
        ColumnType::UInt16 => Some(Value::Integer(u16::try_from(integer()?).ok()?.into())),
        ColumnType::UInt32 | ColumnType::Ipv4 => {
            Some(Value::Integer(u32::try_from(integer()?).ok()?.into()))
        }
        ColumnType::UInt64 => Some(Value::Integer(u64::try_from(integer()?).ok()?.into())),
        ColumnType::Float32 => Some(Value::Float(float32(item)?.into())),
        ColumnType::Float64 => Some(Value::Float(float64(item)?)),
        ColumnType::Decimal { precision, scale } => {
            let digits = digits()?;
            let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
            let kept: String = fraction.chars().take(scale.into()).collect();
            let value = format!("{whole}{kept:0<width$}", width = usize::from(scale));
            let away = if digits.starts_with('-') { -1 } else { 1 };
            let is_rounded_up = fraction.as_bytes().get(usize::from(scale)) >= Some(&b'5');
            let value = value.parse::<i128>().ok()? + if is_rounded_up { away } else { 0 };
            let is_within = value.unsigned_abs().to_string().len() <= precision.into();
            is_within.then_some(Value::Integer(value))
        }
        ColumnType::Timestamp(unit) => {
            let nanos = nanos(item)?;
            let value = nanos.div_euclid(i128::from(1_000_000_000 / unit.per_second()));
            Some(Value::Integer(i64::try_from(value).ok()?.into()))
        }
        ColumnType::Date => {
            let nanos = nanos(item)?;
            let is_day = nanos % DAY == 0;
            let days = i32::try_from(nanos / DAY).ok().filter(|_| is_day)?;
            Some(Value::Integer(days.into()))
        }
        ColumnType::Symbol | ColumnType::Varchar => match item {
            Item::Text(text) => text_value(text.as_bytes()),
            Item::Binary(bytes) => text_value(bytes),
            // The form is checked by reading it again.
            _ => None,
        },
        ColumnType::Binary => match item {
            Item::Binary(bytes) => Some(Value::Bytes(bytes.clone())),
            Item::Uuid(bytes) => Some(Value::Bytes(bytes.to_vec())),
            _ => None,
        },
        ColumnType::Uuid => match item {
            Item::Uuid(bytes) => Some(Value::Fixed16(*bytes)),
            Item::Binary(bytes) => Some(Value::Fixed16(bytes.as_slice().try_into().ok()?)),
            _ => None,
        },
    }
}

fn text_value(text: &[u8]) -> Option<Value> {
    let is_text = std::str::from_utf8(text).is_ok() && !text.contains(&0);
    is_text.then(|| Value::Bytes(text.to_vec()))
}

fn nanos(item: &Item) -> Option<i128> {
    match item {
        Item::Days(days) => Some(i128::from(*days) * DAY),
        Item::Instant(count, unit) => Some(count * unit),
        _ => None,
    }
}

/// An integer is a float only if the float equals the integer; a decimal is the nearest one.
fn float64(item: &Item) -> Option<f64> {
    match item {
        Item::Float32(value) => Some((*value).into()),
        Item::Float64(value) => Some(*value),
        Item::Decimal(..) => digits(item)?.parse().ok(),
        _ => {
            let digits = digits(item)?;
            let value: f64 = digits.parse().ok()?;
            (format!("{value:.0}") == digits).then_some(value)
        }
    }
}

fn float32(item: &Item) -> Option<f32> {
    match item {
        Item::Float32(value) => Some(*value),
        Item::Float64(value) if !value.is_finite() => format!("{value}").parse().ok(),
        Item::Float64(value) => {
            // The format prints all digits that a double can have.
            let nearest: f32 = format!("{value:.1100}").parse().ok()?;
            nearest.is_finite().then_some(nearest)
        }
        Item::Decimal(..) => digits(item)?.parse().ok().filter(|value: &f32| value.is_finite()),
        _ => {
            let digits = digits(item)?;
            let value: f32 = digits.parse().ok()?;
            (format!("{value:.0}") == digits).then_some(value)
        }
    }
}

/// A type of a file: its name, and the function that makes an array of it.
struct Source {
    name: &'static str,
    items: Vec<Option<Item>>,
    array: ArrayRef,
}

fn integers<T: ArrowPrimitiveType>(name: &'static str, numbers: &[i128]) -> Source
where
    T::Native: TryFrom<i128>,
{
    let native = |number: &i128| T::Native::try_from(*number).ok();
    let mut values: Vec<_> =
        numbers.iter().filter_map(|number| Some((*number, native(number)?))).collect();
    values.dedup_by_key(|(number, _)| *number);
    let items = values.iter().map(|(number, _)| Some(Item::Integer(*number)));
    let items: Vec<_> = items.chain([None]).collect();
    let native = values.into_iter().map(|(_, native)| Some(native)).chain([None]);
    Source { name, items, array: Arc::new(native.collect::<PrimitiveArray<T>>()) }
}

fn instants<T: ArrowPrimitiveType<Native = i64>>(
    name: &'static str,
    unit: i128,
    numbers: &[i128],
) -> Source {
    let counts: Vec<i64> = numbers.iter().filter_map(|&n| i64::try_from(n).ok()).collect();
    let items = counts.iter().map(|&count| Some(Item::Instant(count.into(), unit)));
    let items: Vec<_> = items.chain([None]).collect();
    let native = counts.into_iter().map(Some).chain([None]);
    Source { name, items, array: Arc::new(native.collect::<PrimitiveArray<T>>()) }
}

/// Integers around all edges, and random ones.
fn numbers(random: &mut Random) -> Vec<i128> {
    let mut edges = vec![0];
    for power in [1, 2, 7, 8, 15, 16, 24, 31, 32, 53, 62, 63, 64] {
        let edge = 1_i128 << power;
        edges.extend([edge - 1, edge, edge + 1, -edge - 1, -edge, 1 - edge]);
    }
    // These seconds are the years 1, 1677, 2262, 9999; they are used in seconds to nanoseconds.
    for second in [-62_135_596_800_i128, -9_223_372_037, 9_223_372_037, 253_402_300_800] {
        for unit in [1, 1_000, 1_000_000, 1_000_000_000] {
            edges.extend([second * unit - 1, second * unit, second * unit + 1]);
        }
    }
    edges.extend((0..40).map(|_| i128::from(random.next().cast_signed() >> random.below(63))));
    edges
}

fn floats(random: &mut Random) -> Vec<f64> {
    let mut floats = vec![
        0.0,
        -0.0,
        0.1,
        0.5,
        1.0,
        1.5,
        -1.5,
        0.000_5,
        -0.000_5,
        2.675_5,
        2.0,
        300.0,
        1e10,
        1e22,
        1e23,
        1e38,
        1e39,
        1e300,
        5e-324,
        f64::MAX,
        f64::MIN,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        16_777_217.0,
        9_007_199_254_740_994.0,
        9_223_372_036_854_775_808.0,
        18_446_744_073_709_551_616.0,
        123_456_789.012_345,
        0.123_456_789_012_345_67,
        f64::from(f32::MAX),
        3.5e38,
    ];
    floats.extend((0..30).map(|_| f64::from_bits(random.next())));
    floats.extend((0..30).map(|_| random.below(1 << 40) as f64 / 1_000.0));
    floats
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
fn sources() -> Vec<Source> {
    let mut random = Random::new(11);
    let numbers = numbers(&mut random);
    let with_null =
        |items: Vec<Item>| items.into_iter().map(Some).chain([None]).collect::<Vec<_>>();
    let mut sources = vec![
        integers::<types::Int8Type>("int8", &numbers),
        integers::<types::Int16Type>("int16", &numbers),
        integers::<types::Int32Type>("int32", &numbers),
        integers::<types::Int64Type>("int64", &numbers),
        integers::<types::UInt8Type>("uint8", &numbers),
        integers::<types::UInt16Type>("uint16", &numbers),
        integers::<types::UInt32Type>("uint32", &numbers),
        integers::<types::UInt64Type>("uint64", &numbers),
        instants::<types::TimestampMillisecondType>("millis", 1_000_000, &numbers),
        instants::<types::TimestampMicrosecondType>("micros", 1_000, &numbers),
        instants::<types::TimestampNanosecondType>("nanos", 1, &numbers),
    ];
    let booleans: BooleanArray = [Some(true), Some(false), None].into_iter().collect();
    sources.push(Source {
        name: "boolean",
        items: with_null(vec![Item::Boolean(true), Item::Boolean(false)]),
        array: Arc::new(booleans),
    });
    let floats = floats(&mut random);
    let narrow: Vec<f32> = floats.iter().map(|&float| float as f32).collect();
    sources.push(Source {
        name: "double",
        items: with_null(floats.iter().map(|&float| Item::Float64(float)).collect()),
        array: Arc::new(
            floats
                .into_iter()
                .map(Some)
                .chain([None])
                .collect::<PrimitiveArray<types::Float64Type>>(),
        ),
    });
    sources.push(Source {
        name: "float",
        items: with_null(narrow.iter().map(|&float| Item::Float32(float)).collect()),
        array: Arc::new(
            narrow
                .into_iter()
                .map(Some)
                .chain([None])
                .collect::<PrimitiveArray<types::Float32Type>>(),
        ),
    });
    sources.extend(decimals(&numbers));
    let days: Vec<i32> = numbers.iter().filter_map(|&n| i32::try_from(n).ok()).collect();
    sources.push(Source {
        name: "date",
        items: with_null(days.iter().map(|&days| Item::Days(days.into())).collect()),
        array: Arc::new(
            days.into_iter().map(Some).chain([None]).collect::<PrimitiveArray<types::Date32Type>>(),
        ),
    });
    sources.extend(byte_sources(&mut random));
    sources
}

fn decimals(numbers: &[i128]) -> [Source; 3] {
    let forms = [("decimal(38,10)", 38, 10), ("decimal(38,0)", 38, 0), ("decimal(20,2)", 20, 2)];
    forms.map(|(name, precision, scale)| {
        let bound = 10_i128.pow(precision);
        let scaled = numbers.iter().flat_map(|n| [Some(*n), n.checked_mul(10_i128.pow(scale))]);
        let mut values: Vec<i128> = scaled.flatten().filter(|n| n.abs() < bound).collect();
        values.extend([bound - 1, 1 - bound, 12_345_678_901_234_567_899]);
        values.extend([4_999_999, 5_000_000, -4_999_999, -5_000_000]);
        let items = values.iter().map(|&n| Some(Item::Decimal(n, scale as usize)));
        let items = items.chain([None]).collect();
        let array: Decimal128Array = values.into_iter().map(Some).chain([None]).collect();
        let shape = (u8::try_from(precision).unwrap(), i8::try_from(scale).unwrap());
        let array = array.with_precision_and_scale(shape.0, shape.1).unwrap();
        Source { name, items, array: Arc::new(array) }
    })
}

fn byte_sources(random: &mut Random) -> [Source; 3] {
    let texts = [
        "",
        "x",
        "\u{20ac}",
        "10.0.0.1",
        "7",
        "-1",
        "2.5",
        "1e3",
        "true",
        "yes",
        "2024-02-29",
        "2024-02-29T23:59:59.999999999Z",
        "2024-01-01 00:00",
        "0001-01-01",
        "9999-12-31",
        "c0ffee00-0000-4000-8000-0123456789ab",
        "\\x00ff",
        "\\x0",
        " 12 ",
        "9007199254740993",
        "99999999999999999999",
        "NaN",
        "0.12345678901234567890123",
    ];
    let bytes: Vec<Vec<u8>> =
        [&b""[..], b"x", b"\xFF\xFE", b"a\0", b"0123456789abcdef", b"\xC3\xA9"]
            .into_iter()
            .map(<[u8]>::to_vec)
            .collect();
    let uuids: Vec<[u8; 16]> =
        (0..5).map(|_| u128::from(random.next()).pow(2).to_be_bytes()).collect();
    let some = |items: Vec<Item>| items.into_iter().map(Some).chain([None]).collect::<Vec<_>>();
    [
        Source {
            name: "text",
            items: some(texts.iter().map(|&text| Item::Text(text.to_owned())).collect()),
            array: Arc::new(texts.into_iter().map(Some).chain([None]).collect::<StringArray>()),
        },
        Source {
            name: "binary",
            items: some(bytes.iter().cloned().map(Item::Binary).collect()),
            array: Arc::new(bytes.iter().map(Some).chain([None]).collect::<BinaryArray>()),
        },
        Source {
            name: "uuid",
            items: some(uuids.iter().copied().map(Item::Uuid).collect()),
            array: Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                    uuids.iter().map(Some).chain([None]),
                    16,
                )
                .unwrap(),
            ),
        },
    ]
}

/// Returns true if a column of a table accepts any values of such a column.
fn is_taken(item: &Item, ty: ColumnType) -> bool {
    let is_number = matches!(
        item,
        Item::Boolean(_)
            | Item::Integer(_)
            | Item::Float32(_)
            | Item::Float64(_)
            | Item::Decimal(..)
    );
    match ty {
        ColumnType::Symbol | ColumnType::Varchar => true,
        _ if matches!(item, Item::Text(_)) => true,
        ColumnType::Timestamp(_) | ColumnType::Date => {
            matches!(item, Item::Days(_) | Item::Instant(..))
        }
        ColumnType::Binary | ColumnType::Uuid => matches!(item, Item::Binary(_) | Item::Uuid(_)),
        ColumnType::Ipv4 => matches!(item, Item::Integer(_)),
        ColumnType::Boolean
        | ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::UInt64
        | ColumnType::Float32
        | ColumnType::Float64
        | ColumnType::Decimal { .. } => is_number,
    }
}

/// A file whose columns are all the same array, behind a time that counts rows.
fn file(array: &ArrayRef, names: &[String]) -> Vec<u8> {
    let rows = i64::try_from(array.len()).unwrap();
    let times: TimestampMicrosecondArray = (0..rows).map(Some).collect();
    let mut columns: Vec<(&str, ArrayRef)> = vec![("ts", Arc::new(times))];
    columns.extend(names.iter().map(|name| (name.as_str(), Arc::clone(array))));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn world() -> World {
    World::on(Arc::new(SimDisk::new(1)), Path::new("/"))
}

/// The target columns of a source: their names and types.
fn targets(item: &Item, is_wanted: bool) -> Vec<(String, ColumnType)> {
    let wide = ColumnType::Decimal { precision: 38, scale: 10 };
    let all = ColumnType::ALL.into_iter().chain([wide]).enumerate();
    let named = all.map(|(at, ty)| (format!("c{at}"), ty));
    named.filter(|(_, ty)| is_taken(item, *ty) == is_wanted).collect()
}

const TIME: (&str, ColumnType) = ("ts", ColumnType::Timestamp(TimeUnit::Micros));

/// The rows of an import, and its bad cells.
fn imported(
    source: &Source,
    targets: &[(String, ColumnType)],
    change: impl FnOnce(&mut ImportOptions),
) -> (Vec<Vec<Value>>, BTreeSet<(u64, String)>) {
    let mut columns = vec![TIME];
    columns.extend(targets.iter().map(|(name, ty)| (name.as_str(), *ty)));
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::None);
    let names: Vec<String> = targets.iter().map(|(name, _)| name.clone()).collect();
    let world = world();
    let path = world.put("a.parquet", &file(&source.array, &names));
    let mut options = world.options(&schema, &[path]);
    options.on_error = OnError::Null;
    change(&mut options);
    world.import(&options).unwrap_or_else(|error| panic!("{}: {error}", source.name));
    let rejects = read_rejects(&*world.disk, &world.rejects());
    let bad = rejects.into_iter().map(|reject| (reject.1, reject.3.unwrap()));
    (world.rows(), bad.collect())
}

fn same(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Float(found), Value::Float(wanted)) => {
            found.to_bits() == wanted.to_bits() || (found.is_nan() && wanted.is_nan())
        }
        _ => found == wanted,
    }
}

#[test]
fn a_value_is_the_same_in_every_type_that_holds_it_and_a_bad_cell_in_all_others() {
    for source in sources() {
        let sample = source.items[0].clone().unwrap();
        if matches!(sample, Item::Text(_)) {
            continue; // `texts_are_read_as_those_of_text_files`
        }
        let targets = targets(&sample, true);
        let (rows, bad) = imported(&source, &targets, |_| {});
        assert_eq!(rows.len(), source.items.len(), "{}", source.name);
        for (row, item) in source.items.iter().enumerate() {
            for (at, (name, ty)) in targets.iter().enumerate() {
                let found = &rows[row][at + 1];
                let is_bad = bad.contains(&(row as u64 + 1, name.clone()));
                let context = || format!("{} {item:?} into {}: {found:?}", source.name, ty.sql());
                let Some(item) = item else {
                    assert!(!is_bad && *found == Value::Null, "{}", context());
                    continue;
                };
                match expected(item, *ty) {
                    Some(wanted) => {
                        assert!(!is_bad && same(found, &wanted), "{}: {wanted:?}", context());
                    }
                    None if is_written(item, *ty) => assert!(!is_bad, "{}", context()),
                    None => assert!(is_bad && *found == Value::Null, "{}", context()),
                }
            }
        }
    }
}

/// Returns true if a text column has the value in the form of a text file.
fn is_written(item: &Item, ty: ColumnType) -> bool {
    let is_text = matches!(ty, ColumnType::Varchar | ColumnType::Symbol);
    // The instant is outside of every calendar.
    let is_beyond = matches!(item, Item::Instant(count, unit)
        if i64::try_from((count * unit).div_euclid(1_000)).is_err());
    is_text && !is_beyond && !matches!(item, Item::Text(_) | Item::Binary(_))
}

/// Checks that the text of a value, read from a text file, gives the same value.
#[test]
fn the_text_of_a_value_is_the_value_again() {
    for source in sources() {
        let sample = source.items[0].clone().unwrap();
        let own = match &sample {
            Item::Integer(_) => ColumnType::Decimal { precision: 38, scale: 0 },
            Item::Float32(_) => ColumnType::Float32,
            Item::Float64(_) => ColumnType::Float64,
            Item::Decimal(..) => ColumnType::Decimal { precision: 38, scale: 10 },
            Item::Boolean(_) => ColumnType::Boolean,
            Item::Uuid(_) => ColumnType::Uuid,
            // Years of more than four digits are written but cannot be read.
            _ => continue,
        };
        let varchar = [("v".to_owned(), ColumnType::Varchar)];
        let (rows, bad) = imported(&source, &varchar, |_| {});
        assert!(bad.is_empty(), "{}", source.name);
        let text = |row: &Vec<Value>| match &row[1] {
            Value::Bytes(text) => String::from_utf8(text.clone()).unwrap(),
            _ => String::new(),
        };
        let texts: Vec<String> = rows.iter().map(text).collect();
        let lines: String = texts
            .iter()
            .enumerate()
            .map(|(row, text)| {
                format!("1970-01-01T00:00:{:02}.{:06},{text}\n", row / 1_000_000, row % 1_000_000)
            })
            .collect();
        let schema = schema_of(&[TIME, ("v", own)], Some("ts"), PartitionUnit::None);
        let world = world();
        let path = world.put("a.csv", lines.as_bytes());
        let options = ImportOptions { on_error: OnError::Null, ..world.options(&schema, &[path]) };
        world.import(&options).unwrap();
        for ((row, item), text) in world.rows().iter().zip(&source.items).zip(&texts) {
            let wanted = item.as_ref().map_or(Some(Value::Null), |item| expected(item, own));
            let wanted = wanted.unwrap_or(Value::Null);
            assert!(same(&row[1], &wanted), "{} {item:?}: {text}: {:?}", source.name, row[1]);
        }
    }
}

/// Columns of decimals refused doubles, although they accept them, rounded, from a text file.
#[test]
#[expect(clippy::cast_possible_truncation, reason = "they are small")]
fn decimals_are_rounded_as_those_of_text_files() {
    let doubles: [f64; 8] =
        [0.125, -0.125, 2.675, 0.005, 0.004_999, 1e-7, 1_234_567.895, 99_999_999.995];
    let texts = doubles.map(|double| double.to_string());
    let schema = ColumnType::Decimal { precision: 10, scale: 2 };
    let schema = schema_of(&[TIME, ("v", schema)], Some("ts"), PartitionUnit::None);
    let decimals: Decimal128Array =
        doubles.iter().map(|double| Some((double * 1e7).round() as i128)).collect();
    let decimals: ArrayRef = Arc::new(decimals.with_precision_and_scale(38, 7).unwrap());
    let doubles: ArrayRef =
        Arc::new(PrimitiveArray::<types::Float64Type>::from_iter_values(doubles));
    let lines = texts.iter().enumerate();
    let lines: String =
        lines.map(|(row, text)| format!("1970-01-01T00:00:00.{row:06},{text}\n")).collect();
    let names = ["v".to_owned()];
    let inputs = [
        ("a.csv", lines.into_bytes()),
        ("a.parquet", file(&doubles, &names)),
        ("b.parquet", file(&decimals, &names)),
    ];
    for (name, bytes) in inputs {
        let world = world();
        let path = world.put(name, &bytes);
        let options = ImportOptions { on_error: OnError::Null, ..world.options(&schema, &[path]) };
        world.import(&options).unwrap();
        let values: Vec<Value> = world.rows().into_iter().map(|mut row| row.remove(1)).collect();
        let wanted = [13, -13, 268, 1, 0, 0, 123_456_790].map(Value::Integer);
        assert_eq!((&values[..7], &values[7]), (&wanted[..], &Value::Null), "{name}");
    }
}

/// One implementation reads both: the same texts in a CSV file give the same values.
#[test]
fn texts_are_read_as_those_of_text_files() {
    let sources = sources();
    let source = sources.iter().find(|source| source.name == "text").unwrap();
    let targets = targets(&Item::Text(String::new()), true);
    let (rows, bad) = imported(source, &targets, |_| {});
    let mut lines = String::new();
    for (row, item) in source.items.iter().enumerate() {
        lines.push_str(&format!("1970-01-01T00:00:{row:02}"));
        for _ in &targets {
            lines.push(',');
            if let Some(Item::Text(text)) = item {
                lines.push_str(&format!("\"{text}\""));
            }
        }
        lines.push('\n');
    }
    let mut columns = vec![TIME];
    columns.extend(targets.iter().map(|(name, ty)| (name.as_str(), *ty)));
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::None);
    let world = world();
    let path = world.put("a.csv", lines.as_bytes());
    let options = ImportOptions { on_error: OnError::Null, ..world.options(&schema, &[path]) };
    world.import(&options).unwrap();
    let rejects = read_rejects(&*world.disk, &world.rejects());
    let bad_in_text: BTreeSet<(u64, String)> =
        rejects.into_iter().map(|reject| (reject.1, reject.3.unwrap())).collect();
    assert_eq!(bad, bad_in_text);
    for (row, (found, wanted)) in rows.iter().zip(&world.rows()).enumerate() {
        for (at, (found, wanted)) in found.iter().zip(wanted).enumerate().skip(1) {
            let (name, ty) = &targets[at - 1];
            let context = format!("{:?} into {name} {}", source.items[row], ty.sql());
            assert!(same(found, wanted), "{context}: {found:?}, and {wanted:?} from text");
        }
    }
}

#[test]
fn columns_without_any_common_value_are_refused() {
    for source in sources() {
        let sample = source.items[0].clone().unwrap();
        for (name, ty) in targets(&sample, false) {
            let schema = schema_of(&[TIME, (&name, ty)], Some("ts"), PartitionUnit::None);
            let world = world();
            let path = world.put("a.parquet", &file(&source.array, &[name]));
            let error = world.import(&world.options(&schema, &[path])).unwrap_err();
            let is_time = matches!(ty, ColumnType::Timestamp(_) | ColumnType::Date);
            match (&sample, &error) {
                (Item::Integer(_), Error::TimestampNeedsFormat { .. }) if is_time => {}
                (_, Error::ParquetTarget { .. }) => {}
                _ => panic!("{} into {}: {error:?}", source.name, ty.sql()),
            }
        }
    }
}

/// Integers were days in DATE, whatever unit was given.
#[test]
fn integers_count_what_is_said_in_every_type_of_time() {
    let sources = sources();
    let times: Vec<(String, ColumnType)> = [
        ColumnType::Timestamp(TimeUnit::Micros),
        ColumnType::Timestamp(TimeUnit::Nanos),
        ColumnType::Date,
    ]
    .into_iter()
    .enumerate()
    .map(|(at, ty)| (format!("c{at}"), ty))
    .collect();
    for (epoch, nanos) in [
        (EpochUnit::Seconds, 1_000_000_000),
        (EpochUnit::Millis, 1_000_000),
        (EpochUnit::Micros, 1_000),
        (EpochUnit::Nanos, 1),
    ] {
        for name in ["int64", "uint64", "int16"] {
            let source = sources.iter().find(|source| source.name == name).unwrap();
            let (rows, bad) = imported(source, &times, |options| {
                options.timestamp_format = Some(TimestampFormat::Epoch(epoch));
            });
            for (row, item) in source.items.iter().enumerate() {
                let Some(Item::Integer(count)) = item else { continue };
                for (at, (name, ty)) in times.iter().enumerate() {
                    let found = &rows[row][at + 1];
                    let is_bad = bad.contains(&(row as u64 + 1, name.clone()));
                    let wanted = expected(&Item::Instant(*count, nanos), *ty);
                    let context = format!("{count} {epoch:?} into {}: {found:?}", ty.sql());
                    assert_eq!(is_bad, wanted.is_none(), "{context}");
                    assert_eq!(*found, wanted.unwrap_or(Value::Null), "{context}");
                }
            }
        }
    }
}

fn parquet(columns: &[(&str, ArrayRef)]) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns.iter().cloned()).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// The columns and the rows of a table.
type Contents = (Vec<(String, ColumnType)>, Vec<Vec<Value>>);

/// The contents of a new table from these files.
fn new_table(files: &[Vec<u8>]) -> Result<Contents, Error> {
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let put = |(at, file): (usize, &Vec<u8>)| world.put(&format!("{at}.parquet"), file);
    let paths: Vec<_> = files.iter().enumerate().map(put).collect();
    let unused = schema_of(&[("unused", ColumnType::Int64)], None, PartitionUnit::None);
    let mut options = world.options(&unused, &paths);
    options.columns = tidegate_ingest::ColumnSource::Infer;
    options.partition_by = None;
    let summary = world.import(&options)?;
    assert_eq!(summary.rows_rejected, 0, "{:?}", summary.schema);
    let columns = summary.schema.columns().iter().map(|it| (it.name.clone(), it.ty)).collect();
    Ok((columns, world.rows()))
}

// The types of the first file were those of the table: values of the other files were rounded, cut
// off or rejected.
#[test]
fn a_new_table_has_types_that_hold_the_values_of_all_files() {
    let float = |value: f32| Arc::new(PrimitiveArray::<types::Float32Type>::from(vec![value]));
    let double = |value: f64| Arc::new(PrimitiveArray::<types::Float64Type>::from(vec![value]));
    let int = |value: i32| Arc::new(PrimitiveArray::<types::Int32Type>::from(vec![value]));
    let nothing: ArrayRef = Arc::new(arrow::array::NullArray::new(1));
    let of = |name: &str, array: ArrayRef| parquet(&[(name, array)]);
    let columns = |name: &str, ty: ColumnType| vec![(name.to_owned(), ty)];
    let decimal = |value: i128, scale: i8| -> ArrayRef {
        Arc::new(Decimal128Array::from(vec![value]).with_precision_and_scale(5, scale).unwrap())
    };

    let (found, rows) = new_table(&[of("a", float(0.5)), of("A", double(1.1))]).unwrap();
    assert_eq!(found, columns("a", ColumnType::Float64));
    assert_eq!(rows, [[Value::Float(0.5)], [Value::Float(1.1)]]);

    let (found, rows) = new_table(&[of("a", decimal(15, 1)), of("a", decimal(155, 2))]).unwrap();
    assert_eq!(found, columns("a", ColumnType::Decimal { precision: 6, scale: 2 }));
    assert_eq!(rows, [[Value::Integer(150)], [Value::Integer(155)]]);

    let (found, rows) = new_table(&[of("a", nothing), of("a", double(1.5))]).unwrap();
    assert_eq!(found, columns("a", ColumnType::Float64));
    assert_eq!(rows, [[Value::Null], [Value::Float(1.5)]]);

    // Columns are united by name, those that only a later file has included.
    let (found, rows) =
        new_table(&[of("a", int(1)), parquet(&[("c", int(2)), ("a", double(0.5))])]).unwrap();
    let (double_a, int_c) = (columns("a", ColumnType::Float64), columns("c", ColumnType::Int32));
    assert_eq!(found, [double_a, int_c].concat());
    let expected = [[Value::Float(1.0), Value::Null], [Value::Float(0.5), Value::Integer(2)]];
    assert_eq!(rows, expected);

    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let error = new_table(&[of("a", int(1)), of("a", text)]).unwrap_err().to_string();
    assert!(error.contains("1.parquet: column `a` would be VARCHAR, and INT in "), "{error}");
}

// A decimal of few digits may be stored in 256 bits, and was refused for its width.
#[test]
fn a_decimal_is_as_wide_as_its_digits() {
    let values = vec![arrow::datatypes::i256::from(-12_345)];
    let wide = Decimal256Array::from(values).with_precision_and_scale(30, 3).unwrap();
    let (found, rows) = new_table(&[parquet(&[("a", Arc::new(wide))])]).unwrap();
    assert_eq!(found, [("a".to_owned(), ColumnType::Decimal { precision: 30, scale: 3 })]);
    assert_eq!(rows, [[Value::Integer(-12_345)]]);
}
