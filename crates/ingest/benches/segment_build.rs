//! Time to sort the rows of a bucket, and to gather the values of a column in the order of rows.
//! Throughput is in bytes of timestamps, and in bytes of gathered values.
//!
//! Buckets have the size that an import aims at. Not here: encoding (`storage`, `benches/segment`)
//! and whole imports (`import`).

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate_storage::time_order;

#[path = "../src/segment_build/kernels.rs"]
mod kernels;

/// Rows of a bucket.
const ROWS: u32 = 128 << 10;
const SECOND: u64 = 1_000_000;

/// A pseudo-random number for a row, over the whole range.
fn mixed(row: u64) -> u64 {
    (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1
}

/// A name, and the position in the input of each row of a bucket.
type Order = (&'static str, fn(u64) -> u64);

const ORDERS: [Order; 3] = [
    ("sorted", |row| row),
    // Ten sources, one after the other.
    ("stripes", |row| row % 10 * (u64::from(ROWS) / 10) + row / 10),
    ("shuffled", |row| mixed(row) % u64::from(ROWS)),
];

/// Timestamps of one day in seconds, of one day in microseconds, and of all years.
fn sort(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sort_kernel");
    group.throughput(Throughput::Bytes(u64::from(ROWS) * 8));
    type Scale = (&'static str, fn(u64) -> u64);
    let scales: [Scale; 3] = [
        ("day_of_seconds", |row| row * 86_400 / u64::from(ROWS) * SECOND),
        ("day_of_micros", |row| row * 86_400 * SECOND / u64::from(ROWS) + row % 7),
        ("years", |row| row * (1 << 40) + row % 1_009),
    ];
    for (scale, instant) in scales {
        for (name, order) in ORDERS {
            let timestamps: Vec<i64> =
                (0..u64::from(ROWS)).map(|row| instant(order(row)).cast_signed()).collect();
            let places: Vec<u32> = (0..ROWS).collect();
            group.bench_function(BenchmarkId::new(scale, name), |bencher| {
                bencher.iter_batched(
                    || (places.clone(), timestamps.clone()),
                    |(places, timestamps)| time_order::sort(places, timestamps),
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

/// Values of each width, a whole bucket of one column.
fn gather(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gather_kernel");
    for (name, order) in ORDERS {
        let rows = (0..u64::from(ROWS)).map(|row| u32::try_from(order(row)).expect("a row"));
        let places: Vec<u32> = rows.collect();
        group.throughput(Throughput::Bytes(u64::from(ROWS)));
        group.bench_function(BenchmarkId::new("1_byte", name), |bencher| {
            let (values, mut into) = (values_of::<1>(), Vec::<u8>::new());
            bencher.iter(|| collect(&values, &places, &mut into, |[byte]| byte));
        });
        group.throughput(Throughput::Bytes(u64::from(ROWS) * 4));
        group.bench_function(BenchmarkId::new("4_bytes", name), |bencher| {
            let (values, mut into) = (values_of::<4>(), Vec::new());
            bencher.iter(|| collect(&values, &places, &mut into, i32::from_le_bytes));
        });
        group.throughput(Throughput::Bytes(u64::from(ROWS) * 8));
        group.bench_function(BenchmarkId::new("8_bytes", name), |bencher| {
            let (values, mut into) = (values_of::<8>(), Vec::new());
            bencher.iter(|| collect(&values, &places, &mut into, i64::from_le_bytes));
        });
        group.throughput(Throughput::Bytes(u64::from(ROWS) * 16));
        group.bench_function(BenchmarkId::new("16_bytes", name), |bencher| {
            let (values, mut into) = (values_of::<16>(), Vec::new());
            bencher.iter(|| collect(&values, &places, &mut into, i128::from_le_bytes));
        });
    }
    group.finish();
}

fn values_of<const N: usize>() -> Vec<[u8; N]> {
    (0..u64::from(ROWS)).map(|row| [mixed(row).to_le_bytes()[0]; N]).collect()
}

fn collect<T, const N: usize>(
    values: &[[u8; N]],
    places: &[u32],
    into: &mut Vec<T>,
    value: impl Fn([u8; N]) -> T,
) {
    into.clear();
    kernels::gather(black_box(values), places, into, value);
    black_box(into);
}

criterion_group!(benches, sort, gather);
criterion_main!(benches);
