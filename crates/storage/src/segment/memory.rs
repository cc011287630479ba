//! Puts columns of a segment one behind the other into memory: an image of what would be its file.
//!
//! - MI1. The bytes are those of a segment from header to trailer, so whoever reads segments reads
//!   images; `segment::Reader` does not tell them apart.
//! - MI2. Columns are encoded where they stay: no byte is copied before the whole is complete.
//!
//! Nothing is aligned to pages here, since nothing is read or dropped alone; and regions of images
//! with few rows stand close, since they are written to the log. Not here: files (`write`), which
//! rows (`crate::image`).

use tidegate_model::layout::ColumnFooter;
use tidegate_model::{ColumnId, ColumnType, limits};

use super::encode::{ColumnEncoder, EncodedColumn, REGION_ALIGN};
use super::write::{append_footer, append_header};
use super::{SegmentMeta, WriterSpec};

/// A segment on its way into memory.
#[derive(Debug)]
pub struct ImageWriter {
    spec: WriterSpec,
    /// All that there is so far; an encoder has it while a column is encoded.
    bytes: Vec<u8>,
    columns: Vec<ColumnFooter>,
    region_align: usize,
}

impl ImageWriter {
    /// A segment without columns, which takes shape in `bytes`: recycled memory.
    #[must_use]
    pub fn new(spec: WriterSpec, mut bytes: Vec<u8>) -> ImageWriter {
        assert!(0 < spec.rows.0 && spec.rows <= limits::SEGMENT_ROWS, "G1");
        bytes.clear();
        append_header(&mut bytes);
        // Vectors want codes at cache lines; a few codes do not care, and padding would be most of
        // the image.
        let region_align = if spec.rows < limits::ZONE_ROWS { 1 } else { REGION_ALIGN };
        ImageWriter { spec, bytes, columns: Vec::new(), region_align }
    }

    /// Returns the bytes of the columns so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Begins a column: the next call is `add`.
    pub fn begin(&mut self, id: ColumnId, ty: ColumnType) -> ColumnEncoder {
        assert!(!self.bytes.is_empty(), "the last column was added");
        ColumnEncoder::behind(id, ty, std::mem::take(&mut self.bytes), self.region_align)
    }

    /// Ends the column that was begun.
    ///
    /// # Panics
    /// If it has another number of page frames than the segment.
    pub fn add(&mut self, column: EncodedColumn) {
        assert_eq!(column.footer.frames.len() as u64, self.spec.rows.frames(), "F1");
        self.bytes = column.bytes;
        self.columns.push(column.footer);
    }

    /// All bytes, header to trailer, and what a log record says of them.
    #[must_use]
    pub fn finish(self) -> (SegmentMeta, Vec<u8>) {
        let ImageWriter { spec, mut bytes, columns, .. } = self;
        let meta = append_footer(&spec, columns, 0, &mut bytes);
        (meta, bytes)
    }
}
