//! Rewrites runs as new segments, or in-memory segments, with the same rows in order: used to
//! coalesce and flush memtables, and to compact segments.
//!
//! - storage_rewrite-1. The rows are those of the runs except the deleted ones, ordered by
//!   timestamp, then by the order of the runs, then by their position in the run. No output extends
//!   past the end of a partition.
//! - storage_rewrite-2. A column that a run does not have is NULL in its rows; a column that the
//!   schema does not have is dropped.
//! - The input is never changed. A failed rewrite leaves unreferenced files, which are removed
//!   later.
//! - storage_rewrite-3. Values are decoded and encoded again. Strings of a dictionary are looked up
//!   once for each of its values, and compressed strings are copied if all use the same table.
//! - storage_rewrite-4. Memory: for each row of the segment being written, four bytes if runs
//!   overlap, and four more for a column of codes; the timestamps of a page frame of each run being
//!   read; one encoded column, and a page frame of its values (`TextLimits`).
//!
//! Not here: the choice of the runs, and the commit that replaces them (`database`).

mod merge;
mod columns;
mod texts;

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_model::{
    Column, PartitionKey, RowCount, Schema, SegmentId, SeqTxn, TableId, Timestamp, limits,
};
use tidegate_platform::DiskFile;

use crate::error::Result;
use crate::mem_segment::MemSegment;
use crate::segment::encode::{ColumnEncoder, FRAME_ROWS};
use crate::segment::strings::{CompressorCount, StringCompressor};
use crate::segment::{
    MemSegmentWriter, Reader, RegionSink, SegmentMeta, Writer, WriterSpec, WrittenSegment,
};
use crate::snapshot::SegmentRun;
use crate::symbols::SymbolTables;
use columns::Source;
use merge::{FramePlan, Merge, Piece, Planner};

/// The input of a rewrite.
#[derive(Debug, Clone, Copy)]
pub struct Rewrite<'a> {
    /// The table.
    pub table: TableId,
    /// The current columns.
    pub schema: &'a Schema,
    /// The dictionaries of its symbol columns, with all symbols of the runs.
    pub symbols: &'a SymbolTables,
    /// The runs, in the order in which rows with equal timestamps follow each other.
    pub runs: &'a [Arc<SegmentRun>],
}

/// Creates the file of a new segment.
pub type NewSegment<'a> = &'a mut dyn FnMut(PartitionKey) -> Result<(SegmentId, Arc<dyn DiskFile>)>;

/// Limits of strings at which a segment ends before it has all its rows.
#[derive(Debug, Clone, Copy)]
struct TextLimits {
    /// Stored bytes of a column of one segment: encoded columns are in memory until they are
    /// written.
    segment_bytes: u64,
    /// Bytes of a column of one page frame: offsets have four bytes, and the strings of a page
    /// frame are in memory while it is encoded.
    frame_bytes: u64,
}

const TEXT_LIMITS: TextLimits = TextLimits { segment_bytes: 512 << 20, frame_bytes: 1 << 30 };

/// The memory of the string compressors of all columns: those of 256 columns.
const COMPRESSORS_BYTES: u64 = 64 << 20;
// One value may be larger than the rest of its page frame.
const _: () = assert!(TEXT_LIMITS.frame_bytes + 8 * limits::VALUE_BYTES as u64 <= u32::MAX as u64);

/// Writes the rows into new segments; they are complete when `sink` has been flushed.
///
/// # Errors
/// If a run cannot be read, or a segment cannot be written.
pub fn to_segments(
    rewrite: &Rewrite<'_>,
    new_segment: NewSegment<'_>,
    sink: &mut dyn RegionSink,
) -> Result<Vec<WrittenSegment>> {
    let readers = readers_of(rewrite)?;
    let mut job = Job::new(rewrite, &readers, TEXT_LIMITS, Compress::Texts)?;
    let (mut written, mut spare) = (Vec::new(), Vec::new());
    while let Some(plan) = job.next_segment()? {
        let (id, file) = new_segment(plan.partition)?;
        let writer = Writer::new(job.spec(&plan, id), file);
        for at in 0..job.columns.len() {
            let &Column { id, ty, .. } = job.columns[at];
            let mut encoder = ColumnEncoder::new(id, ty, spare);
            job.encode(at, &plan, &mut encoder)?;
            spare = writer.add(encoder.finish(), sink)?;
        }
        let WrittenSegment { meta, file } = writer.finish(sink)?;
        written.push(WrittenSegment { meta: job.with_commits(meta), file });
    }
    Ok(written)
}

/// Writes the rows into new in-memory segments.
///
/// # Errors
/// If a run cannot be read.
pub fn to_mem_segments(
    rewrite: &Rewrite<'_>,
    new_id: &mut dyn FnMut() -> SegmentId,
) -> Result<Vec<MemSegment>> {
    mem_segments_within(rewrite, TEXT_LIMITS, new_id)
}

fn mem_segments_within(
    rewrite: &Rewrite<'_>,
    limits: TextLimits,
    new_id: &mut dyn FnMut() -> SegmentId,
) -> Result<Vec<MemSegment>> {
    let readers = readers_of(rewrite)?;
    let mut job = Job::new(rewrite, &readers, limits, Compress::Nothing)?;
    let (mut mem_segments, mut spare) = (Vec::new(), Vec::new());
    while let Some(plan) = job.next_segment()? {
        let mut writer = MemSegmentWriter::new(job.spec(&plan, new_id()), spare);
        for at in 0..job.columns.len() {
            let &Column { id, ty, .. } = job.columns[at];
            let mut encoder = writer.begin(id, ty);
            job.encode(at, &plan, &mut encoder)?;
            writer.add(encoder.finish());
        }
        let (meta, bytes) = writer.finish();
        mem_segments
            .push(MemSegment { meta: job.with_commits(meta), bytes: Arc::from(bytes.as_slice()) });
        spare = bytes;
    }
    Ok(mem_segments)
}

fn readers_of(rewrite: &Rewrite<'_>) -> Result<Vec<Arc<Reader>>> {
    rewrite.runs.iter().map(|run| run.reader()).collect()
}

/// The choice whether strings are compressed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compress {
    Texts,
    /// The memory saved would not be worth the time of compression.
    Nothing,
}

/// The rows of a segment to be written.
struct SegmentPlan {
    partition: PartitionKey,
    frames: Vec<FramePlan>,
    min_ts: i64,
    max_ts: i64,
}

/// A rewrite in progress.
struct Job<'a> {
    rewrite: &'a Rewrite<'a>,
    text_limits: TextLimits,
    readers: &'a [Arc<Reader>],
    /// The columns of the schema that some run has.
    columns: Vec<&'a Column>,
    /// The string compressor of each column.
    compressors: Vec<StringCompressor>,
    merge: Merge<'a>,
    planner: Planner,
    /// Rows that were taken from `merge` and belong to the next segment.
    ahead: VecDeque<Piece>,
}

impl<'a> Job<'a> {
    fn new(
        rewrite: &'a Rewrite<'a>,
        readers: &'a [Arc<Reader>],
        text_limits: TextLimits,
        compress: Compress,
    ) -> Result<Job<'a>> {
        let is_there = |column: &&Column| {
            readers.iter().any(|reader| reader.footer().column(column.id).is_some())
        };
        let columns: Vec<_> = rewrite.schema.columns().iter().filter(is_there).collect();
        let count = CompressorCount::within(COMPRESSORS_BYTES);
        let compressor = |_: &&Column| match compress {
            Compress::Texts => StringCompressor::counted(&count),
            Compress::Nothing => StringCompressor::never(),
        };
        let compressors = columns.iter().map(compressor).collect();
        let merge = Merge::new(rewrite, readers)?;
        let planner = Planner::new(readers.len());
        let ahead = VecDeque::new();
        Ok(Job { rewrite, text_limits, readers, columns, compressors, merge, planner, ahead })
    }

    fn spec(&self, plan: &SegmentPlan, segment: SegmentId) -> WriterSpec {
        let rows = plan.frames.iter().map(|frame| frame.rows as u64).sum();
        WriterSpec {
            table: self.rewrite.table,
            segment,
            partition: plan.partition,
            rows: RowCount(rows),
            min_ts: plan.min_ts,
            max_ts: plan.max_ts,
        }
    }

    /// The range of commits of all runs, because a segment may have rows of every run.
    fn with_commits(&self, meta: SegmentMeta) -> SegmentMeta {
        let metas = || self.rewrite.runs.iter().map(|run| &run.meta);
        let seq_first = metas().map(|meta| meta.seq_first).min().unwrap_or(SeqTxn(0));
        let seq_last = metas().map(|meta| meta.seq_last).max().unwrap_or(SeqTxn(0));
        SegmentMeta { seq_first, seq_last, ..meta }
    }

    /// Plans the next segment: rows up to the end of their partition, `limits::SEGMENT_ROWS`, or as
    /// many as fit in memory (storage_rewrite-4).
    fn next_segment(&mut self) -> Result<Option<SegmentPlan>> {
        let Some(min_ts) = self.next_timestamp()? else { return Ok(None) };
        let (by, unit) = (self.rewrite.schema.partition_by(), self.rewrite.schema.time_unit());
        let (partition, end_ts) = if self.rewrite.schema.designated().is_some() {
            let partition = by.floor(Timestamp(min_ts), unit);
            (partition, by.next(partition, unit).0)
        } else {
            (PartitionKey(0), i64::MAX)
        };
        let texts: Vec<usize> = texts::text_columns(&self.columns).collect();
        let mut text_bytes = vec![0; texts.len()];
        let (mut frames, mut last) = (Vec::new(), None);
        let frames_max = usize::try_from(limits::SEGMENT_ROWS.frames()).expect("64");
        while frames.len() < frames_max {
            let mut pieces = self.next_pieces(end_ts)?;
            if pieces.is_empty() {
                break;
            }
            let mut plan = self.planner.plan(&pieces);
            let mut bytes = self.text_bytes(&texts, &plan)?;
            while plan.rows > 1
                && bytes.iter().any(|bytes| bytes.raw_max > self.text_limits.frame_bytes)
            {
                let middle = merge::half(&mut pieces);
                self.put_back(pieces.split_off(middle));
                plan = self.planner.plan(&pieces);
                bytes = self.text_bytes(&texts, &plan)?;
            }
            let mut sums = text_bytes.iter().zip(&bytes).map(|(sum, bytes)| sum + bytes.stored);
            if !frames.is_empty() && sums.any(|sum| sum > self.text_limits.segment_bytes) {
                self.put_back(pieces);
                break;
            }
            for (sum, bytes) in text_bytes.iter_mut().zip(&bytes) {
                *sum += bytes.stored;
            }
            last = pieces.last().copied();
            let is_full = plan.rows == FRAME_ROWS;
            frames.push(plan);
            if !is_full {
                break;
            }
        }
        let last = last.expect("there is a next timestamp, so there is a row");
        let max_ts = self.merge.timestamp(last.run, last.end - 1)?;
        Ok(Some(SegmentPlan { partition, frames, min_ts, max_ts }))
    }

    /// The timestamp of the next row.
    fn next_timestamp(&self) -> Result<Option<i64>> {
        match self.ahead.front() {
            Some(piece) => self.merge.timestamp(piece.run, piece.start).map(Some),
            None => Ok(self.merge.peek()),
        }
    }

    /// The rows of the next page frame with timestamps before `end_ts`, or as many as are left.
    fn next_pieces(&mut self, end_ts: i64) -> Result<Vec<Piece>> {
        let (mut pieces, mut rows) = (Vec::new(), 0);
        while rows < FRAME_ROWS {
            let room = u32::try_from(FRAME_ROWS - rows).expect("65,536");
            let piece = match self.ahead.pop_front() {
                // These pieces were cut at the end of this partition when they were taken.
                Some(piece) if piece.rows() > room => {
                    let (taken, rest) = piece.split(room);
                    self.ahead.push_front(rest);
                    taken
                }
                Some(piece) => piece,
                None if self.merge.peek().is_some_and(|ts| ts < end_ts) => {
                    self.merge.take(room, end_ts)?
                }
                None => break,
            };
            rows += piece.rows() as usize;
            pieces.push(piece);
        }
        Ok(pieces)
    }

    fn put_back(&mut self, pieces: Vec<Piece>) {
        for piece in pieces.into_iter().rev() {
            self.ahead.push_front(piece);
        }
    }

    /// The bytes of strings of these rows, for each of the columns `texts`.
    fn text_bytes(&self, texts: &[usize], plan: &FramePlan) -> Result<Vec<texts::TextBytes>> {
        let of = |&at: &usize| texts::text_bytes(&mut self.source(at), plan);
        texts.iter().map(of).collect()
    }

    fn source(&self, column: usize) -> Source<'_> {
        Source::new(self.readers, self.columns[column])
    }

    /// Encodes a column of a segment.
    fn encode(&self, at: usize, plan: &SegmentPlan, encoder: &mut ColumnEncoder) -> Result<()> {
        let mut source = self.source(at);
        if texts::is_text(source.column.ty) {
            let symbols = self.rewrite.symbols.get(source.column.id).map(|table| &**table);
            let compressor = &self.compressors[at];
            texts::encode(&mut source, &plan.frames, &texts::Tools { symbols, compressor }, encoder)
        } else {
            columns::encode(&mut source, &plan.frames, encoder)
        }
    }
}

#[cfg(test)]
mod tests;
