//! Every bound of the system that is not a setting, each with its reason.

use crate::rows::RowCount;

/// Rows of a page frame, the unit of parallel work: a column of eight-byte values is 512 KiB and
/// stays in a core's L2 while it is filtered, sorted or encoded.
pub const FRAME_ROWS: RowCount = RowCount(65_536);

/// Rows of a zone, the unit of min/max skipping: sixteen to a page frame, 64 words of a selection.
pub const ZONE_ROWS: RowCount = RowCount(4_096);

/// Rows of a segment: 64 page frames. Large enough that files are few, small enough that one merge
/// stays below a second.
pub const SEGMENT_ROWS: RowCount = RowCount(4_194_304);

/// Columns of a table: a footer of so many columns is still read in one go.
pub const TABLE_COLUMNS: usize = 4_096;

/// Bytes of a table's or column's name, as in PostgreSQL with a doubled limit.
pub const NAME_BYTES: usize = 127;

/// Tables of a database: the catalog is one file that is written whole.
pub const TABLES: usize = 100_000;

/// Tables whose memtables are flushed when a database is closed. A flush takes about ten syncs,
/// eight at a time: with more tables than this, replaying the log is quicker.
pub const CLOSE_TABLES: usize = 256;

/// Partitions of a table: the manifest is one file that is written whole.
pub const PARTITIONS: usize = 1_000_000;

/// Bytes of one text or binary value.
pub const VALUE_BYTES: usize = 64 << 20;

/// Bytes of one symbol: a dictionary is kept in memory, so its values are names, not documents.
pub const SYMBOL_BYTES: usize = 64 << 10;

/// Bytes of one record of a text file (COPY's `max_row_bytes`).
pub const CSV_ROW_BYTES: usize = 64 << 20;

/// Bytes of a line of the line protocol: as much as a client may ask to be kept before its end.
pub const LINE_BYTES: usize = 4 << 20;

/// Columns up to which lines add some: names that come from values would have no end.
pub const LINE_COLUMNS: usize = 2_048;

/// Bytes of the message that names a bad line: a name and a value are shortened to fit.
pub const LINE_MESSAGE_BYTES: usize = 1_024;

/// Bad lines that a line-protocol parser keeps until somebody takes them; the rest are only
/// counted. More a second would not be recorded anyway.
pub const LINE_FAULTS: usize = 1_024;

/// Bytes of names, tags and their caches that a line-protocol parser keeps from batch to batch:
/// those of a hundred thousand time series, and bearable for each of some hundred connections.
pub const LINE_CACHE_BYTES: usize = 24 << 20;

/// Tables that a line-protocol parser keeps from batch to batch.
pub const LINE_TABLES: usize = 4_096;

/// Bytes of one WAL record: a record is checked whole before it is applied, so it is held in
/// memory once.
pub const WAL_RECORD_BYTES: usize = 256 << 20;

/// Batches of a table that are remembered to be applied once: a writer that repeats one does so
/// within seconds, and the manifest carries them all.
pub const BATCH_MARKS: usize = 1_024;

/// Distinct values of one symbol column.
pub const SYMBOLS: u32 = u32::MAX - 1;

/// Column regions of at least this many bytes start at a page, so that they can be read and
/// dropped from the cache alone.
pub const PAGE_ALIGNED_FROM_BYTES: u64 = 64 << 10;

/// The page size that large regions are aligned to.
pub const PAGE_BYTES: u64 = 4_096;

/// The alignment of small regions: a cache line, and the widest vector.
pub const REGION_ALIGN_BYTES: u64 = 64;

/// Settings of a session that are not as they are at first: clients send a handful.
pub const SESSION_SETTINGS: usize = 256;

/// Bytes of the name and the value of a setting: a session has at most half a mebibyte of them.
pub const SETTING_BYTES: usize = 2 << 10;

/// Parameters of a statement: PostgreSQL's protocol counts them in two bytes.
pub const STATEMENT_PARAMETERS: usize = 65_535;

/// Bytes of a statement.
pub const SQL_BYTES: usize = 16 << 20;

// A zone never straddles two page frames: docs/format.md, Zones.
const _: () = assert!(FRAME_ROWS.0.is_multiple_of(ZONE_ROWS.0));
const _: () = assert!(SEGMENT_ROWS.0.is_multiple_of(FRAME_ROWS.0));
