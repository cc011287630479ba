//! How long one cell takes, by type and form. Throughput is in bytes of text.
//!
//! Cells lie behind each other with a comma between, as in a file, and differ from row to row; each
//! measurement goes over `ROWS` of them.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate_ingest::parse::{
    CellError, parse_bool, parse_decimal, parse_f64, parse_f64_padded, parse_i64, parse_i64_padded, parse_uuid,
};
use tidegate_ingest::timestamp::{DateParser, TimestampFormat, TimestampParser};
use tidegate_model::{TimeUnit, Timestamp};
use tidegate_model::time::IsoTimestamp;

/// Cells of one measurement: too many for a branch predictor to learn by heart, few enough for L2.
const ROWS: u64 = 16_384;

/// Cells in one text, and where they are.
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

/// Spreads rows over all numbers.
fn mixed(row: u64) -> u64 {
    (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1
}

/// A number of one to `digits` digits: how many, no processor can guess.
fn shortened(row: u64, digits: usize) -> String {
    let len = usize::try_from(mixed(mixed(row)) % digits as u64).expect("a few digits");
    format!("{:019}", mixed(row))[18 - len..].to_owned()
}

fn measure<T>(
    criterion: &mut Criterion,
    id: BenchmarkId,
    cells: &Cells,
    mut parse: impl FnMut(&[u8], usize, usize) -> Result<T, CellError>,
) {
    let mut group = criterion.benchmark_group("parse");
    group.throughput(Throughput::Bytes(cells.bytes()));
    group.bench_function(id, |bencher| {
        bencher.iter(|| {
            for &(start, end) in &cells.places {
                let value = parse(&cells.text, start, end);
                assert!(value.is_ok(), "a measured cell is a value");
                let _ = black_box(value);
            }
        });
    });
    group.finish();
}

/// Integers of one length each, by a slice and with what lies before it.
fn integers(criterion: &mut Criterion) {
    for digits in [1, 5, 10, 19] {
        let cells = Cells::new(|row| {
            let number = format!("{:019}", mixed(row) % 9_000_000_000_000_000_000);
            format!("{}{}", row % 8 + 1, &number[20 - digits..])
        });
        measure(criterion, BenchmarkId::new("i64", digits), &cells, |text, start, end| {
            parse_i64(&text[start..end])
        });
        measure(criterion, BenchmarkId::new("i64_padded", digits), &cells, parse_i64_padded);
        measure(criterion, BenchmarkId::new("i64_std", digits), &cells, |text, start, end| {
            let text = str::from_utf8(&text[start..end]).expect("digits");
            text.parse::<i64>().map_err(|_| CellError::NotANumber)
        });
    }
    let cells = Cells::new(|row| shortened(row, 9));
    measure(criterion, BenchmarkId::new("i64", "1-9"), &cells, |text, start, end| {
        parse_i64(&text[start..end])
    });
    measure(criterion, BenchmarkId::new("i64_padded", "1-9"), &cells, parse_i64_padded);
}

/// Doubles: short, of sixteen bytes, and so long that they take the slow path.
fn doubles(criterion: &mut Criterion) {
    let whole = |row: u64| mixed(row) % 1_000;
    for (name, cells) in [
        ("12.34", Cells::new(|row| format!("{}.{:02}", whole(row) % 90 + 10, row % 100))),
        ("1-5.2", Cells::new(|row| format!("{}.{:02}", shortened(row, 5), row % 100))),
        ("-73.123456", Cells::new(|row| format!("-{}.{:06}", whole(row), mixed(row) % 1_000_000))),
        ("0.123456789012345678", Cells::new(|row| format!("0.{:018}", mixed(row) % 10_u64.pow(18)))),
    ] {
        measure(criterion, BenchmarkId::new("f64", name), &cells, |text, start, end| {
            parse_f64(&text[start..end])
        });
        measure(criterion, BenchmarkId::new("f64_padded", name), &cells, parse_f64_padded);
        measure(criterion, BenchmarkId::new("f64_fast_float2", name), &cells, |text, start, end| {
            fast_float2::parse::<f64, _>(&text[start..end]).map_err(|_| CellError::NotANumber)
        });
        measure(criterion, BenchmarkId::new("decimal", name), &cells, |text, start, end| {
            parse_decimal(&text[start..end], 18, 3)
        });
    }
}

/// ISO timestamps: all of one day, each of another day, and by a pattern.
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
        ("other_days", &iso, &Cells::new(|row| text(mixed(row) % (DAY * 1_000), 19))),
        ("pattern_like_iso", &pattern, &seconds),
        ("pattern", &other, &Cells::new(|row| format!("15/Jan/2024:10:{:02}:{:02}", row / 60 % 60, row % 60))),
    ] {
        let mut parser = TimestampParser::new(format, TimeUnit::Micros);
        measure(criterion, BenchmarkId::new("timestamp", name), cells, |text, start, end| {
            parser.parse(&text[start..end])
        });
    }
    let mut parser = DateParser::new(&iso);
    let cells = Cells::new(|row| text(mixed(row) % (DAY * 30), 10));
    measure(criterion, BenchmarkId::new("date", "of_a_month"), &cells, |text, start, end| {
        parser.parse(&text[start..end])
    });
}

/// The small types.
fn others(criterion: &mut Criterion) {
    let cells = Cells::new(|row| if mixed(row) % 2 == 0 { "true" } else { "false" }.to_owned());
    measure(criterion, BenchmarkId::new("bool", "words"), &cells, |text, start, end| {
        parse_bool(&text[start..end])
    });
    let cells = Cells::new(|row| format!("01234567-89ab-cdef-0011-{:012x}", mixed(row) >> 16));
    measure(criterion, BenchmarkId::new("uuid", "hyphens"), &cells, |text, start, end| {
        parse_uuid(&text[start..end])
    });
}

criterion_group!(benches, integers, doubles, timestamps, others);
criterion_main!(benches);
