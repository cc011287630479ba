//! Deletion vectors of segments, as of a commit.
//!
//! - deletion_vector-1. A deletion vector never changes; another commit writes a new one, which the
//!   manifest names.
//! - deletion_vector-2. Only zones with deleted rows have a bitmap. A set bit is a row that is not
//!   deleted, so that kernels AND it to a selection.
//!
//! Bytes: docs/format.md, Deletion vector. Not here: the choice of the rows to delete.

use tidegate_model::bytes::{ByteReader, ByteWriter};
use tidegate_model::{RowCount, SegmentId, SeqTxn, TableId, limits};

use crate::checksummed_file::{self, Kind};
use crate::error::{Corruption, DecodeError};

const KIND: Kind = Kind { magic: *b"TIDEMSK\0", version: 1, oldest: 1, name: "deletion vector" };

/// Words of a zone's bitmap.
pub const ZONE_WORDS: usize = 64;
const _: () = assert!(ZONE_WORDS as u64 * 64 == limits::ZONE_ROWS.0);

/// The rows of a zone that are not deleted: a bit for each row, least significant first.
pub type ZoneBits = [u64; ZONE_WORDS];

/// The deletion vector of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletionVector {
    rows: RowCount,
    live: RowCount,
    /// Ascending; each has a deleted row (deletion_vector-2).
    zones: Vec<(u32, ZoneBits)>,
}

impl DeletionVector {
    /// A deletion vector of a segment of `rows` rows, of which those in `deleted` are deleted. Rows
    /// may occur twice and in any order.
    ///
    /// # Panics
    /// If a row is not below `rows`, or the segment is larger than `limits::SEGMENT_ROWS`.
    #[must_use]
    pub fn new(rows: RowCount, deleted: &[u64]) -> DeletionVector {
        assert!(rows <= limits::SEGMENT_ROWS, "a segment has at most so many rows");
        let mut deleted = deleted.to_vec();
        deleted.sort_unstable();
        let mut zones: Vec<(u32, ZoneBits)> = Vec::new();
        for row in deleted {
            assert!(row < rows.0, "row {row} of {rows}");
            let zone = u32::try_from(row / limits::ZONE_ROWS.0).expect("1,024 at most");
            if zones.last().is_none_or(|&(last, _)| last != zone) {
                zones.push((zone, full_zone(rows, zone)));
            }
            let bits = &mut zones.last_mut().expect("it was pushed").1;
            let (word, bit) = position(row);
            bits[word] &= !(1 << bit);
        }
        DeletionVector { rows, live: live_rows(rows, &zones), zones }
    }

    /// The rows that are live in both deletion vectors of one segment.
    ///
    /// # Panics
    /// If the segments differ in size.
    #[must_use]
    pub fn and(&self, other: &DeletionVector) -> DeletionVector {
        assert_eq!(self.rows, other.rows, "deletion vectors of one segment");
        let mut zones = self.zones.clone();
        for (zone, bits) in &other.zones {
            match zones.binary_search_by_key(zone, |&(zone, _)| zone) {
                Ok(at) => {
                    for (word, other) in zones[at].1.iter_mut().zip(bits) {
                        *word &= other;
                    }
                }
                Err(at) => zones.insert(at, (*zone, *bits)),
            }
        }
        DeletionVector { rows: self.rows, live: live_rows(self.rows, &zones), zones }
    }

    /// Number of rows of the segment, including deleted ones.
    #[must_use]
    pub fn rows(&self) -> RowCount {
        self.rows
    }

    /// Number of rows that are not deleted.
    #[must_use]
    pub fn live(&self) -> RowCount {
        self.live
    }

    /// Returns the bitmap of a zone; `None` if all of its rows are live.
    #[must_use]
    pub fn zone(&self, zone: u64) -> Option<&ZoneBits> {
        let zone = u32::try_from(zone).ok()?;
        let at = self.zones.binary_search_by_key(&zone, |&(zone, _)| zone).ok()?;
        Some(&self.zones[at].1)
    }

    /// Returns true if a row is not deleted.
    #[must_use]
    pub fn is_live(&self, row: u64) -> bool {
        let (word, bit) = position(row);
        self.zone(row / limits::ZONE_ROWS.0).is_none_or(|bits| bits[word] >> bit & 1 == 1)
    }

    /// The deleted rows, ascending.
    pub fn deleted(&self) -> impl Iterator<Item = u64> {
        let rows = self.rows.0;
        self.zones.iter().flat_map(move |(zone, bits)| {
            let first = u64::from(*zone) * limits::ZONE_ROWS.0;
            let is_deleted = move |row: &u64| {
                let (word, bit) = position(*row);
                bits[word] >> bit & 1 == 0
            };
            (first..rows.min(first + limits::ZONE_ROWS.0)).filter(is_deleted)
        })
    }

    /// The memory of the deletion vector in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<DeletionVector>() + self.zones.len() * size_of::<(u32, ZoneBits)>()
    }

    /// The bytes of the deletion vector's file.
    #[must_use]
    pub fn encode(&self, table: TableId, segment: SegmentId) -> Vec<u8> {
        let mut w = ByteWriter::default();
        w.u64(table.0).u64(segment.0).u64(self.rows.0).u64(self.live.0);
        w.u32(u32::try_from(self.zones.len()).expect("1,024 at most"));
        for (zone, bits) in &self.zones {
            w.u32(*zone);
            for word in bits {
                w.u64(*word);
            }
        }
        checksummed_file::encode(&KIND, &w.0)
    }
}

/// The deletion vector in these bytes, which must belong to this segment.
///
/// # Errors
/// If it does not, or the bytes are damaged or of a newer version.
pub fn decode(
    bytes: &[u8],
    table: TableId,
    segment: SegmentId,
) -> Result<DeletionVector, DecodeError> {
    let mut r = checksummed_file::decode(&KIND, bytes)?;
    let start = r.offset();
    let (actual_table, actual_segment) = (r.u64()?, r.u64()?);
    for (what, expected, actual) in
        [("the table", table.0, actual_table), ("the segment", segment.0, actual_segment)]
    {
        if actual != expected {
            return Err(DecodeError::at(start, Corruption::Differs { what, expected, actual }));
        }
    }
    let (rows, live) = (RowCount(r.u64()?), RowCount(r.u64()?));
    if rows > limits::SEGMENT_ROWS {
        let what = Corruption::Impossible { what: "the row count", value: rows.0 };
        return Err(DecodeError::at(start, what));
    }
    let zones = decode_zones(&mut r, rows)?;
    checksummed_file::finish(&r)?;
    let deletion_vector = DeletionVector { rows, live: live_rows(rows, &zones), zones };
    if deletion_vector.live != live {
        let (expected, actual) = (live.0, deletion_vector.live.0);
        let what = Corruption::Differs { what: "the live count", expected, actual };
        return Err(DecodeError::at(start, what));
    }
    Ok(deletion_vector)
}

fn decode_zones(
    r: &mut ByteReader<'_>,
    rows: RowCount,
) -> Result<Vec<(u32, ZoneBits)>, DecodeError> {
    let count = r.u32()?;
    let mut zones: Vec<(u32, ZoneBits)> = Vec::new();
    for _ in 0..count {
        let start = r.offset();
        let zone = r.u32()?;
        let ascends = zones.last().is_none_or(|&(last, _)| last < zone);
        if !ascends || u64::from(zone) >= rows.0.div_ceil(limits::ZONE_ROWS.0) {
            let what = Corruption::Impossible { what: "a zone", value: zone.into() };
            return Err(DecodeError::at(start, what));
        }
        let full = full_zone(rows, zone);
        let mut bits = [0; ZONE_WORDS];
        for word in &mut bits {
            *word = r.u64()?;
        }
        let inside = bits.iter().zip(&full).all(|(word, full)| word & !full == 0);
        if !inside || bits == full {
            let what = Corruption::Impossible { what: "the bitmap of zone", value: zone.into() };
            return Err(DecodeError::at(start, what));
        }
        zones.push((zone, bits));
    }
    Ok(zones)
}

/// The word and the bit of a row in the bitmap of its zone.
fn position(row: u64) -> (usize, u64) {
    let in_zone = row % limits::ZONE_ROWS.0;
    (usize::try_from(in_zone / 64).expect("below ZONE_WORDS"), in_zone % 64)
}

/// The bitmap of a zone with all its rows.
fn full_zone(rows: RowCount, zone: u32) -> ZoneBits {
    let first = u64::from(zone) * limits::ZONE_ROWS.0;
    let mut left = rows.0.saturating_sub(first).min(limits::ZONE_ROWS.0);
    std::array::from_fn(|_| {
        let in_word = left.min(64);
        left -= in_word;
        if in_word == 64 { u64::MAX } else { (1 << in_word) - 1 }
    })
}

fn live_rows(rows: RowCount, zones: &[(u32, ZoneBits)]) -> RowCount {
    let ones = |bits: &ZoneBits| bits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
    let deleted = zones.iter().map(|(zone, bits)| ones(&full_zone(rows, *zone)) - ones(bits));
    RowCount(rows.0 - deleted.sum::<u64>())
}

/// The deletion vector of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletionVectorMeta {
    /// Part of the name of its file; from the same numbers as segment ids.
    pub id: SegmentId,
    /// The commit that wrote it.
    pub seq_txn: SeqTxn,
    /// Number of rows that are not deleted.
    pub live: RowCount,
    /// The CRC32C of its file.
    pub crc: u32,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{ProptestConfig, any, proptest};

    use super::*;

    const TABLE: TableId = TableId(3);
    const SEGMENT: SegmentId = SegmentId(9);

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_deletion_vector_has_the_rows_that_are_deleted(
            rows in 1_u64..20_000, seeds: Vec<u64>, more: Vec<u64>,
        ) {
            let deleted: Vec<u64> = seeds.iter().map(|seed| seed % rows).collect();
            let more: Vec<u64> = more.iter().map(|seed| seed % rows).collect();
            let deletion_vector = DeletionVector::new(RowCount(rows), &deleted);
            check(&deletion_vector, deleted.iter().copied().collect());
            let both = deletion_vector.and(&DeletionVector::new(RowCount(rows), &more));
            check(&both, deleted.iter().chain(&more).copied().collect());
            let bytes = both.encode(TABLE, SEGMENT);
            assert_eq!(decode(&bytes, TABLE, SEGMENT), Ok(both));
            assert!(decode(&bytes, TABLE, SegmentId(1)).is_err());
        }

        #[test]
        fn damaged_bytes_are_an_error(at: usize, xor in 1_u8..) {
            let deleted = DeletionVector::new(RowCount(9_000), &[1, 8_999]);
            let mut bytes = deleted.encode(TABLE, SEGMENT);
            let at = at % bytes.len();
            bytes[at] ^= xor;
            assert!(decode(&bytes, TABLE, SEGMENT).is_err());
        }

        #[test]
        fn foreign_bytes_are_no_deletion_vector(
            body in proptest::collection::vec(any::<u8>(), 0..2_000),
        ) {
            let _ = decode(&checksummed_file::encode(&KIND, &body), TABLE, SEGMENT);
        }
    }

    fn check(deletion_vector: &DeletionVector, deleted: BTreeSet<u64>) {
        let rows = deletion_vector.rows().0;
        assert_eq!(deletion_vector.live().0, rows - deleted.len() as u64);
        for row in (0..rows).step_by(7).chain(deleted.iter().copied()) {
            assert_eq!(deletion_vector.is_live(row), !deleted.contains(&row), "row {row}");
        }
        for zone in 0..rows.div_ceil(limits::ZONE_ROWS.0) {
            let lost = deleted.iter().any(|row| row / limits::ZONE_ROWS.0 == zone);
            assert_eq!(deletion_vector.zone(zone).is_some(), lost, "deletion_vector-2");
        }
    }
}
