//! A record: one commit, of one or more tables. Bytes: docs/format.md, Record.

use std::sync::Arc;

use tidegate_model::bytes::{ByteReader, ByteWriter};
use tidegate_model::{Schema, SegmentId, SeqTxn, TableId, limits};

use crate::change::{BatchId, TableChange, TableOp};
use crate::error::{Corruption, DecodeError};
use crate::manifest::parts;
use crate::mem_segment::MemSegment;
use crate::segment::SegmentMeta;

/// Length and checksum of the body.
const HEADER_BYTES: usize = 4 + 4;
/// Table, commit, kind, length.
const OP_BYTES_MIN: usize = 8 + 8 + 1 + 4;
/// The kinds of changes that take rows from a memtable.
const DROP: u8 = 2;
const TRUNCATE: u8 = 4;
const REPLACE: u8 = 9;
const GIVEN_UP: u8 = 10;

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The changes, in order.
    pub ops: Vec<TableOp>,
}

/// The maximal bytes of a record of these changes. The caller of the encoder has checked that they
/// are not too many.
pub(crate) fn record_bytes_max(ops: &[TableOp]) -> usize {
    let schema = |schema: &Schema| parts::schema_bytes_max(schema);
    let payload = |change: &TableChange| match change {
        TableChange::Create { schema: created, .. } => 4 + limits::NAME_BYTES + schema(created),
        TableChange::Drop | TableChange::Truncate | TableChange::GivenUp => 0,
        TableChange::Rename { .. } => 4 + limits::NAME_BYTES,
        TableChange::Alter { schema: altered } => schema(altered),
        TableChange::AddSegments { segments, symbols } => {
            16 + segments.len() * parts::SEGMENT_BYTES + symbols.len() * parts::SYMBOLS_BYTES
        }
        TableChange::DeletionVector { .. } => 8 + parts::DELETION_VECTOR_BYTES,
        TableChange::Append { mem_segments, symbols, .. } => {
            let mem_segments = mem_segments
                .iter()
                .map(|mem_segment| parts::SEGMENT_BYTES + mem_segment.bytes.len());
            let symbols = symbols.iter().map(parts::symbol_texts_bytes);
            1 + parts::BATCH_BYTES + 16 + mem_segments.sum::<usize>() + symbols.sum::<usize>()
        }
        TableChange::Replace { out, segments, symbols, .. } => {
            let entries = out.len() * 8 + segments.len() * parts::SEGMENT_BYTES;
            32 + entries + symbols.len() * parts::SYMBOLS_BYTES
        }
    };
    let ops = ops.iter().map(|op| OP_BYTES_MIN + payload(&op.change));
    HEADER_BYTES + 4 + ops.sum::<usize>()
}

/// Appends a record.
pub(super) fn encode_record(w: &mut ByteWriter, record: &Record) {
    let header = w.0.len();
    w.u32(0).u32(0);
    let body = w.0.len();
    w.u32(u32::try_from(record.ops.len()).expect("a commit touches few tables"));
    for op in &record.ops {
        w.u64(op.table.0).u64(op.seq_txn.0).u8(kind(&op.change)).u32(0);
        let start = w.0.len();
        encode_payload(w, &op.change);
        let bytes = w.0.len() - start;
        patch(w, start - 4, bytes);
    }
    let bytes = w.0.len() - body;
    patch(w, header, bytes);
    let crc = crc32c::crc32c(&w.0[body..]);
    w.0[body - 4..body].copy_from_slice(&crc.to_le_bytes());
    assert!(w.0.len() - header <= record_bytes_max(&record.ops), "not longer than it may be");
}

/// Bytes in the log for each table.
pub(crate) type TableShares = Vec<(TableId, u64)>;

/// The shares of an encoded record. Their sum is the whole record, if it changes anything.
pub(crate) fn bytes_of_tables(record: &[u8]) -> TableShares {
    let number = |at: usize, bytes: usize| {
        let digits = record[at..at + bytes].iter().rev();
        digits.fold(0, |number, &byte| number << 8 | u64::from(byte))
    };
    let (mut shares, mut at) = (Vec::new(), HEADER_BYTES + 4);
    // Bytes before the first change belong to that change.
    let mut start = 0;
    while at < record.len() {
        let payload = number(at + OP_BYTES_MIN - 4, 4);
        let payload = usize::try_from(payload).expect("limits::WAL_RECORD_BYTES");
        let table = TableId(number(at, 8));
        at += OP_BYTES_MIN + payload;
        shares.push((table, (at - start) as u64));
        start = at;
    }
    assert_eq!(at, record.len(), "a record ends with its last change");
    shares
}

/// Writes a length over the zeros that were left for it.
fn patch(w: &mut ByteWriter, at: usize, bytes: usize) {
    let bytes = u32::try_from(bytes).expect("limits::WAL_RECORD_BYTES");
    w.0[at..at + 4].copy_from_slice(&bytes.to_le_bytes());
}

fn kind(change: &TableChange) -> u8 {
    match change {
        TableChange::Create { .. } => 1,
        TableChange::Drop => DROP,
        TableChange::Rename { .. } => 3,
        TableChange::Truncate => TRUNCATE,
        TableChange::Alter { .. } => 5,
        TableChange::AddSegments { .. } => 6,
        TableChange::DeletionVector { .. } => 7,
        TableChange::Append { .. } => 8,
        TableChange::Replace { .. } => REPLACE,
        TableChange::GivenUp => GIVEN_UP,
    }
}

fn encode_payload(w: &mut ByteWriter, change: &TableChange) {
    match change {
        TableChange::Create { name, schema } => {
            parts::encode_text(w, name);
            parts::encode_schema(w, schema);
        }
        TableChange::Drop | TableChange::Truncate | TableChange::GivenUp => {}
        TableChange::Rename { name } => parts::encode_text(w, name),
        TableChange::Alter { schema } => parts::encode_schema(w, schema),
        TableChange::AddSegments { segments, symbols } => {
            encode_segments(w, segments);
            parts::encode_symbols(w, symbols);
        }
        TableChange::DeletionVector { segment, deletion_vector } => {
            w.u64(segment.0);
            parts::encode_deletion_vector(w, deletion_vector);
        }
        TableChange::Append { batch, mem_segments, symbols } => {
            w.u8(batch.is_some().into());
            if let Some(batch) = batch {
                w.raw(&batch.0);
            }
            w.u64(mem_segments.len() as u64);
            for MemSegment { meta, bytes } in mem_segments {
                assert_eq!(meta.bytes.0, bytes.len() as u64, "the length of an in-memory segment");
                parts::encode_segment(w, meta);
                w.raw(bytes);
            }
            w.u64(symbols.len() as u64);
            for texts in symbols {
                parts::encode_symbol_texts(w, texts);
            }
        }
        TableChange::Replace { out, flushed_seq, segments, symbols } => {
            w.u64(flushed_seq.0).u64(out.len() as u64);
            for id in out {
                w.u64(id.0);
            }
            encode_segments(w, segments);
            parts::encode_symbols(w, symbols);
        }
    }
}

fn encode_segments(w: &mut ByteWriter, segments: &[SegmentMeta]) {
    w.u64(segments.len() as u64);
    for meta in segments {
        parts::encode_segment(w, meta);
    }
}

fn decode_segments(r: &mut ByteReader<'_>) -> Result<Vec<SegmentMeta>, DecodeError> {
    let count = parts::decode_count(r, parts::SEGMENT_BYTES)?;
    (0..count).map(|_| parts::decode_segment(r)).collect()
}

fn decode_mem_segment(r: &mut ByteReader<'_>) -> Result<MemSegment, DecodeError> {
    let meta = parts::decode_segment(r)?;
    let at = r.offset();
    match usize::try_from(meta.bytes.0) {
        Ok(bytes) if bytes <= r.left() => Ok(MemSegment { meta, bytes: r.raw(bytes)?.into() }),
        _ => {
            let what = Corruption::Impossible {
                what: "the size of an in-memory segment",
                value: meta.bytes.0,
            };
            Err(DecodeError::at(at, what))
        }
    }
}

fn decode_append(r: &mut ByteReader<'_>) -> Result<TableChange, DecodeError> {
    let at = r.offset();
    let batch = match r.u8()? {
        0 => None,
        1 => Some(BatchId(r.array()?)),
        flag => {
            let what = Corruption::Impossible { what: "the batch flag", value: flag.into() };
            return Err(DecodeError::at(at, what));
        }
    };
    let count = parts::decode_count(r, parts::SEGMENT_BYTES)?;
    let mem_segments = (0..count).map(|_| decode_mem_segment(r)).collect::<Result<_, _>>()?;
    let count = parts::decode_count(r, parts::SYMBOL_TEXTS_BYTES)?;
    let symbols = (0..count).map(|_| parts::decode_symbol_texts(r)).collect::<Result<_, _>>()?;
    Ok(TableChange::Append { batch, mem_segments, symbols })
}

/// Decodes the next record of a group.
pub(super) fn decode_record(r: &mut ByteReader<'_>) -> Result<Record, DecodeError> {
    let start = r.offset();
    let (length, expected) = (r.u32()?, r.u32()?);
    if length as usize > limits::WAL_RECORD_BYTES {
        let what = Corruption::Impossible { what: "the length of a record", value: length.into() };
        return Err(DecodeError::at(start, what));
    }
    let base = r.offset();
    let body = r.raw(length as usize)?;
    let actual = crc32c::crc32c(body);
    if actual != expected {
        return Err(DecodeError::at(start, Corruption::Checksum { expected, actual }));
    }
    decode_body(body).map_err(|error| shifted(error, base))
}

/// Skips the next record of a group whose checksum is valid, and calls `visit` with each table that
/// it takes rows from and the commit up to which their appends need no memtable after it: they are
/// in segments then, or deleted.
pub(super) fn skim_record(
    r: &mut ByteReader<'_>,
    visit: &mut dyn FnMut(TableId, SeqTxn),
) -> Result<(), DecodeError> {
    let (length, _) = (r.u32()?, r.u32()?);
    let base = r.offset();
    let mut body = ByteReader::new(r.raw(length as usize)?);
    let mut skim = || -> Result<(), DecodeError> {
        for _ in 0..body.u32()? {
            let (table, seq_txn, kind) = (TableId(body.u64()?), SeqTxn(body.u64()?), body.u8()?);
            let payload = body.counted()?;
            match kind {
                DROP => visit(table, SeqTxn(u64::MAX)),
                TRUNCATE => visit(table, seq_txn),
                REPLACE => visit(table, SeqTxn(ByteReader::new(payload).u64()?)),
                _ => {}
            }
        }
        Ok(())
    };
    skim().map_err(|error| shifted(error, base))
}

/// A change that a damaged record seems to contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeemingChange {
    pub(crate) table: TableId,
    pub(crate) seq_txn: SeqTxn,
    /// True if it drops the table.
    pub(crate) is_drop: bool,
}

/// The changes that a damaged record seems to contain.
pub(super) fn skim_changes(record: &[u8]) -> Vec<SeemingChange> {
    let mut body = ByteReader::new(record.get(HEADER_BYTES..).unwrap_or_default());
    let mut changes = Vec::new();
    let mut skim = || -> Result<(), DecodeError> {
        for _ in 0..body.u32()? {
            let (table, seq_txn, kind) = (TableId(body.u64()?), SeqTxn(body.u64()?), body.u8()?);
            let is_drop = body.counted()?.is_empty() && kind == DROP;
            changes.push(SeemingChange { table, seq_txn, is_drop });
        }
        Ok(())
    };
    // The unreadable rest is left out.
    let _ = skim();
    changes
}

fn decode_body(body: &[u8]) -> Result<Record, DecodeError> {
    let mut r = ByteReader::new(body);
    let count = r.u32()?;
    if count as usize > r.left() / OP_BYTES_MIN {
        let what = Corruption::Impossible { what: "the number of changes", value: count.into() };
        return Err(DecodeError::at(0, what));
    }
    let mut ops = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let (table, seq_txn, kind) = (TableId(r.u64()?), SeqTxn(r.u64()?), r.u8()?);
        let payload = r.counted()?;
        let base = r.offset() - payload.len();
        let change = decode_change(kind, payload).map_err(|error| shifted(error, base))?;
        ops.push(TableOp { table, seq_txn, change });
    }
    match r.left() as u64 {
        0 => Ok(Record { ops }),
        left => Err(DecodeError::at(r.offset(), Corruption::LeftOver { left })),
    }
}

fn decode_change(kind: u8, payload: &[u8]) -> Result<TableChange, DecodeError> {
    let mut r = ByteReader::new(payload);
    let r = &mut r;
    let change = match kind {
        1 => {
            let name = parts::decode_text(r, "a table's name")?;
            TableChange::Create { name, schema: Arc::new(parts::decode_schema(r)?) }
        }
        DROP => TableChange::Drop,
        3 => TableChange::Rename { name: parts::decode_text(r, "a table's name")? },
        TRUNCATE => TableChange::Truncate,
        GIVEN_UP => TableChange::GivenUp,
        5 => TableChange::Alter { schema: Arc::new(parts::decode_schema(r)?) },
        6 => {
            let segments = decode_segments(r)?;
            TableChange::AddSegments { segments, symbols: parts::decode_symbols(r)? }
        }
        7 => {
            let segment = SegmentId(r.u64()?);
            TableChange::DeletionVector {
                segment,
                deletion_vector: parts::decode_deletion_vector(r)?,
            }
        }
        8 => decode_append(r)?,
        REPLACE => {
            let flushed_seq = SeqTxn(r.u64()?);
            let count = parts::decode_count(r, 8)?;
            let out = (0..count).map(|_| Ok(SegmentId(r.u64()?)));
            let out = out.collect::<Result<_, DecodeError>>()?;
            let segments = decode_segments(r)?;
            TableChange::Replace { out, flushed_seq, segments, symbols: parts::decode_symbols(r)? }
        }
        _ => {
            let what = Corruption::Impossible { what: "the kind of a change", value: kind.into() };
            return Err(DecodeError::at(0, what));
        }
    };
    match r.left() as u64 {
        0 => Ok(change),
        left => Err(DecodeError::at(r.offset(), Corruption::LeftOver { left })),
    }
}

/// The error of a part of the bytes that begins at `base`.
pub(super) fn shifted(error: DecodeError, base: usize) -> DecodeError {
    match error {
        DecodeError::Corrupt { offset, what } => {
            DecodeError::Corrupt { offset: offset + base as u64, what }
        }
        newer => newer,
    }
}
