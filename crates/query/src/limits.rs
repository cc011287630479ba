//! Limits of statements that several modules check or name in messages.
//!
//! Limits of the whole workspace are in `tidegate_model::limits`.

use std::time::Duration;

use tidegate_model::ByteCount;

/// The limit of a transaction's rows: as many bytes as a statement writes as one WAL record.
pub(crate) const HELD_BYTES_MAX: usize = BATCH_BYTES_MAX;

/// The size of buffered values from which on rows are written into segments; a statement with fewer
/// is one WAL record. Large enough for segments that need no merge soon, small next to the memory
/// of a query.
pub(crate) const BATCH_BYTES_MAX: usize = 64 << 20;

/// The limit of spilled bytes: more than any sort needs if its rows fit on the disk twice.
pub const SPILL_MAX: ByteCount = ByteCount(100 << 30);

/// The limit of rows that a FILL makes: more are probably a mistake in its bounds or its unit.
pub const FILL_ROWS_MAX: u64 = 10_000_000;

/// The limit for quick queries: less than the cost of handing work to a busy thread and back.
pub(crate) const QUICK_MAX: Duration = Duration::from_micros(500);

/// The maximal number of windows of an interval: with more, the condition itself would be the work.
pub(crate) const WINDOWS_MAX: usize = 10_000;

/// The maximal depth of an expression or a query.
pub(crate) const NESTING_MAX: usize = 500;
