//! Segments: rows of one partition in time order, with all columns, in an immutable file or in
//! memory.
//!
//! - segment-1. A segment is written once and never changed; a `SegmentMeta` in the log or a
//!   manifest makes it part of its table.
//! - segment-2. Rows ascend by designated timestamp; equal ones are in the order of their commits.
//! - segment-3. `decode` returns the values that `encode` took: every type, every bit pattern
//!   except NaN's payload.
//! - The bytes of a page frame and column are checked against their CRC before they are first
//!   used after open.
//!
//! Bytes: docs/format.md, Segment; the layout is in `model::layout`. Not here: the set of segments
//! of a table (`database`), sorting rows (`ingest`).

pub mod intern;
mod fsst;
pub mod encode;
pub mod strings;
mod write;
pub mod memory;
mod read;
mod open;
mod verify;
pub mod decode;
mod text_sizes;

use std::sync::Arc;

use tidegate_model::{ByteCount, PartitionKey, RowCount, SegmentId, SeqTxn, TableId};
use tidegate_platform::DiskFile;

use crate::error::SegmentDamage;

pub use decode::{RowSelection, TYPE_KEY, arrow_field, arrow_type};
pub use memory::MemSegmentWriter;
pub(crate) use open::{OpenReaders, ReaderSlot};
pub use read::Reader;
pub(crate) use read::{MemSegmentBytes, check_length, mem_segment_path};
pub use text_sizes::TextSizes;
pub use write::{Direct, RegionSink, Writer, WriterSpec};

/// The description of a segment in WAL records and manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentMeta {
    /// The id of the segment, and the name of its file.
    pub id: SegmentId,
    /// The partition, and the directory of its file.
    pub partition: PartitionKey,
    /// Number of rows; at least one.
    pub rows: RowCount,
    /// The length of its file.
    pub bytes: ByteCount,
    /// The least designated timestamp; 0 in a table without one.
    pub min_ts: i64,
    /// The greatest designated timestamp; 0 in a table without one.
    pub max_ts: i64,
    /// The first commit whose rows are in it.
    pub seq_first: SeqTxn,
    /// The last commit whose rows are in it.
    pub seq_last: SeqTxn,
    /// The CRC32C of its footer, which detects a file with the right name and other content.
    pub footer_crc: u32,
}

/// A segment that is complete but not committed.
#[derive(Debug, Clone)]
pub struct WrittenSegment {
    /// The description of the segment; the commit sets `seq_first` and `seq_last`.
    pub meta: SegmentMeta,
    /// The file while it is open; `None` once it is synced and closed.
    pub file: Option<Arc<dyn DiskFile>>,
}

/// Reads the description of a segment from the bytes of a file, except for its commits, which only
/// records and manifests have.
pub(crate) fn meta_of(
    path: &std::path::Path,
    bytes: &[u8],
    table: TableId,
) -> crate::error::Result<SegmentMeta> {
    let (footer, footer_crc) = read::footer_of(path, bytes)?;
    if footer.table != table {
        let length = bytes.len() as u64;
        return Err(crate::error::Error::segment(path, length, SegmentDamage::ForeignFooter));
    }
    Ok(SegmentMeta {
        id: footer.segment,
        partition: footer.partition,
        rows: footer.rows,
        bytes: ByteCount(bytes.len() as u64),
        min_ts: footer.min_ts,
        max_ts: footer.max_ts,
        seq_first: SeqTxn(0),
        seq_last: SeqTxn(0),
        footer_crc,
    })
}

#[cfg(test)]
pub(crate) mod tests;
