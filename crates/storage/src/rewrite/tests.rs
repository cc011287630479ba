//! Rewrites of random runs of random tables, compared with their rows sorted.

use std::path::PathBuf;

use proptest::prelude::{ProptestConfig, proptest};
use tidegate_model::{ColumnId, ColumnType, PartitionUnit, TimeUnit, Value};
use tidegate_platform::{Disk, OpenMode, SimDisk};

use super::*;
use crate::deletion_vector::DeletionVector;
use crate::error::Error;
use crate::mem_segment::tests::{
    Random, Row, TABLE, TestTable, assert_rows, random_rows, random_schema, rows_of, timestamp,
};
use crate::segment::Direct;
use crate::snapshot::SegmentFile;

/// A run and its live rows.
struct TestRun {
    run: Arc<SegmentRun>,
    rows: Vec<Row>,
}

fn file_of(mem_segment: &MemSegment, commit: u64) -> Arc<SegmentFile> {
    let mut mem_segment = mem_segment.clone();
    (mem_segment.meta.seq_first, mem_segment.meta.seq_last) = (SeqTxn(commit), SeqTxn(commit));
    Arc::new(SegmentFile::in_memory(TABLE, &mem_segment))
}

fn whole_run(mem_segment: &MemSegment, commit: u64, rows: Vec<Row>) -> TestRun {
    let file = file_of(mem_segment, commit);
    TestRun { run: Arc::new(SegmentRun::of_memtable(*file.meta(), &file, None)), rows }
}

/// A run of an in-memory segment, some of whose rows may be deleted.
fn run(random: &mut Random, mem_segment: &MemSegment, commit: u64, rows: Vec<Row>) -> TestRun {
    let file = file_of(mem_segment, commit);
    let every = match random.below(4) {
        0 => 2 + random.below(9) as u64,
        1 => 1 + rows.len() as u64 / 2,
        _ => return whole_run(mem_segment, commit, rows),
    };
    let deleted: Vec<u64> = (0..rows.len() as u64).filter(|row| row / every % 2 == 0).collect();
    let deletion_vector = Some(Arc::new(DeletionVector::new(mem_segment.meta.rows, &deleted)));
    let is_left = |row: &usize| !deleted.contains(&(*row as u64));
    let rows = (0..rows.len()).filter(is_left).map(|row| rows[row].clone()).collect();
    TestRun { run: Arc::new(SegmentRun::of_memtable(*file.meta(), &file, deletion_vector)), rows }
}

/// Rows of one schema converted to another one.
fn converted(rows: &[Row], from: &Schema, to: &Schema) -> Vec<Row> {
    let place = |id: ColumnId| from.columns().iter().position(|column| column.id == id);
    let places: Vec<Option<usize>> = to.columns().iter().map(|column| place(column.id)).collect();
    let value = |row: &Row, at: &Option<usize>| at.map_or(Value::Null, |at| row[at].clone());
    rows.iter().map(|row| places.iter().map(|at| value(row, at)).collect()).collect()
}

/// All rows of the runs in order, by a simple sort (storage_rewrite-1, storage_rewrite-2).
fn expected(runs: &[TestRun], schema: &Schema) -> Vec<Row> {
    let mut rows: Vec<Row> = runs.iter().flat_map(|run| run.rows.clone()).collect();
    rows.sort_by_key(|row| timestamp(schema, row));
    rows
}

/// The input of a rewrite.
struct Case<'a> {
    schema: &'a Schema,
    symbols: SymbolTables,
    runs: Vec<Arc<SegmentRun>>,
}

impl<'a> Case<'a> {
    fn new(table: &TestTable, schema: &'a Schema, runs: &[TestRun]) -> Case<'a> {
        let runs = runs.iter().map(|run| Arc::clone(&run.run)).collect();
        Case { schema, symbols: table.tables(schema), runs }
    }

    fn rewrite(&self) -> Rewrite<'_> {
        let Case { schema, symbols, runs } = self;
        Rewrite { table: TABLE, schema, symbols, runs }
    }

    /// New segments, as in-memory segments of their files.
    fn to_segments(&self, table: &mut TestTable) -> Vec<MemSegment> {
        let disk = SimDisk::new(1);
        let path = |id: SegmentId| PathBuf::from(format!("/{id}.seg"));
        let mut new_segment = |_| {
            let id = table.new_id();
            let file = disk.open(&path(id), OpenMode::CreateNew).map_err(Error::disk("make"))?;
            Ok((id, file))
        };
        let written = to_segments(&self.rewrite(), &mut new_segment, &mut Direct).expect("written");
        let read = |WrittenSegment { meta, file }: WrittenSegment| {
            Reader::open(&disk, &path(meta.id), TABLE, &meta).expect("opens");
            let file = file.expect("it is open");
            let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_exact_at(&mut bytes, 0).unwrap();
            MemSegment { meta, bytes: bytes.into() }
        };
        written.into_iter().map(read).collect()
    }

    #[track_caller]
    fn has(&self, mem_segments: &[MemSegment], wanted: &[Row], what: &str) {
        let mut found = Vec::new();
        for mem_segment in mem_segments {
            let bounds = || self.runs.iter().map(|run| run.meta);
            let first = bounds().map(|meta| meta.seq_first).min().unwrap();
            let last = bounds().map(|meta| meta.seq_last).max().unwrap();
            assert_eq!(
                (mem_segment.meta.seq_first, mem_segment.meta.seq_last),
                (first, last),
                "{what}"
            );
            assert_eq!(
                crate::manifest::check_segment(self.schema, &mem_segment.meta),
                Ok(()),
                "storage_rewrite-1"
            );
            let reader =
                Reader::in_memory(Arc::clone(&mem_segment.bytes), TABLE, &mem_segment.meta);
            let reader = reader.expect("mem_segment-1");
            reader.verify(self.schema, &self.symbols).unwrap_or_else(|e| panic!("{what}: {e}"));
            found.extend(rows_of(&reader, self.schema, &self.symbols));
        }
        assert_rows(&found, wanted, what);
    }
}

fn rewritten_rows_are_those_of_the_runs_in_order(seed: u64) {
    let mut random = Random(seed);
    let mut table = TestTable::new();
    let mut schemas = vec![random_schema(&mut random)];
    let mut runs: Vec<(TestRun, usize)> = Vec::new();
    for commit in 1..=1 + random.below(6) as u64 {
        if random.below(3) == 0 {
            schemas.push(changed(&mut random, schemas.last().unwrap(), commit));
        }
        let at = schemas.len() - 1;
        let schema = &schemas[at];
        let count = [1, 3, 64, 200, 700][random.below(5)];
        let mut rows = random_rows(&mut random, schema, count);
        let mem_segments = table.mem_segments(schema, &rows).expect("encodes");
        rows.sort_by_key(|row| timestamp(schema, row));
        for mem_segment in mem_segments {
            let rest = rows.split_off(usize::try_from(mem_segment.meta.rows.0).unwrap());
            runs.push((run(&mut random, &mem_segment, commit, rows), at));
            rows = rest;
        }
    }
    let schema = schemas.last().unwrap();
    let in_schema = |(run, at): (TestRun, usize)| {
        let rows = converted(&run.rows, &schemas[at], schema);
        TestRun { rows, ..run }
    };
    let runs: Vec<TestRun> = runs.into_iter().map(in_schema).collect();
    let wanted = expected(&runs, schema);
    let case = Case::new(&table, schema, &runs);
    let mem_segments = to_mem_segments(&case.rewrite(), &mut || table.new_id()).expect("rewritten");
    case.has(&mem_segments, &wanted, &format!("in memory, seed {seed}"));
    let segments = case.to_segments(&mut table);
    case.has(&segments, &wanted, &format!("segments, seed {seed}"));
    let text_limits = TextLimits { segment_bytes: 9_000, frame_bytes: 3_000 };
    let small = mem_segments_within(&case.rewrite(), text_limits, &mut || table.new_id());
    case.has(&small.expect("rewritten"), &wanted, &format!("short of memory, seed {seed}"));
    // The output can be rewritten again, with later rows.
    let mut again = Vec::new();
    let mut rows = wanted;
    for mem_segment in &segments {
        let rest = rows.split_off(usize::try_from(mem_segment.meta.rows.0).unwrap());
        again.push(run(&mut random, mem_segment, 1, rows));
        rows = rest;
    }
    let mut late = random_rows(&mut random, schema, 100);
    let mem_segments = table.mem_segments(schema, &late).expect("encodes");
    late.sort_by_key(|row| timestamp(schema, row));
    for mem_segment in mem_segments {
        let rest = late.split_off(usize::try_from(mem_segment.meta.rows.0).unwrap());
        again.push(run(&mut random, &mem_segment, 2, late));
        late = rest;
    }
    let wanted = expected(&again, schema);
    let case = Case::new(&table, schema, &again);
    let segments = case.to_segments(&mut table);
    case.has(&segments, &wanted, &format!("merged, seed {seed}"));
}

/// The schema with one column more or less.
fn changed(random: &mut Random, schema: &Schema, commit: u64) -> Schema {
    if random.below(2) == 0 {
        let ty = ColumnType::ALL[random.below(ColumnType::ALL.len())];
        return schema.clone().with_column(&format!("new{commit}"), ty).unwrap();
    }
    let dropped = &schema.columns()[random.below(schema.columns().len())];
    schema.clone().without_column(&dropped.name).unwrap_or_else(|_| schema.clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn rewritten_rows_are_those_of_the_runs(seed in 0_u64..u64::MAX) {
        rewritten_rows_are_those_of_the_runs_in_order(seed);
    }
}

const MICROS: ColumnType = ColumnType::Timestamp(TimeUnit::Micros);

/// A timestamp, an integer, a symbol, a string.
fn plain_schema() -> Schema {
    let columns = [
        ("ts".to_owned(), MICROS),
        ("n".to_owned(), ColumnType::Int64),
        ("s".to_owned(), ColumnType::Symbol),
        ("t".to_owned(), ColumnType::Varchar),
    ];
    Schema::new(&columns, Some("ts"), PartitionUnit::Day).unwrap()
}

/// Rows at these timestamps, with strings that seldom repeat.
fn plain_rows(timestamps: impl Iterator<Item = i64>) -> Vec<Row> {
    let row = |ts: i64| {
        let text = |text: String| Value::Bytes(text.into_bytes());
        let url = format!("https://example.org/a/path?page={}&from=there", ts.wrapping_mul(7_919));
        let number = if ts % 11 == 0 { Value::Null } else { Value::Integer((ts % 300).into()) };
        vec![Value::Integer(ts.into()), number, text(format!("s{}", ts % 5)), text(url)]
    };
    timestamps.map(row).collect()
}

fn plain_run(table: &mut TestTable, schema: &Schema, commit: u64, rows: Vec<Row>) -> TestRun {
    let mem_segments = table.mem_segments(schema, &rows).expect("encodes");
    assert_eq!(mem_segments.len(), 1, "of one day");
    whole_run(&mem_segments[0], commit, rows)
}

#[test]
fn runs_of_several_page_frames_are_merged_row_by_row() {
    let (mut table, schema) = (TestTable::new(), plain_schema());
    let runs = vec![
        plain_run(&mut table, &schema, 1, plain_rows((0..70_000).map(|row| row * 2))),
        plain_run(&mut table, &schema, 2, plain_rows((0..66_000).map(|row| row * 3 + 5_000))),
        plain_run(&mut table, &schema, 3, plain_rows((0..10).map(|row| row * 10_000))),
    ];
    let wanted = expected(&runs, &schema);
    let case = Case::new(&table, &schema, &runs);
    let segments = case.to_segments(&mut table);
    case.has(&segments, &wanted, "three runs");
    let reader = Reader::in_memory(Arc::clone(&segments[0].bytes), TABLE, &segments[0].meta);
    let footer = reader.unwrap().footer().clone();
    assert!(footer.columns[3].string_table.bytes > 0, "texts-1: texts are compressed");
    // Strings compressed with the same table are copied unchanged, and stay as small.
    let bytes = |mem_segment: &MemSegment| mem_segment.bytes.len();
    let (first, rest) = (segments[0].clone(), plain_rows((0..9).map(|row| row + 500_000)));
    let rows = wanted.clone();
    let again = [whole_run(&first, 1, rows)];
    let case = Case::new(&table, &schema, &again);
    let copied = case.to_segments(&mut table);
    case.has(&copied, &again[0].rows, "copied");
    assert_eq!(bytes(&copied[0]), bytes(&first), "storage_rewrite-3");
    // With others they are compressed again.
    let [first] = again;
    let both = [first, plain_run(&mut table, &schema, 2, rest)];
    let wanted = expected(&both, &schema);
    let case = Case::new(&table, &schema, &both);
    let mixed = case.to_segments(&mut table);
    case.has(&mixed, &wanted, "mixed");
    assert!(bytes(&mixed[0]) < bytes(&segments[0]) * 11 / 10, "texts-1");
}

/// Natural text: words of which some are frequent.
fn sentence(random: &mut Random) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..4 + random.below(12) {
        let rank = random.below(60) * random.below(60);
        let syllable = |n: usize| ["ka", "lo", "mir", "te", "sun", "va", "re", "dor"][n % 8];
        text += &format!("{}{}{} ", syllable(rank), syllable(rank / 8), syllable(rank / 64));
    }
    text.into_bytes()
}

#[test]
fn flushed_texts_are_as_small_as_imported_ones() {
    use crate::segment::strings::{StringCompressor, StringRows, TextForm};
    let (mut table, schema) = (TestTable::new(), plain_schema());
    let mut random = Random(8);
    let mut rows = plain_rows(0..20_000);
    for row in &mut rows {
        row[3] = Value::Bytes(sentence(&mut random));
    }
    let batches = rows.chunks(500).zip(1..);
    let runs: Vec<TestRun> = batches
        .map(|(rows, commit)| plain_run(&mut table, &schema, commit, rows.to_vec()))
        .collect();
    let case = Case::new(&table, &schema, &runs);
    let segments = case.to_segments(&mut table);
    case.has(&segments, &rows, "flushed");
    let reader = Reader::in_memory(Arc::clone(&segments[0].bytes), TABLE, &segments[0].meta);
    let footer = reader.expect("opens").footer().columns[3].clone();
    let flushed = footer.frames.iter().map(|frame| frame.region.bytes).sum::<u64>();
    // Like an import: trained with the strings of each column buffer, then given all of them.
    let texts: Vec<&[u8]> = rows
        .iter()
        .map(|row| if let Value::Bytes(text) = &row[3] { text.as_slice() } else { &[] })
        .collect();
    let compressor = StringCompressor::default();
    assert!(texts.chunks(1_000).any(|texts| compressor.is_worthwhile(texts)), "it is trained");
    let mut encoder = ColumnEncoder::new(ColumnId(3), ColumnType::Varchar, Vec::new());
    let rows = StringRows { texts: &texts, form: TextForm::Raw, validity: None };
    encoder.push_strings(rows, &compressor);
    let imported = encoder.finish().footer.frames.iter().map(|f| f.region.bytes).sum::<u64>();
    let plain = texts.iter().map(|text| text.len() as u64).sum::<u64>();
    assert!(imported * 3 < plain * 2, "the test says something: {imported} of {plain}");
    assert!(flushed * 100 <= imported * 103, "texts-1: {flushed}, imported {imported}");
}

#[test]
fn nothing_is_made_of_runs_without_rows() {
    let (mut table, schema) = (TestTable::new(), plain_schema());
    let mem_segments = table.mem_segments(&schema, &plain_rows(0..100)).expect("encodes");
    let file = file_of(&mem_segments[0], 1);
    let deleted: Vec<u64> = (0..100).collect();
    let deletion_vector = Some(Arc::new(DeletionVector::new(mem_segments[0].meta.rows, &deleted)));
    let runs = [TestRun {
        run: Arc::new(SegmentRun::of_memtable(*file.meta(), &file, deletion_vector)),
        rows: Vec::new(),
    }];
    let case = Case::new(&table, &schema, &runs);
    assert!(case.to_segments(&mut table).is_empty(), "storage_rewrite-1");
    assert!(
        to_mem_segments(&case.rewrite(), &mut || table.new_id()).unwrap().is_empty(),
        "storage_rewrite-1"
    );
}

#[test]
fn damage_of_a_run_is_an_error_and_not_a_panic() {
    let (mut table, schema) = (TestTable::new(), plain_schema());
    let mem_segments = table.mem_segments(&schema, &plain_rows(0..500)).expect("encodes");
    let tables = table.tables(&schema);
    for at in (0..mem_segments[0].bytes.len()).step_by(7) {
        let mut bytes = mem_segments[0].bytes.to_vec();
        bytes[at] ^= 0x11;
        let damaged = MemSegment { bytes: bytes.into(), ..mem_segments[0].clone() };
        let Ok(file) = SegmentFile::replayed(TABLE, &damaged) else { continue };
        let runs = [Arc::new(SegmentRun::of_memtable(*file.meta(), &Arc::new(file), None))];
        let rewrite = Rewrite { table: TABLE, schema: &schema, symbols: &tables, runs: &runs };
        // Zones are not read, and bytes between regions are not either.
        let _ = to_mem_segments(&rewrite, &mut || table.new_id());
    }
}
