//! Encoding of fixed-width columns, a page frame at a time: constant, narrow, decimal, bits, fixed.
//!
//! - segment_encode-1. A frame's encoding is chosen from its own values alone, so that frames can
//!   be encoded as soon as their rows are in order.
//! - segment_encode-2. The code of a NULL is 0 (docs/format.md, Encodings), and bounds ignore it.
//! - segment_encode-3. A NaN is stored with one bit pattern, `f64::NAN`'s.
//!
//! The loops are free functions over slices without branches on values; `benches/segment.rs`
//! measures them. Not here: strings (`strings`), reading (`decode`).

pub(super) mod kernels;
pub(super) mod zones;

use tidegate_model::layout::{ColumnFooter, Encoding, FrameFooter, Region, Zone};
use tidegate_model::{ColumnId, ColumnType, limits};

use kernels::{
    Float, Integer, Step, append_bits, append_codes, bounds, code_width, common_step, fill_nulls,
    frame_footer, has_null, is_valid, null_count, regular_step, sampled_scale, scale_exactly,
};
use zones::{
    fixed16_zone, float_zone, integer_range, integer_zone, range_zone, whole_bounds, wide_zone,
};

pub(super) const ZONE_ROWS: usize = 4_096;
const _: () = assert!(ZONE_ROWS as u64 == limits::ZONE_ROWS.0);
/// The alignment of regions.
pub(super) const REGION_ALIGN: usize = 64;
const _: () = assert!(REGION_ALIGN as u64 == limits::REGION_ALIGN_BYTES);
pub(crate) const FRAME_ROWS: usize = 65_536;
const _: () = assert!(FRAME_ROWS as u64 == limits::FRAME_ROWS.0);

/// A complete encoded column: its bytes, and a footer whose offsets count from the first of them.
#[derive(Debug)]
pub struct EncodedColumn {
    /// All regions, each aligned to `limits::REGION_ALIGN_BYTES`.
    pub bytes: Vec<u8>,
    /// The footer; offsets are relative to `bytes`.
    pub footer: ColumnFooter,
}

/// The rows of a page frame that have a value: a bit for each row, least significant first. `None`:
/// all rows.
pub type Validity<'a> = Option<&'a [u64]>;

/// Encodes one column of one segment.
#[derive(Debug)]
pub struct ColumnEncoder {
    pub(super) bytes: Vec<u8>,
    pub(super) zones: Vec<u8>,
    pub(super) footer: ColumnFooter,
    scratch: Scratch,
    /// The alignment of regions in `bytes`.
    region_align: usize,
}

/// Buffers that are reused from frame to frame.
#[derive(Debug, Default)]
struct Scratch {
    scaled: Vec<i64>,
    exceptions: Vec<(u32, f64)>,
}

impl ColumnEncoder {
    /// Encodes into `bytes`, a buffer to be reused, which `finish` returns.
    #[must_use]
    pub fn new(id: ColumnId, ty: ColumnType, mut bytes: Vec<u8>) -> ColumnEncoder {
        bytes.clear();
        ColumnEncoder::append_to(id, ty, bytes, REGION_ALIGN)
    }

    /// Encodes after the existing content of `bytes`: offsets count from its beginning, and regions
    /// begin at multiples of `region_align`.
    pub(super) fn append_to(
        id: ColumnId,
        ty: ColumnType,
        bytes: Vec<u8>,
        region_align: usize,
    ) -> ColumnEncoder {
        let footer = ColumnFooter {
            id,
            ty,
            null_count: 0,
            bounds: Zone::EMPTY,
            dictionary: None,
            string_table: Region::default(),
            zones: Region::default(),
            frames: Vec::new(),
        };
        let (zones, scratch) = (Vec::new(), Scratch::default());
        ColumnEncoder { bytes, zones, footer, scratch, region_align }
    }

    /// Appends a page frame; all but the last have `limits::FRAME_ROWS` rows. The values
    /// at NULL rows are overwritten.
    ///
    /// # Panics
    /// If the values are not of the column's physical type, or there are too many (frame-1).
    pub fn push(&mut self, values: &mut FrameValues<'_>, validity: Validity<'_>) {
        let valid = validity.filter(|words| has_null(words, values.len()));
        assert!(values.len() <= FRAME_ROWS, "frame-1");
        let frame = match values {
            FrameValues::Bits(values) => self.push_bits(values, valid),
            FrameValues::I8(values) => self.push_integers(values, valid),
            FrameValues::I16(values) => self.push_integers(values, valid),
            FrameValues::I32(values) => self.push_integers(values, valid),
            FrameValues::I64(values) => self.push_integers(values, valid),
            FrameValues::U8(values) => self.push_integers(values, valid),
            FrameValues::U16(values) => self.push_integers(values, valid),
            FrameValues::U32(values) => self.push_integers(values, valid),
            FrameValues::U64(values) => self.push_integers(values, valid),
            FrameValues::I128(values) => self.push_wide(values, valid),
            FrameValues::F32(values) => self.push_floats(values, valid),
            FrameValues::F64(values) => self.push_floats(values, valid),
            FrameValues::Fixed16(values) => self.push_fixed16(values, valid),
        };
        self.footer.frames.push(frame);
    }

    /// The encoded column.
    #[must_use]
    pub fn finish(mut self) -> EncodedColumn {
        // A dictionary column has set its own bounds: its zones hold codes, not values.
        if self.footer.dictionary.is_none() {
            self.footer.bounds = whole_bounds(self.footer.ty, &self.zones);
        }
        let zones = self.append_region(|bytes, zones| bytes.extend_from_slice(zones));
        self.footer.zones = zones;
        EncodedColumn { bytes: self.bytes, footer: self.footer }
    }

    /// Appends a region, aligned, and returns its position.
    pub(super) fn append_region(&mut self, write: impl FnOnce(&mut Vec<u8>, &[u8])) -> Region {
        self.bytes.resize(self.bytes.len().next_multiple_of(self.region_align), 0);
        let start = self.bytes.len();
        write(&mut self.bytes, &self.zones);
        kernels::region_since(&self.bytes, start)
    }

    /// Aligns the end of `bytes` and writes the validity bitmap of a frame there.
    pub(super) fn begin_frame(&mut self, rows: usize, validity: Validity<'_>) -> usize {
        self.bytes.resize(self.bytes.len().next_multiple_of(self.region_align), 0);
        let start = self.bytes.len();
        if let Some(words) = validity {
            for word in &words[..rows.div_ceil(64)] {
                self.bytes.extend_from_slice(&word.to_le_bytes());
            }
            // Relative to the start of the region, whatever its alignment.
            let validity_bytes = (self.bytes.len() - start).next_multiple_of(REGION_ALIGN);
            self.bytes.resize(start + validity_bytes, 0);
            self.footer.null_count += null_count(words, rows) as u64;
        }
        start
    }

    pub(super) fn end_frame(&self, start: usize, frame: FrameFooter) -> FrameFooter {
        FrameFooter { region: kernels::region_since(&self.bytes, start), ..frame }
    }

    pub(super) fn push_zone(&mut self, zone: Zone) {
        self.zones.extend_from_slice(&zone.encode());
    }

    /// Encodes a frame without values.
    pub(super) fn push_null(&mut self, rows: usize) -> FrameFooter {
        self.footer.null_count += rows as u64;
        for _ in 0..rows.div_ceil(ZONE_ROWS) {
            self.push_zone(Zone { has_null: true, ..Zone::EMPTY });
        }
        FrameFooter { region: Region::default(), ..frame_footer(Encoding::Null) }
    }

    fn push_integers<T: Integer>(&mut self, values: &mut [T], valid: Validity<'_>) -> FrameFooter {
        // The bounds of the frame are those of its zones, so that values are read once.
        let mut zones = [Zone::EMPTY; FRAME_ROWS / ZONE_ROWS];
        let mut whole: Option<(T, T)> = None;
        for (index, (values, zone)) in values.chunks(ZONE_ROWS).zip(&mut zones).enumerate() {
            let (range, has_null) = integer_range(values, valid, index);
            *zone = range_zone(range, has_null);
            whole = match (whole, range) {
                (Some((min, max)), Some((low, high))) => Some((min.min(low), max.max(high))),
                (whole, range) => whole.or(range),
            };
        }
        let Some((min, max)) = whole else { return self.push_null(values.len()) };
        fill_nulls(values, valid, min);
        for zone in &zones[..values.len().div_ceil(ZONE_ROWS)] {
            self.push_zone(*zone);
        }
        let start = self.begin_frame(values.len(), valid);
        let base = FrameFooter {
            base: min.wide(),
            has_validity: valid.is_some(),
            ..frame_footer(Encoding::Constant)
        };
        if min == max {
            return self.end_frame(start, base);
        }
        let frame = FrameFooter { encoding: Encoding::Narrow, step: 1, ..base };
        let range = max.word().wrapping_sub(min.word());
        if valid.is_none()
            && size_of::<T>() >= 4
            && let Some(step) = regular_step(values)
        {
            return self.end_frame(start, FrameFooter { step, ..frame });
        }
        let step = if code_width(range) > 1 { common_step(values, min) } else { 1 };
        if values.iter().all(|&value| value == min || value == max) {
            append_bits(values, max, &mut self.bytes);
            return self.end_frame(start, FrameFooter { step: range, scale: 1, ..frame });
        }
        let width = code_width(range / step);
        append_codes(values, min, Step { step, width }, &mut self.bytes);
        self.end_frame(start, FrameFooter { step, width, ..frame })
    }

    fn push_wide(&mut self, values: &mut [i128], valid: Validity<'_>) -> FrameFooter {
        let mut present = (0..values.len()).filter(|&row| is_valid(valid, row));
        let Some(first) = present.next() else { return self.push_null(values.len()) };
        let first = values[first];
        let (min, max) = present
            .fold((first, first), |(min, max), row| (min.min(values[row]), max.max(values[row])));
        fill_nulls(values, valid, min);
        for (index, zone) in values.chunks(ZONE_ROWS).enumerate() {
            self.push_zone(wide_zone(zone, valid, index));
        }
        let start = self.begin_frame(values.len(), valid);
        let has_validity = valid.is_some();
        let frame = FrameFooter { base: min, has_validity, ..frame_footer(Encoding::Constant) };
        if min == max {
            return self.end_frame(start, frame);
        }
        // The difference may exceed the range of i128: then the values are stored unencoded.
        let range = max.checked_sub(min).and_then(|range| u64::try_from(range).ok());
        let Some(range) = range else {
            for value in &*values {
                self.bytes.extend_from_slice(&value.to_le_bytes());
            }
            let frame = FrameFooter { encoding: Encoding::Fixed, width: 16, base: 0, ..frame };
            return self.end_frame(start, frame);
        };
        let width = code_width(range);
        self.scratch.scaled.clear();
        #[expect(clippy::cast_possible_truncation, reason = "below the range, a u64")]
        let codes = values.iter().map(|&value| ((value - min) as u64).cast_signed());
        self.scratch.scaled.extend(codes);
        append_codes(&self.scratch.scaled, 0_i64, Step { step: 1, width }, &mut self.bytes);
        self.end_frame(start, FrameFooter { encoding: Encoding::Narrow, step: 1, width, ..frame })
    }

    fn push_bits(&mut self, values: &mut [u8], valid: Validity<'_>) -> FrameFooter {
        let Some((min, max)) = bounds(values, valid) else { return self.push_null(values.len()) };
        // The bit at a NULL is clear (segment_encode-2).
        fill_nulls(values, valid, if min == max { min } else { 0 });
        for (index, zone) in values.chunks(ZONE_ROWS).enumerate() {
            self.push_zone(integer_zone(zone, valid, index));
        }
        let start = self.begin_frame(values.len(), valid);
        let has_validity = valid.is_some();
        if min == max {
            let base = i128::from(min);
            let frame = FrameFooter { base, has_validity, ..frame_footer(Encoding::Constant) };
            return self.end_frame(start, frame);
        }
        for eight in values.chunks(8) {
            let byte = eight.iter().rev().fold(0_u8, |bits, &value| bits << 1 | (value & 1));
            self.bytes.push(byte);
        }
        self.end_frame(start, FrameFooter { has_validity, ..frame_footer(Encoding::Bits) })
    }

    fn push_floats<T: Float>(&mut self, values: &mut [T], valid: Validity<'_>) -> FrameFooter {
        let first = (0..values.len()).find(|&row| is_valid(valid, row));
        let Some(first) = first else { return self.push_null(values.len()) };
        for value in values.iter_mut() {
            *value = value.canonical(); // segment_encode-3
        }
        fill_nulls(values, valid, values[first]);
        for (index, zone) in values.chunks(ZONE_ROWS).enumerate() {
            self.push_zone(float_zone(zone, valid, index));
        }
        let start = self.begin_frame(values.len(), valid);
        let has_validity = valid.is_some();
        let frame = FrameFooter { has_validity, ..frame_footer(Encoding::Constant) };
        let bits = values[first].to_f64().to_bits();
        if values.iter().all(|value| value.to_f64().to_bits() == bits) {
            return self.end_frame(start, FrameFooter { base: bits.into(), ..frame });
        }
        if let Some(frame) = self.push_decimal(values, valid, start) {
            return FrameFooter { has_validity, ..frame };
        }
        fill_nulls(values, valid, T::ZERO);
        for value in &*values {
            value.append(&mut self.bytes);
        }
        let width = u8::try_from(size_of::<T>()).expect("4 or 8");
        self.end_frame(start, FrameFooter { encoding: Encoding::Fixed, width, ..frame })
    }

    /// Floats as scaled integers, if that is exact for all but a sixteenth and saves bytes.
    fn push_decimal<T: Float>(
        &mut self,
        values: &[T],
        valid: Validity<'_>,
        start: usize,
    ) -> Option<FrameFooter> {
        let scale = sampled_scale(values)?;
        let Scratch { scaled, exceptions } = &mut self.scratch;
        scale_exactly(values, scale, scaled, exceptions);
        if exceptions.len() > values.len() / 16 {
            return None;
        }
        // Exceptions and NULLs take the least code, which is 0 (segment_encode-2).
        let is_exception =
            |row: usize| exceptions.binary_search_by_key(&row, |&(row, _)| row as usize).is_ok();
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        if exceptions.is_empty() && valid.is_none() {
            (min, max) = scaled.iter().fold((min, max), |(lo, hi), &n| (lo.min(n), hi.max(n)));
        } else {
            for (row, &n) in scaled.iter().enumerate() {
                if is_valid(valid, row) && !is_exception(row) {
                    (min, max) = (min.min(n), max.max(n));
                }
            }
        }
        if min > max {
            return None;
        }
        for &(row, _) in exceptions.iter() {
            scaled[row as usize] = min;
        }
        fill_nulls(scaled, valid, min);
        exceptions.retain(|&(row, _)| is_valid(valid, row as usize));
        let width = code_width(max.abs_diff(min));
        if usize::from(width) >= size_of::<T>() {
            return None;
        }
        let first_code = self.bytes.len();
        let pad = |bytes: &mut Vec<u8>| {
            bytes.resize(first_code + (bytes.len() - first_code).next_multiple_of(8), 0);
        };
        append_codes(scaled, min, Step { step: 1, width }, &mut self.bytes);
        pad(&mut self.bytes);
        for &(row, _) in exceptions.iter() {
            self.bytes.extend_from_slice(&row.to_le_bytes());
        }
        pad(&mut self.bytes);
        for &(_, value) in exceptions.iter() {
            self.bytes.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        let exceptions = u32::try_from(exceptions.len()).expect("frame-1");
        let frame = FrameFooter {
            width,
            scale,
            exceptions,
            base: i128::from(min),
            step: 1,
            ..frame_footer(Encoding::Decimal)
        };
        Some(self.end_frame(start, frame))
    }

    fn push_fixed16(&mut self, values: &mut [[u8; 16]], valid: Validity<'_>) -> FrameFooter {
        let first = (0..values.len()).find(|&row| is_valid(valid, row));
        let Some(first) = first else { return self.push_null(values.len()) };
        let first = values[first];
        let same = (0..values.len()).all(|row| !is_valid(valid, row) || values[row] == first);
        fill_nulls(values, valid, if same { first } else { [0; 16] });
        for (index, zone) in values.chunks(ZONE_ROWS).enumerate() {
            self.push_zone(fixed16_zone(zone, valid, index));
        }
        let start = self.begin_frame(values.len(), valid);
        let has_validity = valid.is_some();
        if same {
            let base = i128::from_le_bytes(first);
            let frame = FrameFooter { base, has_validity, ..frame_footer(Encoding::Constant) };
            return self.end_frame(start, frame);
        }
        self.bytes.extend_from_slice(values.as_flattened());
        let frame = FrameFooter { has_validity, width: 16, ..frame_footer(Encoding::Fixed) };
        self.end_frame(start, frame)
    }
}

/// The values of one page frame in memory; they may be overwritten.
#[derive(Debug)]
pub enum FrameValues<'a> {
    /// BOOLEAN: 0 or 1.
    Bits(&'a mut [u8]),
    /// TINYINT.
    I8(&'a mut [i8]),
    /// SMALLINT.
    I16(&'a mut [i16]),
    /// INT, DATE.
    I32(&'a mut [i32]),
    /// BIGINT, timestamps.
    I64(&'a mut [i64]),
    /// UTINYINT.
    U8(&'a mut [u8]),
    /// USMALLINT.
    U16(&'a mut [u16]),
    /// UINT, IPV4.
    U32(&'a mut [u32]),
    /// UBIGINT.
    U64(&'a mut [u64]),
    /// DECIMAL.
    I128(&'a mut [i128]),
    /// FLOAT.
    F32(&'a mut [f32]),
    /// DOUBLE.
    F64(&'a mut [f64]),
    /// UUID.
    Fixed16(&'a mut [[u8; 16]]),
}

/// Buffers for a page frame of values of each type, which [`FrameValues`] borrow; kept from frame
/// to frame.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the types")]
pub struct FrameBuffers {
    pub i8: Vec<i8>,
    pub i16: Vec<i16>,
    pub i32: Vec<i32>,
    pub i64: Vec<i64>,
    /// Also used for bits.
    pub u8: Vec<u8>,
    pub u16: Vec<u16>,
    pub u32: Vec<u32>,
    pub u64: Vec<u64>,
    pub i128: Vec<i128>,
    pub f32: Vec<f32>,
    pub f64: Vec<f64>,
    pub fixed16: Vec<[u8; 16]>,
}

impl FrameValues<'_> {
    fn len(&self) -> usize {
        match self {
            FrameValues::Bits(values) | FrameValues::U8(values) => values.len(),
            FrameValues::I8(values) => values.len(),
            FrameValues::I16(values) => values.len(),
            FrameValues::I32(values) => values.len(),
            FrameValues::I64(values) => values.len(),
            FrameValues::U16(values) => values.len(),
            FrameValues::U32(values) => values.len(),
            FrameValues::U64(values) => values.len(),
            FrameValues::I128(values) => values.len(),
            FrameValues::F32(values) => values.len(),
            FrameValues::F64(values) => values.len(),
            FrameValues::Fixed16(values) => values.len(),
        }
    }
}
