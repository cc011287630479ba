//! Manifests as bytes, and what changes make of them.

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use tidegate_model::{ByteCount, PartitionUnit, TimeUnit};

use super::*;

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

fn mark(count: u32) -> SymbolMark {
    SymbolMark { count, bytes: u64::from(count) * 10 + 28 }
}

/// Changes that fit a table after `seq` commits; ids are drawn from few, so that some do not.
fn change(seq: u64) -> impl Strategy<Value = TableChange> {
    let add = (proptest::collection::vec((0..30_u64, -3..3_i64), 0..4), 1..9_u32);
    let add = add.prop_map(move |(segments, count)| TableChange::AddSegments {
        segments: segments.into_iter().map(|(id, day)| segment(id, day, seq)).collect(),
        symbols: vec![(ColumnId(1), mark(count))],
    });
    let mask = (0..30_u64, 0..90_u64).prop_map(move |(id, live)| TableChange::Mask {
        segment: SegmentId(id),
        mask: MaskMark { id: SegmentId(99), seq_txn: SeqTxn(seq), live: RowCount(live), crc: 1 },
    });
    prop_oneof![
        6 => add,
        3 => mask,
        1 => Just(TableChange::Truncate),
        1 => Just({
            let schema = Arc::new(schema().without_column("host").unwrap());
            TableChange::Alter { schema }
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
    fn whatever_changes_make_survives_the_round_trip(changes in changes()) {
        let table = table_after(&changes);
        assert_eq!(table.check(), Ok(()), "M1, M2, M4");
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
        if let Ok(table) = decode(&envelope::encode(&KIND, &body), TABLE) {
            assert_eq!(table.check(), Ok(()));
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: fn(&mut Manifest)| {
        let added = TableChange::AddSegments {
            segments: vec![segment(3, 0, 2), segment(5, 1, 2)],
            symbols: vec![(ColumnId(1), mark(4))],
        };
        let mut table = table_after(&[added]);
        assert_eq!(table.segments.len(), 2);
        change(&mut table);
        assert!(decode(&table.encode(), TABLE).is_err(), "{table:?}");
    };
    refused(|table| table.table = TableId(8));
    refused(|table| table.next_segment = SegmentId(5));
    refused(|table| table.segments.swap(0, 1));
    refused(|table| table.segments[0].meta.id = SegmentId(5));
    refused(|table| table.segments[0].meta.rows = RowCount(0));
    refused(|table| table.segments[0].meta.rows = RowCount(limits::SEGMENT_ROWS.0 + 1));
    refused(|table| table.segments[0].meta.max_ts += 1);
    refused(|table| table.segments[0].meta.min_ts -= 6);
    refused(|table| table.segments[0].meta.min_ts = i64::MIN);
    refused(|table| table.segments[0].meta.seq_last = SeqTxn(3));
    refused(|table| table.symbols.extend([(ColumnId(0), mark(1))]));
    refused(|table| table.symbols.extend([(ColumnId(9), mark(1))]));
    refused(|table| table.symbols.extend([(ColumnId(3), SymbolMark::default())]));
}

#[test]
fn a_schema_of_another_table_is_refused() {
    let mut table = table_after(&[]);
    let columns = [("ts".to_owned(), ColumnType::Timestamp(TimeUnit::Micros))];
    let hourly = Schema::new(&columns, Some("ts"), PartitionUnit::Hour).unwrap();
    let change = TableChange::Alter { schema: Arc::new(hourly) };
    assert!(table.apply(SeqTxn(2), &change).is_err());
}

#[test]
fn marks_never_fall() {
    let add = |seq, count| TableChange::AddSegments {
        segments: vec![segment(seq, 0, seq)],
        symbols: vec![(ColumnId(1), mark(count))],
    };
    // The import that saw fewer symbols commits last.
    let table = table_after(&[add(2, 9), add(3, 4)]);
    assert_eq!(table.segments.len(), 2);
    assert_eq!(table.symbols[&ColumnId(1)], mark(9), "M4");
}

#[test]
fn obsolete_files_are_exactly_those_that_are_named_no_more() {
    let mask = |id| MaskMark { id: SegmentId(id), seq_txn: SeqTxn(3), live: RowCount(1), crc: 0 };
    let add = TableChange::AddSegments {
        segments: vec![segment(0, 0, 2)],
        symbols: vec![(ColumnId(1), mark(1)), (ColumnId(3), mark(2))],
    };
    let masked = TableChange::Mask { segment: SegmentId(0), mask: mask(1) };
    let table = table_after(&[add, masked]);
    let meta = segment(0, 0, 2);
    let again = TableChange::Mask { segment: SegmentId(0), mask: mask(2) };
    let without = Arc::new(schema().without_column("host").unwrap());
    for (change, expected) in [
        (TableChange::Truncate, vec![Obsolete::Segment(meta), Obsolete::Mask(meta, mask(1))]),
        (again, vec![Obsolete::Mask(meta, mask(1))]),
        (TableChange::Alter { schema: without }, vec![Obsolete::Symbols(ColumnId(1))]),
        (TableChange::Rename { name: "x".to_owned() }, vec![]),
    ] {
        assert_eq!(table.obsoleted_by(&change), expected, "{change:?}");
    }
}

#[test]
fn sizes_in_the_description_of_the_format_are_those_of_the_code() {
    let description = include_str!("../../../../docs/format.md");
    for (what, bytes) in [
        ("**Segment entry**", parts::SEGMENT_BYTES),
        ("**Mask mark**", parts::MASK_BYTES),
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
