//! Reader of a segment in a mapped file or in memory: page frames as encoded slices, checked on
//! first use.
//!
//! - `open` reads header, trailer and footer only, and no column.
//! - segment_read-1. A region is used only after its CRC was found correct once since open,
//!   and only with lengths that its footer allows: a damaged file causes errors, never a panic.
//!
//! Not here: Arrow arrays (`decode`).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tidegate_model::bytes::ByteReader;
use tidegate_model::frame::{Dictionary, Strings};
use tidegate_model::layout::{
    ColumnFooter, DictionaryKind, Encoding, FrameFooter, Region, SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC, SEGMENT_TRAILER_BYTES, SEGMENT_VERSION, SegmentFooter, ZONE_BYTES,
};
use tidegate_model::types::Physical;
use tidegate_model::{
    Codes, Column, ColumnSlice, ColumnType, Encoded, PageFrame, RowRange, TableId, TimeRange,
    limits,
};
use tidegate_platform::{Disk, Mapping, OpenMode};

use super::SegmentMeta;
use super::decode::{self, DecodedDictionary, RowSelection, long_texts};
use super::fsst::SYMBOL_BYTES;
use super::text_sizes::TextSizes;
use super::write::FILE_BYTES_MIN;
use crate::error::{Error, Result, SegmentDamage};
use crate::symbols::SymbolTables;

/// An open segment.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    bytes: Bytes,
    footer: SegmentFooter,
    /// A bit for every region: set once its CRC was found correct.
    checked: Vec<AtomicU64>,
    /// Dictionaries as Arrow views, decoded on first use.
    pub(super) dictionaries: Vec<OnceLock<DecodedDictionary>>,
}

/// The place of a segment's bytes.
#[derive(Debug)]
enum Bytes {
    Mapped(Mapping),
    MemSegment(MemSegmentBytes),
}

/// The bytes of an in-memory segment: on the heap, or in a part of a file that contains several.
#[derive(Debug, Clone)]
pub(crate) enum MemSegmentBytes {
    Heap(Arc<[u8]>),
    Spilled(Mapping, Range<usize>),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(mapping) => mapping,
            Bytes::MemSegment(mem_segment) => mem_segment,
        }
    }
}

impl std::ops::Deref for MemSegmentBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            MemSegmentBytes::Heap(bytes) => bytes,
            MemSegmentBytes::Spilled(mapping, range) => &mapping[range.clone()],
        }
    }
}

/// Page frames of a column that are requested with the one being read: a disk reads them in one
/// request, and at most half a megabyte of narrow codes is read unnecessarily.
const FRAMES_AHEAD: usize = 4;

/// The regions of a column other than its frames, which come first in `Reader::checked`.
const DICTIONARY: usize = 0;
const STRING_TABLE: usize = 1;
const ZONES: usize = 2;
const FRAMES: usize = 3;

impl Reader {
    /// Opens the segment `meta` of `table`.
    ///
    /// # Errors
    /// If the file is missing, has another length, is of a newer version, or its footer is not the
    /// committed one.
    pub fn open(
        disk: &dyn Disk,
        path: &Path,
        table: TableId,
        meta: &SegmentMeta,
    ) -> Result<Reader> {
        let file = disk.open(path, OpenMode::Read).map_err(Error::disk("open segment"))?;
        let length = file.len().map_err(Error::disk("open segment"))?;
        check_length(path, length, meta)?;
        let mapping = file.map().map_err(Error::disk("map segment"))?;
        Reader::new(path.to_owned(), Bytes::Mapped(mapping), table, meta)
    }

    /// Opens a segment whose bytes are in memory, with the checks of `open`.
    ///
    /// # Errors
    /// As `open`.
    pub fn in_memory(bytes: Arc<[u8]>, table: TableId, meta: &SegmentMeta) -> Result<Reader> {
        Reader::of_mem_segment(MemSegmentBytes::Heap(bytes), table, meta)
    }

    /// As `in_memory`, for an in-memory segment on the heap or in a file.
    pub(crate) fn of_mem_segment(
        bytes: MemSegmentBytes,
        table: TableId,
        meta: &SegmentMeta,
    ) -> Result<Reader> {
        let path = mem_segment_path(table, meta);
        check_length(&path, bytes.len() as u64, meta)?;
        Reader::new(path, Bytes::MemSegment(bytes), table, meta)
    }

    fn new(path: PathBuf, bytes: Bytes, table: TableId, meta: &SegmentMeta) -> Result<Reader> {
        let foreign = || Error::segment(&path, bytes.len() as u64, SegmentDamage::ForeignFooter);
        let (footer, crc) = read_footer(&path, &bytes)?;
        if crc != meta.footer_crc {
            return Err(foreign());
        }
        let agrees = footer.table == table
            && footer.segment == meta.id
            && footer.partition == meta.partition
            && footer.rows == meta.rows
            && (footer.min_ts, footer.max_ts) == (meta.min_ts, meta.max_ts);
        if !agrees {
            return Err(foreign());
        }
        let per_column = FRAMES + usize::try_from(footer.rows.frames()).expect("64 at most");
        let bits = footer.columns.len() * per_column;
        let checked = (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let dictionaries = footer.columns.iter().map(|_| OnceLock::new()).collect();
        Ok(Reader { path, bytes, footer, checked, dictionaries })
    }

    /// The footer of the segment.
    #[must_use]
    pub fn footer(&self) -> &SegmentFooter {
        &self.footer
    }

    /// The path of the file; for a segment in memory, its name in messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the file, or of the memory.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Requests all bytes, for a reader that reads them sequentially.
    pub(super) fn will_need_all(&self) {
        match &self.bytes {
            Bytes::Mapped(mapping) => mapping.will_need(0..mapping.len()),
            Bytes::MemSegment(MemSegmentBytes::Spilled(mapping, range)) => {
                mapping.will_need(range.clone())
            }
            Bytes::MemSegment(MemSegmentBytes::Heap(_)) => {}
        }
    }

    /// All its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of page frames.
    #[must_use]
    pub fn frame_count(&self) -> u64 {
        self.footer.rows.frames()
    }

    /// Number of rows of a page frame.
    #[must_use]
    pub fn frame_rows(&self, frame: u64) -> usize {
        let before = frame * limits::FRAME_ROWS.0;
        let rows = self.footer.rows.0.saturating_sub(before).min(limits::FRAME_ROWS.0);
        usize::try_from(rows).expect("65,536 at most")
    }

    /// A page frame of these columns; a column that the segment does not have is NULL.
    ///
    /// # Errors
    /// If the CRC of a region is wrong or its bytes do not match the footer.
    pub fn frame(&self, frame: u64, columns: &[Column]) -> Result<PageFrame<'_>> {
        let slices = columns.iter().map(|column| self.slice(frame, column));
        Ok(PageFrame::new(self.frame_rows(frame), slices.collect::<Result<_>>()?))
    }

    /// Rows of a page frame as Arrow arrays.
    ///
    /// # Errors
    /// As `frame`; also if a string is not UTF-8 or a code is not in its dictionary.
    pub fn arrays(
        &self,
        frame: u64,
        rows: &RowSelection<'_>,
        columns: &[Column],
        symbols: &SymbolTables,
    ) -> Result<Vec<arrow::array::ArrayRef>> {
        columns
            .iter()
            .map(|column| {
                let slice = self.slice(frame, column)?;
                let dictionary = self.decoded_dictionary(column, symbols)?;
                decode::array(&slice, rows, dictionary)
                    .map_err(|damage| self.frame_damage(column, frame, damage))
            })
            .collect()
    }

    /// The sizes of the texts that `arrays` decodes for rows of a page frame; `None` if it decodes
    /// none, or if all of them together have at most `small` bytes, which the footer alone says.
    ///
    /// # Errors
    /// As `frame`.
    pub fn text_sizes(
        &self,
        frame: u64,
        column: &Column,
        small: u64,
    ) -> Result<Option<TextSizes<'_>>> {
        let Some(position) = self.position(column) else { return Ok(None) };
        let footer = &self.footer.columns[position];
        let region = footer.frames[usize::try_from(frame).expect("64 at most")].region.bytes;
        let dictionary = footer.dictionary.map_or(0, |dictionary| dictionary.region.bytes);
        if region.saturating_add(dictionary).saturating_mul(SYMBOL_BYTES as u64) <= small {
            return Ok(None);
        }
        Ok(TextSizes::new(&self.slice(frame, column)?))
    }

    /// The rows whose designated timestamp is in `range`: rows are sorted (segment-2), so it is a
    /// row range.
    ///
    /// # Errors
    /// As `frame`.
    pub fn rows_in(&self, designated: &Column, range: TimeRange) -> Result<RowRange> {
        let rows = self.footer.rows.0;
        if range.is_empty() || self.footer.max_ts < range.start || range.end <= self.footer.min_ts {
            return Ok(RowRange::EMPTY);
        }
        if range.start <= self.footer.min_ts && self.footer.max_ts < range.end {
            return Ok(RowRange { start: 0, end: rows });
        }
        let start = self.first_row_at(designated, range.start)?;
        let end = self.first_row_at(designated, range.end)?;
        Ok(RowRange { start, end: end.max(start) })
    }

    /// The first row whose designated timestamp is at least `ts`.
    fn first_row_at(&self, designated: &Column, ts: i64) -> Result<u64> {
        let (mut low, mut high) = (0, self.frame_count());
        // The first frame whose last row is at least `ts`.
        while low < high {
            let middle = (low + high) / 2;
            let slice = self.slice(middle, designated)?;
            if self.timestamp(&slice, middle, slice.rows - 1)? < ts {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low == self.frame_count() {
            return Ok(self.footer.rows.0);
        }
        let slice = self.slice(low, designated)?;
        let (mut first, mut last) = (0, slice.rows);
        while first < last {
            let middle = usize::midpoint(first, last);
            if self.timestamp(&slice, low, middle)? < ts {
                first = middle + 1;
            } else {
                last = middle;
            }
        }
        Ok(low * limits::FRAME_ROWS.0 + first as u64)
    }

    fn timestamp(&self, slice: &ColumnSlice<'_>, frame: u64, row: usize) -> Result<i64> {
        decode::integer_at(slice, row).ok_or_else(|| {
            let offset = frame * limits::FRAME_ROWS.0 + row as u64;
            Error::segment(&self.path, offset, SegmentDamage::TimestampMissing)
        })
    }

    /// The position of a column in the footer.
    pub(crate) fn position(&self, column: &Column) -> Option<usize> {
        self.footer.columns.binary_search_by_key(&column.id, |footer| footer.id).ok()
    }

    /// The values of a column in a page frame.
    pub(crate) fn slice(&self, frame: u64, column: &Column) -> Result<ColumnSlice<'_>> {
        let rows = self.frame_rows(frame);
        let Some(position) = self.position(column) else {
            return Ok(ColumnSlice::null(column.ty, rows));
        };
        let footer = &self.footer.columns[position];
        let index = usize::try_from(frame).expect("64 at most");
        let frame_footer = footer.frames[index];
        let bytes = self.checked_by(position, FRAMES + index, frame_footer.region, |bytes| {
            let is_text = frame_footer.encoding == Encoding::Strings;
            let offsets = is_text.then(|| offsets(values_of(frame_footer, rows, bytes)?, rows));
            (is_text && !offsets.flatten().is_some_and(ascend)).then_some(SegmentDamage::FrameShape)
        })?;
        let zones = self.checked(position, ZONES, footer.zones)?.as_chunks::<ZONE_BYTES>().0;
        let per_frame = usize::try_from(limits::FRAME_ROWS.0 / limits::ZONE_ROWS.0).expect("16");
        let first = index * per_frame;
        let zones = &zones[first..zones.len().min(first + per_frame)];
        let parts = FrameParts { rows, ty: column.ty, frame: frame_footer, bytes };
        let (validity, encoded) = self
            .encoded(position, footer, &parts)?
            .ok_or_else(|| self.frame_damage(column, frame, SegmentDamage::FrameShape))?;
        Ok(ColumnSlice { ty: column.ty, rows, validity, encoded, zones })
    }

    #[expect(clippy::type_complexity, reason = "validity and values, absent if they do not fit")]
    fn encoded<'a>(
        &'a self,
        position: usize,
        footer: &ColumnFooter,
        parts: &FrameParts<'a>,
    ) -> Result<Option<(Option<&'a [u8]>, Encoded<'a>)>> {
        let dictionary = match (parts.frame.encoding, footer.ty.physical()) {
            (Encoding::Dictionary | Encoding::Strings, _) | (_, Physical::Bytes) => {
                self.dictionary(position)?
            }
            _ => None,
        };
        let table = match parts.frame.encoding {
            Encoding::Strings if parts.frame.scale == 1 => {
                Some(self.checked(position, STRING_TABLE, footer.string_table)?)
            }
            _ => None,
        };
        Ok(parts.encoded(dictionary, table))
    }

    /// The column's dictionary in its stored form.
    pub(crate) fn dictionary(&self, position: usize) -> Result<Option<Dictionary<'_>>> {
        let column = &self.footer.columns[position];
        let Some(dictionary) = column.dictionary else { return Ok(None) };
        let count = dictionary.count as usize;
        let bytes = self.checked_by(position, DICTIONARY, dictionary.region, |bytes| {
            let is_text = dictionary.kind == DictionaryKind::Strings;
            let is_sound = !is_text || offsets(bytes, count).is_some_and(ascend);
            (!is_sound).then_some(SegmentDamage::Dictionary)
        })?;
        let table = match column.string_table.bytes {
            0 => None,
            _ => Some(self.checked(position, STRING_TABLE, column.string_table)?),
        };
        let parsed = match dictionary.kind {
            DictionaryKind::Strings => parse_strings(bytes, count, table).map(Dictionary::Strings),
            DictionaryKind::Symbols => {
                let (ids, rest) = bytes.as_chunks::<4>();
                (ids.len() == count && rest.is_empty()).then_some(Dictionary::Symbols(ids))
            }
        };
        let damage =
            || Error::segment(&self.path, dictionary.region.offset, SegmentDamage::Dictionary);
        parsed.map(Some).ok_or_else(damage)
    }

    /// The column's dictionary, decoded as a whole; `None` if there is none, or it is not kept
    /// (decode-2).
    fn decoded_dictionary(
        &self,
        column: &Column,
        symbols: &SymbolTables,
    ) -> Result<Option<&DecodedDictionary>> {
        let Some(position) = self.position(column) else { return Ok(None) };
        if let Some(decoded) = self.dictionaries[position].get() {
            return Ok(Some(decoded));
        }
        let Some(dictionary) = self.dictionary(position)? else { return Ok(None) };
        if long_texts(&dictionary).is_some() {
            return Ok(None);
        }
        let decoded =
            decode::dictionary(column, dictionary, symbols.get(column.id).map(|table| &**table))
                .map_err(|damage| {
                    let region = self.footer.columns[position].dictionary.map(|d| d.region);
                    Error::segment(&self.path, region.unwrap_or_default().offset, damage)
                })?;
        Ok(Some(self.dictionaries[position].get_or_init(|| decoded)))
    }

    /// The bytes of a region; their CRC is compared on first use (segment_read-1).
    fn checked(&self, position: usize, part: usize, region: Region) -> Result<&[u8]> {
        self.checked_by(position, part, region, |_| None)
    }

    /// As `checked`; on first use, `fault` must find no damage in the bytes.
    fn checked_by(
        &self,
        position: usize,
        part: usize,
        region: Region,
        fault: impl FnOnce(&[u8]) -> Option<SegmentDamage>,
    ) -> Result<&[u8]> {
        let start = usize::try_from(region.offset).expect("regions lie in the file");
        let end = start + usize::try_from(region.bytes).expect("regions lie in the file");
        let bytes = &self.bytes[start..end];
        let per_column = FRAMES + usize::try_from(self.frame_count()).expect("64 at most");
        let bit = position * per_column + part;
        let (word, mask) = (&self.checked[bit / 64], 1_u64 << (bit % 64));
        if word.load(Ordering::Acquire) & mask == 0 {
            self.read_ahead(position, part, region);
            if !bytes.is_empty() && crc32c::crc32c(bytes) != region.crc {
                return Err(Error::segment(&self.path, region.offset, SegmentDamage::Crc));
            }
            if let Some(damage) = fault(bytes) {
                return Err(Error::segment(&self.path, region.offset, damage));
            }
            word.fetch_or(mask, Ordering::AcqRel);
        }
        Ok(bytes)
    }

    /// Requests a region on its first use, and the next page frames of the column.
    fn read_ahead(&self, position: usize, part: usize, region: Region) {
        let Bytes::Mapped(mapping) = &self.bytes else { return };
        let ask = |region: Region| {
            let start = usize::try_from(region.offset).expect("regions lie in the file");
            let length = usize::try_from(region.bytes).expect("regions lie in the file");
            mapping.will_need(start..start + length);
        };
        match part.checked_sub(FRAMES) {
            None => ask(region),
            Some(frame) => {
                let frames = self.footer.columns[position].frames.iter().skip(frame);
                frames.take(FRAMES_AHEAD).for_each(|frame| ask(frame.region));
            }
        }
    }

    pub(crate) fn frame_damage(&self, column: &Column, frame: u64, damage: SegmentDamage) -> Error {
        let index = usize::try_from(frame).expect("64 at most");
        let offset = self
            .position(column)
            .map_or(0, |position| self.footer.columns[position].frames[index].region.offset);
        Error::segment(&self.path, offset, damage)
    }
}

/// The name of an in-memory segment in messages.
pub(crate) fn mem_segment_path(table: TableId, meta: &SegmentMeta) -> PathBuf {
    PathBuf::from(format!("segment {} of table {table} in memory", meta.id))
}

/// Checks that the file of a segment has as many bytes as when it was written.
pub(crate) fn check_length(path: &Path, length: u64, meta: &SegmentMeta) -> Result<()> {
    if length == meta.bytes.0 && length >= FILE_BYTES_MIN {
        return Ok(());
    }
    let damage = SegmentDamage::Length { expected: meta.bytes.0, actual: length };
    Err(Error::segment(path, length.min(meta.bytes.0), damage))
}

/// The footer of a file that may be a segment, and its checksum.
pub(super) fn footer_of(path: &Path, bytes: &[u8]) -> Result<(SegmentFooter, u32)> {
    if bytes.len() < SEGMENT_HEADER_BYTES + SEGMENT_TRAILER_BYTES {
        return Err(Error::segment(path, 0, SegmentDamage::NotASegment));
    }
    read_footer(path, bytes)
}

/// Checks header, trailer and footer of a whole file; returns the footer and its CRC.
fn read_footer(path: &Path, bytes: &[u8]) -> Result<(SegmentFooter, u32)> {
    let damaged = |offset: usize, damage| Error::segment(path, offset as u64, damage);
    let version_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    if bytes[..8] != SEGMENT_MAGIC {
        return Err(damaged(0, SegmentDamage::NotASegment));
    }
    let trailer_start = bytes.len() - SEGMENT_TRAILER_BYTES;
    // Every version stores the number twice, so that damage is distinguished from a newer version.
    let (version, again) = (version_at(8), version_at(bytes.len() - 12));
    if version > SEGMENT_VERSION && version == again {
        return Err(Error::NewerFormat { path: path.to_owned(), version, known: SEGMENT_VERSION });
    }
    if version != SEGMENT_VERSION {
        return Err(damaged(8, SegmentDamage::Version { version }));
    }
    let mut trailer = ByteReader::new(&bytes[trailer_start..]);
    let (Ok(length), Ok(crc), Ok(version), Ok(magic)) =
        (trailer.u64(), trailer.u32(), trailer.u32(), trailer.array::<8>())
    else {
        return Err(damaged(trailer_start, SegmentDamage::Trailer));
    };
    let start = usize::try_from(length).ok().and_then(|length| trailer_start.checked_sub(length));
    let is_trailer = magic == SEGMENT_MAGIC && version == SEGMENT_VERSION;
    let Some(start) = start.filter(|_| is_trailer) else {
        return Err(damaged(trailer_start, SegmentDamage::Trailer));
    };
    let footer = &bytes[start..trailer_start];
    if crc32c::crc32c(footer) != crc {
        return Err(damaged(start, SegmentDamage::Crc));
    }
    let footer = SegmentFooter::decode(footer, start as u64)
        .map_err(|error| damaged(start, SegmentDamage::Footer(error)))?;
    if !footer.columns.is_sorted_by(|a, b| a.id < b.id) {
        return Err(damaged(start, SegmentDamage::Trailer));
    }
    Ok((footer, crc))
}

/// The inputs for decoding a page frame of one column.
struct FrameParts<'a> {
    rows: usize,
    ty: ColumnType,
    frame: FrameFooter,
    bytes: &'a [u8],
}

impl<'a> FrameParts<'a> {
    /// Validity and values; `None` if the bytes do not fit the footer.
    fn encoded(
        &self,
        dictionary: Option<Dictionary<'a>>,
        table: Option<&'a [u8]>,
    ) -> Option<(Option<&'a [u8]>, Encoded<'a>)> {
        let FrameParts { rows, frame, .. } = *self;
        let rest = values_of(frame, rows, self.bytes)?;
        let validity = frame.has_validity.then(|| &self.bytes[..rows.div_ceil(64) * 8]);
        let width = usize::from(frame.width);
        let codes = || Codes::new(frame.width, rest.get(..rows * width)?);
        let encoded = match frame.encoding {
            Encoding::Null => Encoded::Null,
            Encoding::Constant => Encoded::Constant(frame.base),
            Encoding::Narrow => {
                let codes = match (width, frame.scale) {
                    (0, 0) => Codes::Sequence,
                    (0, 1) => Codes::Bits(rest.get(..rows.div_ceil(8))?),
                    _ => codes()?,
                };
                Encoded::Narrow { base: frame.base, step: frame.step, codes }
            }
            Encoding::Decimal => self.decimal(rest, codes()?)?,
            Encoding::Dictionary => {
                let dictionary = dictionary?;
                let codes = match width {
                    0 => Codes::Same(u32::try_from(frame.base).ok()?),
                    _ => codes()?,
                };
                Encoded::Dictionary { codes, dictionary }
            }
            Encoding::Bits => Encoded::Bits(rest.get(..rows.div_ceil(8))?),
            Encoding::Fixed => Encoded::Fixed { width, bytes: rest.get(..rows * width)? },
            Encoding::Strings => Encoded::Strings(parse_strings(rest, rows, table)?),
        };
        self.fits(&encoded).then_some((validity, encoded))
    }

    fn decimal(&self, rest: &'a [u8], codes: Codes<'a>) -> Option<Encoded<'a>> {
        let FrameParts { rows, frame, .. } = *self;
        let count = frame.exceptions as usize;
        let rows_at = (rows * usize::from(frame.width)).next_multiple_of(8);
        let values_at = (rows_at + count.checked_mul(4)?).next_multiple_of(8);
        let exception_rows = rest.get(rows_at..rows_at + count * 4)?.as_chunks::<4>().0;
        let exception_values = rest.get(values_at..values_at + count * 8)?.as_chunks::<8>().0;
        let in_rows = |row: &[u8; 4]| (u32::from_le_bytes(*row) as usize) < rows;
        if !exception_rows.iter().all(in_rows) || frame.scale > 15 {
            return None;
        }
        Some(Encoded::Decimal {
            base: i64::try_from(frame.base).ok()?,
            scale: frame.scale,
            codes,
            exception_rows,
            exception_values,
        })
    }

    /// Returns true if columns of this type can have the encoding.
    fn fits(&self, encoded: &Encoded<'_>) -> bool {
        let physical = self.ty.physical();
        match encoded {
            Encoded::Null => true,
            Encoded::Constant(_) => physical != Physical::Bytes,
            Encoded::Narrow { .. } => {
                matches!(physical, Physical::Signed(_) | Physical::Unsigned(_) | Physical::Wide)
            }
            Encoded::Decimal { .. } => matches!(physical, Physical::Float32 | Physical::Float64),
            Encoded::Dictionary { dictionary, .. } => {
                let of_symbols = matches!(dictionary, Dictionary::Symbols(_));
                physical == Physical::Bytes && of_symbols == (self.ty == ColumnType::Symbol)
            }
            Encoded::Bits(_) => physical == Physical::Bit,
            Encoded::Fixed { width, .. } => match physical {
                Physical::Float32 => *width == 4,
                Physical::Float64 => *width == 8,
                Physical::Wide | Physical::Fixed16 => *width == 16,
                _ => false,
            },
            Encoded::Strings(_) => {
                matches!(self.ty, ColumnType::Varchar | ColumnType::Binary)
            }
        }
    }
}

/// The bytes of a page frame after its validity bitmap; `None` if there are too few.
fn values_of(frame: FrameFooter, rows: usize, bytes: &[u8]) -> Option<&[u8]> {
    if !frame.has_validity {
        return Some(bytes);
    }
    let align = usize::try_from(limits::REGION_ALIGN_BYTES).ok()?;
    bytes.get((rows.div_ceil(64) * 8).next_multiple_of(align)..)
}

/// The offsets of `count` strings; `None` if there are too few bytes.
fn offsets(bytes: &[u8], count: usize) -> Option<&[[u8; 4]]> {
    let offsets_bytes = count.checked_add(1)?.checked_mul(4)?;
    Some(bytes.get(..offsets_bytes)?.as_chunks::<4>().0)
}

fn ascend(offsets: &[[u8; 4]]) -> bool {
    offsets.is_sorted_by_key(|offset| u32::from_le_bytes(*offset))
}

/// Offsets and strings; `None` if there are too few bytes. Offsets were checked to ascend on first
/// use.
fn parse_strings<'a>(
    bytes: &'a [u8],
    count: usize,
    table: Option<&'a [u8]>,
) -> Option<Strings<'a>> {
    let offsets = offsets(bytes, count)?;
    let bytes = &bytes[offsets.len() * 4..];
    let last = u32::from_le_bytes(*offsets.last()?) as usize;
    (last <= bytes.len()).then_some(Strings { offsets, bytes, table })
}
