//! A record: one commit, of one or more tables. Bytes: docs/format.md, Record.

use std::sync::Arc;

use tidegate_model::bytes::{ByteReader, ByteWriter};
use tidegate_model::{ColumnId, Schema, SegmentId, SeqTxn, TableId, limits};

use crate::error::{Corruption, DecodeError};
use crate::manifest::{MaskMark, parts};
use crate::segment::SegmentMeta;
use crate::symbols::SymbolMark;

/// Length and checksum of the body.
const HEADER_BYTES: usize = 4 + 4;
/// Table, commit, kind, length.
const OP_BYTES_MIN: usize = 8 + 8 + 1 + 4;

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it does, in order.
    pub ops: Vec<TableOp>,
}

/// A change of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOp {
    /// Which table.
    pub table: TableId,
    /// The number of this commit in the table (W1).
    pub seq_txn: SeqTxn,
    /// What becomes of it.
    pub change: TableChange,
}

/// What becomes of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableChange {
    /// It begins to exist.
    Create {
        /// Its name.
        name: String,
        /// Its columns.
        schema: Arc<Schema>,
    },
    /// It ends.
    Drop,
    /// It has another name.
    Rename {
        /// The new one.
        name: String,
    },
    /// All its rows are gone.
    Truncate,
    /// It has other columns.
    Alter {
        /// All of them.
        schema: Arc<Schema>,
    },
    /// It has more rows, in files that are on disk already.
    AddSegments {
        /// Where they are.
        segments: Vec<SegmentMeta>,
        /// How far the symbols that they use reach.
        symbols: Vec<(ColumnId, SymbolMark)>,
    },
    /// Some rows of a segment are gone.
    Mask {
        /// The segment.
        segment: SegmentId,
        /// Which of them, with those that had gone before.
        mask: MaskMark,
    },
}

/// How many bytes a record has, at most. Whoever encodes it has checked that they are not too many.
pub(crate) fn record_bytes_max(record: &Record) -> usize {
    let schema =
        |schema: &Schema| parts::SCHEMA_BYTES + schema.columns().len() * parts::COLUMN_BYTES_MAX;
    let payload = |change: &TableChange| match change {
        TableChange::Create { schema: created, .. } => 4 + limits::NAME_BYTES + schema(created),
        TableChange::Drop | TableChange::Truncate => 0,
        TableChange::Rename { .. } => 4 + limits::NAME_BYTES,
        TableChange::Alter { schema: altered } => schema(altered),
        TableChange::AddSegments { segments, symbols } => {
            16 + segments.len() * parts::SEGMENT_BYTES + symbols.len() * parts::SYMBOLS_BYTES
        }
        TableChange::Mask { .. } => 8 + parts::MASK_BYTES,
    };
    let ops = record.ops.iter().map(|op| OP_BYTES_MIN + payload(&op.change));
    HEADER_BYTES + 4 + ops.sum::<usize>()
}

/// The bytes of a record.
pub(crate) fn encode_record(record: &Record) -> Vec<u8> {
    let mut body = ByteWriter::default();
    body.u32(u32::try_from(record.ops.len()).expect("a commit touches few tables"));
    for op in &record.ops {
        let (kind, payload) = encode_change(&op.change);
        body.u64(op.table.0).u64(op.seq_txn.0).u8(kind).counted(&payload);
    }
    let mut w = ByteWriter(Vec::with_capacity(HEADER_BYTES + body.0.len()));
    w.u32(u32::try_from(body.0.len()).expect("limits::WAL_RECORD_BYTES"));
    w.u32(crc32c::crc32c(&body.0)).raw(&body.0);
    w.0
}

fn encode_change(change: &TableChange) -> (u8, Vec<u8>) {
    let mut w = ByteWriter::default();
    let kind = match change {
        TableChange::Create { name, schema } => {
            parts::encode_text(&mut w, name);
            parts::encode_schema(&mut w, schema);
            1
        }
        TableChange::Drop => 2,
        TableChange::Rename { name } => {
            parts::encode_text(&mut w, name);
            3
        }
        TableChange::Truncate => 4,
        TableChange::Alter { schema } => {
            parts::encode_schema(&mut w, schema);
            5
        }
        TableChange::AddSegments { segments, symbols } => {
            w.u64(segments.len() as u64);
            for meta in segments {
                parts::encode_segment(&mut w, meta);
            }
            parts::encode_symbols(&mut w, symbols);
            6
        }
        TableChange::Mask { segment, mask } => {
            w.u64(segment.0);
            parts::encode_mask(&mut w, mask);
            7
        }
    };
    (kind, w.0)
}

/// The next record of a group.
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
        2 => TableChange::Drop,
        3 => TableChange::Rename { name: parts::decode_text(r, "a table's name")? },
        4 => TableChange::Truncate,
        5 => TableChange::Alter { schema: Arc::new(parts::decode_schema(r)?) },
        6 => {
            let count = parts::decode_count(r, parts::SEGMENT_BYTES)?;
            let segments = (0..count).map(|_| parts::decode_segment(r));
            let segments = segments.collect::<Result<_, _>>()?;
            TableChange::AddSegments { segments, symbols: parts::decode_symbols(r)? }
        }
        7 => {
            let segment = SegmentId(r.u64()?);
            TableChange::Mask { segment, mask: parts::decode_mask(r)? }
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
