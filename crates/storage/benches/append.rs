//! Time until rows are durable: throughput of large batches from several threads, and latency of
//! single rows beside that of one `fdatasync` of the same disk. Files are in `TIDEGATE_BENCH_DIR`
//! or the directory for temporary files.

#![expect(clippy::print_stdout, reason = "its figures are for who runs it")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time on a real disk")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_model::{ColumnType, PartitionUnit, TimeUnit};
use tidegate_platform::{Disk, OpenMode, RealDisk, SystemClock};
use tidegate_storage::{
    AppendOptions, BatchColumn, BatchTexts, BatchValues, Database, NewTableOptions, OpenOptions,
    RowBatch, TableAppend,
};

/// The amount of work: little if a test only checks that the benchmark runs.
struct Size {
    batch_rows: usize,
    batches: usize,
    single_rows: usize,
}

/// Rows of monitoring data: a symbol, ten floats with two decimals.
fn batch(rows: usize, start: i64) -> RowBatch {
    let mut texts = BatchTexts::default();
    (0..100).for_each(|host| texts.push(format!("host_{host}").as_bytes()));
    let number = |row: usize| i64::try_from(row).expect("few rows");
    let codes = (0..rows).map(|row| u32::try_from(row % 100).expect("below 100")).collect();
    let times = (0..rows).map(|row| start + number(row / 100) * 1_000_000).collect();
    let column =
        |name: &str, ty, values| BatchColumn { name: name.to_owned(), ty, values, validity: None };
    let mut columns = vec![
        column("ts", ColumnType::Timestamp(TimeUnit::Micros), BatchValues::I64(times)),
        column("host", ColumnType::Symbol, BatchValues::Symbols { codes, texts }),
    ];
    for at in 0..10 {
        let mixed = |row: usize| (row * 31 + at * 977).wrapping_mul(0x9E37_79B9) % 10_000;
        let values =
            (0..rows).map(|row| f64::from(u32::try_from(mixed(row)).expect("below")) / 100.0);
        let values = BatchValues::F64(values.collect());
        columns.push(column(&format!("usage_{at}"), ColumnType::Float64, values));
    }
    RowBatch::new(rows, columns)
}

fn append(rows: RowBatch) -> TableAppend {
    let create = NewTableOptions { designated: "ts".to_owned(), partition_by: PartitionUnit::Day };
    TableAppend {
        table: "cpu".to_owned(),
        id: None,
        create: Some(create),
        add_columns: true,
        made_for: None,
        rows,
    }
}

fn open(dir: &Path) -> Arc<Database> {
    let options = OpenOptions::new(Arc::new(SystemClock));
    Database::open(Arc::new(RealDisk), dir, &options).expect("opened")
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_micros();
    format!("p50 {} us, p99 {} us, {} times", at(50), at(99), times.len())
}

/// Threads append batches, each with its own times, as fast as they can; one more thread runs
/// maintenance.
fn throughput(dir: &Path, threads: usize, size: &Size) {
    let database = open(dir);
    let options = AppendOptions::default();
    let batches: Vec<Vec<TableAppend>> = (0..threads)
        .map(|thread| {
            let start = i64::try_from(thread).expect("few") * 3_600_000_000;
            vec![append(batch(size.batch_rows, 1_700_000_000_000_000 + start))]
        })
        .collect();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let begin = Instant::now();
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let maintenance = scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                database.maintain().expect("maintained");
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let writers: Vec<_> = batches
            .iter()
            .map(|batch| {
                let (database, options) = (&database, &options);
                scope.spawn(move || {
                    let once = |_| {
                        let begin = Instant::now();
                        database.append(batch, options).expect("appended");
                        begin.elapsed()
                    };
                    (0..size.batches / threads).map(once).collect::<Vec<_>>()
                })
            })
            .collect();
        let times = writers.into_iter().flat_map(|writer| writer.join().expect("no panic"));
        let times = times.collect();
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        maintenance.join().expect("no panic");
        times
    });
    let seconds = begin.elapsed().as_secs_f64();
    let rows = size.batches / threads * threads * size.batch_rows;
    let report = database.maintenance_report();
    let written = report.log_bytes + report.flushed_bytes + report.compacted_bytes;
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (speed, amplification) =
        (rows as f64 / seconds / 1e6, written as f64 / report.log_bytes.max(1) as f64);
    println!(
        "{threads} threads, {} rows a batch: {speed:.2} M rows/s, {}, log {} MiB, \
         written {amplification:.2} times",
        size.batch_rows,
        percentiles(times),
        report.log_bytes >> 20,
    );
}

fn latency(dir: &Path, size: &Size) {
    let file = dir.join("synced");
    let disk = RealDisk;
    let handle = disk.open(&file, OpenMode::CreateOrTruncate).expect("made");
    handle.write_all_at(&vec![0; 4_096 * size.single_rows], 0).expect("written");
    handle.sync_data().expect("synced");
    let sync = |at: usize| {
        let begin = Instant::now();
        handle.write_all_at(&[1; 4_096], at as u64 * 4_096).expect("written");
        handle.sync_data().expect("synced");
        begin.elapsed()
    };
    println!("a page and fdatasync: {}", percentiles((0..size.single_rows).map(sync).collect()));
    let database = open(&dir.join("single"));
    let once = |at: usize| {
        let start = 1_700_000_000_000_000 + i64::try_from(at).expect("few");
        let rows = [append(batch(1, start))];
        let begin = Instant::now();
        database.append(&rows, &AppendOptions::default()).expect("appended");
        begin.elapsed()
    };
    println!("a row: {}", percentiles((0..size.single_rows).map(once).collect()));
}

fn main() {
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    let size = if is_measured {
        Size { batch_rows: 100_000, batches: 96, single_rows: 2_000 }
    } else {
        Size { batch_rows: 100, batches: 8, single_rows: 4 }
    };
    let parent =
        std::env::var("TIDEGATE_BENCH_DIR").map_or_else(|_| std::env::temp_dir(), Into::into);
    let dir = tempfile::tempdir_in(parent).expect("a directory");
    latency(dir.path(), &size);
    for threads in [1, 2, 8] {
        throughput(&dir.path().join(threads.to_string()), threads, &size);
    }
}
