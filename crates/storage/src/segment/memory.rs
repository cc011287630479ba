//! Writing of a segment into memory, as an in-memory segment with the same bytes as its file.
//!
//! - The bytes are those of a segment from header to trailer, so code that reads segments
//!   reads in-memory segments; `segment::Reader` does not distinguish them.
//! - Columns are encoded in their final place: no byte is copied before the in-memory segment
//!   is complete.
//!
//! Nothing is aligned to pages here, because no region is read or dropped on its own; and regions
//! of in-memory segments with few rows are not padded, because in-memory segments are written to
//! the log. Not here: files (`write`), the choice of rows (`crate::mem_segment`).

use tidegate_model::layout::ColumnFooter;
use tidegate_model::{ColumnId, ColumnType, limits};

use super::encode::{ColumnEncoder, EncodedColumn, REGION_ALIGN};
use super::write::{append_footer, append_header};
use super::{SegmentMeta, WriterSpec};

/// A segment that is being written into memory.
#[derive(Debug)]
pub struct MemSegmentWriter {
    spec: WriterSpec,
    /// The bytes so far; an encoder owns them while a column is encoded.
    bytes: Vec<u8>,
    columns: Vec<ColumnFooter>,
    region_align: usize,
}

impl MemSegmentWriter {
    /// A segment without columns, written into `bytes`, which is recycled memory.
    #[must_use]
    pub fn new(spec: WriterSpec, mut bytes: Vec<u8>) -> MemSegmentWriter {
        assert!(0 < spec.rows.0 && spec.rows <= limits::SEGMENT_ROWS, "segment-1");
        bytes.clear();
        append_header(&mut bytes);
        // Vector instructions need codes at cache lines; for a few codes the alignment does not
        // matter, and padding would be most of the in-memory segment.
        let region_align = if spec.rows < limits::ZONE_ROWS { 1 } else { REGION_ALIGN };
        MemSegmentWriter { spec, bytes, columns: Vec::new(), region_align }
    }

    /// Returns the bytes of the columns so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Starts a column: the next call is `add`.
    pub fn begin(&mut self, id: ColumnId, ty: ColumnType) -> ColumnEncoder {
        assert!(!self.bytes.is_empty(), "the last column was added");
        ColumnEncoder::append_to(id, ty, std::mem::take(&mut self.bytes), self.region_align)
    }

    /// Ends the column that was started.
    ///
    /// # Panics
    /// If it has another number of page frames than the segment.
    pub fn add(&mut self, column: EncodedColumn) {
        assert_eq!(column.footer.frames.len() as u64, self.spec.rows.frames(), "frame-1");
        self.bytes = column.bytes;
        self.columns.push(column.footer);
    }

    /// All bytes, from header to trailer, and the description for a log record.
    #[must_use]
    pub fn finish(self) -> (SegmentMeta, Vec<u8>) {
        let MemSegmentWriter { spec, mut bytes, columns, .. } = self;
        let meta = append_footer(&spec, columns, 0, &mut bytes);
        (meta, bytes)
    }
}
