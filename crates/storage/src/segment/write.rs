//! Writing of encoded columns into a segment's file, from several threads at once.
//!
//! - Regions never overlap: offsets are assigned under one lock, in the order of requests.
//! - The footer is written last and names every region; without a commit the file is unused.
//!
//! Columns below `limits::PAGE_ALIGNED_FROM_BYTES` are collected and written with the footer, so
//! that a segment of many constant columns takes a few writes. Not here: fsync and commit
//! (`database`).

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::bytes::ByteWriter;
use tidegate_model::layout::{
    ColumnFooter, Region, SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, SEGMENT_TRAILER_BYTES,
    SEGMENT_VERSION, SegmentFooter, region_align,
};
use tidegate_model::{ByteCount, PartitionKey, RowCount, SegmentId, SeqTxn, TableId, limits};
use tidegate_platform::{DiskFile, WriteQueue};

use super::encode::EncodedColumn;
use super::{SegmentMeta, WrittenSegment};
use crate::error::{Error, Result};

/// A sink for bytes to be written to a file; they may be written later, but before its owner's
/// flush returns.
pub trait RegionSink {
    /// Writes `bytes` at `offset` and returns memory for reuse.
    ///
    /// # Errors
    /// If this write or an earlier one failed.
    fn write(&mut self, file: &Arc<dyn DiskFile>, bytes: Vec<u8>, offset: u64) -> Result<Vec<u8>>;
}

impl RegionSink for WriteQueue {
    fn write(&mut self, file: &Arc<dyn DiskFile>, bytes: Vec<u8>, offset: u64) -> Result<Vec<u8>> {
        WriteQueue::write(self, file, bytes, offset)
            .map(Option::unwrap_or_default)
            .map_err(Error::disk("write segment"))
    }
}

/// A sink that writes at once, in the calling thread.
#[derive(Debug)]
pub struct Direct;

impl RegionSink for Direct {
    fn write(&mut self, file: &Arc<dyn DiskFile>, bytes: Vec<u8>, offset: u64) -> Result<Vec<u8>> {
        file.write_all_at(&bytes, offset).map_err(Error::disk("write segment"))?;
        Ok(bytes)
    }
}

/// The description of a segment before its columns.
#[derive(Debug, Clone, Copy)]
pub struct WriterSpec {
    /// The table.
    pub table: TableId,
    /// The number.
    pub segment: SegmentId,
    /// The partition.
    pub partition: PartitionKey,
    /// Number of rows of each column.
    pub rows: RowCount,
    /// The least designated timestamp; 0 in a table without one.
    pub min_ts: i64,
    /// The greatest designated timestamp; 0 in a table without one.
    pub max_ts: i64,
}

/// A segment that is being written to its file.
#[derive(Debug)]
pub struct Writer {
    spec: WriterSpec,
    file: Arc<dyn DiskFile>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The offset for the next large column.
    end: u64,
    large: Vec<ColumnFooter>,
    /// Columns that are not written yet, contiguous; offsets are relative to `collected`.
    small: Vec<ColumnFooter>,
    collected: Vec<u8>,
}

impl Writer {
    /// A segment without columns.
    #[must_use]
    pub fn new(spec: WriterSpec, file: Arc<dyn DiskFile>) -> Writer {
        assert!(0 < spec.rows.0 && spec.rows <= limits::SEGMENT_ROWS, "segment-1");
        let state = State {
            end: SEGMENT_HEADER_BYTES as u64,
            large: Vec::new(),
            small: Vec::new(),
            collected: Vec::new(),
        };
        Writer { spec, file, state: Mutex::new(state) }
    }

    /// Adds a column and returns memory for reuse.
    ///
    /// # Errors
    /// If its bytes cannot be written.
    ///
    /// # Panics
    /// If the column has another number of page frames than the segment.
    pub fn add(&self, column: EncodedColumn, sink: &mut dyn RegionSink) -> Result<Vec<u8>> {
        let EncodedColumn { mut bytes, mut footer } = column;
        assert_eq!(footer.frames.len() as u64, self.spec.rows.frames(), "frame-1");
        let size = bytes.len() as u64;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if size < limits::PAGE_ALIGNED_FROM_BYTES {
            let align = usize::try_from(limits::REGION_ALIGN_BYTES).expect("64");
            let start = state.collected.len().next_multiple_of(align);
            state.collected.resize(start, 0);
            state.collected.extend_from_slice(&bytes);
            shift(&mut footer, start as u64);
            state.small.push(footer);
            bytes.clear();
            return Ok(bytes);
        }
        let start = state.end.next_multiple_of(region_align(size));
        state.end = start + size;
        shift(&mut footer, start);
        state.large.push(footer);
        drop(state);
        // No other region shares the page in which it ends: so whole pages are written.
        let page = usize::try_from(limits::PAGE_BYTES).expect("4,096");
        let padded = bytes.len().next_multiple_of(page);
        bytes.reserve_exact(padded - bytes.len());
        bytes.resize(padded, 0);
        sink.write(&self.file, bytes, start)
    }

    /// Writes the remaining columns and the footer. The file is complete when `sink` has been
    /// flushed.
    ///
    /// # Errors
    /// If the bytes cannot be written.
    pub fn finish(self, sink: &mut dyn RegionSink) -> Result<WrittenSegment> {
        let Writer { spec, file, state } = self;
        let mut state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let small_start = state.end.next_multiple_of(limits::PAGE_BYTES);
        for column in &mut state.small {
            shift(column, small_start);
        }
        let mut columns = state.large;
        columns.append(&mut state.small);
        let mut end = state.collected;
        let meta = append_footer(&spec, columns, small_start, &mut end);
        let mut header = Vec::new();
        append_header(&mut header);
        sink.write(&file, header, 0)?;
        sink.write(&file, end, small_start)?;
        Ok(WrittenSegment { meta, file: Some(file) })
    }
}

/// Appends the first bytes of a segment.
pub(super) fn append_header(out: &mut Vec<u8>) {
    let mut header = ByteWriter(std::mem::take(out));
    header.raw(&SEGMENT_MAGIC).u32(SEGMENT_VERSION).pad(SEGMENT_HEADER_BYTES);
    *out = header.0;
}

/// Appends footer and trailer to the last bytes of a segment, which begin at `start` of it.
pub(super) fn append_footer(
    spec: &WriterSpec,
    mut columns: Vec<ColumnFooter>,
    start: u64,
    out: &mut Vec<u8>,
) -> SegmentMeta {
    columns.sort_by_key(|column| column.id);
    let WriterSpec { table, segment, partition, rows, min_ts, max_ts } = *spec;
    let footer = SegmentFooter {
        table,
        segment,
        partition,
        rows,
        min_ts,
        max_ts,
        seq_first: SeqTxn(0),
        seq_last: SeqTxn(0),
        columns,
    }
    .encode();
    let footer_crc = crc32c::crc32c(&footer);
    let mut end = ByteWriter(std::mem::take(out));
    end.pad(8).raw(&footer);
    end.u64(footer.len() as u64).u32(footer_crc).u32(SEGMENT_VERSION).raw(&SEGMENT_MAGIC);
    *out = end.0;
    SegmentMeta {
        id: segment,
        partition,
        rows,
        bytes: ByteCount(start + out.len() as u64),
        min_ts,
        max_ts,
        seq_first: SeqTxn(0),
        seq_last: SeqTxn(0),
        footer_crc,
    }
}

/// The size of the smallest file that can be a segment.
pub(super) const FILE_BYTES_MIN: u64 = (SEGMENT_HEADER_BYTES + SEGMENT_TRAILER_BYTES) as u64;

fn shift(column: &mut ColumnFooter, by: u64) {
    let move_region = |region: &mut Region| {
        if region.bytes > 0 {
            region.offset += by;
        }
    };
    if let Some(dictionary) = &mut column.dictionary {
        move_region(&mut dictionary.region);
    }
    move_region(&mut column.string_table);
    move_region(&mut column.zones);
    for frame in &mut column.frames {
        move_region(&mut frame.region);
    }
}
