//! Every bound of the system that is not a setting, each with its reason.

use crate::rows::{ByteCount, RowCount};

/// Rows of a page frame, the unit of parallel work: a column of eight-byte values is 512 KiB and
/// stays in a core's model_layout-2 while it is filtered, sorted or encoded.
pub const FRAME_ROWS: RowCount = RowCount(65_536);

/// Rows of a zone, the unit of min/max skipping: sixteen to a page frame, 64 words of a selection.
pub const ZONE_ROWS: RowCount = RowCount(4_096);

/// Rows of a segment: 64 page frames. Large enough that files are few, small enough that one
/// compaction takes less than a second.
pub const SEGMENT_ROWS: RowCount = RowCount(4_194_304);

/// Columns of a table: a footer of this many columns is still read at once.
pub const TABLE_COLUMNS: usize = 4_096;

/// Bytes of a table's or column's name, as in PostgreSQL with a doubled limit.
pub const NAME_BYTES: usize = 127;

/// Tables of a database: the catalog is one file that is rewritten as a whole.
pub const TABLES: usize = 100_000;

/// Changes of tables in one transaction: each of its statements applies them again to the current
/// tables.
pub const TRANSACTION_DDL: usize = 1_000;

/// Views of a database: their queries are in memory, and lists of relations name them all.
pub const VIEWS: usize = 1_000;

/// Bytes of the query of a view: the size up to which a statement is parsed without reserving
/// memory.
pub const VIEW_BYTES: usize = SQL_UNRESERVED_BYTES;

/// Columns of all tables that a view reads: their names are kept with the view, about two
/// megabytes.
pub const VIEW_COLUMNS: usize = 16_384;

/// Nesting of views that read views: each level is planned within the one above it.
pub const VIEW_NESTING: usize = 16;

/// Tables that the views of a statement read in total, each counted as often as it is read: as many
/// as a statement may join, because planning time grows with a power of their number.
pub const VIEW_TABLES: usize = JOINS;

/// Bytes of the expression of a column's default: some lines of text.
pub const DEFAULT_BYTES: usize = 4 << 10;

/// Bytes of a comment on a table or a column: some pages of text.
pub const COMMENT_BYTES: usize = 8 << 10;

/// Bytes of the comments on a table and its columns: its manifest contains them all.
pub const COMMENTS_BYTES: usize = 1 << 20;

/// Tables whose memtables are flushed when a database is closed. A flush takes about ten syncs, and
/// eight flushes run at a time: with more tables than this, replaying the log is faster.
pub const CLOSE_TABLES: usize = 256;

/// Disk space that a server reserves for the operations that free space, unless the disk is small.
/// A flush of a memtable writes a fraction of the bytes that its rows took in the log, and a
/// checkpoint much less.
pub const BALLAST_BYTES: ByteCount = ByteCount(64 << 20);

/// The same as a fraction (1/n) of the disk: a small disk needs room for rows, too.
pub const BALLAST_PART: u64 = 16;

/// Partitions of a table: the manifest is one file that is rewritten as a whole.
pub const PARTITIONS: usize = 1_000_000;

/// Bytes of one text or binary value.
pub const VALUE_BYTES: usize = 64 << 20;

/// Bytes of one symbol: a dictionary is kept in memory, so its values are names, not documents.
pub const SYMBOL_BYTES: usize = 64 << 10;

/// Bytes of one record of a text file.
pub const CSV_ROW_BYTES: usize = 64 << 20;

/// Nesting of the schema of a Parquet file: its metadata is read by recursion, and nested columns
/// are skipped.
pub const PARQUET_NESTING: usize = 64;

/// Bytes of the values of one page of a Parquet file, which are in memory at once for each thread
/// and column. Writers end a page at a megabyte, unless a single value is larger.
pub const PARQUET_PAGE_BYTES: u64 = 1 << 30;

/// Bytes of a page that are read even if an import has little memory: a value of the greatest
/// length, and as much before it.
pub const PARQUET_PAGE_BYTES_LEAST: u64 = 2 * VALUE_BYTES as u64;

/// Bytes of a line of the line protocol: what a client may make the server keep before the line
/// ends.
pub const LINE_BYTES: usize = 4 << 20;

/// Columns of a table up to which lines add new ones: names made from values would have no end.
pub const LINE_COLUMNS: usize = 2_048;

/// Bytes of the message about a bad line: a name and a value are shortened to fit.
pub const LINE_MESSAGE_BYTES: usize = 1_024;

/// Bad lines that a line-protocol parser keeps until the caller takes them; further ones are only
/// counted. More per second would not be recorded anyway.
pub const LINE_FAULTS: usize = 1_024;

/// Bytes of names, tags and their caches that a line-protocol parser keeps from batch to batch:
/// enough for a hundred thousand time series, and affordable for several hundred connections.
pub const LINE_CACHE_BYTES: usize = 24 << 20;

/// Bytes that the rows of one line-protocol batch may take beyond four times their text: NULLs of
/// columns that a line does not name. Rows with few values in a table of thousands of columns take
/// more than a hundred times their text, and do not fit into a record of the log.
pub const LINE_PADDING_BYTES: usize = 512 << 20;

/// The same if memory is small: what a connection reads between two commits takes less.
pub const LINE_PADDING_BYTES_LEAST: usize = 128 << 20;

/// Tables that a line-protocol parser keeps from batch to batch.
pub const LINE_TABLES: usize = 4_096;

/// Temporary tables of a session: each is a snapshot and a schema. A session that needs more tables
/// is better served by one table with more rows.
pub const TEMP_TABLES: usize = 100;

/// Bytes of the rows of all temporary tables of a session: intermediate results, not stored data.
/// They are also counted in the memory of queries.
pub const TEMP_BYTES: usize = 256 << 20;

/// Bytes of one WAL record: a record is checked as a whole before it is applied, so it is held in
/// memory once.
pub const WAL_RECORD_BYTES: usize = 256 << 20;

/// Batches of a table that are remembered so that each is applied once: a writer that repeats a
/// batch does so within seconds, and the manifest contains them all.
pub const APPLIED_BATCHES: usize = 1_024;

/// Segments of a database that stay open between two uses. Each takes a mapping, of which Linux
/// gives a process 65,530 (`vm.max_map_count`) for its threads and its heap too, and about 10 KiB
/// of memory for its footer.
pub const OPEN_SEGMENTS: usize = 16_384;

/// Distinct values of one symbol column.
pub const SYMBOLS: u32 = u32::MAX - 1;

/// Column regions of at least this many bytes start at a page, so that they can be read, and
/// dropped from the page cache, on their own.
pub const PAGE_ALIGNED_FROM_BYTES: u64 = 64 << 10;

/// The page size that large regions are aligned to.
pub const PAGE_BYTES: u64 = 4_096;

/// The alignment of small regions: a cache line, and the widest vector.
pub const REGION_ALIGN_BYTES: u64 = 64;

/// Settings of a session that differ from their defaults: clients send a handful.
pub const SESSION_SETTINGS: usize = 256;

/// Bytes of the name and the value of a setting: a session has at most half a mebibyte of them.
pub const SETTING_BYTES: usize = 2 << 10;

/// The maximal bytes of all settings of a session, with their names: thousands of sessions hold
/// them.
pub const SESSION_SETTING_BYTES: usize = 16 << 10;

/// Parameters of a statement: PostgreSQL's protocol counts them in two bytes.
pub const STATEMENT_PARAMETERS: usize = 65_535;

/// Bytes that a connection or request holds before they count to `memory.connection_limit`: a large
/// statement fits, and 4,096 connections have 128 MiB of them at most.
pub const CONNECTION_FREE_BYTES: usize = 32 << 10;

/// Bytes of a row of a result over PostgreSQL's protocol: clients, like PostgreSQL itself, accept
/// messages of less than 1 GiB.
pub const ROW_BYTES: usize = (1 << 30) - 1_024;

/// Elements of an array that is a parameter: each becomes a literal of the statement, which takes
/// several hundred bytes during planning.
pub const ARRAY_ELEMENTS: usize = 1 << 20;

/// Expressions in the lists of a SELECT, GROUP BY, or ORDER BY, as many as in PostgreSQL: planning
/// takes time with the square of their number, much of it in steps that cannot be interrupted.
pub const SELECT_ITEMS: usize = 1_664;

/// Columns of the tables of a FROM together, and of a SELECT with its `*` written out: four of the
/// widest tables. Planning takes time with the square of their number.
pub const QUERY_COLUMNS: usize = 16_384;

/// Sets of a GROUP BY: each takes about 130 KB and a millisecond during planning.
pub const GROUPING_SETS: usize = 512;

/// Expressions of all the sets of a GROUP BY together: planning them takes as long as planning the
/// sets.
pub const GROUPING_SET_ITEMS: usize = 8_192;

/// Tables that a statement joins: planning takes time with the third power of their number, most of
/// it in steps that cannot be interrupted.
pub const JOINS: usize = 100;

/// Bytes of a statement.
pub const SQL_BYTES: usize = 16 << 20;

/// Bytes of a name or a number in a statement: a name has at most `NAME_BYTES`, and messages repeat
/// the word.
pub const SQL_WORD_BYTES: usize = 1 << 10;

/// Bytes of a statement from which memory for parsing it is reserved: shorter ones are parsed in
/// some milliseconds, and at most one per thread at a time.
pub const SQL_UNRESERVED_BYTES: usize = 64 << 10;

/// Bytes of the values that the functions of one operator compute at a time, for one batch of rows:
/// several strings of the largest size that is stored, and a part of the memory of a small machine.
pub const VALUES_BYTES: u64 = 512 << 20;

/// Bytes of values above which a batch is split into smaller ones where possible: large enough that
/// the cost of splitting is small beside the work for each part, and small enough that several can
/// be held for a client that reads nothing.
pub const SLICE_BYTES: u64 = 16 << 20;

/// Bytes from which a value, or a batch of values, is charged to its statement. There are at most
/// as many smaller ones as a batch has columns.
pub const COUNTED_VALUE_BYTES: u64 = 1 << 20;

/// Bytes of the constants that constant folding evaluates, and of its result: a plan is copied
/// dozens of times, and larger ones belong to the execution of a statement.
pub const FOLDED_BYTES: u64 = 64 << 10;

/// Rows in the window frame of an aggregate that keeps all values, for each row: a batch keeps at
/// most this many times its values.
pub const FRAME_VALUES: u64 = 1_000;

/// Steps of a comparison of two values whose work is the product of their lengths: a tenth of a
/// second, the time that a cancelled statement may continue to run.
pub const PAIR_STEPS: u64 = 1 << 26;

/// Steps of such a comparison in one row up to which another algorithm is not worthwhile: some
/// milliseconds.
pub const PLAIN_STEPS: u64 = 1 << 20;

/// Steps of a regular expression in the string of one row, which are the states of the pattern
/// times the bytes of the string: a second or two in the worst case, and mostly far less.
pub const REGEX_STEPS: u64 = 1 << 30;

/// Steps of a regular expression between two checks for cancellation of the statement.
pub const REGEX_SLICE_STEPS: u64 = 1 << 28;

/// Bytes of a regular expression, in which classes of characters are counted as long texts: some
/// thousand names joined by `|`, or some hundred classes. Its tree takes 200 bytes for each.
pub const PATTERN_BYTES: usize = 256 << 10;

/// Different patterns that are compiled at a time: each takes up to 10 MiB and some milliseconds.
pub const PATTERNS_AT_A_TIME: usize = 8;

// A zone never straddles two page frames: docs/format.md, Zones.
const _: () = assert!(FRAME_ROWS.0.is_multiple_of(ZONE_ROWS.0));
const _: () = assert!(SEGMENT_ROWS.0.is_multiple_of(FRAME_ROWS.0));

/// Bytes of log lines that wait to be written: several thousand lines, so that a burst is kept and
/// a log whose reader is stuck takes little memory.
pub const LOG_QUEUE_BYTES: usize = 1 << 20;
