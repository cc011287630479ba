//! Speed of selecting rows: kernels alone, and a whole filter with lowering and counting; and of
//! finding their groups by hash.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate_filter::aggregate::{ZoneRows, ZoneValues};
use tidegate_filter::grouping::{KeyTable, TextTable, TextZone};
use tidegate_filter::kernel::{CodeRange, CodeTest, select};
use tidegate_filter::{
    AdaptiveOrder, ArithmeticOp, CompareOp, Context, Expr, Filter, JitCache, LowerCache, NoSymbols,
    Request, SimdLevel, roofline,
};
use tidegate_model::frame::Strings;
use tidegate_model::{Codes, ColumnSlice, ColumnType, Encoded, PageFrame, Value};

/// Rows of a kernel's benchmark: more bytes than any cache holds. `cargo test` takes fewer.
fn rows() -> usize {
    if std::env::args().any(|argument| argument == "--bench") { 16 << 20 } else { 1 << 16 }
}

const FRAME_ROWS: usize = 1 << 16;

/// Pseudo-random codes of `width` bytes.
fn codes(rows: usize, width: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut bytes = Vec::with_capacity(rows * width);
    for _ in 0..rows {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state >> 16).to_le_bytes()[..width]);
    }
    bytes
}

/// One range over codes of each width, at each level, to compare with the memory bandwidth.
fn ranges(c: &mut Criterion) {
    let rows = rows();
    for width in [1_u8, 2, 4, 8] {
        let bytes = codes(rows, width.into());
        let codes = Codes::new(width, &bytes).expect("whole codes");
        let half = 1 << (u32::from(width) * 8 - 1);
        let test = CodeTest::new(width.into(), vec![CodeRange { first: 5, last: half }]);
        let mut group = c.benchmark_group(format!("range_u{}", u32::from(width) * 8));
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        for level in SimdLevel::available() {
            group.bench_function(level.name(), |b| {
                let mut words = [0; 64];
                b.iter(|| {
                    for start in (0..rows).step_by(4_096) {
                        select(level, &codes, start..start + 4_096, &test, &mut words);
                        black_box(&words);
                    }
                });
            });
        }
        group.finish();
    }
}

/// Twenty single values among codes of one byte: two lookup tables of sixteen bytes, or a lookup
/// for each code.
fn members(c: &mut Criterion) {
    let rows = rows();
    let bytes = codes(rows, 1);
    let ranges = (0..20).map(|i| CodeRange { first: i * 11, last: i * 11 }).collect();
    let test = CodeTest::new(1, ranges);
    let mut group = c.benchmark_group("in_u8");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    for level in SimdLevel::available() {
        group.bench_function(level.name(), |b| {
            let mut words = [0; 64];
            b.iter(|| {
                for start in (0..rows).step_by(4_096) {
                    select(level, &Codes::U8(&bytes), start..start + 4_096, &test, &mut words);
                    black_box(&words);
                }
            });
        });
    }
    group.finish();
}

/// The plain loops of `roofline`, for comparison.
fn roofs(c: &mut Criterion) {
    let bytes = codes(rows(), 2);
    let mut group = c.benchmark_group("roofline");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    let pairs = bytes.as_chunks::<2>().0;
    group.bench_function("count_u16", |b| {
        b.iter(|| roofline::count_u16(SimdLevel::detect(), black_box(pairs), 100, 30_000));
    });
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
    group.bench_function("sum_words", |b| b.iter(|| roofline::sum_words(black_box(&words))));
    group.finish();
}

fn column(codes: Codes<'_>) -> ColumnSlice<'_> {
    let encoded = Encoded::Narrow { base: 0, step: 1, codes };
    ColumnSlice { ty: ColumnType::Int64, rows: FRAME_ROWS, validity: None, encoded, zones: &[] }
}

fn compare(op: CompareOp, left: Expr, right: i128) -> Expr {
    Expr::compare(op, left, Expr::literal(ColumnType::Int64, Value::Integer(right)))
}

/// `a >= 100 AND b < 20000` and `a * 3 + b < 1000` on one page frame: lowering, and counting.
fn filters(c: &mut Criterion) {
    let (a, b) = (codes(FRAME_ROWS, 1), codes(FRAME_ROWS, 2));
    let frame = PageFrame::new(
        FRAME_ROWS,
        vec![column(Codes::U8(&a)), column(Codes::U16(b.as_chunks().0))],
    );
    let calculate =
        |op, left, right| Expr::Arithmetic { op, left: Box::new(left), right: Box::new(right) };
    let three = Expr::literal(ColumnType::Int64, Value::Integer(3));
    let product = calculate(ArithmeticOp::Mul, Expr::Column(0), three);
    let sum = calculate(ArithmeticOp::Add, product, Expr::Column(1));
    let ranges = Expr::And(vec![
        compare(CompareOp::Ge, Expr::Column(0), 100),
        compare(CompareOp::Lt, Expr::Column(1), 20_000),
    ]);
    let mut group = c.benchmark_group("filter");
    group.throughput(Throughput::Elements(FRAME_ROWS as u64));
    for (name, expr) in [("ranges", ranges), ("compiled", compare(CompareOp::Lt, sum, 1_000))] {
        let filter = Filter::new(vec![ColumnType::Int64; 2], expr).expect("types fit");
        let (cache, jit) = (LowerCache::new(), JitCache::new());
        let level = SimdLevel::detect();
        let context = Context { symbols: &NoSymbols, cache: &cache, level, jit: Some(&jit) };
        group.bench_function(BenchmarkId::new("lower", name), |b| {
            b.iter(|| filter.lower(&frame, &context).expect("whole"));
        });
        let lowered = filter.lower(&frame, &context).expect("whole");
        let request = Request { first: 0, end: FRAME_ROWS, live: None, is_cancelled: &|| false };
        group.bench_function(BenchmarkId::new("count", name), |b| {
            let mut adaptive = AdaptiveOrder::new();
            b.iter(|| lowered.count(&request, &mut adaptive).expect("no errors"));
        });
    }
    group.finish();
}

/// The strings of a page frame.
struct OwnedStrings {
    offsets: Vec<[u8; 4]>,
    bytes: Vec<u8>,
}

impl OwnedStrings {
    fn of(keys: &[u128]) -> OwnedStrings {
        let mut strings = OwnedStrings { offsets: vec![[0; 4]], bytes: Vec::new() };
        for key in keys {
            let text = format!("https://www.example.org/some/path/{key}");
            strings.bytes.extend_from_slice(text.as_bytes());
            let end = u32::try_from(strings.bytes.len()).expect("a few megabytes");
            strings.offsets.push(end.to_le_bytes());
        }
        strings
    }

    fn column(&self) -> ColumnSlice<'_> {
        let strings = Strings { offsets: &self.offsets, bytes: &self.bytes, table: None };
        let (ty, encoded) = (ColumnType::Varchar, Encoded::Strings(strings));
        ColumnSlice { ty, rows: strings.count(), validity: None, encoded, zones: &[] }
    }
}

/// Groups by packed keys and by texts, of four rows each.
fn groups(c: &mut Criterion) {
    let rows = rows() / 16;
    let bytes = codes(rows, 8);
    let words = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let keys = words.map(|word| u128::from(word % (rows as u64 / 4))).collect::<Vec<_>>();
    let mut numbers = [0; 4_096];
    let mut group = c.benchmark_group("group");
    group.throughput(Throughput::Elements(rows as u64));
    group.bench_function("keys", |b| {
        b.iter(|| {
            let mut table = KeyTable::new(1);
            for keys in keys.chunks(4_096) {
                table.groups(keys, &mut numbers[..keys.len()]);
            }
            table.keys().len()
        });
    });
    let frames = keys.chunks(FRAME_ROWS).map(OwnedStrings::of).collect::<Vec<_>>();
    let columns = frames.iter().map(OwnedStrings::column).collect::<Vec<_>>();
    group.bench_function("texts", |b| {
        b.iter(|| {
            let mut table = TextTable::new(1);
            for column in &columns {
                let values = &ZoneValues::new(0, column, &NoSymbols).expect("whole");
                for start in (0..column.rows).step_by(4_096) {
                    let end = column.rows.min(start + 4_096);
                    let rows = ZoneRows::Run { start, end };
                    let zone = TextZone { values, rows, nulls: &[], dictionary: 0 };
                    table.numbers(&zone, &mut numbers[..end - start]).expect("texts");
                }
            }
            table.count()
        });
    });
    group.finish();
}

criterion_group!(benches, ranges, members, roofs, filters, groups);
criterion_main!(benches);
