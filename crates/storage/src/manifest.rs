//! The manifest of a table: its state as of a commit. A checkpoint that may be older than the log.
//!
//! - manifest-1. Segments are in the order of their ids, each once, all below `next_segment`.
//! - manifest-2. A segment's rows lie in its partition, and were committed up to `seq_txn`.
//! - manifest-3. A manifest changes only through `apply`: an acknowledged commit and a replayed
//!   record give the same table.
//! - manifest-4. Symbol watermarks never decrease, and belong to symbol columns of the schema.
//! - manifest-5. The rows of every append up to `flushed_seq` are in segments, or deleted. Rows of
//!   later appends are not in the manifest: they are in the log, and in the memtable of the table.
//!
//! Bytes: docs/format.md, Manifest; the parts that it shares with the log are in
//! `manifest/parts.rs`. Not here: the table's name (`catalog`), files (`database`).

pub(crate) mod parts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_model::bytes::ByteWriter;
use tidegate_model::time::{TIMESTAMP_MAX, TIMESTAMP_MIN};
use tidegate_model::{
    Column, ColumnId, ColumnType, PartitionKey, Schema, SegmentId, SeqTxn, TableId, Timestamp,
    limits,
};

use crate::change::{BatchId, TableChange, TableOp};
use crate::checksummed_file::{self, Kind};
use crate::deletion_vector::DeletionVectorMeta;
use crate::error::{Corruption, DecodeError};
use crate::mem_segment::MemSegment;
use crate::segment::SegmentMeta;
use crate::symbols::{SymbolTexts, SymbolWatermark};

const KIND: Kind = Kind { magic: *b"TIDEMAN\0", version: 3, oldest: 1, name: "manifest" };
/// Written while a table has neither comments nor a view's query, so that older programs can read
/// it.
const KIND_WITHOUT_TEXTS: Kind = Kind { version: 2, ..KIND };

/// The state of a table as of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The table.
    pub table: TableId,
    /// The last commit that is included.
    pub seq_txn: SeqTxn,
    /// The commit up to which all appended rows are in segments (manifest-5).
    pub flushed_seq: SeqTxn,
    /// The columns.
    pub schema: Arc<Schema>,
    /// The least id that was never used for a segment.
    pub next_segment: SegmentId,
    /// The segments, ascending by id (manifest-1).
    pub segments: Arc<Vec<SegmentEntry>>,
    /// The committed ends of symbol files; a column without values has no entry (manifest-4).
    pub symbols: BTreeMap<ColumnId, SymbolWatermark>,
    /// The latest batches that are to be applied once, at most `limits::APPLIED_BATCHES`; the
    /// oldest first.
    pub batches: Arc<Vec<AppliedBatch>>,
}

/// A batch that was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedBatch {
    /// The identity of the batch.
    pub id: BatchId,
    /// The commit that applied it.
    pub seq_txn: SeqTxn,
}

/// A segment of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEntry {
    /// The segment.
    pub meta: SegmentMeta,
    /// The deletion vector of the segment, if rows of it are deleted.
    pub deletion_vector: Option<DeletionVectorMeta>,
}

/// A file that a table no longer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obsolete {
    Segment(SegmentMeta),
    DeletionVector(SegmentMeta, DeletionVectorMeta),
    Symbols(ColumnId),
}

impl Manifest {
    /// The manifest of a new table.
    #[must_use]
    pub fn new(table: TableId, seq_txn: SeqTxn, schema: Arc<Schema>) -> Manifest {
        Manifest {
            table,
            seq_txn,
            flushed_seq: SeqTxn(0),
            schema,
            next_segment: SegmentId(0),
            segments: Arc::default(),
            symbols: BTreeMap::new(),
            batches: Arc::default(),
        }
    }

    /// The commit that applied a batch, if it is among the latest.
    #[must_use]
    pub fn batch(&self, id: BatchId) -> Option<SeqTxn> {
        self.batches.iter().find(|batch| batch.id == id).map(|batch| batch.seq_txn)
    }

    /// The latest batch of this name, whatever its content.
    pub(crate) fn batch_of_name(&self, name: [u8; 8]) -> Option<AppliedBatch> {
        self.batches.iter().rev().find(|batch| batch.id.name() == name).copied()
    }

    /// The segment with this id.
    #[must_use]
    pub fn segment(&self, id: SegmentId) -> Option<&SegmentEntry> {
        let at = self.segments.binary_search_by_key(&id, |entry| entry.meta.id).ok()?;
        Some(&self.segments[at])
    }

    /// Returns true if the manifest is older than a change, so that a replay has to apply it
    /// (recovery-2).
    ///
    /// # Errors
    /// If commits between the manifest and the change are missing.
    pub(crate) fn is_older_than(&self, op: &TableOp) -> Result<bool, Corruption> {
        let expected = self.seq_txn.next();
        if op.change == TableChange::GivenUp {
            // wal-7.
            return Ok(op.seq_txn >= expected);
        }
        if op.seq_txn > expected {
            let (expected, actual) = (expected.0, op.seq_txn.0);
            let what = "the `seq_txn` of a commit";
            return Err(Corruption::Differs { what, expected, actual });
        }
        Ok(op.seq_txn == expected)
    }

    /// Applies the change of a record (manifest-3). `Create`, `Drop` and `Rename` are for the
    /// catalog.
    ///
    /// # Errors
    /// If the change does not fit the table: the record was written for another one. Then the
    /// manifest may have changed in part.
    pub fn apply(&mut self, seq_txn: SeqTxn, change: &TableChange) -> Result<(), Corruption> {
        match change {
            TableChange::Create { .. }
            | TableChange::Drop
            | TableChange::Rename { .. }
            | TableChange::GivenUp => {}
            TableChange::Truncate => {
                self.segments = Arc::default();
                self.flushed_seq = seq_txn;
            }
            TableChange::Alter { schema } => self.alter(schema)?,
            TableChange::AddSegments { segments, symbols } => {
                if let Some(meta) = segments.iter().find(|meta| seqs(meta) != (seq_txn, seq_txn)) {
                    let what = "the commit of a new segment";
                    return Err(Corruption::Impossible { what, value: meta.seq_last.0 });
                }
                self.add_segments(segments)?;
                self.add_symbols(symbols)?;
            }
            TableChange::DeletionVector { segment, deletion_vector } => {
                self.deletion_vector(seq_txn, *segment, *deletion_vector)?
            }
            TableChange::Append { batch, mem_segments, symbols } => {
                self.append(seq_txn, mem_segments)?;
                self.check_texts(symbols)?;
                if let Some(id) = *batch {
                    let batches = Arc::make_mut(&mut self.batches);
                    let over = (batches.len() + 1).saturating_sub(limits::APPLIED_BATCHES);
                    batches.drain(..over);
                    batches.push(AppliedBatch { id, seq_txn });
                }
            }
            TableChange::Replace { out, flushed_seq, segments, symbols } => {
                self.replace(seq_txn, out, segments)?;
                if *flushed_seq >= seq_txn {
                    let what = "the commit that a table is flushed up to";
                    return Err(Corruption::Impossible { what, value: flushed_seq.0 });
                }
                self.flushed_seq = self.flushed_seq.max(*flushed_seq);
                self.add_symbols(symbols)?;
            }
        }
        self.seq_txn = seq_txn;
        Ok(())
    }

    /// The files that are unreferenced once a change is made.
    pub(crate) fn obsoleted_by(&self, change: &TableChange) -> Vec<Obsolete> {
        let deletion_vector = |entry: &SegmentEntry| {
            entry
                .deletion_vector
                .map(|deletion_vector| Obsolete::DeletionVector(entry.meta, deletion_vector))
        };
        match change {
            TableChange::Create { .. }
            | TableChange::Drop
            | TableChange::Rename { .. }
            | TableChange::AddSegments { .. }
            | TableChange::Append { .. }
            | TableChange::GivenUp => Vec::new(),
            TableChange::Replace { out, .. } => {
                let entries = out.iter().filter_map(|&id| self.segment(id));
                entries
                    .flat_map(|e| [Some(Obsolete::Segment(e.meta)), deletion_vector(e)])
                    .flatten()
                    .collect()
            }
            TableChange::Truncate => {
                let segments = self.segments.iter();
                segments
                    .flat_map(|e| [Some(Obsolete::Segment(e.meta)), deletion_vector(e)])
                    .flatten()
                    .collect()
            }
            TableChange::Alter { schema } => {
                let columns = self.symbols.keys().filter(|&&id| schema.column(id).is_none());
                columns.map(|&column| Obsolete::Symbols(column)).collect()
            }
            TableChange::DeletionVector { segment, .. } => {
                self.segment(*segment).and_then(deletion_vector).into_iter().collect()
            }
        }
    }

    fn alter(&mut self, schema: &Arc<Schema>) -> Result<(), Corruption> {
        // No rows depend on the columns of a view. A table never becomes a view.
        let is_view = schema.view().is_some();
        let same_kind = is_view == self.schema.view().is_some();
        let same_order = schema.designated() == self.schema.designated()
            && schema.partition_by() == self.schema.partition_by()
            && schema.time_unit() == self.schema.time_unit()
            && schema.columns().iter().all(|column| self.can_have(column));
        let same = same_kind && (is_view || same_order);
        if !same || schema.next_column() < self.schema.next_column() {
            let value = schema.version().0;
            return Err(Corruption::Impossible { what: "a schema of another table", value });
        }
        self.schema = Arc::clone(schema);
        self.symbols.retain(|&column, _| schema.column(column).is_some());
        Ok(())
    }

    /// Returns true if a changed schema can have this column: a column with the id of an earlier
    /// one must be that one, with its type.
    fn can_have(&self, column: &Column) -> bool {
        let is_new = self.schema.next_column() <= column.id;
        is_new || self.schema.column(column.id).is_some_and(|known| known.ty == column.ty)
    }

    fn add_segments(&mut self, segments: &[SegmentMeta]) -> Result<(), Corruption> {
        let known = Arc::make_mut(&mut self.segments);
        for meta in segments {
            check_segment(&self.schema, meta)?;
            known.push(SegmentEntry { meta: *meta, deletion_vector: None });
            self.next_segment = self.next_segment.max(SegmentId(meta.id.0 + 1));
        }
        // Ids are assigned before the commit, so that two imports may commit theirs interleaved.
        known.sort_by_key(|entry| entry.meta.id);
        self.check_ids()
    }

    fn add_symbols(
        &mut self,
        watermarks: &[(ColumnId, SymbolWatermark)],
    ) -> Result<(), Corruption> {
        for &(column, watermark) in watermarks {
            let known = self.symbols.entry(column).or_default();
            *known = watermark.max(*known);
        }
        self.check_symbols()
    }

    /// The rows of an append belong to the memtable; their in-memory segments have ids of the
    /// table.
    fn append(&mut self, seq: SeqTxn, mem_segments: &[MemSegment]) -> Result<(), Corruption> {
        for MemSegment { meta, .. } in mem_segments {
            if seqs(meta) != (seq, seq) {
                let value = meta.seq_last.0;
                return Err(Corruption::Impossible { what: "the commit of new rows", value });
            }
            check_segment(&self.schema, meta)?;
            self.next_segment = self.next_segment.max(SegmentId(meta.id.0 + 1));
        }
        Ok(())
    }

    fn check_texts(&self, symbols: &[SymbolTexts]) -> Result<(), Corruption> {
        for texts in symbols {
            let ty = self.schema.column(texts.column).map(|column| column.ty);
            if ty != Some(ColumnType::Symbol) {
                let value = texts.column.0.into();
                return Err(Corruption::Impossible { what: "a column with symbols", value });
            }
        }
        Ok(())
    }

    fn replace(
        &mut self,
        seq: SeqTxn,
        out: &[SegmentId],
        segments: &[SegmentMeta],
    ) -> Result<(), Corruption> {
        if let Some(&id) = out.iter().find(|&&id| self.segment(id).is_none()) {
            return Err(Corruption::Impossible { what: "a replaced segment", value: id.0 });
        }
        if let Some(meta) = segments.iter().find(|meta| meta.seq_last >= seq) {
            let value = meta.seq_last.0;
            return Err(Corruption::Impossible { what: "the commits of a new segment", value });
        }
        if !out.is_empty() {
            let out: BTreeSet<SegmentId> = out.iter().copied().collect();
            Arc::make_mut(&mut self.segments).retain(|entry| !out.contains(&entry.meta.id));
        }
        self.add_segments(segments)
    }

    fn deletion_vector(
        &mut self,
        seq: SeqTxn,
        id: SegmentId,
        deletion_vector: DeletionVectorMeta,
    ) -> Result<(), Corruption> {
        let found = self.segments.binary_search_by_key(&id, |entry| entry.meta.id);
        let Ok(at) = found else {
            return Err(Corruption::Impossible {
                what: "the segment of a deletion vector",
                value: id.0,
            });
        };
        let entry = &mut Arc::make_mut(&mut self.segments)[at];
        if deletion_vector.seq_txn != seq || deletion_vector.live > entry.meta.rows {
            let value = deletion_vector.live.0;
            return Err(Corruption::Impossible {
                what: "the live count of a deletion vector",
                value,
            });
        }
        entry.deletion_vector = Some(deletion_vector);
        self.next_segment = self.next_segment.max(SegmentId(deletion_vector.id.0 + 1));
        Ok(())
    }

    fn check_ids(&self) -> Result<(), Corruption> {
        let ids = |pair: &[SegmentEntry]| (pair[0].meta.id, pair[1].meta.id);
        for pair in self.segments.windows(2) {
            let (id, next) = ids(pair);
            if id >= next {
                return Err(Corruption::Impossible { what: "a segment id", value: next.0 });
            }
        }
        match self.segments.last() {
            Some(last) if last.meta.id >= self.next_segment => {
                Err(Corruption::Impossible { what: "a segment id", value: last.meta.id.0 })
            }
            _ => Ok(()),
        }
    }

    fn check_symbols(&self) -> Result<(), Corruption> {
        for (&column, watermark) in &self.symbols {
            let ty = self.schema.column(column).map(|column| column.ty);
            if ty != Some(ColumnType::Symbol) || watermark.count == 0 || watermark.bytes == 0 {
                let value = column.0.into();
                return Err(Corruption::Impossible { what: "a column with symbols", value });
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Corruption> {
        self.check_ids()?;
        self.check_symbols()?;
        for SegmentEntry { meta, deletion_vector } in self.segments.iter() {
            check_segment(&self.schema, meta)?;
            let deleted =
                deletion_vector.map_or(meta.seq_last, |deletion_vector| deletion_vector.seq_txn);
            let live = deletion_vector.map_or(meta.rows, |deletion_vector| deletion_vector.live);
            if meta.seq_last > self.seq_txn || deleted > self.seq_txn || live > meta.rows {
                let value = meta.id.0;
                return Err(Corruption::Impossible { what: "a segment from the future", value });
            }
        }
        if self.seq_txn == SeqTxn(u64::MAX) {
            // The next commit needs a number too.
            let value = self.seq_txn.0;
            return Err(Corruption::Impossible { what: "the number of the last commit", value });
        }
        let batches = self.batches.iter().map(|batch| batch.seq_txn);
        if self.batches.len() > limits::APPLIED_BATCHES
            || !batches.clone().is_sorted()
            || batches.max().max(Some(self.flushed_seq)) > Some(self.seq_txn)
        {
            let value = self.flushed_seq.0;
            return Err(Corruption::Impossible { what: "a position from the future", value });
        }
        Ok(())
    }

    /// The bytes of the manifest's file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = ByteWriter::default();
        w.u64(self.table.0).u64(self.seq_txn.0).u64(self.flushed_seq.0).u64(self.next_segment.0);
        parts::encode_schema(&mut w, &self.schema);
        w.u64(self.segments.len() as u64);
        for SegmentEntry { meta, deletion_vector } in self.segments.iter() {
            parts::encode_segment(&mut w, meta);
            w.u8(deletion_vector.is_some().into());
            if let Some(deletion_vector) = deletion_vector {
                parts::encode_deletion_vector(&mut w, deletion_vector);
            }
        }
        let symbols: Vec<_> =
            self.symbols.iter().map(|(&column, &watermark)| (column, watermark)).collect();
        parts::encode_symbols(&mut w, &symbols);
        w.u64(self.batches.len() as u64);
        for batch in self.batches.iter() {
            parts::encode_batch(&mut w, batch);
        }
        let is_older = parts::is_schema_of_version_2(&self.schema);
        checksummed_file::encode(if is_older { &KIND_WITHOUT_TEXTS } else { &KIND }, &w.0)
    }
}

/// The manifest in these bytes.
///
/// # Errors
/// If they are damaged, of a newer version, or of another table.
pub fn decode(bytes: &[u8], table: TableId) -> Result<Manifest, DecodeError> {
    let (version, mut r) = checksummed_file::decode_versions(&KIND, bytes)?;
    let start = r.offset();
    let found = TableId(r.u64()?);
    if found != table {
        let (expected, actual) = (table.0, found.0);
        let what = Corruption::Differs { what: "the table", expected, actual };
        return Err(DecodeError::at(start, what));
    }
    let seq_txn = SeqTxn(r.u64()?);
    // Before version 2 all rows were in segments.
    let flushed_seq = if version == 1 { seq_txn } else { SeqTxn(r.u64()?) };
    let next_segment = SegmentId(r.u64()?);
    let schema = Arc::new(parts::decode_schema(&mut r)?);
    let count = parts::decode_count(&mut r, parts::SEGMENT_BYTES + 1)?;
    let mut segments = Vec::with_capacity(count);
    for _ in 0..count {
        let meta = parts::decode_segment(&mut r)?;
        let at = r.offset();
        let deletion_vector = match r.u8()? {
            0 => None,
            1 => Some(parts::decode_deletion_vector(&mut r)?),
            flag => {
                let what = Corruption::Impossible {
                    what: "the flag of a deletion vector",
                    value: flag.into(),
                };
                return Err(DecodeError::at(at, what));
            }
        };
        segments.push(SegmentEntry { meta, deletion_vector });
    }
    let symbols = parts::decode_symbols(&mut r)?.into_iter().collect();
    let mut batches = Vec::new();
    if version > 1 {
        for _ in 0..parts::decode_count(&mut r, parts::APPLIED_BATCH_BYTES)? {
            batches.push(parts::decode_batch(&mut r)?);
        }
    }
    checksummed_file::finish(&r)?;
    let (segments, batches) = (Arc::new(segments), Arc::new(batches));
    let manifest =
        Manifest { table, seq_txn, flushed_seq, schema, next_segment, segments, symbols, batches };
    manifest.check().map_err(|what| DecodeError::at(start, what))?;
    Ok(manifest)
}

fn seqs(meta: &SegmentMeta) -> (SeqTxn, SeqTxn) {
    (meta.seq_first, meta.seq_last)
}

/// Checks that a segment can be one of a table (manifest-2).
pub(crate) fn check_segment(schema: &Schema, meta: &SegmentMeta) -> Result<(), Corruption> {
    let impossible = |what| Err(Corruption::Impossible { what, value: meta.id.0 });
    if meta.rows.0 == 0 || meta.rows > limits::SEGMENT_ROWS {
        return impossible("the row count of segment");
    }
    if meta.min_ts > meta.max_ts || meta.seq_first > meta.seq_last {
        return impossible("a lower bound above its upper bound in segment");
    }
    let (unit, partition_by) = (schema.time_unit(), schema.partition_by());
    let keys = if schema.designated().is_none() {
        let zero = (meta.min_ts, meta.max_ts) == (0, 0);
        if zero { [PartitionKey(0); 2] } else { return impossible("a timestamp in segment") }
    } else {
        if meta.min_ts < TIMESTAMP_MIN || TIMESTAMP_MAX < meta.max_ts {
            return impossible("a timestamp out of range in segment");
        }
        [meta.min_ts, meta.max_ts].map(|ts| partition_by.floor(Timestamp(ts), unit))
    };
    if keys != [meta.partition; 2] {
        return impossible("a row outside of its partition in segment");
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
