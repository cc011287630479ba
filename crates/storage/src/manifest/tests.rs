//! Manifests as bytes, and the effects of changes.

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use tidegate_model::{
    ByteCount, ColumnDefault, PartitionUnit, RowCount, TimeUnit, Ttl, View, ViewRead,
};

use super::*;
use crate::batch::BatchTexts;

pub(crate) const TABLE: TableId = TableId(7);

/// A schema partitioned by day, with two symbol columns.
pub(crate) fn schema() -> Schema {
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
        ("Host", ColumnType::Symbol),
        ("value", ColumnType::Decimal { precision: 20, scale: 4 }),
        ("region", ColumnType::Symbol),
    ];
    let columns = columns.map(|(name, ty)| (name.to_owned(), ty));
    Schema::new(&columns, Some("ts"), PartitionUnit::Day).unwrap()
}

/// A view of two tables, with comments.
pub(crate) fn view() -> Schema {
    let read = |name: &str, table| ViewRead {
        name: name.to_owned(),
        table: TableId(table),
        columns: vec![(ColumnId(0), "ts".to_owned()), (ColumnId(2), "V\u{e4}lue".to_owned())],
    };
    let query = "SELECT ts, v FROM cpu".to_owned();
    let view = View { query, reads: vec![read("cpu", 1), read("sys.x", 2)] };
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("v", ColumnType::Float64)];
    let columns = columns.map(|(name, ty)| (name.to_owned(), ty));
    let view = Schema::of_view(&columns, Some("ts"), view).unwrap();
    let view = view.with_comment(Some("v"), Some("a value")).unwrap();
    view.with_comment(None, Some("two tables")).unwrap()
}

/// A schema whose columns have defaults, numbers and an expression.
pub(crate) fn filled() -> Schema {
    let schema = schema().with_column("id", ColumnType::Int64).unwrap();
    let text = ColumnDefault::Expression("upper('x')".to_owned());
    let defaults = [("id".to_owned(), ColumnDefault::NextNumber), ("region".to_owned(), text)];
    schema.with_defaults(&defaults).unwrap()
}

pub(crate) fn segment(id: u64, day: i64, seq: u64) -> SegmentMeta {
    let start = day * 86_400_000_000;
    SegmentMeta {
        id: SegmentId(id),
        partition: PartitionKey(start),
        rows: RowCount(100 + id),
        bytes: ByteCount(4_096 * (id + 1)),
        min_ts: start + 5,
        max_ts: start + 86_399_999_999,
        seq_first: SeqTxn(seq),
        seq_last: SeqTxn(seq),
        footer_crc: u32::try_from(id).unwrap() ^ 0xdead_beef,
    }
}

fn watermark(count: u32) -> SymbolWatermark {
    SymbolWatermark { count, bytes: u64::from(count) * 10 + 28 }
}

fn batch(id: u8, seq: u64) -> AppliedBatch {
    AppliedBatch { id: BatchId([id; 16]), seq_txn: SeqTxn(seq) }
}

fn append(seq: u64, id: u64, day: i64, batch: Option<u8>) -> TableChange {
    let meta = SegmentMeta { bytes: ByteCount(3), ..segment(id, day, seq) };
    let texts = BatchTexts { ends: vec![1, 2], bytes: b"ab".to_vec() };
    TableChange::Append {
        batch: batch.map(|id| BatchId([id; 16])),
        mem_segments: vec![MemSegment { meta, bytes: Arc::from(&b"abc"[..]) }],
        symbols: vec![SymbolTexts { column: ColumnId(1), first: 0, texts }],
    }
}

fn replace(seq: u64, out: &[u64], id: u64, flushed_seq: u64) -> TableChange {
    let meta = SegmentMeta { seq_first: SeqTxn(0), ..segment(id, 0, seq - 1) };
    TableChange::Replace {
        out: out.iter().map(|&id| SegmentId(id)).collect(),
        flushed_seq: SeqTxn(flushed_seq),
        segments: vec![meta],
        symbols: vec![(ColumnId(1), watermark(7))],
    }
}

/// Changes for a table after `seq` commits; ids are drawn from few, so that some do not fit.
fn change(seq: u64) -> impl Strategy<Value = TableChange> {
    let add = (proptest::collection::vec((0..30_u64, -3..3_i64), 0..4), 1..9_u32);
    let add = add.prop_map(move |(segments, count)| TableChange::AddSegments {
        segments: segments.into_iter().map(|(id, day)| segment(id, day, seq)).collect(),
        symbols: vec![(ColumnId(1), watermark(count))],
    });
    let deletion_vector =
        (0..30_u64, 0..90_u64).prop_map(move |(id, live)| TableChange::DeletionVector {
            segment: SegmentId(id),
            deletion_vector: DeletionVectorMeta {
                id: SegmentId(99),
                seq_txn: SeqTxn(seq),
                live: RowCount(live),
                crc: 1,
            },
        });
    let appended = (0..30_u64, -3..3_i64, proptest::option::of(any::<u8>()));
    let replaced = (proptest::collection::vec(0..30_u64, 0..2), 0..30_u64, 0..9_u64);
    prop_oneof![
        3 => appended.prop_map(move |(id, day, batch)| append(seq, id, day, batch)),
        3 => replaced.prop_map(move |(out, id, flushed_seq)| replace(seq, &out, id, flushed_seq)),
        6 => add,
        3 => deletion_vector,
        1 => Just(TableChange::Truncate),
        1 => Just({
            let schema = Arc::new(schema().without_column("host").unwrap());
            TableChange::Alter { schema }
        }),
        1 => Just({
            let ttl = Ttl { count: 3, unit: PartitionUnit::Month };
            let schema = schema().with_ttl(Some(ttl)).unwrap();
            TableChange::Alter { schema: Arc::new(schema.with_dedup(&["ts", "region"]).unwrap()) }
        }),
        1 => Just(TableChange::Rename { name: "other".to_owned() }),
    ]
}

fn changes() -> impl Strategy<Value = Vec<TableChange>> {
    proptest::collection::vec(any::<u8>(), 0..12)
        .prop_flat_map(|steps| (2..2 + steps.len() as u64).map(change).collect::<Vec<_>>())
}

/// A table after those changes that fit it.
fn table_after(changes: &[TableChange]) -> Manifest {
    let mut table = Manifest::new(TABLE, SeqTxn(1), Arc::new(schema()));
    for (at, change) in changes.iter().enumerate() {
        let mut next = table.clone();
        if next.apply(SeqTxn(at as u64 + 2), change).is_ok() {
            table = next;
        }
    }
    table
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_manifest_after_any_changes_survives_the_round_trip(changes in changes()) {
        let table = table_after(&changes);
        assert_eq!(table.check(), Ok(()), "manifest-1, manifest-2, manifest-4");
        assert_eq!(decode(&table.encode(), TABLE), Ok(table));
    }

    #[test]
    fn a_damaged_byte_is_an_error(changes in changes(), at: usize, xor in 1_u8..) {
        let mut bytes = table_after(&changes).encode();
        let at = at % bytes.len();
        bytes[at] ^= xor;
        assert!(decode(&bytes, TABLE).is_err());
    }

    #[test]
    fn a_changed_body_is_an_error_or_a_table_but_no_panic(
        changes in changes(), at: usize, xor in 1_u8.., cut in 0..64_usize,
    ) {
        let bytes = table_after(&changes).encode();
        let mut body = bytes[20..bytes.len() - 4].to_vec();
        let at = at % body.len();
        body[at] ^= xor;
        body.truncate(body.len() - cut.min(body.len()));
        if let Ok(table) = decode(&checksummed_file::encode(&KIND, &body), TABLE) {
            assert_eq!(table.check(), Ok(()));
        }
    }
}

fn edit(table: &mut Manifest) -> &mut Vec<SegmentEntry> {
    Arc::make_mut(&mut table.segments)
}

#[test]
fn a_manifest_with_invalid_fields_is_refused() {
    let refused = |change: fn(&mut Manifest)| {
        let added = TableChange::AddSegments {
            segments: vec![segment(3, 0, 2), segment(5, 1, 2)],
            symbols: vec![(ColumnId(1), watermark(4))],
        };
        let mut table = table_after(&[added]);
        assert_eq!(table.segments.len(), 2);
        change(&mut table);
        assert!(decode(&table.encode(), TABLE).is_err(), "{table:?}");
    };
    refused(|table| table.table = TableId(8));
    refused(|table| table.next_segment = SegmentId(5));
    refused(|table| edit(table).swap(0, 1));
    refused(|table| edit(table)[0].meta.id = SegmentId(5));
    refused(|table| edit(table)[0].meta.rows = RowCount(0));
    refused(|table| edit(table)[0].meta.rows = RowCount(limits::SEGMENT_ROWS.0 + 1));
    refused(|table| edit(table)[0].meta.max_ts += 1);
    refused(|table| edit(table)[0].meta.min_ts -= 6);
    refused(|table| edit(table)[0].meta.min_ts = i64::MIN);
    refused(|table| edit(table)[0].meta.seq_last = SeqTxn(3));
    refused(|table| table.seq_txn = SeqTxn(u64::MAX));
    refused(|table| table.flushed_seq = SeqTxn(3));
    refused(|table| table.batches = Arc::new(vec![batch(1, 3)]));
    refused(|table| table.batches = Arc::new(vec![batch(1, 2), batch(2, 1)]));
    refused(|table| table.batches = Arc::new(vec![batch(1, 2); limits::APPLIED_BATCHES + 1]));
    refused(|table| table.symbols.extend([(ColumnId(0), watermark(1))]));
    refused(|table| table.symbols.extend([(ColumnId(9), watermark(1))]));
    refused(|table| table.symbols.extend([(ColumnId(3), SymbolWatermark::default())]));
}

#[test]
fn a_schema_of_another_table_is_refused() {
    let mut table = table_after(&[]);
    let columns = [("ts".to_owned(), ColumnType::Timestamp(TimeUnit::Micros))];
    let hourly = Schema::new(&columns, Some("ts"), PartitionUnit::Hour).unwrap();
    let change = TableChange::Alter { schema: Arc::new(hourly) };
    assert!(table.apply(SeqTxn(2), &change).is_err());
}

/// The watermarks of a symbol column stayed, and the manifest could not be read again.
#[test]
fn a_column_of_another_type_is_refused() {
    let with_types = |host: ColumnType, dropped: &[&str]| {
        let columns = [
            ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
            ("Host", host),
            ("value", ColumnType::Decimal { precision: 20, scale: 4 }),
            ("region", ColumnType::Symbol),
        ];
        let columns = columns.map(|(name, ty)| (name.to_owned(), ty));
        let whole = Schema::new(&columns, Some("ts"), PartitionUnit::Day).unwrap();
        let schema = dropped.iter().try_fold(whole, |it, name| it.without_column(name)).unwrap();
        TableChange::Alter { schema: Arc::new(schema) }
    };
    let added = TableChange::AddSegments {
        segments: vec![segment(3, 0, 2)],
        symbols: vec![(ColumnId(1), watermark(4))],
    };
    let altered = |before: &[TableChange], change| {
        let mut table = table_after(before);
        table.apply(table.seq_txn.next(), &change).map(|()| table)
    };
    let added = std::slice::from_ref(&added);
    assert!(altered(added, with_types(ColumnType::Varchar, &[])).is_err());
    let table = altered(added, with_types(ColumnType::Symbol, &["region"])).unwrap();
    assert_eq!(decode(&table.encode(), TABLE), Ok(table));
    // A dropped column does not come back.
    let dropped = with_types(ColumnType::Symbol, &["host"]);
    assert!(altered(&[dropped], with_types(ColumnType::Varchar, &[])).is_err());
}

#[test]
fn symbol_watermarks_never_decrease() {
    let add = |seq, count| TableChange::AddSegments {
        segments: vec![segment(seq, 0, seq)],
        symbols: vec![(ColumnId(1), watermark(count))],
    };
    // The import that saw fewer symbols commits last.
    let table = table_after(&[add(2, 9), add(3, 4)]);
    assert_eq!(table.segments.len(), 2);
    assert_eq!(table.symbols[&ColumnId(1)], watermark(9), "manifest-4");
}

#[test]
fn obsolete_files_are_exactly_those_that_are_named_no_more() {
    let deletion_vector = |id| DeletionVectorMeta {
        id: SegmentId(id),
        seq_txn: SeqTxn(3),
        live: RowCount(1),
        crc: 0,
    };
    let add = TableChange::AddSegments {
        segments: vec![segment(0, 0, 2)],
        symbols: vec![(ColumnId(1), watermark(1)), (ColumnId(3), watermark(2))],
    };
    let delete =
        TableChange::DeletionVector { segment: SegmentId(0), deletion_vector: deletion_vector(1) };
    let table = table_after(&[add, delete]);
    let meta = segment(0, 0, 2);
    let again =
        TableChange::DeletionVector { segment: SegmentId(0), deletion_vector: deletion_vector(2) };
    let without = Arc::new(schema().without_column("host").unwrap());
    let replaced = replace(5, &[0], 9, 2);
    for (change, expected) in [
        (
            replaced,
            vec![Obsolete::Segment(meta), Obsolete::DeletionVector(meta, deletion_vector(1))],
        ),
        (append(5, 9, 0, None), vec![]),
        (
            TableChange::Truncate,
            vec![Obsolete::Segment(meta), Obsolete::DeletionVector(meta, deletion_vector(1))],
        ),
        (again, vec![Obsolete::DeletionVector(meta, deletion_vector(1))]),
        (TableChange::Alter { schema: without }, vec![Obsolete::Symbols(ColumnId(1))]),
        (TableChange::Rename { name: "x".to_owned() }, vec![]),
    ] {
        assert_eq!(table.obsoleted_by(&change), expected, "{change:?}");
    }
}

// A program that knows manifests of version 2 treats unknown flags of a schema as damage, and
// suspends the table. So it gets a newer version instead, and only where that is necessary.
#[test]
fn a_manifest_is_of_version_3_only_with_comments_defaults_or_a_query() {
    let version = |schema: Schema| {
        let table = Manifest::new(TABLE, SeqTxn(1), Arc::new(schema));
        let bytes = table.encode();
        assert_eq!(decode(&bytes, TABLE), Ok(table));
        let known =
            checksummed_file::decode_versions(&KIND_WITHOUT_TEXTS, &bytes).map(|(is, _)| is);
        match known {
            Ok(version) => version,
            Err(DecodeError::NewerFormat { version, known: 2 }) => version,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(version(schema()), 2);
    assert_eq!(version(schema().with_comment(None, Some("all")).unwrap()), 3);
    let commented = schema().with_comment(Some("host"), Some("one")).unwrap();
    assert_eq!(version(commented.clone()), 3);
    assert_eq!(version(commented.with_comment(Some("host"), None).unwrap()), 2);
    assert_eq!(version(view()), 3);
    assert_eq!(version(filled()), 3);
    let one = filled().with_default("id", None).unwrap();
    assert_eq!(version(one.with_default("region", None).unwrap()), 2);
}

#[test]
fn a_manifest_of_version_1_is_flushed_up_to_its_last_commit() {
    let added = TableChange::AddSegments {
        segments: vec![segment(3, 0, 2)],
        symbols: vec![(ColumnId(1), watermark(4))],
    };
    let table = table_after(&[added]);
    let bytes = table.encode();
    let body = &bytes[20..bytes.len() - 4];
    // Without `flushed_seq`, and without batches.
    let old = [&body[..16], &body[24..body.len() - 8]].concat();
    let bytes = checksummed_file::encode(&Kind { version: 1, oldest: 1, ..KIND }, &old);
    let expected = Manifest { flushed_seq: SeqTxn(2), ..table };
    assert_eq!(decode(&bytes, TABLE), Ok(expected));
}

#[test]
fn a_flush_names_a_commit_before_its_own_and_segments_that_are_there() {
    let table = table_after(&[append(2, 4, 0, None)]);
    assert_eq!((table.flushed_seq, table.next_segment), (SeqTxn(0), SegmentId(5)), "manifest-5");
    let applied = |change: &TableChange| {
        let mut table = table.clone();
        table.apply(SeqTxn(3), change).map(|()| table)
    };
    let after = applied(&replace(3, &[], 6, 2)).unwrap();
    assert_eq!((after.flushed_seq, after.segments.len()), (SeqTxn(2), 1));
    for wrong in [replace(3, &[], 6, 3), replace(3, &[4], 6, 2), replace(4, &[], 6, 2)] {
        assert!(applied(&wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn the_latest_batches_are_known_and_no_more() {
    let mut table = table_after(&[]);
    let id = |n: u64| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&n.to_le_bytes());
        BatchId(id)
    };
    let count = limits::APPLIED_BATCHES as u64 + 3;
    for n in 0..count {
        let change =
            TableChange::Append { batch: Some(id(n)), mem_segments: vec![], symbols: vec![] };
        table.apply(SeqTxn(n + 2), &change).unwrap();
    }
    assert_eq!(table.batches.len(), limits::APPLIED_BATCHES);
    assert_eq!(table.batch(id(2)), None);
    assert_eq!(table.batch(id(3)), Some(SeqTxn(5)));
    assert_eq!(decode(&table.encode(), TABLE), Ok(table));
}

#[test]
fn sizes_in_the_description_of_the_format_are_those_of_the_code() {
    let description = include_str!("../../../../docs/format.md");
    for (what, bytes) in [
        ("**Segment entry**", parts::SEGMENT_BYTES),
        ("**Deletion vector entry**", parts::DELETION_VECTOR_BYTES),
        ("**Applied batch**", parts::APPLIED_BATCH_BYTES),
        ("A file begins with a page", crate::wal::FILE_HEADER_BYTES),
        ("A zone has", limits::ZONE_ROWS.as_len()),
    ] {
        let line = description.lines().find(|line| line.starts_with(what)).expect(what);
        let digits = bytes.to_string();
        let grouped = match digits.split_at_checked(digits.len().saturating_sub(3)) {
            Some((high, low)) if !high.is_empty() => format!("{high},{low}"),
            _ => digits,
        };
        assert!(line.contains(&format!(" {grouped} ")), "{what} {grouped}: {line}");
    }
}
