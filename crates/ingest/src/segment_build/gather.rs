//! Columns of a segment: values are gathered in the order of rows, a page frame at a time, and
//! encoded while they are in cache.

use std::sync::Arc;

use tidegate_model::types::Physical;
use tidegate_model::{ColumnType, limits};
use tidegate_storage::segment::encode::{ColumnEncoder, EncodedColumn, FrameBuffers, FrameValues};
use tidegate_storage::segment::intern::Interner;

use super::{BuildJob, Part, SortedBucket};
use crate::error::Result;
use crate::layout::ColumnLayout;
use crate::packed::PackedBuffer;
use crate::segment_build::kernels::gather;

/// The buffers of a worker for encoding.
pub(super) struct Encoder<'a> {
    pub(super) job: &'a BuildJob<'a>,
    frame: FrameBuffers,
    spare: Vec<Vec<u8>>,
    validity: Vec<u64>,
    pub(super) unpacked: Unpacked,
    pub(super) interner: Interner,
}

/// A column of a bucket, unpacked.
#[derive(Default)]
pub(super) struct Unpacked {
    of: Option<(Arc<SortedBucket>, usize)>,
    values: Vec<u8>,
}

impl Unpacked {
    /// The values of a column; the bucket's order refers to them by position.
    pub(super) fn column(
        &mut self,
        bucket: &Arc<SortedBucket>,
        index: usize,
        layout: &ColumnLayout,
    ) -> &[u8] {
        let is_there =
            |of: &(Arc<SortedBucket>, usize)| Arc::ptr_eq(&of.0, bucket) && of.1 == index;
        if !self.of.as_ref().is_some_and(is_there) {
            bucket.unpack(index, layout, &mut self.values);
            self.of = Some((Arc::clone(bucket), index));
        }
        &self.values
    }

    /// Releases the bucket.
    fn clear(&mut self) {
        self.of = None;
    }
}

pub(super) const FRAME_ROWS: usize = 65_536;
const _: () = assert!(FRAME_ROWS as u64 == limits::FRAME_ROWS.0);

impl<'a> Encoder<'a> {
    pub(super) fn new(job: &'a BuildJob<'a>) -> Encoder<'a> {
        Encoder {
            job,
            frame: FrameBuffers::default(),
            spare: Vec::new(),
            validity: Vec::new(),
            unpacked: Unpacked::default(),
            interner: Interner::default(),
        }
    }

    /// Encodes one column of a segment that consists of `parts`.
    pub(super) fn column(
        &mut self,
        parts: &[Part],
        rows: usize,
        column: usize,
    ) -> Result<EncodedColumn> {
        let layout = &self.job.buckets.layout.columns[column];
        let (id, ty) = (layout.column.id, layout.column.ty);
        let mut encoder = ColumnEncoder::new(id, ty, self.spare.pop().unwrap_or_default());
        if layout.text.is_some() {
            self.text_column(parts, rows, column, &mut encoder)?;
            self.unpacked.clear();
            self.interner.keep_at_most(self.job.shares.reused_bytes_max());
            return Ok(encoder.finish());
        }
        let has_nulls = parts
            .iter()
            .flat_map(|part| part.bucket.buffers())
            .any(|buffer| buffer.nulls[column].is_some());
        let mut frame = Vec::new();
        for start in (0..rows).step_by(FRAME_ROWS) {
            frame_parts(parts, start, (start + FRAME_ROWS).min(rows), &mut frame);
            self.validity.clear();
            if has_nulls {
                gather_validity(&frame, column, &mut self.validity);
            }
            let validity = has_nulls.then_some(self.validity.as_slice());
            let mut values = Gather { parts: &frame, column, layout, unpacked: &mut self.unpacked };
            push_frame(&mut values, &mut self.frame, &mut encoder, validity);
        }
        self.unpacked.clear();
        Ok(encoder.finish())
    }

    /// Takes back a buffer for another column.
    pub(super) fn recycle(&mut self, bytes: Vec<u8>) {
        // The memory of an unusually large column is freed.
        if bytes.capacity() <= self.job.shares.reused_bytes_max() {
            self.spare.push(bytes);
        }
    }
}

/// The parts of rows `start..end` of a segment.
pub(super) fn frame_parts(parts: &[Part], start: usize, end: usize, into: &mut Vec<Part>) {
    into.clear();
    let mut before = 0;
    for part in parts {
        let rows = part.end - part.start;
        let (first, last) = (start.max(before), end.min(before + rows));
        if first < last {
            into.push(Part {
                bucket: Arc::clone(&part.bucket),
                start: part.start + first - before,
                end: part.start + last - before,
            });
        }
        before += rows;
    }
}

/// Appends a bit for every row, set if it has a value.
pub(super) fn gather_validity(parts: &[Part], column: usize, words: &mut Vec<u64>) {
    let mut row = 0;
    for part in parts {
        let bits = part.bucket.row_bits();
        let mask = (1_u32 << bits) - 1;
        let buffers: Vec<&PackedBuffer> = part.bucket.buffers().collect();
        for &place in part.bucket.order(part.start, part.end) {
            let (buffer, at) = (buffers[(place >> bits) as usize], (place & mask) as usize);
            let is_null =
                buffer.nulls[column].as_ref().is_some_and(|n| n[at / 64] >> (at % 64) & 1 == 1);
            if row % 64 == 0 {
                words.push(0);
            }
            words[row / 64] |= u64::from(!is_null) << (row % 64);
            row += 1;
        }
    }
}

/// The values of a column in some rows.
struct Gather<'a> {
    parts: &'a [Part],
    column: usize,
    layout: &'a ColumnLayout,
    unpacked: &'a mut Unpacked,
}

impl Gather<'_> {
    /// Gathers the values, in order.
    fn into<T, const N: usize>(&mut self, into: &mut Vec<T>, value: impl Fn([u8; N]) -> T) {
        assert_eq!(self.layout.width, N, "ingest_layout-1");
        into.clear();
        for part in self.parts {
            let values = self.unpacked.column(&part.bucket, self.column, self.layout);
            let places = part.bucket.order(part.start, part.end);
            gather(values.as_chunks::<N>().0, places, into, &value);
        }
    }
}

/// Gathers a page frame and encodes it.
fn push_frame(
    values: &mut Gather<'_>,
    buffers: &mut FrameBuffers,
    encoder: &mut ColumnEncoder,
    validity: Option<&[u64]>,
) {
    macro_rules! collected {
        ($of:ident, $as:ident, $value:expr) => {{
            values.into(&mut buffers.$of, $value);
            FrameValues::$as(&mut buffers.$of)
        }};
    }
    let ty = values.layout.column.ty;
    let mut values = match (ty, ty.physical()) {
        (_, Physical::Bit) => collected!(u8, Bits, |[byte]| byte),
        (_, Physical::Signed(1)) => collected!(i8, I8, i8::from_le_bytes),
        (_, Physical::Signed(2)) => collected!(i16, I16, i16::from_le_bytes),
        (_, Physical::Signed(4)) => collected!(i32, I32, i32::from_le_bytes),
        (_, Physical::Signed(_)) => collected!(i64, I64, i64::from_le_bytes),
        (_, Physical::Unsigned(1)) => collected!(u8, U8, |[byte]| byte),
        (_, Physical::Unsigned(2)) => collected!(u16, U16, u16::from_le_bytes),
        (_, Physical::Unsigned(4)) => collected!(u32, U32, u32::from_le_bytes),
        (_, Physical::Unsigned(_)) => collected!(u64, U64, u64::from_le_bytes),
        (_, Physical::Wide) => collected!(i128, I128, i128::from_le_bytes),
        (_, Physical::Float32) => collected!(f32, F32, f32::from_le_bytes),
        (_, Physical::Float64) => collected!(f64, F64, f64::from_le_bytes),
        (ColumnType::Uuid, _) => collected!(fixed16, Fixed16, |bytes| bytes),
        (ty, _) => unreachable!("{} is text", ty.sql()),
    };
    encoder.push(&mut values, validity);
}
