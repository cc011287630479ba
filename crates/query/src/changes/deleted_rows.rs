//! The rows that UPDATE and DELETE delete, by segment.
//!
//! - A row is deleted once, however often it is found: an UPDATE with a join may find a row several
//!   times, and uses the first match.

use std::collections::BTreeMap;

use datafusion::arrow::array::{BooleanArray, UInt64Array};
use tidegate_model::SegmentId;
use tidegate_storage::{SegmentDeletes, Snapshot};

use crate::scan::place_of;

/// Deleted rows by segment.
#[derive(Debug, Default)]
pub(crate) struct DeletedRows {
    /// One bit per row.
    segments: BTreeMap<SegmentId, Vec<u64>>,
    pub(crate) rows: u64,
}

impl DeletedRows {
    /// Adds rows of a snapshot by their ids, and returns a mask of those that are new.
    pub(crate) fn add(&mut self, snapshot: &Snapshot, row_ids: &UInt64Array) -> BooleanArray {
        let mut last: Option<SegmentId> = None;
        let mut words: &mut Vec<u64> = &mut Vec::new();
        let mut fresh = Vec::with_capacity(row_ids.len());
        for &row_id in row_ids.values() {
            let (segment, row) = place_of(row_id);
            if last != Some(segment) {
                words = self.segments.entry(segment).or_insert_with(|| {
                    let run = snapshot.segments().find(|run| run.meta.id == segment);
                    let rows = run.expect("rows are of the snapshot").meta.rows;
                    vec![0; rows.as_len().div_ceil(64)]
                });
                last = Some(segment);
            }
            let (word, bit) = (usize::try_from(row / 64).expect("22 bits"), 1 << (row % 64));
            let is_fresh = words[word] & bit == 0;
            words[word] |= bit;
            fresh.push(is_fresh);
        }
        self.rows += fresh.iter().filter(|&&is_fresh| is_fresh).count() as u64;
        BooleanArray::from(fresh)
    }

    /// The rows, segment by segment.
    pub(crate) fn into_rows(self) -> impl Iterator<Item = SegmentDeletes> {
        self.segments.into_iter().map(|(segment, words)| {
            let bits = |(at, mut word): (usize, u64)| {
                std::iter::from_fn(move || {
                    let bit = word.trailing_zeros();
                    word &= word.wrapping_sub(1);
                    (bit < 64).then(|| at as u64 * 64 + u64::from(bit))
                })
            };
            let rows = words.into_iter().enumerate().flat_map(bits).collect();
            SegmentDeletes { segment, rows }
        })
    }
}
