//! Groups and records as bytes.

use std::sync::Arc;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use tidegate_model::{ByteCount, ColumnId, RowCount, SegmentId, SeqTxn, TableId};

use super::*;
use crate::batch::BatchTexts;
use crate::change::{BatchId, TableChange, TableOp};
use crate::deletion_vector::DeletionVectorMeta;
use crate::manifest::tests::{schema, segment};
use crate::mem_segment::MemSegment;
use crate::segment::SegmentMeta;
use crate::symbols::{SymbolTexts, SymbolWatermark};
use crate::wal::record::TableShares;

const LOG: u64 = 0x1234_5678_9abc;
const LSN: Lsn = Lsn(40_960);

fn change() -> impl Strategy<Value = TableChange> {
    let add = proptest::collection::vec((0..99_u64, -9..9_i64, 1..9_u64), 0..40);
    let add = add.prop_map(|segments| TableChange::AddSegments {
        segments: segments.into_iter().map(|(id, day, seq)| segment(id, day, seq)).collect(),
        symbols: vec![(ColumnId(3), SymbolWatermark { count: 4, bytes: 99 })],
    });
    let deletion_vector =
        DeletionVectorMeta { id: SegmentId(4), seq_txn: SeqTxn(2), live: RowCount(9), crc: 77 };
    let mem_segment = (any::<u16>(), proptest::collection::vec(any::<u8>(), 0..300));
    let mem_segment = mem_segment.prop_map(|(id, bytes)| {
        let meta = SegmentMeta { bytes: ByteCount(bytes.len() as u64), ..segment(id.into(), 1, 5) };
        MemSegment { meta, bytes: bytes.into() }
    });
    let texts = proptest::collection::vec("[a-z\u{e4}]{0,9}", 1..9).prop_map(|texts| {
        let mut batch = BatchTexts::default();
        texts.iter().for_each(|text| batch.push(text.as_bytes()));
        SymbolTexts { column: ColumnId(1), first: 7, texts: batch }
    });
    let (mem_segments, texts) =
        (proptest::collection::vec(mem_segment, 0..4), proptest::collection::vec(texts, 0..3));
    let batch = proptest::option::of(any::<[u8; 16]>().prop_map(BatchId));
    let append = (batch, mem_segments, texts).prop_map(|(batch, mem_segments, symbols)| {
        TableChange::Append { batch, mem_segments, symbols }
    });
    let replace = proptest::collection::vec(0..99_u64, 0..5).prop_map(|out| TableChange::Replace {
        segments: out.iter().map(|&id| segment(id, 3, id)).collect(),
        out: out.into_iter().map(SegmentId).collect(),
        flushed_seq: SeqTxn(4),
        symbols: vec![(ColumnId(3), SymbolWatermark { count: 4, bytes: 99 })],
    });
    prop_oneof![
        append,
        replace,
        add,
        Just(TableChange::Drop),
        Just(TableChange::Truncate),
        Just(TableChange::Alter { schema: Arc::new(schema()) }),
        Just(TableChange::DeletionVector { segment: SegmentId(3), deletion_vector }),
        "[a-z\u{e4}]{1,60}".prop_map(|name| TableChange::Rename { name }),
        "[A-Z ]{1,127}".prop_map(|name| TableChange::Create { name, schema: Arc::new(schema()) }),
    ]
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let op = (any::<u64>(), any::<u64>(), change());
    let op = op.prop_map(|(table, seq_txn, change)| TableOp {
        table: TableId(table),
        seq_txn: SeqTxn(seq_txn),
        change,
    });
    let record = proptest::collection::vec(op, 1..4).prop_map(|ops| Record { ops });
    proptest::collection::vec(record, 1..4)
}

const EXPECTED: ExpectedGroup =
    ExpectedGroup { log: LOG, lsn: LSN, layout: GroupLayout::CheckedHeader };
const PLACE: GroupPlace = GroupPlace { log: LOG, lsn: LSN, durable: LSN, room: 8_192 };

fn encode(records: &[Record]) -> Vec<u8> {
    EncodedGroup::new(records).finish(&PLACE)
}

/// A group of one record, in which a byte of the record's body is changed. Checksums are
/// recomputed, as a fuzzer does, to reach the checks after them.
fn encode_changed(record: Record, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let group = EncodedGroup::new(&[record]);
    let records_bytes = bytes_in(&group.shares);
    let mut bytes = group.finish(&PLACE);
    let (fields, record) = bytes.split_at_mut(GROUP_HEADER_BYTES);
    let record = &mut record[..records_bytes];
    change(&mut record[8..]);
    let crc = crc32c::crc32c(&record[8..]);
    record[4..8].copy_from_slice(&crc.to_le_bytes());
    let (covered, crc_bytes) = fields.split_at_mut(GROUP_HEADER_BYTES - 4);
    let crc = crc32c::crc32c_append(crc32c::crc32c(covered), record);
    crc_bytes.copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn bytes_in(shares: &TableShares) -> usize {
    usize::try_from(shares.iter().map(|(_, bytes)| bytes).sum::<u64>()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_group_survives_the_round_trip(records in records()) {
        let mut bytes = encode(&records);
        let end = Lsn(LSN.0 + bytes.len() as u64);
        bytes.extend_from_slice(b"whatever follows");
        let group = Group { durable: LSN, end, records };
        assert_eq!(decode_group(&bytes, LOG, LSN), Ok(group), "wal_group-1");
    }

    #[test]
    fn a_record_is_not_longer_than_it_may_be(records in records()) {
        let bytes = bytes_in(&EncodedGroup::new(&records).shares);
        assert!(bytes <= records.iter().map(|record| record_bytes_max(&record.ops)).sum::<usize>());
    }

    #[test]
    fn every_byte_of_a_record_is_about_a_table(records in records()) {
        for record in &records {
            let group = EncodedGroup::new(std::slice::from_ref(record));
            let tables: Vec<TableId> = group.shares.iter().map(|(table, _)| *table).collect();
            let meant: Vec<TableId> = record.ops.iter().map(|op| op.table).collect();
            assert_eq!(tables, meant);
            let records_bytes = bytes_in(&group.shares);
            let used = peek_group(&group.finish(&PLACE), EXPECTED).unwrap().bytes;
            assert_eq!(records_bytes, used - GROUP_HEADER_BYTES);
        }
    }

    #[test]
    fn a_damaged_byte_is_an_error(records in records(), at: usize, xor in 1_u8..) {
        let mut bytes = encode(&records);
        let used = peek_group(&bytes, EXPECTED).unwrap().bytes;
        bytes[at % used] ^= xor;
        assert!(decode_group(&bytes, LOG, LSN).is_err());
        assert!(check_group(&bytes, EXPECTED).is_err());
    }

    #[test]
    fn a_group_cut_short_is_an_error(records in records(), left: usize) {
        let bytes = encode(&records);
        let used = peek_group(&bytes, EXPECTED).unwrap().bytes;
        assert!(decode_group(&bytes[..left % used], LOG, LSN).is_err());
    }

    #[test]
    fn records_changed_under_right_checksums_are_no_panic(
        mut records in records(), at: usize, xor in 1_u8..,
    ) {
        let bytes = encode_changed(records.swap_remove(0), |body| body[at % body.len()] ^= xor);
        assert!(check_group(&bytes, EXPECTED).is_ok());
        let _ = decode_group(&bytes, LOG, LSN);
    }

    #[test]
    fn foreign_bytes_are_no_panic(bytes: Vec<u8>) {
        assert!(decode_group(&bytes, LOG, LSN).is_err());
        let mut group = GROUP_MAGIC.to_vec();
        group.extend(LOG.to_le_bytes());
        group.extend(LSN.0.to_le_bytes());
        group.extend(bytes);
        let _ = decode_group(&group, LOG, LSN);
    }
}

#[test]
fn a_group_of_another_log_or_place_is_none() {
    let bytes = encode(&[Record { ops: Vec::new() }]);
    assert!(decode_group(&bytes, LOG, LSN).is_ok());
    assert!(decode_group(&bytes, LOG + 1, LSN).is_err());
    assert!(decode_group(&bytes, LOG, Lsn(0)).is_err());
    assert!(decode_group(&vec![0; 4_096], LOG, LSN).is_err(), "zeros are no group");
}

#[test]
fn a_record_of_an_unknown_kind_is_told_from_a_bad_group() {
    let op = TableOp { table: TableId(1), seq_txn: SeqTxn(1), change: TableChange::Drop };
    let bytes = encode_changed(Record { ops: vec![op] }, |body| body[4 + 16] = 200);
    // A replay ends at a bad group without an error, but not at this one.
    let group = check_group(&bytes, EXPECTED).expect("its checksum is right");
    assert!(group.decode().is_err());
}

/// An interrupted write leaves sectors of zeros; every other difference is damage, also in a group
/// that has zeros of its own (wal_group-2).
#[test]
fn a_group_that_lacks_sectors_is_told_from_one_with_other_bytes() {
    let body: Vec<u8> = [vec![7; 700], vec![0; 2_000], vec![9; 1_500]].concat();
    let meta = SegmentMeta { bytes: ByteCount(body.len() as u64), ..segment(1, 1, 5) };
    let mem_segment = MemSegment { meta, bytes: body.into() };
    let change =
        TableChange::Append { batch: None, mem_segments: vec![mem_segment], symbols: Vec::new() };
    let op = TableOp { table: TableId(1), seq_txn: SeqTxn(1), change };
    let whole = encode(&[Record { ops: vec![op] }]);
    let used = peek_group(&whole, EXPECTED).unwrap().bytes;
    let sectors = used.div_ceil(SECTOR);
    let natural = whole[..used].chunks(SECTOR).filter(|sector| is_zero(sector)).count();
    assert!((2..sectors - 2).contains(&natural), "{natural} of {sectors}");
    for lost in 1..1_u32 << sectors {
        let mut torn = whole.clone();
        for sector in (0..sectors).filter(|sector| lost & (1 << sector) != 0) {
            torn[sector * SECTOR..][..SECTOR].fill(0);
        }
        if torn == whole {
            continue;
        }
        let expected = if lost & 1 == 0 { BadGroup::Torn } else { BadGroup::Unwritten };
        assert_eq!(judge_group(&torn, EXPECTED), expected, "{lost:b}");
    }
    for at in 0..used {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        let judged = judge_group(&damaged, EXPECTED);
        assert!(matches!(judged, BadGroup::Damaged(_)), "byte {at}: {judged:?}");
    }
    for left in (0..used).step_by(100) {
        assert!(!matches!(judge_group(&whole[..left], EXPECTED), BadGroup::Damaged(_)), "{left}");
    }
}

/// Files of versions 1 and 2 stay readable: their groups have shorter headers.
#[test]
fn a_group_of_an_older_version_is_read() {
    let op = TableOp { table: TableId(7), seq_txn: SeqTxn(3), change: TableChange::Truncate };
    let record = Record { ops: vec![op] };
    let mut records = ByteWriter::default();
    encode_record(&mut records, &record);
    let mut w = ByteWriter::default();
    let bytes = GroupLayout::Plain.header_bytes() + records.0.len();
    w.raw(&GROUP_MAGIC).u64(LOG).u64(LSN.0).u64(LSN.0).u64(bytes as u64).u32(1);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&w.0), &records.0);
    w.u32(crc).raw(&records.0).pad(PAGE);
    let plain = ExpectedGroup { layout: GroupLayout::Plain, ..EXPECTED };
    let group = check_group(&w.0, plain).unwrap().decode().unwrap();
    assert_eq!(group, Group { durable: LSN, end: Lsn(LSN.0 + 4_096), records: vec![record] });
    w.0[60] ^= 1;
    assert!(matches!(judge_group(&w.0, plain), BadGroup::Damaged(_)));
}

#[test]
fn a_file_header_is_checked() {
    let (end, room) = (Lsn(LSN.0 + 8_192), 99 * 4_096);
    let (previous_end, plain_until) = (Lsn(4_096), Lsn(LSN.0 + 4_096));
    let header = FileHeader { log: LOG, first: LSN, previous_end, durable: end, plain_until, room };
    let bytes = encode_file_header(&header);
    let fields_bytes = FILE_FIELDS_BYTES + 4 + FILE_ROOM_BYTES + 4;
    assert_eq!(bytes.len(), FILE_HEADER_BYTES);
    let decoded = decode_file_header(&bytes, LOG, LSN);
    assert_eq!(decoded, Ok((header, fields_bytes)));
    assert_eq!(header.layout_at(LSN), GroupLayout::Plain, "it was copied from an older file");
    assert_eq!(header.layout_at(plain_until), GroupLayout::CheckedHeader);
    assert!(decode_file_header(&bytes, LOG, Lsn(0)).is_err());
    assert!(decode_file_header(&bytes, LOG + 1, LSN).is_err());
    for at in 0..fields_bytes * 8 {
        let mut damaged = bytes.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        let decoded = decode_file_header(&damaged, LOG, LSN);
        assert!(matches!(decoded, Err(DecodeError::Corrupt { .. })), "bit {at}");
    }
    let of_version = |version: u8| {
        let mut other = bytes.clone();
        other[8] = version;
        let crc = crc32c::crc32c(&other[..FILE_FIELDS_BYTES]);
        other[FILE_FIELDS_BYTES..FILE_FIELDS_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
        decode_file_header(&other, LOG, LSN).map(|(header, _)| header.layout_at(end))
    };
    for version in [1, 2] {
        assert_eq!(of_version(version), Ok(GroupLayout::Plain), "an older file is read");
    }
    assert_eq!(of_version(4), Err(DecodeError::NewerFormat { version: 4, known: 3 }));
}
