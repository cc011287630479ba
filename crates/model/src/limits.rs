//! Every bound of the system that is not a setting, each with its reason.

use crate::rows::{ByteCount, RowCount};

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

/// Changes of tables in one transaction: each of its statements does them again on top of the
/// tables as they are then.
pub const TRANSACTION_DDL: usize = 1_000;

/// Views of a database: their texts are in memory, and lists of relations name them all.
pub const VIEWS: usize = 1_000;

/// Bytes of the query of a view: as much as is read without reserving memory for it.
pub const VIEW_BYTES: usize = SQL_UNRESERVED_BYTES;

/// Columns of all tables that a view reads: their names are kept with it, some two megabytes.
pub const VIEW_COLUMNS: usize = 16_384;

/// Views that read views that read views: each level is planned within the one above it.
pub const VIEW_NESTING: usize = 16;

/// Tables that the views of a statement read in all, each as often as it is read: as many as a
/// statement may join, since planning takes time with a power of their number.
pub const VIEW_TABLES: usize = JOINS;

/// Bytes of the expression that a column is filled with: some lines of text.
pub const DEFAULT_BYTES: usize = 4 << 10;

/// Bytes of a comment on a table or a column: some pages of text.
pub const COMMENT_BYTES: usize = 8 << 10;

/// Bytes of the comments on a table and its columns: its manifest carries them all.
pub const COMMENTS_BYTES: usize = 1 << 20;

/// Tables whose memtables are flushed when a database is closed. A flush takes about ten syncs,
/// eight at a time: with more tables than this, replaying the log is quicker.
pub const CLOSE_TABLES: usize = 256;

/// Disk space that a server holds free for what frees more of it, where the disk is not small. A
/// memtable that is flushed takes a fraction of the rows that it held in the log, and a checkpoint
/// much less.
pub const BALLAST_BYTES: ByteCount = ByteCount(64 << 20);

/// The same as a part of the disk: a small one has room for rows, too.
pub const BALLAST_PART: u64 = 64;

/// Partitions of a table: the manifest is one file that is written whole.
pub const PARTITIONS: usize = 1_000_000;

/// Bytes of one text or binary value.
pub const VALUE_BYTES: usize = 64 << 20;

/// Bytes of one symbol: a dictionary is kept in memory, so its values are names, not documents.
pub const SYMBOL_BYTES: usize = 64 << 10;

/// Bytes of one record of a text file (COPY's `max_row_bytes`).
pub const CSV_ROW_BYTES: usize = 64 << 20;

/// Levels to which the schema of a Parquet file is nested: its metadata is read by recursion, and
/// columns that are nested at all are only passed over.
pub const PARQUET_NESTING: usize = 64;

/// Bytes of the values of one page of a Parquet file, which are in memory at once for each thread
/// and column. Writers cut pages at a megabyte, but for one whose single values are larger.
pub const PARQUET_PAGE_BYTES: u64 = 1 << 30;

/// Bytes of a page that are read however little memory an import has: a value of the greatest
/// length, and as much before it.
pub const PARQUET_PAGE_BYTES_LEAST: u64 = 2 * VALUE_BYTES as u64;

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

/// Bytes that the rows of one line-protocol batch may take beyond four times their text: NULLs of
/// columns that a line does not name. Rows of a few columns in a table of thousands take more than
/// a hundred times their text, and a record of the log does not take them.
pub const LINE_PADDING_BYTES: usize = 512 << 20;

/// The same where there is little memory: what a connection reads between two commits takes less.
pub const LINE_PADDING_BYTES_LEAST: usize = 128 << 20;

/// Tables that a line-protocol parser keeps from batch to batch.
pub const LINE_TABLES: usize = 4_096;

/// Temporary tables of a session: each is a snapshot and a schema, and who needs more rather wants
/// rows of one.
pub const TEMP_TABLES: usize = 100;

/// Bytes of the rows of all temporary tables of a session: results that are worked on, and not what
/// is kept; they are also counted in the memory of queries.
pub const TEMP_BYTES: usize = 256 << 20;

/// Bytes of one WAL record: a record is checked whole before it is applied, so it is held in
/// memory once.
pub const WAL_RECORD_BYTES: usize = 256 << 20;

/// Batches of a table that are remembered to be applied once: a writer that repeats one does so
/// within seconds, and the manifest carries them all.
pub const BATCH_MARKS: usize = 1_024;

/// Segments of a database that are open for reading between two uses. Each takes a mapping, of
/// which Linux gives a process 65,530 (`vm.max_map_count`) for its threads and its heap too, and
/// about 10 KiB of memory for its footer.
pub const OPEN_SEGMENTS: usize = 16_384;

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

/// Bytes that a connection or request holds before they count to `memory.connection_limit`: a large
/// statement fits, and 4,096 connections have 128 MiB of them at most.
pub const CONNECTION_FREE_BYTES: usize = 32 << 10;

/// Bytes of a row of an answer over PostgreSQL's protocol: clients, as PostgreSQL itself, take
/// messages of less than 1 GiB.
pub const ROW_BYTES: usize = (1 << 30) - 1_024;

/// Elements of an array that is a parameter: each becomes a literal of the statement, which takes
/// some hundred bytes while it is planned.
pub const ARRAY_ELEMENTS: usize = 1 << 20;

/// Expressions that a SELECT lists, groups by, or sorts by, as many as in PostgreSQL: planning
/// takes time with the square of their number, much of it in steps that cannot be interrupted.
pub const SELECT_ITEMS: usize = 1_664;

/// Sets of a GROUP BY: each takes some 130 KB and a millisecond while it is planned.
pub const GROUPING_SETS: usize = 512;

/// Expressions of all the sets of a GROUP BY together: as many as take as long.
pub const GROUPING_SET_ITEMS: usize = 8_192;

/// Tables that a statement joins: planning takes time with the third power of their number, most
/// of it in steps that cannot be interrupted.
pub const JOINS: usize = 100;

/// Bytes of a statement.
pub const SQL_BYTES: usize = 16 << 20;

/// Bytes of a name or a number in a statement: a name has at most `NAME_BYTES`, and messages repeat
/// it.
pub const SQL_WORD_BYTES: usize = 1 << 10;

/// Bytes of a statement from which the memory for reading it is reserved: shorter ones are read in
/// some milliseconds, and no more at a time than there are threads.
pub const SQL_UNRESERVED_BYTES: usize = 64 << 10;

/// Bytes of the values that the functions of one operator make at a time, for one batch of rows:
/// several texts of the largest size that is stored, and a part of the memory of a small machine.
pub const VALUES_BYTES: u64 = 512 << 20;

/// Bytes of values for which a batch is cut into smaller ones where that is possible: enough that
/// the work for each piece is long beside that of cutting, and no more than a client that reads
/// nothing may hold several of.
pub const SLICE_BYTES: u64 = 16 << 20;

/// Bytes from which a value, or a batch of values, is charged to its statement: smaller ones are
/// as many as a batch has columns.
pub const COUNTED_VALUE_BYTES: u64 = 1 << 20;

/// Bytes of the constants that planning makes a constant of, and of that one: a plan is copied
/// dozens of times, and the work for larger ones is that of running a statement.
pub const FOLDED_BYTES: u64 = 64 << 10;

/// Rows of the frame of an aggregate that keeps all values, for each row of a window: a batch of
/// rows has so many times its values.
pub const FRAME_VALUES: u64 = 1_000;

/// Steps of a comparison of two values whose work is the product of their lengths: a tenth of a
/// second, after which a statement that was ended has stopped.
pub const PAIR_STEPS: u64 = 1 << 26;

/// Steps of such a comparison in one row up to which it is not worth while to do it in another
/// way: some milliseconds.
pub const PLAIN_STEPS: u64 = 1 << 20;

/// Steps of a regular expression in the text of one row, which are the states of the pattern times
/// the bytes of the text: a second or two in the worst case, and far less than that in most.
pub const REGEX_STEPS: u64 = 1 << 30;

/// Such steps between two looks at whether the statement is to go on.
pub const REGEX_SLICE_STEPS: u64 = 1 << 28;

/// Patterns that differ and are compiled at a time: each takes up to 10 MiB and some milliseconds.
pub const PATTERNS_AT_A_TIME: usize = 8;

// A zone never straddles two page frames: docs/format.md, Zones.
const _: () = assert!(FRAME_ROWS.0.is_multiple_of(ZONE_ROWS.0));
const _: () = assert!(SEGMENT_ROWS.0.is_multiple_of(FRAME_ROWS.0));

/// Bytes of lines that wait for the log to be written: some thousand lines, so that a burst is kept
/// and a log that is not read costs no memory to speak of.
pub const LOG_QUEUE_BYTES: usize = 1 << 20;
