//! The footer of a segment and its zones, as values and as bytes: docs/format.md, Segment.
//!
//! - model_layout-1. Regions do not overlap and lie between header and footer. The regions of a
//!   column lie together, and in a file start where `region_align` says as a group, each at a
//!   multiple of `REGION_ALIGN_BYTES`. Readers rely on no alignment.
//! - model_layout-2. Every region has a CRC32C. There is one region for each column and page frame,
//!   and one each for a column's dictionary, string table and zones.
//! - model_layout-3. A footer decodes to the footer that was encoded, or to an error.

use thiserror::Error;

use crate::bytes::{ByteReader, ByteWriter, Truncated};
use crate::ids::{ColumnId, SegmentId, SeqTxn, TableId};
use crate::limits;
use crate::partition::PartitionKey;
use crate::rows::RowCount;
use crate::types::ColumnType;

/// The first bytes of a segment, and the last of its trailer.
pub const SEGMENT_MAGIC: [u8; 8] = *b"TIDESEG\0";
/// The version of the segment format that this code writes.
pub const SEGMENT_VERSION: u32 = 1;
/// Magic, version and zeros; regions begin after it.
pub const SEGMENT_HEADER_BYTES: usize = 64;
/// Footer length, footer CRC32C, version, magic.
pub const SEGMENT_TRAILER_BYTES: usize = 8 + 4 + 4 + 8;
/// Flags and two bounds of eight bytes.
pub const ZONE_BYTES: usize = 17;

/// The position of a region in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Region {
    /// The first byte in the file.
    pub offset: u64,
    /// The size; a region of no bytes has offset 0.
    pub bytes: u64,
    /// The CRC32C of its bytes (model_layout-2).
    pub crc: u32,
}

/// The encoding of the rows of one column and page frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// All rows NULL, no bytes.
    Null = 0,
    /// One value for all rows, in `base`; no bytes.
    Constant = 1,
    /// `base + step * code`. With width 0, the code is the row's number in the page frame, or, if
    /// `scale` is 1, a bit.
    Narrow = 2,
    /// Floats that are scaled integers.
    Decimal = 3,
    /// Codes into the column's dictionary.
    Dictionary = 4,
    /// One bit for each row.
    Bits = 5,
    /// Values of a fixed width, unencoded.
    Fixed = 6,
    /// Offsets and strings.
    Strings = 7,
}

impl Encoding {
    const ALL: [Encoding; 8] = [
        Encoding::Null,
        Encoding::Constant,
        Encoding::Narrow,
        Encoding::Decimal,
        Encoding::Dictionary,
        Encoding::Bits,
        Encoding::Fixed,
        Encoding::Strings,
    ];
}

/// One column's values in one page frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameFooter {
    /// The encoding of the values.
    pub encoding: Encoding,
    /// Bytes of a code or of a fixed value; 0 where none is stored.
    pub width: u8,
    /// The power of ten of `Encoding::Decimal`; a flag for `Narrow` and `Strings`.
    pub scale: u8,
    /// True if a validity bitmap precedes the codes.
    pub has_validity: bool,
    /// Number of rows that are stored separately (`Encoding::Decimal`).
    pub exceptions: u32,
    /// The value of code 0, or the constant.
    pub base: i128,
    /// The difference between the values of two consecutive codes.
    pub step: u64,
    /// The bitmap, the codes, the exceptions.
    pub region: Region,
}

/// The content of a column's dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DictionaryKind {
    /// Offsets and strings.
    Strings = 1,
    /// Symbol ids of four bytes.
    Symbols = 2,
}

/// A column's dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DictionaryFooter {
    /// The kind of the values.
    pub kind: DictionaryKind,
    /// Number of values.
    pub count: u32,
    /// The region of the values.
    pub region: Region,
}

/// A column in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnFooter {
    /// The column of the table.
    pub id: ColumnId,
    /// The type at the time of writing.
    pub ty: ColumnType,
    /// Number of rows that are NULL.
    pub null_count: u64,
    /// The bounds of all its values.
    pub bounds: Zone,
    /// The dictionary, if a frame uses one.
    pub dictionary: Option<DictionaryFooter>,
    /// The FSST table of its strings; no bytes if they are not compressed.
    pub string_table: Region,
    /// `ZONE_BYTES` for every zone.
    pub zones: Region,
    /// One for each page frame.
    pub frames: Vec<FrameFooter>,
}

/// The content of a segment's footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFooter {
    /// The table.
    pub table: TableId,
    /// The number.
    pub segment: SegmentId,
    /// The partition.
    pub partition: PartitionKey,
    /// Number of rows; at least one.
    pub rows: RowCount,
    /// The least designated timestamp; 0 in a table without one.
    pub min_ts: i64,
    /// The greatest designated timestamp; 0 in a table without one.
    pub max_ts: i64,
    /// The first commit whose rows are in it.
    pub seq_first: SeqTxn,
    /// The last commit whose rows are in it.
    pub seq_last: SeqTxn,
    /// The columns.
    pub columns: Vec<ColumnFooter>,
}

/// The reason why bytes are not a footer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "a message is the doc of its error")]
#[non_exhaustive]
pub enum LayoutError {
    #[error("the footer ends early: {0}")]
    Truncated(#[from] Truncated),
    #[error("{left} bytes follow the footer")]
    LeftOver { left: usize },
    #[error("{what} is {value}")]
    Impossible { what: &'static str, value: u64 },
    #[error("a region of {bytes} bytes at offset {offset} reaches outside of the file")]
    Outside { offset: u64, bytes: u64 },
}

/// The bounds of the values in a zone, in the order of their type.
///
/// The meaning of `min` and `max` depends on the column: docs/format.md, Zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// True if some row is NULL.
    pub has_null: bool,
    /// True if some row has a value that the bounds cover.
    pub has_value: bool,
    /// True if some row is NaN, which the bounds do not cover.
    pub has_nan: bool,
    /// The lower bound, or the first word of a dictionary zone.
    pub min: u64,
    /// The upper bound, or the second word of a dictionary zone.
    pub max: u64,
}

impl Zone {
    /// A zone without rows.
    pub const EMPTY: Zone =
        Zone { has_null: false, has_value: false, has_nan: false, min: 0, max: 0 };

    /// The bytes.
    #[must_use]
    pub fn encode(self) -> [u8; ZONE_BYTES] {
        let mut bytes = [0; ZONE_BYTES];
        bytes[0] =
            u8::from(self.has_null) | u8::from(self.has_value) << 1 | u8::from(self.has_nan) << 2;
        bytes[1..9].copy_from_slice(&self.min.to_le_bytes());
        bytes[9..].copy_from_slice(&self.max.to_le_bytes());
        bytes
    }

    /// The zone of these bytes. Unknown flags are ignored.
    #[must_use]
    #[inline]
    pub fn decode(bytes: &[u8; ZONE_BYTES]) -> Zone {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Zone {
            has_null: bytes[0] & 1 != 0,
            has_value: bytes[0] & 2 != 0,
            has_nan: bytes[0] & 4 != 0,
            min: word(1),
            max: word(9),
        }
    }
}

/// The alignment of a region, or of the regions of a column, of this size (model_layout-1).
#[must_use]
pub fn region_align(bytes: u64) -> u64 {
    if bytes >= limits::PAGE_ALIGNED_FROM_BYTES {
        limits::PAGE_BYTES
    } else {
        limits::REGION_ALIGN_BYTES
    }
}

impl SegmentFooter {
    /// The bytes, without the trailer.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = ByteWriter::default();
        w.u64(self.table.0).u64(self.segment.0).i64(self.partition.0).u64(self.rows.0);
        w.i64(self.min_ts).i64(self.max_ts).u64(self.seq_first.0).u64(self.seq_last.0);
        w.u32(u32::try_from(self.columns.len()).expect("limits::TABLE_COLUMNS"));
        for column in &self.columns {
            column.encode(&mut w);
        }
        w.0
    }

    /// The footer of these bytes; regions lie below `regions_end`.
    ///
    /// # Errors
    /// If they are not a footer (model_layout-3).
    pub fn decode(bytes: &[u8], regions_end: u64) -> Result<SegmentFooter, LayoutError> {
        let mut r = ByteReader::new(bytes);
        let (table, segment) = (TableId(r.u64()?), SegmentId(r.u64()?));
        let partition = PartitionKey(r.i64()?);
        let rows = RowCount(r.u64()?);
        let (min_ts, max_ts) = (r.i64()?, r.i64()?);
        let (seq_first, seq_last) = (SeqTxn(r.u64()?), SeqTxn(r.u64()?));
        if rows.0 == 0 || rows > limits::SEGMENT_ROWS {
            return Err(LayoutError::Impossible { what: "the row count", value: rows.0 });
        }
        if min_ts > max_ts || seq_first > seq_last {
            let what = "a lower bound above its upper bound, the row count";
            return Err(LayoutError::Impossible { what, value: rows.0 });
        }
        let count = r.u32()?;
        if count as usize > limits::TABLE_COLUMNS {
            return Err(LayoutError::Impossible { what: "the column count", value: count.into() });
        }
        let columns = (0..count)
            .map(|_| ColumnFooter::decode(&mut r, rows, regions_end))
            .collect::<Result<Vec<_>, _>>()?;
        if r.left() > 0 {
            return Err(LayoutError::LeftOver { left: r.left() });
        }
        Ok(SegmentFooter {
            table,
            segment,
            partition,
            rows,
            min_ts,
            max_ts,
            seq_first,
            seq_last,
            columns,
        })
    }

    /// The footer of a column.
    #[must_use]
    pub fn column(&self, id: ColumnId) -> Option<&ColumnFooter> {
        self.columns.iter().find(|column| column.id == id)
    }
}

impl ColumnFooter {
    fn encode(&self, w: &mut ByteWriter) {
        w.u32(self.id.0).raw(&self.ty.to_tag()).u64(self.null_count).raw(&self.bounds.encode());
        match self.dictionary {
            None => w.u8(0).u32(0),
            Some(dictionary) => w.u8(dictionary.kind as u8).u32(dictionary.count),
        };
        self.dictionary.map_or(Region::default(), |dictionary| dictionary.region).encode(w);
        self.string_table.encode(w);
        self.zones.encode(w);
        for frame in &self.frames {
            frame.encode(w);
        }
    }

    fn decode(
        r: &mut ByteReader<'_>,
        rows: RowCount,
        regions_end: u64,
    ) -> Result<ColumnFooter, LayoutError> {
        let id = ColumnId(r.u32()?);
        let tag: [u8; 3] = r.array()?;
        let ty = ColumnType::from_tag(tag)
            .ok_or(LayoutError::Impossible { what: "the type tag", value: tag[0].into() })?;
        let null_count = r.u64()?;
        let bounds = Zone::decode(&r.array()?);
        let (kind, count) = (r.u8()?, r.u32()?);
        let region = Region::decode(r, regions_end)?;
        let dictionary = match kind {
            0 => None,
            1 => Some(DictionaryKind::Strings),
            2 => Some(DictionaryKind::Symbols),
            _ => {
                let what = "the dictionary kind";
                return Err(LayoutError::Impossible { what, value: kind.into() });
            }
        }
        .map(|kind| DictionaryFooter { kind, count, region });
        let string_table = Region::decode(r, regions_end)?;
        let zones = Region::decode(r, regions_end)?;
        let zones_wanted = rows.0.div_ceil(limits::ZONE_ROWS.0) * ZONE_BYTES as u64;
        if zones.bytes != zones_wanted {
            return Err(LayoutError::Impossible { what: "the size of zones", value: zones.bytes });
        }
        let frames = (0..rows.frames())
            .map(|_| FrameFooter::decode(r, regions_end))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(ColumnFooter { id, ty, null_count, bounds, dictionary, string_table, zones, frames })
    }
}

impl FrameFooter {
    fn encode(&self, w: &mut ByteWriter) {
        w.u8(self.encoding as u8).u8(self.width).u8(self.scale).u8(self.has_validity.into());
        w.u32(self.exceptions).i128(self.base).u64(self.step);
        self.region.encode(w);
    }

    fn decode(r: &mut ByteReader<'_>, regions_end: u64) -> Result<FrameFooter, LayoutError> {
        let tag = r.u8()?;
        let encoding = *Encoding::ALL
            .get(tag as usize)
            .ok_or(LayoutError::Impossible { what: "the encoding", value: tag.into() })?;
        let (width, scale, flags) = (r.u8()?, r.u8()?, r.u8()?);
        if !matches!(width, 0 | 1 | 2 | 4 | 8 | 16) {
            return Err(LayoutError::Impossible { what: "the code width", value: width.into() });
        }
        if flags > 1 {
            return Err(LayoutError::Impossible { what: "the frame flags", value: flags.into() });
        }
        let (exceptions, base, step) = (r.u32()?, r.i128()?, r.u64()?);
        let region = Region::decode(r, regions_end)?;
        let has_validity = flags == 1;
        Ok(FrameFooter { encoding, width, scale, has_validity, exceptions, base, step, region })
    }
}

impl Region {
    fn encode(self, w: &mut ByteWriter) {
        w.u64(self.offset).u64(self.bytes).u32(self.crc);
    }

    fn decode(r: &mut ByteReader<'_>, regions_end: u64) -> Result<Region, LayoutError> {
        let region = Region { offset: r.u64()?, bytes: r.u64()?, crc: r.u32()? };
        let end = region.offset.checked_add(region.bytes);
        let starts_inside = region.bytes == 0 || region.offset >= SEGMENT_HEADER_BYTES as u64;
        if !starts_inside || end.is_none_or(|end| end > regions_end) {
            return Err(LayoutError::Outside { offset: region.offset, bytes: region.bytes });
        }
        Ok(region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SegmentFooter {
        let region = Region { offset: 64, bytes: 17, crc: 9 };
        let frame = FrameFooter {
            encoding: Encoding::Narrow,
            width: 2,
            scale: 0,
            has_validity: true,
            exceptions: 0,
            base: -5,
            step: 1_000,
            region,
        };
        let column = ColumnFooter {
            id: ColumnId(3),
            ty: ColumnType::Decimal { precision: 20, scale: 4 },
            null_count: 2,
            bounds: Zone { has_null: true, has_value: true, has_nan: false, min: 1, max: 7 },
            dictionary: Some(DictionaryFooter { kind: DictionaryKind::Strings, count: 4, region }),
            string_table: Region::default(),
            zones: region,
            frames: vec![frame],
        };
        SegmentFooter {
            table: TableId(1),
            segment: SegmentId(2),
            partition: PartitionKey(-3),
            rows: RowCount(100),
            min_ts: -9,
            max_ts: 9,
            seq_first: SeqTxn(1),
            seq_last: SeqTxn(1),
            columns: vec![column],
        }
    }

    #[test]
    fn a_footer_survives_the_round_trip() {
        let footer = sample();
        assert_eq!(SegmentFooter::decode(&footer.encode(), 1_000), Ok(footer));
    }

    #[test]
    fn every_prefix_and_every_damaged_byte_gives_an_error_or_a_footer_but_no_panic() {
        let bytes = sample().encode();
        for end in 0..bytes.len() {
            assert!(SegmentFooter::decode(&bytes[..end], 1_000).is_err(), "prefix of {end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let _ = SegmentFooter::decode(&damaged, 1_000);
            }
        }
    }

    #[test]
    fn a_region_outside_of_the_file_is_refused() {
        let footer = sample();
        assert!(matches!(
            SegmentFooter::decode(&footer.encode(), 80),
            Err(LayoutError::Outside { offset: 64, bytes: 17 })
        ));
    }
}
