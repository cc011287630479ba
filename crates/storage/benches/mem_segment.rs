//! Cost of a row in the memtable: batches like those of the TSBS cpu-only load (ten symbols, ten
//! small numbers, a timestamp) become in-memory segments, and these become segments.
//! Throughput is in rows.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate_model::{
    ColumnType, PartitionUnit, Schema, SegmentId, SeqTxn, SymbolId, TableId, TimeUnit,
};
use tidegate_platform::{Disk, DiskFile, OpenMode, SimDisk};
use tidegate_storage::segment::RegionSink;
use tidegate_storage::{
    BatchTexts, BatchValues, Error, MemSegment, MemSegmentBatch, MemSegmentColumn, Result, Rewrite,
    SegmentRun, SymbolTable, SymbolTables, mem_segment, rewrite,
};

const TABLE: TableId = TableId(1);
/// Hosts that report every ten seconds.
const HOSTS: usize = 4_000;
const TAGS: [(&str, usize); 10] = [
    ("hostname", HOSTS),
    ("region", 9),
    ("datacenter", 25),
    ("rack", 100),
    ("os", 3),
    ("arch", 2),
    ("team", 4),
    ("service", 20),
    ("service_version", 2),
    ("service_environment", 3),
];
const FIELDS: usize = 10;
const TAG_VALUES_MAX: usize = HOSTS;

/// Pseudo-random numbers.
fn mixed(number: usize) -> usize {
    let mixed = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(mixed >> 33).expect("31 bits")
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("few")
}

/// The type of the fields.
#[derive(Debug, Clone, Copy)]
enum Fields {
    Integers,
    Doubles,
}

/// A table like TSBS's `cpu`, with all its symbols.
struct Cpu {
    schema: Schema,
    symbols: SymbolTables,
    fields: Fields,
}

/// A batch for the table, as a parser makes it: strings in the order of arrival.
struct Batch {
    values: Vec<BatchValues>,
    symbols: Vec<Vec<SymbolId>>,
    rows: usize,
}

impl Cpu {
    fn new(fields: Fields) -> Cpu {
        let ty = match fields {
            Fields::Integers => ColumnType::Int64,
            Fields::Doubles => ColumnType::Float64,
        };
        let tags = TAGS.iter().map(|(name, _)| ((*name).to_owned(), ColumnType::Symbol));
        let fields_of = (0..FIELDS).map(|field| (format!("usage_{field}"), ty));
        let time = ("timestamp".to_owned(), ColumnType::Timestamp(TimeUnit::Micros));
        let columns: Vec<_> = tags.chain(fields_of).chain([time]).collect();
        let schema = Schema::new(&columns, Some("timestamp"), PartitionUnit::Day).expect("sound");
        let table = |&(name, count): &(&str, usize)| {
            let texts: Vec<String> = (0..count).map(|value| format!("{name}_{value}")).collect();
            Arc::new(SymbolTable::of(&texts))
        };
        let ids = schema.columns().iter().map(|column| column.id);
        let symbols = ids.zip(TAGS.iter().map(table)).collect();
        Cpu { schema, symbols, fields }
    }

    /// Rows `first..first + rows` of the load; those with a number that is a multiple of ten are
    /// `late` microseconds before their time.
    fn batch(&self, first: usize, rows: usize, late: i64) -> Batch {
        let mut batch = Batch { values: Vec::new(), symbols: Vec::new(), rows };
        for (name, count) in TAGS {
            let (mut texts, mut symbols) = (BatchTexts::default(), Vec::new());
            let mut known = vec![None; TAG_VALUES_MAX];
            let mut codes = Vec::new();
            for row in first..first + rows {
                let host = row % HOSTS;
                let value = if count == HOSTS { host } else { mixed(host) % count };
                codes.push(*known[value].get_or_insert_with(|| {
                    texts.push(format!("{name}_{value}").as_bytes());
                    symbols.push(SymbolId(narrow(value)));
                    narrow(symbols.len() - 1)
                }));
            }
            batch.values.push(BatchValues::Symbols { codes, texts });
            batch.symbols.push(symbols);
        }
        for field in 0..FIELDS {
            let value = |row: usize| mixed(row * FIELDS + field) % 101;
            let all = first..first + rows;
            batch.values.push(match self.fields {
                Fields::Integers => BatchValues::I64(all.map(|row| value(row) as i64).collect()),
                Fields::Doubles => BatchValues::F64(all.map(|row| value(row) as f64).collect()),
            });
            batch.symbols.push(Vec::new());
        }
        let ts = |row: usize| {
            let on_time = (row / HOSTS) as i64 * 10_000_000 + 1_451_606_400_000_000;
            on_time - if row.is_multiple_of(10) { late } else { 0 }
        };
        batch.values.push(BatchValues::I64((first..first + rows).map(ts).collect()));
        batch.symbols.push(Vec::new());
        batch
    }

    fn encode(&self, batch: &Batch, next_id: &mut u64) -> Vec<MemSegment> {
        let columns = self.schema.columns().iter().zip(&batch.values).zip(&batch.symbols);
        let columns: Vec<MemSegmentColumn<'_>> = columns
            .map(|((column, values), symbols)| MemSegmentColumn {
                id: column.id,
                ty: column.ty,
                values,
                validity: None,
                symbols,
            })
            .collect();
        let (table, schema) = (TABLE, &self.schema);
        let batch = MemSegmentBatch { table, schema, rows: batch.rows, columns: &columns };
        let mut new_id = || {
            *next_id += 1;
            SegmentId(*next_id)
        };
        mem_segment::encode(&batch, &mut new_id).expect("sound")
    }

    /// A memtable of `rows` rows that arrived in batches.
    fn memtable(&self, rows: usize, batch_rows: usize, late: i64) -> Vec<Arc<SegmentRun>> {
        let mut next_id = 0;
        let batches = (0..rows).step_by(batch_rows).enumerate();
        let mem_segments = batches.flat_map(|(commit, first)| {
            let batch = self.batch(first, batch_rows.min(rows - first), late);
            let mut mem_segments = self.encode(&batch, &mut next_id);
            for mem_segment in &mut mem_segments {
                let seq_txn = SeqTxn(commit as u64 + 1);
                (mem_segment.meta.seq_first, mem_segment.meta.seq_last) = (seq_txn, seq_txn);
            }
            mem_segments
        });
        let run = |mem_segment: MemSegment| {
            Arc::new(SegmentRun::of_mem_segment(TABLE, &mem_segment).expect("sound"))
        };
        mem_segments.map(run).collect()
    }

    fn rewrite<'a>(&'a self, runs: &'a [Arc<SegmentRun>]) -> Rewrite<'a> {
        Rewrite { table: TABLE, schema: &self.schema, symbols: &self.symbols, runs }
    }
}

/// Rows of a TSBS load per second that a thread encodes as in-memory segments: in order, and a
/// tenth of them late.
fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("image_encode");
    for (kind, fields, late) in [
        ("bigint", Fields::Integers, 0),
        ("double", Fields::Doubles, 0),
        ("late", Fields::Integers, 600_000_000),
    ] {
        let cpu = Cpu::new(fields);
        for rows in [1, 100, 10_000, 100_000] {
            let batch = cpu.batch(0, rows, late);
            let mut next_id = 0;
            group.throughput(Throughput::Elements(rows as u64));
            group.bench_function(BenchmarkId::new(kind, rows), |bencher| {
                bencher.iter(|| black_box(cpu.encode(&batch, &mut next_id)));
            });
        }
    }
    group.finish();
}

/// A sink that discards writes.
struct Swallow;

impl RegionSink for Swallow {
    fn write(&mut self, _: &Arc<dyn DiskFile>, mut bytes: Vec<u8>, _: u64) -> Result<Vec<u8>> {
        bytes.clear();
        Ok(bytes)
    }
}

/// Cost of a flush without the disk: a memtable in order, one with late rows, two segments that
/// overlap row by row; and small in-memory segments that are merged.
fn rewrite(criterion: &mut Criterion) {
    let cpu = Cpu::new(Fields::Integers);
    let sizes = if cfg!(debug_assertions) { (20_000, 1_000) } else { (1_000_000, 10_000) };
    let (rows, batch_rows) = sizes;
    let disk = SimDisk::new(1);
    let file = disk.open(Path::new("/segment"), OpenMode::CreateNew);
    let file = file.map_err(|source| Error::Disk { purpose: "open", source }).expect("empty");
    let mut group = criterion.benchmark_group("rewrite");
    group.sample_size(10).throughput(Throughput::Elements(rows as u64));
    let overlapping = || {
        let mut id = SegmentId(1 << 32);
        let half = |runs: Vec<Arc<SegmentRun>>| {
            let mut new_id = || {
                id.0 += 1;
                id
            };
            let mem_segments =
                rewrite::to_mem_segments(&cpu.rewrite(&runs), &mut new_id).expect("sound");
            let run = |mem_segment| {
                Arc::new(SegmentRun::of_mem_segment(TABLE, &mem_segment).expect("sound"))
            };
            mem_segments.into_iter().map(run)
        };
        // Every second batch is of the other connection.
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for (at, run) in cpu.memtable(rows, 100, 0).into_iter().enumerate() {
            if at % 2 == 0 { a.push(run) } else { b.push(run) }
        }
        [a, b].into_iter().flat_map(half).collect::<Vec<_>>()
    };
    for (name, runs) in [
        ("flush", cpu.memtable(rows, batch_rows, 0)),
        ("flush_late", cpu.memtable(rows, batch_rows, 600_000_000)),
        ("compaction", overlapping()),
    ] {
        group.bench_function(name, |bencher| {
            let mut id = SegmentId(0);
            bencher.iter(|| {
                let mut new_segment = |_| {
                    id.0 += 1;
                    Ok((id, Arc::clone(&file)))
                };
                let job = cpu.rewrite(&runs);
                black_box(rewrite::to_segments(&job, &mut new_segment, &mut Swallow))
                    .expect("sound")
            });
        });
    }
    let small = cpu.memtable(1_000, 1, 0);
    group.throughput(Throughput::Elements(small.len() as u64));
    group.bench_function("coalesce_single_rows", |bencher| {
        let mut id = SegmentId(0);
        let new_id = &mut || {
            id.0 += 1;
            id
        };
        bencher.iter_batched(
            || (),
            |()| black_box(rewrite::to_mem_segments(&cpu.rewrite(&small), new_id)).expect("sound"),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, encode, rewrite);
criterion_main!(benches);
