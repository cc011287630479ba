//! Time to parse one cell, by type and form. Throughput is in bytes of text.
//!
//! Cells follow each other with a comma between, as in a file, and differ from row to row; each
//! measurement parses `ROWS` of them.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate_ingest::parse::{
    CellError, parse_bool, parse_decimal, parse_f64, parse_i64, parse_uuid,
};
use tidegate_ingest::timestamp::{DateParser, TimestampFormat, TimestampParser};
use tidegate_model::time::IsoTimestamp;
use tidegate_model::{TimeUnit, Timestamp};

/// Cells of one measurement: too many for a branch predictor to learn, few enough for L2.
const ROWS: u64 = 16_384;

/// Cells in one text, with their positions.
struct Cells {
    text: Vec<u8>,
    places: Vec<(usize, usize)>,
}

impl Cells {
    fn new(cell: impl Fn(u64) -> String) -> Cells {
        let mut cells = Cells { text: Vec::new(), places: Vec::new() };
        for row in 0..ROWS {
            let start = cells.text.len();
            cells.text.extend_from_slice(cell(row).as_bytes());
            cells.places.push((start, cells.text.len()));
            cells.text.push(b',');
        }
        cells
    }

    fn bytes(&self) -> u64 {
        self.places.iter().map(|(start, end)| (end - start) as u64).sum()
    }
}

/// A pseudo-random number for a row, over the whole range.
fn mixed(row: u64) -> u64 {
    (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1
}

/// A number of one to `digits` digits, whose length a branch predictor cannot guess.
fn shortened(row: u64, digits: usize) -> String {
    let len = usize::try_from(mixed(mixed(row)) % digits as u64).expect("a few digits");
    format!("{:019}", mixed(row))[18 - len..].to_owned()
}

fn measure<T>(
    criterion: &mut Criterion,
    id: BenchmarkId,
    cells: &Cells,
    mut parse: impl FnMut(&[u8]) -> Result<T, CellError>,
) {
    let mut group = criterion.benchmark_group("parse");
    group.throughput(Throughput::Bytes(cells.bytes()));
    group.bench_function(id, |bencher| {
        bencher.iter(|| {
            for &(start, end) in &cells.places {
                match parse(&cells.text[start..end]) {
                    Ok(value) => black_box(value),
                    Err(error) => panic!("a measured cell is a value: {error}"),
                };
            }
        });
    });
    group.finish();
}

/// Integers of one length each and of mixed lengths, beside the standard library.
fn integers(criterion: &mut Criterion) {
    for digits in [1, 5, 10, 19] {
        let cells = Cells::new(|row| {
            let number = format!("{:019}", mixed(row) % 9_000_000_000_000_000_000);
            format!("{}{}", row % 8 + 1, &number[20 - digits..])
        });
        measure(criterion, BenchmarkId::new("i64", digits), &cells, parse_i64);
        measure(criterion, BenchmarkId::new("i64_std", digits), &cells, |text| {
            let text = str::from_utf8(text).expect("digits");
            text.parse::<i64>().map_err(|_| CellError::NotANumber)
        });
    }
    let cells = Cells::new(|row| shortened(row, 9));
    measure(criterion, BenchmarkId::new("i64", "1-9"), &cells, parse_i64);
}

/// Doubles: short ones, of ten bytes, and too long for one word; beside `fast-float2`.
fn doubles(criterion: &mut Criterion) {
    let whole = |row: u64| mixed(row) % 1_000;
    for (name, cells) in [
        ("12.34", Cells::new(|row| format!("{}.{:02}", whole(row) % 90 + 10, row % 100))),
        ("1-5.2", Cells::new(|row| format!("{}.{:02}", shortened(row, 5), row % 100))),
        ("-73.123456", Cells::new(|row| format!("-{}.{:06}", whole(row), mixed(row) % 1_000_000))),
        (
            "0.123456789012345678",
            Cells::new(|row| format!("0.{:018}", mixed(row) % 10_u64.pow(18))),
        ),
    ] {
        measure(criterion, BenchmarkId::new("f64", name), &cells, parse_f64);
        measure(criterion, BenchmarkId::new("f64_fast_float2", name), &cells, |text| {
            fast_float2::parse::<f64, _>(text).map_err(|_| CellError::NotANumber)
        });
        measure(criterion, BenchmarkId::new("decimal", name), &cells, |text| {
            parse_decimal(text, 18, 3)
        });
    }
}

/// ISO timestamps of one day, of one month and of many years in any order, and timestamps by
/// patterns.
fn timestamps(criterion: &mut Criterion) {
    const DAY: u64 = 86_400_000_000;
    let text = |micros: u64, bytes: usize| {
        let micros = i64::try_from(micros).expect("a day of this century");
        let text = IsoTimestamp(Timestamp(1_373_846_400_000_000 + micros), TimeUnit::Micros);
        text.to_string()[..bytes].replace('T', " ")
    };
    let iso = TimestampFormat::Iso;
    let pattern = TimestampFormat::parse("yyyy-MM-dd HH:mm:ss").expect("a pattern");
    let other = TimestampFormat::parse("%d/%b/%Y:%H:%M:%S").expect("a pattern");
    let seconds = Cells::new(|row| text(mixed(row) % DAY, 19));
    for (name, format, cells) in [
        ("seconds", &iso, &seconds),
        ("micros", &iso, &Cells::new(|row| text(mixed(row) % DAY, 26))),
        ("of_a_month", &iso, &Cells::new(|row| text(mixed(row) % (DAY * 30), 19))),
        ("of_years", &iso, &Cells::new(|row| text(mixed(row) % (DAY * 1_000), 19))),
        ("pattern_like_iso", &pattern, &seconds),
        (
            "pattern",
            &other,
            &Cells::new(|row| format!("15/Jan/2024:10:{:02}:{:02}", row / 60 % 60, row % 60)),
        ),
    ] {
        let mut parser = TimestampParser::new(format, TimeUnit::Micros);
        measure(criterion, BenchmarkId::new("timestamp", name), cells, |text| parser.parse(text));
    }
    let mut parser = DateParser::new(&iso);
    let cells = Cells::new(|row| text(mixed(row) % (DAY * 30), 10));
    measure(criterion, BenchmarkId::new("date", "of_a_month"), &cells, |text| parser.parse(text));
}

/// Booleans and the other small types.
fn others(criterion: &mut Criterion) {
    let cells =
        Cells::new(|row| if mixed(row).is_multiple_of(2) { "true" } else { "false" }.to_owned());
    measure(criterion, BenchmarkId::new("bool", "words"), &cells, parse_bool);
    let cells = Cells::new(|row| format!("01234567-89ab-cdef-0011-{:012x}", mixed(row) >> 16));
    measure(criterion, BenchmarkId::new("uuid", "hyphens"), &cells, parse_uuid);
}

criterion_group!(benches, integers, doubles, timestamps, others);
criterion_main!(benches);
