//! Encoding of the parts that manifests and WAL records share: schemas, segments, deletion vectors,
//! symbol watermarks. Bytes: docs/format.md, Parts.

use std::sync::Arc;

use tidegate_model::bytes::{ByteReader, ByteWriter};
use tidegate_model::schema::SchemaParts;
use tidegate_model::{
    ByteCount, Column, ColumnDefault, ColumnId, ColumnType, Comments, PartitionKey, PartitionUnit,
    RowCount, Schema, SchemaVersion, SegmentId, SeqTxn, TableId, TextLength, Ttl, View, ViewRead,
    limits,
};

use super::AppliedBatch;
use crate::batch::BatchTexts;
use crate::change::BatchId;
use crate::deletion_vector::DeletionVectorMeta;
use crate::error::{Corruption, DecodeError};
use crate::segment::SegmentMeta;
use crate::symbols::{SymbolTexts, SymbolWatermark};

/// Bytes of a segment's description.
pub(crate) const SEGMENT_BYTES: usize = 8 * 8 + 4;
/// Bytes of a deletion vector's description.
pub(crate) const DELETION_VECTOR_BYTES: usize = 8 + 8 + 8 + 4;
/// Bytes of a schema without its columns.
const SCHEMA_BYTES: usize = 8 + 4 + 1 + 1 + 4 + 8 + SETTINGS_BYTES + 8;
/// Bytes of a schema's settings without the keys: their count, and the TTL.
const SETTINGS_BYTES: usize = 8 + 4 + 1;
/// Bytes of a column and its watermark.
pub(crate) const SYMBOLS_BYTES: usize = 4 + 4 + 8;
/// Bytes of the symbol strings of a column, without the strings: column, first id, count, bytes.
pub(crate) const SYMBOL_TEXTS_BYTES: usize = 4 + 4 + 4 + 4;
/// Bytes of the identity of a batch.
pub(crate) const BATCH_BYTES: usize = 16;
/// Bytes of a batch and its commit.
pub(crate) const APPLIED_BATCH_BYTES: usize = BATCH_BYTES + 8;
/// Bytes of a column without its name.
const COLUMN_BYTES_MIN: usize = 4 + 3 + 4;
/// Bytes of a column and its length.
const LENGTH_BYTES: usize = 4 + 4;
/// Bytes of a column with the longest name, of its id as a key, and of its length.
const COLUMN_BYTES_MAX: usize = COLUMN_BYTES_MIN + limits::NAME_BYTES + 4 + LENGTH_BYTES;
/// Bytes of a comment on a column, of its default, and of a column that a view reads, without the
/// text.
const TEXT_OF_COLUMN_BYTES: usize = 4 + 4;
/// Bytes of a table that a view reads, without its name and columns.
const READ_BYTES_MIN: usize = 4 + 8 + 8;
/// The flags of a schema.
const HAS_DESIGNATED: u8 = 1;
const HAS_SETTINGS: u8 = 2;
const HAS_LENGTHS: u8 = 4;
const HAS_COMMENTS: u8 = 8;
const IS_VIEW: u8 = 16;
const HAS_DEFAULTS: u8 = 32;
/// All flags.
const FLAGS: u8 =
    HAS_DESIGNATED | HAS_SETTINGS | HAS_LENGTHS | HAS_COMMENTS | IS_VIEW | HAS_DEFAULTS;

/// Decodes the number of the following values, each of at least `bytes_min` bytes.
///
/// A count is valid only if enough bytes follow: memory is bounded by the size of the file.
pub(crate) fn decode_count(r: &mut ByteReader<'_>, bytes_min: usize) -> Result<usize, DecodeError> {
    let at = r.offset();
    let count = r.u64()?;
    let most = (r.left() / bytes_min) as u64;
    match usize::try_from(count) {
        Ok(small) if count <= most => Ok(small),
        _ => Err(DecodeError::at(at, Corruption::Impossible { what: "a count", value: count })),
    }
}

pub(crate) fn encode_text(w: &mut ByteWriter, text: &str) {
    w.counted(text.as_bytes());
}

pub(crate) fn decode_text(
    r: &mut ByteReader<'_>,
    what: &'static str,
) -> Result<String, DecodeError> {
    let at = r.offset();
    let text = std::str::from_utf8(r.counted()?);
    text.map(str::to_owned).map_err(|_| DecodeError::at(at, Corruption::NotText { what }))
}

pub(crate) fn encode_schema(w: &mut ByteWriter, schema: &Schema) {
    w.u64(schema.version().0).u32(schema.next_column().0);
    w.u8(partition_tag(schema.partition_by()));
    let flags = flags_of(schema);
    w.u8(flags);
    w.u32(schema.designated().map_or(0, |column| column.0));
    w.u64(schema.columns().len() as u64);
    for column in schema.columns() {
        w.u32(column.id.0).raw(&column.ty.to_tag());
        encode_text(w, &column.name);
    }
    if flags & HAS_SETTINGS != 0 {
        w.u64(schema.dedup().len() as u64);
        for key in schema.dedup() {
            w.u32(key.0);
        }
        w.u32(schema.ttl().map_or(0, |ttl| ttl.count));
        w.u8(schema.ttl().map_or(0, |ttl| partition_tag(ttl.unit)));
    }
    if flags & HAS_LENGTHS != 0 {
        w.u64(schema.lengths().len() as u64);
        for length in schema.lengths() {
            w.u32(length.column.0).u32(length.max);
        }
    }
    if flags & HAS_COMMENTS != 0 {
        encode_text(w, schema.comments().table.as_deref().unwrap_or_default());
        encode_texts_of_columns(w, &schema.comments().columns);
    }
    if let Some(view) = schema.view() {
        encode_text(w, &view.query);
        w.u64(view.reads.len() as u64);
        for read in &view.reads {
            encode_text(w, &read.name);
            w.u64(read.table.0);
            encode_texts_of_columns(w, &read.columns);
        }
    }
    if flags & HAS_DEFAULTS != 0 {
        encode_texts_of_columns(w, &texts_of_defaults(schema));
    }
}

/// Defaults as texts: that of numbers is empty, which is not a valid expression (model_schema-8).
fn texts_of_defaults(schema: &Schema) -> Vec<(ColumnId, String)> {
    let text = |default: &ColumnDefault| match default {
        ColumnDefault::NextNumber => String::new(),
        ColumnDefault::Expression(text) => text.clone(),
    };
    schema.defaults().iter().map(|(column, default)| (*column, text(default))).collect()
}

fn decode_defaults(r: &mut ByteReader<'_>) -> Result<Vec<(ColumnId, ColumnDefault)>, DecodeError> {
    let texts = decode_texts_of_columns(r, "a default")?;
    let default = |text: String| match text.is_empty() {
        true => ColumnDefault::NextNumber,
        false => ColumnDefault::Expression(text),
    };
    Ok(texts.into_iter().map(|(column, text)| (column, default(text))).collect())
}

fn flags_of(schema: &Schema) -> u8 {
    let has_settings = !schema.dedup().is_empty() || schema.ttl().is_some();
    let flags = [
        (HAS_DESIGNATED, schema.designated().is_some()),
        (HAS_SETTINGS, has_settings),
        (HAS_LENGTHS, !schema.lengths().is_empty()),
        (HAS_COMMENTS, !schema.comments().is_empty()),
        (IS_VIEW, schema.view().is_some()),
        (HAS_DEFAULTS, !schema.defaults().is_empty()),
    ];
    flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).sum()
}

/// Returns true if programs that support manifests up to version 2 can read a schema.
pub(crate) fn is_schema_of_version_2(schema: &Schema) -> bool {
    flags_of(schema) & (HAS_COMMENTS | IS_VIEW | HAS_DEFAULTS) == 0
}

/// Bytes of a schema, at most.
pub(crate) fn schema_bytes_max(schema: &Schema) -> usize {
    let texts = |columns: &[(ColumnId, String)]| -> usize {
        8 + columns.iter().map(|(_, text)| TEXT_OF_COLUMN_BYTES + text.len()).sum::<usize>()
    };
    let comments = schema.comments();
    let commented = 4 + comments.table.as_ref().map_or(0, String::len) + texts(&comments.columns);
    let read = |read: &ViewRead| READ_BYTES_MIN + read.name.len() + texts(&read.columns);
    let view = schema
        .view()
        .map_or(0, |view| 4 + view.query.len() + 8 + view.reads.iter().map(read).sum::<usize>());
    let defaults = texts(&texts_of_defaults(schema));
    SCHEMA_BYTES + schema.columns().len() * COLUMN_BYTES_MAX + commented + view + defaults
}

fn encode_texts_of_columns(w: &mut ByteWriter, columns: &[(ColumnId, String)]) {
    w.u64(columns.len() as u64);
    for (id, text) in columns {
        w.u32(id.0);
        encode_text(w, text);
    }
}

fn decode_texts_of_columns(
    r: &mut ByteReader<'_>,
    what: &'static str,
) -> Result<Vec<(ColumnId, String)>, DecodeError> {
    let count = decode_count(r, TEXT_OF_COLUMN_BYTES)?;
    (0..count).map(|_| Ok((ColumnId(r.u32()?), decode_text(r, what)?))).collect()
}

fn decode_comments(r: &mut ByteReader<'_>) -> Result<Comments, DecodeError> {
    let table = decode_text(r, "a comment")?;
    let columns = decode_texts_of_columns(r, "a comment")?;
    Ok(Comments { table: (!table.is_empty()).then_some(table), columns })
}

fn decode_view(r: &mut ByteReader<'_>) -> Result<View, DecodeError> {
    let query = decode_text(r, "the query of a view")?;
    let count = decode_count(r, READ_BYTES_MIN)?;
    let read = |_| {
        let (name, table) = (decode_text(r, "a table's name")?, TableId(r.u64()?));
        Ok(ViewRead { name, table, columns: decode_texts_of_columns(r, "a column's name")? })
    };
    let reads = (0..count).map(read).collect::<Result<_, DecodeError>>()?;
    Ok(View { query, reads })
}

pub(crate) fn decode_schema(r: &mut ByteReader<'_>) -> Result<Schema, DecodeError> {
    let start = r.offset();
    let impossible =
        |what, value: u64| DecodeError::at(start, Corruption::Impossible { what, value });
    let (version, next_column) = (SchemaVersion(r.u64()?), ColumnId(r.u32()?));
    let tag = r.u8()?;
    let partition_by =
        parse_partition_tag(tag).ok_or_else(|| impossible("the partition unit", tag.into()))?;
    let (flags, designated) = (r.u8()?, ColumnId(r.u32()?));
    if flags > FLAGS {
        return Err(impossible("the flags of a schema", flags.into()));
    }
    let has = |flag: u8| flags & flag != 0;
    let designated = has(HAS_DESIGNATED).then_some(designated);
    let count = decode_count(r, COLUMN_BYTES_MIN)?;
    let mut columns = Vec::with_capacity(count);
    for _ in 0..count {
        let id = ColumnId(r.u32()?);
        let tag: [u8; 3] = r.array()?;
        let ty = ColumnType::from_tag(tag)
            .ok_or_else(|| impossible("the type of a column", tag[0].into()))?;
        columns.push(Column { id, name: decode_text(r, "a column's name")?, ty });
    }
    let (dedup, ttl) = if has(HAS_SETTINGS) { decode_settings(r)? } else { (Vec::new(), None) };
    let lengths = if has(HAS_LENGTHS) { decode_lengths(r)? } else { Vec::new() };
    let comments = if has(HAS_COMMENTS) { decode_comments(r)? } else { Comments::default() };
    let view = if has(IS_VIEW) { Some(Arc::new(decode_view(r)?)) } else { None };
    let defaults = if has(HAS_DEFAULTS) { decode_defaults(r)? } else { Vec::new() };
    let parts = SchemaParts {
        version,
        columns,
        designated,
        partition_by,
        next_column,
        dedup,
        ttl,
        lengths,
        comments,
        view,
        defaults,
    };
    Schema::from_parts(parts).map_err(|error| DecodeError::at(start, error))
}

/// Decodes the keys of DEDUP, and the TTL.
fn decode_settings(r: &mut ByteReader<'_>) -> Result<(Vec<ColumnId>, Option<Ttl>), DecodeError> {
    let count = decode_count(r, 4)?;
    let keys = (0..count).map(|_| Ok(ColumnId(r.u32()?)));
    let keys = keys.collect::<Result<_, DecodeError>>()?;
    let (at, count, tag) = (r.offset(), r.u32()?, r.u8()?);
    if (count, tag) == (0, 0) {
        return Ok((keys, None));
    }
    match parse_partition_tag(tag) {
        Some(unit) => Ok((keys, Some(Ttl { count, unit }))),
        None => {
            let what = Corruption::Impossible { what: "the unit of a time", value: tag.into() };
            Err(DecodeError::at(at, what))
        }
    }
}

fn decode_lengths(r: &mut ByteReader<'_>) -> Result<Vec<TextLength>, DecodeError> {
    let count = decode_count(r, LENGTH_BYTES)?;
    let length = |_| Ok(TextLength { column: ColumnId(r.u32()?), max: r.u32()? });
    (0..count).map(length).collect()
}

pub(crate) fn encode_segment(w: &mut ByteWriter, meta: &SegmentMeta) {
    w.u64(meta.id.0).i64(meta.partition.0).u64(meta.rows.0).u64(meta.bytes.0);
    w.i64(meta.min_ts).i64(meta.max_ts).u64(meta.seq_first.0).u64(meta.seq_last.0);
    w.u32(meta.footer_crc);
}

pub(crate) fn decode_segment(r: &mut ByteReader<'_>) -> Result<SegmentMeta, DecodeError> {
    Ok(SegmentMeta {
        id: decode_segment_id(r)?,
        partition: PartitionKey(r.i64()?),
        rows: RowCount(r.u64()?),
        bytes: ByteCount(r.u64()?),
        min_ts: r.i64()?,
        max_ts: r.i64()?,
        seq_first: SeqTxn(r.u64()?),
        seq_last: SeqTxn(r.u64()?),
        footer_crc: r.u32()?,
    })
}

fn decode_segment_id(r: &mut ByteReader<'_>) -> Result<SegmentId, DecodeError> {
    let (at, id) = (r.offset(), r.u64()?);
    // The next id must be a valid number too.
    if id == u64::MAX {
        return Err(DecodeError::at(at, Corruption::Impossible { what: "an id", value: id }));
    }
    Ok(SegmentId(id))
}

pub(crate) fn encode_deletion_vector(w: &mut ByteWriter, deletion_vector: &DeletionVectorMeta) {
    w.u64(deletion_vector.id.0)
        .u64(deletion_vector.seq_txn.0)
        .u64(deletion_vector.live.0)
        .u32(deletion_vector.crc);
}

pub(crate) fn decode_deletion_vector(
    r: &mut ByteReader<'_>,
) -> Result<DeletionVectorMeta, DecodeError> {
    let id = decode_segment_id(r)?;
    Ok(DeletionVectorMeta {
        id,
        seq_txn: SeqTxn(r.u64()?),
        live: RowCount(r.u64()?),
        crc: r.u32()?,
    })
}

pub(crate) fn encode_symbols(w: &mut ByteWriter, symbols: &[(ColumnId, SymbolWatermark)]) {
    w.u64(symbols.len() as u64);
    for (column, watermark) in symbols {
        w.u32(column.0).u32(watermark.count).u64(watermark.bytes);
    }
}

pub(crate) fn decode_symbols(
    r: &mut ByteReader<'_>,
) -> Result<Vec<(ColumnId, SymbolWatermark)>, DecodeError> {
    let count = decode_count(r, SYMBOLS_BYTES)?;
    (0..count)
        .map(|_| {
            let column = ColumnId(r.u32()?);
            Ok((column, SymbolWatermark { count: r.u32()?, bytes: r.u64()? }))
        })
        .collect()
}

pub(crate) fn encode_batch(w: &mut ByteWriter, batch: &AppliedBatch) {
    w.raw(&batch.id.0).u64(batch.seq_txn.0);
}

pub(crate) fn decode_batch(r: &mut ByteReader<'_>) -> Result<AppliedBatch, DecodeError> {
    Ok(AppliedBatch { id: BatchId(r.array()?), seq_txn: SeqTxn(r.u64()?) })
}

pub(crate) fn symbol_texts_bytes(texts: &SymbolTexts) -> usize {
    SYMBOL_TEXTS_BYTES + 4 * texts.texts.ends.len() + texts.texts.bytes.len()
}

pub(crate) fn encode_symbol_texts(w: &mut ByteWriter, texts: &SymbolTexts) {
    let SymbolTexts { column, first, texts } = texts;
    let short = |len: usize| u32::try_from(len).expect("limits::WAL_RECORD_BYTES");
    w.u32(column.0).u32(*first).u32(short(texts.ends.len())).u32(short(texts.bytes.len()));
    for end in &texts.ends {
        w.u32(*end);
    }
    w.raw(&texts.bytes);
}

pub(crate) fn decode_symbol_texts(r: &mut ByteReader<'_>) -> Result<SymbolTexts, DecodeError> {
    let at = r.offset();
    let impossible = |what, value: u32| {
        Err(DecodeError::at(at, Corruption::Impossible { what, value: value.into() }))
    };
    let (column, first) = (ColumnId(r.u32()?), r.u32()?);
    let (count, bytes) = (r.u32()?, r.u32()?);
    if count == 0 || first.checked_add(count).is_none_or(|end| end > limits::SYMBOLS) {
        return impossible("the number of symbols of a commit", count);
    }
    let ends = r.raw((count as usize).saturating_mul(4))?;
    let ends: Vec<u32> =
        ends.as_chunks::<4>().0.iter().map(|end| u32::from_le_bytes(*end)).collect();
    let bytes = r.raw(bytes as usize)?;
    let mut begin = 0;
    for &end in &ends {
        let Some(text) = bytes.get(begin as usize..end as usize) else {
            return impossible("the end of a symbol", end);
        };
        if text.len() > limits::SYMBOL_BYTES || std::str::from_utf8(text).is_err() {
            return Err(DecodeError::at(at, Corruption::NotText { what: "a symbol" }));
        }
        begin = end;
    }
    if begin as usize != bytes.len() {
        return impossible("the end of the last symbol", begin);
    }
    Ok(SymbolTexts { column, first, texts: BatchTexts { ends, bytes: bytes.to_vec() } })
}

fn partition_tag(unit: PartitionUnit) -> u8 {
    match unit {
        PartitionUnit::None => 0,
        PartitionUnit::Hour => 1,
        PartitionUnit::Day => 2,
        PartitionUnit::Week => 3,
        PartitionUnit::Month => 4,
        PartitionUnit::Year => 5,
    }
}

fn parse_partition_tag(tag: u8) -> Option<PartitionUnit> {
    PartitionUnit::ALL.into_iter().map(|(unit, _)| unit).find(|&unit| partition_tag(unit) == tag)
}
