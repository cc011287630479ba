//! The tasks of a scan: parts of its rows that threads read independently.
//!
//! - The rows of all tasks are the selected rows, each once; in the order of the tasks they are in
//!   the order of the table, unless the scan has any order.
//! - A task of one run reads rows of one page frame; if it is decoded ahead and not filtered, at
//!   most `TASK_BYTES_MAX` of them or one batch, so that a task seldom waits for the reader of its
//!   batches.

use std::ops::Range;
use std::sync::Arc;

use tidegate_model::{ColumnType, limits};
use tidegate_storage::SegmentRun;

/// The maximal number of rows of a batch.
pub(crate) const BATCH_ROWS: usize = 8_192;

/// The number of rows of a zone.
pub(crate) const ZONE_ROWS: usize = 4_096;
const _: () = assert!(ZONE_ROWS as u64 == limits::ZONE_ROWS.0);

/// The maximal bytes of the arrays of a task.
pub(crate) const TASK_BYTES_MAX: usize = 4 << 20;

/// The order in which rows are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ScanOrder {
    /// Any order.
    Any,
    /// The order of the table: by timestamp, then by commit, then by position.
    Forward,
    /// The reverse order of the table.
    Backward,
}

/// A task: a part of the work of a scan.
#[derive(Debug, Clone)]
pub(crate) enum ScanTask {
    /// Rows of one page frame of a segment.
    Rows(FrameRows),
    /// Runs that overlap in time, to be merged; in the order of equal timestamps.
    Merge(Vec<Vec<FrameRows>>),
}

/// Rows of one page frame of a segment.
#[derive(Debug, Clone)]
pub(crate) struct FrameRows {
    pub(crate) segment: Arc<SegmentRun>,
    pub(crate) frame: u64,
    /// Counted from the start of the page frame.
    pub(crate) rows: Range<usize>,
}

/// The bytes of a row id in an array.
pub(crate) const ROW_ID_BYTES: usize = 8;

/// Returns the approximate bytes of a value in an array.
pub(crate) fn value_bytes(ty: ColumnType) -> usize {
    match ty {
        ColumnType::Boolean | ColumnType::Int8 | ColumnType::UInt8 => 1,
        ColumnType::Int16 | ColumnType::UInt16 => 2,
        ColumnType::Int32
        | ColumnType::UInt32
        | ColumnType::Float32
        | ColumnType::Date
        | ColumnType::Ipv4 => 4,
        ColumnType::Int64 | ColumnType::UInt64 | ColumnType::Float64 | ColumnType::Timestamp(_) => {
            8
        }
        ColumnType::Decimal { .. } | ColumnType::Uuid | ColumnType::Symbol => 16,
        ColumnType::Varchar | ColumnType::Binary => 64,
    }
}

/// The way in which selected rows are cut into tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskShape {
    pub(crate) order: ScanOrder,
    pub(crate) rows_max: usize,
}

impl TaskShape {
    /// Makes the shape for an order. `row_bytes` is the size of a row in arrays; 0 if rows are not
    /// decoded ahead.
    pub(crate) fn new(order: ScanOrder, row_bytes: usize) -> TaskShape {
        let fitting = TASK_BYTES_MAX / row_bytes.max(1) / BATCH_ROWS * BATCH_ROWS;
        let rows_max = fitting.clamp(BATCH_ROWS, limits::FRAME_ROWS.as_len());
        TaskShape { order, rows_max }
    }
}
