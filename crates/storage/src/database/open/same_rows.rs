//! Comparison of segment files with rows of the log, value by value.
//!
//! Used by `missing_flush` through `offline`. Not here: the choice of files and rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::concat;
use tidegate_model::SegmentId;

use crate::rewrite::{self, Rewrite};
use crate::segment::{Reader, RowSelection};

/// The relation of the rows of files to rows of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowMatch {
    /// They are the same rows, in the order of a flush.
    Same,
    /// The files lack some of the rows, and have no others.
    Part,
    /// The files have other rows, or cannot be read.
    Other,
}

/// Compares the rows of files, in their order, with those of the log that are the input of a flush.
pub(crate) fn compare(logged: &Rewrite<'_>, files: &[Reader]) -> RowMatch {
    let Some(logged_columns) = logged_columns(logged) else { return RowMatch::Other };
    let Some(columns) = columns_of(logged, files) else { return RowMatch::Other };
    let rows = |columns: &[ArrayRef]| columns.first().map_or(0, |column| column.len());
    let (logged_rows, rows) = (rows(&logged_columns), rows(&columns));
    let pairs = logged_columns.iter().zip(&columns);
    let comparators = pairs.map(|(a, b)| make_comparator(a, b, Default::default()));
    let Ok(comparators) = comparators.collect::<Result<Vec<_>, _>>() else {
        return RowMatch::Other;
    };
    let mut found = 0;
    for row in 0..logged_rows {
        let is_same = |at: usize| comparators.iter().all(|compare| compare(row, at).is_eq());
        if found < rows && is_same(found) {
            found += 1;
        }
    }
    match (found == rows, rows == logged_rows) {
        (true, true) => RowMatch::Same,
        (true, false) => RowMatch::Part,
        (false, _) => RowMatch::Other,
    }
}

/// The columns as a flush of these rows has them; `None` if rows cannot be read.
fn logged_columns(logged: &Rewrite<'_>) -> Option<Vec<ArrayRef>> {
    let mem_segments = rewrite::to_mem_segments(logged, &mut || SegmentId(0)).ok()?;
    let readers = mem_segments.iter().map(|mem_segment| {
        Reader::in_memory(Arc::clone(&mem_segment.bytes), logged.table, &mem_segment.meta)
    });
    columns_of(logged, &readers.collect::<Result<Vec<_>, _>>().ok()?)
}

/// The columns of the table, with the rows of these segments one after the other.
fn columns_of(table: &Rewrite<'_>, readers: &[Reader]) -> Option<Vec<ArrayRef>> {
    let columns = table.schema.columns();
    let mut parts: Vec<Vec<ArrayRef>> = vec![Vec::new(); columns.len()];
    for reader in readers {
        for frame in 0..reader.frame_count() {
            let rows = RowSelection::Range(0..reader.frame_rows(frame));
            let arrays = reader.arrays(frame, &rows, columns, table.symbols).ok()?;
            parts.iter_mut().zip(arrays).for_each(|(parts, array)| parts.push(array));
        }
    }
    let joined = parts.iter().map(|parts| {
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        concat(&parts).ok()
    });
    joined.collect()
}
