//! Slices of time: the rows that an aggregate with a limit reads first, from one end of the time.
//!
//! - time_slices-1. All rows that are left lie beyond the slices that were read, so that a bucket
//!   is complete if another one behind it has rows in them.
//! - The first slice has room for as many buckets as there are groups wanted, and each further one
//!   is `GROWTH` times as wide: rows may be few, or may not pass the conditions.
//! - Segments that overlap in time are cut alike, so that a slice reads little of each.

use std::sync::Arc;

use datafusion::common::Result;
use tidegate_model::TimeRange;

use super::plan::PushedAggregate;
use crate::error::Error;
use crate::scan::prune;
use crate::scan::selected::Selected;

/// The factor by which slices grow.
const GROWTH: i64 = 4;

/// The slices that are left.
pub(super) struct TimeSlices {
    is_descending: bool,
    left: TimeRange,
    width: i64,
}

impl TimeSlices {
    /// Returns the slices of an aggregate of which so many groups are wanted; `None` if its buckets
    /// have no width that is known, or it depends on the order of tasks.
    pub(super) fn of(
        plan: &PushedAggregate,
        is_descending: bool,
        fetch: usize,
    ) -> Option<TimeSlices> {
        if !plan.fits_slices() {
            return None;
        }
        let (_, unit) = plan.source.read.snapshot.schema.designated_column()?;
        let (least, greatest) = plan.source.selected_times();
        let left = TimeRange { unit, start: least, end: greatest.saturating_add(1) };
        let edge = if is_descending { greatest } else { least };
        let bucket = plan.keys.iter().find_map(|key| key.bucket_width(edge))?;
        let buckets = i64::try_from(fetch.saturating_add(1)).unwrap_or(i64::MAX);
        Some(TimeSlices { is_descending, left, width: bucket.max(1).saturating_mul(buckets) })
    }

    /// Returns the rows of the next slice; `None` behind the last one.
    pub(super) fn next(&mut self, plan: &PushedAggregate) -> Result<Option<Arc<Selected>>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let TimeRange { unit, start, end } = self.left;
        let slice = if self.is_descending {
            self.left.end = end.saturating_sub(self.width).max(start);
            TimeRange { unit, start: self.left.end, end }
        } else {
            self.left.start = start.saturating_add(self.width).min(end);
            TimeRange { unit, start, end: self.left.start }
        };
        self.width = self.width.saturating_mul(GROWTH);
        let source = &plan.source;
        let ranges = match &source.bounds.ranges {
            Some(ranges) => ranges.iter().map(|range| range.intersect(slice)).collect(),
            None => vec![slice],
        };
        let ranges = ranges.into_iter().filter(|range| !range.is_empty()).collect::<Vec<_>>();
        let selected = prune::select(&source.read.snapshot, Some(&ranges));
        Ok(Some(selected.map_err(Error::Storage)?))
    }
}
