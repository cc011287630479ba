//! A database: a directory that one process has open, its tables, and commits to them.
//!
//! - database-1. One process has a directory open at a time.
//! - A commit is visible when it is as durable as requested (`Durability`) and not before; an
//!   acknowledged commit is visible to every snapshot that is taken afterwards.
//! - database-2. Before the first commit after an open, everything that was replayed is durable,
//!   and unreferenced files are removed.
//!
//! This type is the door: the work is done by `Committer`, `TableWriter`, `Maintenance`,
//! `Checkpointer`, `ImportTxn`, `ChangeTxn` and the modules of `open`. Not here: the rows
//! (`segment`).

mod table;
mod commit;
mod ddl;
mod deletes;
mod maintenance;
mod write;
mod open;

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLockReadGuard};

use tidegate_model::{ByteCount, Column, PartitionKey, Schema, SeqTxn, TableId, limits};
use tidegate_platform::{Clock, DirLock, Disk, MemoryBudget};

use crate::change::BatchId;
use crate::error::{Error, Result};
use crate::files::{Paths, TableWrites};
use crate::snapshot::Snapshot;
use crate::wal::{CommitOutcome, Log, LogOptions, TornGroup};

pub use commit::ddl::{NewColumns, Relations, SchemaEdit, TableDdl};
pub use commit::pending::VisibleTables;
pub use commit::request::{DdlBefore, OtherRows, PendingDdl, TableRead};
pub use deletes::vectors::{SegmentDeletes, SnapshotDeletes, TableDeletes};
pub use maintenance::{MaintenanceOptions, MaintenanceReport};
pub use open::repair::{LogRepair, clear_unused_log, repair_log};
pub use open::repair_replay::LostCommits;
pub use open::replay_memory::RecoveryReport;
pub use open::verify::{VerifyReport, VerifyStep, verify_offline};
pub use write::append::{AppendOptions, Appended, MadeFor, NewTableOptions, TableAppend};
pub use write::import::{ImportTarget, ImportTxn};
pub use write::private_rows::{
    PrivateNumbers, PrivateRows, PrivateSnapshot, encode_private, is_private,
};
pub use write::transaction::{SegmentPin, TransactionCommit};
pub use write::update::ChangeTxn;

use commit::group::{Committer, Published};
use commit::request::{CommitError, CommitRequest, Committed};
use deletes::partitions::PartitionDropper;
use maintenance::ballast::Ballast;
use maintenance::checkpoint::Checkpointer;
use maintenance::checkpoints::Checkpoints;
use maintenance::{Maintenance, MaintenanceState, garbage_collection};
use open::fsync_guard::FsyncGuard;
use open::recovery::{self, PendingRecovery, RecoveryCompletion};
use open::verify::Verifier;
use table::budget::MemtableBudget;
use table::new_segments::SegmentSync;
use table::state::TableState;
use write::append::TableWriter;

/// Number of log files from which on opening flushes all memtables. Each process begins one, with
/// room for some thousand commits, and opening keeps the log: without this limit, a process that is
/// killed again and again before a flush would leave more and more of them.
const LOG_FILES_MAX: usize = 32;

/// Options for opening a database.
#[derive(Clone)]
pub struct OpenOptions {
    /// The clock, whose time distinguishes new logs.
    pub clock: Arc<dyn Clock>,
    /// The bounds of the log.
    pub log: LogOptions,
    /// The bounds of memtables.
    pub maintenance: MaintenanceOptions,
    /// Number of files that a commit syncs, or the first write to a table checks, at a time; these
    /// threads only wait for the disk.
    pub sync_threads: NonZeroUsize,
    /// Permission to change tables and rows.
    pub access: Access,
    /// Disk space that is reserved for operations that free space; 0 for a process that does not
    /// take rows for long.
    pub ballast_bytes: ByteCount,
    /// Segments that stay open for reading between two uses.
    pub open_segments_max: usize,
    /// Memory of the dictionaries of symbol columns: beyond it, commits with new symbols fail.
    pub symbol_bytes_max: ByteCount,
}

/// The access for which a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads and changes.
    ReadWrite,
    /// Reads only. Maintenance goes on.
    ReadOnly,
}

/// A table of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// The id of the table, and the name of its directory.
    pub id: TableId,
    /// The name, in the case it was created with.
    pub name: String,
}

/// The description of a table in the system catalog.
#[derive(Debug)]
pub struct TableDescription {
    /// The table; of a damaged table without deletion vectors and symbols, and not to be scanned.
    pub snapshot: Arc<Snapshot>,
    /// The reason why queries of the table fail, if they do.
    pub damage: Option<Error>,
}

/// A database that this process has open. Threads share it.
pub struct Database {
    disk: Arc<dyn Disk>,
    /// The same disk, through which everything durable is written.
    guarded: Arc<dyn Disk>,
    paths: Paths,
    options: OpenOptions,
    log_id: u64,
    torn_group: Option<TornGroup>,
    next_table: AtomicU64,
    next_import: AtomicU64,
    committer: Committer,
    memtable_budget: Arc<MemtableBudget>,
    maintenance: MaintenanceState,
    checkpoints: Mutex<Checkpoints>,
    /// The position at which a replay would begin.
    checkpoint_lsn: AtomicU64,
    /// The position up to which the last checkpoint is complete; a replay begins earlier if
    /// memtables have older rows.
    checkpoint_as_of: AtomicU64,
    /// The work that database-2 still requires.
    pending_recovery: Mutex<Option<PendingRecovery>>,
    ballast: Ballast,
    is_recovered: AtomicBool,
    /// True if a flush of a table has failed since the open (`maintenance::memory`): until then no
    /// table is checked.
    has_failed: AtomicBool,
    /// True if the path of the directory led to another one, or to none, when maintenance checked
    /// it.
    is_moved: AtomicBool,
    /// Errors for files that could not be removed on open.
    warnings: Mutex<Vec<Error>>,
    /// The work that opening took.
    recovery: RecoveryReport,
    /// The locks of the database's directory and of that of the log. Released last.
    locks: [Arc<dyn DirLock>; 2],
}

impl OpenOptions {
    /// The default options of the product.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> OpenOptions {
        // Eight syncs at a time keep a disk busy.
        let sync_threads = NonZeroUsize::new(8).expect("8 is not 0");
        let (log, maintenance) = (LogOptions::STANDARD, MaintenanceOptions::STANDARD);
        let (access, ballast_bytes) = (Access::ReadWrite, ByteCount(0));
        let open_segments_max = limits::OPEN_SEGMENTS;
        let symbol_bytes_max = ByteCount(u64::MAX);
        OpenOptions {
            clock,
            log,
            maintenance,
            sync_threads,
            access,
            ballast_bytes,
            open_segments_max,
            symbol_bytes_max,
        }
    }
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut output = f.debug_struct("OpenOptions");
        output.field("log", &self.log).field("maintenance", &self.maintenance);
        output.field("sync_threads", &self.sync_threads).field("access", &self.access);
        output.finish_non_exhaustive()
    }
}

impl Database {
    /// Opens the database in a directory, or creates one if there is none.
    ///
    /// If the disk cannot be written to, for example because it is full, an existing database can
    /// still be read; commits fail until the disk is writable.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process has it open, [`Error::NewerFormat`] if a newer program
    /// has written to it (then nothing was changed), [`Error::NotADatabase`] if there are other
    /// files, [`Error::Corrupt`] with the place if something that was durable is damaged.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: &OpenOptions) -> Result<Arc<Database>> {
        let paths = Paths::bounded(dir, options.open_segments_max, options.symbol_bytes_max);
        let fsync_guard = Arc::new(FsyncGuard::new(Arc::clone(&disk), paths.log()));
        let guarded: Arc<dyn Disk> = Arc::clone(&fsync_guard) as _;
        let home = recovery::make_home(guarded.as_ref(), &paths)?;
        let lock = recovery::lock(guarded.as_ref(), &paths)?;
        fsync_guard.require_home(&lock);
        let recovered = recovery::recover(&guarded, &paths, &home, options)?;
        let locks = [lock, recovery::lock_log(guarded.as_ref(), &paths)?];
        let log_id = recovered.catalog.log;
        let torn_group = recovered.log_end.torn.clone();
        let log = Log::resume(&guarded, &paths.log(), log_id, recovered.log_end, options.log);
        let checkpoints = Checkpoints::of(&recovered.catalog, recovered.catalog_damage.is_some());
        let ballast = Ballast::new(paths.scratch().join("ballast"), options.ballast_bytes.0);
        let memtable_budget = Arc::new(MemtableBudget::new(
            options.maintenance.memtable_bytes_max,
            recovered.tables.memtable_bytes(),
        ));
        let database = Database {
            disk,
            guarded,
            paths,
            options: options.clone(),
            log_id,
            torn_group,
            next_table: AtomicU64::new(recovered.next_table.0),
            next_import: AtomicU64::new(0),
            committer: Committer::new(log, recovered.tables, &memtable_budget),
            memtable_budget,
            maintenance: MaintenanceState::default(),
            checkpoint_lsn: AtomicU64::new(recovered.catalog.lsn.0),
            checkpoint_as_of: AtomicU64::new(recovered.catalog.as_of.0),
            checkpoints: Mutex::new(checkpoints),
            pending_recovery: Mutex::new(Some(recovered.pending_recovery)),
            ballast,
            is_recovered: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            is_moved: AtomicBool::new(false),
            warnings: Mutex::new(recovered.catalog_damage.into_iter().collect()),
            recovery: recovered.report,
            locks,
        };
        // Files that cannot be removed now are harmless: the next open tries again.
        let _ = garbage_collection::empty_scratch(database.guarded.as_ref(), &database.paths);
        // If this fails, the next commit tries again, and reports the error.
        if database.finish_recovery().is_ok() {
            database.maintenance().shorten_log_of_many_files();
        }
        // ballast-3.
        database.maintenance().make_ballast();
        Ok(Arc::new(database))
    }

    /// The work that opening took.
    #[must_use]
    pub fn recovery_report(&self) -> RecoveryReport {
        self.recovery
    }

    /// The disk of its files.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.paths.root()
    }

    /// The bytes after the end of the log that were ignored on open. They were never acknowledged,
    /// unless the disk has lost a part of them; the two cases cannot be distinguished.
    #[must_use]
    pub fn torn_group(&self) -> Option<&TornGroup> {
        self.torn_group.as_ref()
    }

    /// Removes and returns the warnings of the open, which stop nothing: files that could not be
    /// removed, directories that could not be listed.
    #[must_use]
    pub fn take_warnings(&self) -> Vec<Error> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The suspended tables with the reasons: nothing can be done with them except dropping them.
    #[must_use]
    pub fn suspended(&self) -> Vec<(String, Arc<Error>)> {
        let published = self.published();
        let tables = published.tables.by_id.values();
        let damaged = tables.filter_map(|table| Some((&table.name, table.damage()?)));
        damaged.map(|(name, damage)| (name.clone(), Arc::clone(&damage.error))).collect()
    }

    /// The time of its clock, in microseconds since 1970.
    #[must_use]
    pub fn now_micros(&self) -> i64 {
        self.options.clock.now_micros()
    }

    /// The tables, sorted by name.
    #[must_use]
    pub fn tables(&self) -> Vec<TableEntry> {
        let published = self.published();
        let tables = published.tables.by_name.values().map(|id| &published.tables.by_id[id]);
        tables.map(|table| TableEntry { id: table.id(), name: table.name.clone() }).collect()
    }

    /// The id of a table by its name, without regard to case.
    #[must_use]
    pub fn table_id(&self, name: &str) -> Option<TableId> {
        self.published().tables.find(name).map(|table| table.id())
    }

    /// The batches that tables remember, at most `max` of them; for each table the latest first.
    #[must_use]
    pub fn batches(&self, max: usize) -> Vec<BatchId> {
        let published = self.published();
        let tables = published.tables.by_id.values().map(|table| &table.manifest.batches);
        let known = tables.filter(|batches| !batches.is_empty()).collect::<Vec<_>>();
        let of_each = (max / known.len().max(1)).max(1);
        let latest = known.iter().flat_map(|batches| batches.iter().rev().take(of_each));
        latest.map(|batch| batch.id).take(max).collect()
    }

    /// The name of a table, in the case it was created with; `None` if there is no table with this
    /// id.
    #[must_use]
    pub fn table_name(&self, id: TableId) -> Option<String> {
        self.published().tables.by_id.get(&id).map(|table| table.name.clone())
    }

    /// A snapshot of a table by its name, without regard to case.
    ///
    /// # Errors
    /// If there is no such table, or its symbols or deletion vectors cannot be read.
    pub fn snapshot(&self, table: &str) -> Result<Arc<Snapshot>> {
        self.committed().snapshot(table)
    }

    /// Snapshots of several tables, all as of one moment.
    ///
    /// # Errors
    /// As `snapshot`.
    pub fn snapshots(&self, tables: &[&str]) -> Result<Vec<Arc<Snapshot>>> {
        self.committed().snapshots(tables)
    }

    /// The description of a table for the system catalog: a damaged table is described as far as
    /// possible, so that other tables stay visible.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn describe(&self, table: &str) -> Result<TableDescription> {
        self.committed().describe(table)
    }

    /// A number that rises with every change of names and columns.
    #[must_use]
    pub fn schema_epoch(&self) -> u64 {
        self.published().schema_epoch
    }

    /// Appends rows to tables, with one commit: when it returns, all are durable and visible, or
    /// none.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if a file of a table is damaged so that queries of it fail.
    /// [`Error::SchemaChanged`] if a column does not have the type of the table's column, for
    /// example after a concurrent change: the caller converts again. [`Error::NoSuchTable`] if
    /// there is none and none is to be created, and so on. Then nothing has changed; with
    /// [`Error::InDoubt`], the next open decides.
    pub fn append(
        self: &Arc<Self>,
        appends: &[TableAppend],
        options: &AppendOptions,
    ) -> Result<Appended> {
        self.writer().append(appends, options)
    }

    /// Commits the changes of a transaction (transaction-1).
    ///
    /// # Errors [`Error::RowsChanged`] if rows to delete no longer exist, or the columns of their
    /// table have changed (transaction-3); [`Error::ReadRowsChanged`] if rows of a table that it
    /// has read were changed (transaction-5); [`Error::RowsAdded`] and [`Error::ColumnAdded`] if
    /// rows would lack the default of a new column (transaction-6); [`Error::NameTaken`],
    /// [`Error::TablesChanged`], [`Error::ColumnsChanged`], and those of [`define`](Self::define),
    /// if changes of tables no longer fit; and as [`append`](Self::append). Nothing has changed
    /// then; with [`Error::InDoubt`], the next open decides.
    pub fn commit_transaction(self: &Arc<Self>, commit: &TransactionCommit) -> Result<()> {
        self.writer().commit_transaction(commit)
    }

    /// Starts an import.
    ///
    /// # Errors
    /// If the table does not exist, or the new one does, or a file of the table cannot be read, or
    /// the database is read-only.
    pub fn begin_import(self: &Arc<Self>, target: ImportTarget<'_>) -> Result<ImportTxn> {
        ImportTxn::begin(self, target)
    }

    /// Starts a change of the rows of a table, or of a new table with rows.
    ///
    /// # Errors
    /// As of [`begin_import`](Self::begin_import).
    pub fn begin_change(self: &Arc<Self>, target: ImportTarget<'_>) -> Result<ChangeTxn> {
        ChangeTxn::begin(self, target)
    }

    /// Starts a change of the rows of a table that is based on a snapshot of it. Rows are made for
    /// the columns of the snapshot; columns that are not in `needed` may be dropped meanwhile
    /// (update-3). Its commit fails with [`Error::ColumnAdded`] if one with a default was added.
    ///
    /// # Errors
    /// If the table was dropped, or a needed column, or a file of the table cannot be read, or the
    /// database is read-only.
    pub fn begin_change_of(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        needed: &[Column],
    ) -> Result<ChangeTxn> {
        ChangeTxn::begin_of(self, snapshot, needed, None)
    }

    /// As [`begin_change_of`](Self::begin_change_of), after changes of tables, which the same
    /// commit makes. The snapshot is of the table with these changes.
    ///
    /// # Errors
    /// As `begin_change_of`, and if the changes no longer fit the tables.
    pub fn begin_change_after(
        self: &Arc<Self>,
        before: DdlBefore,
        snapshot: &Snapshot,
        needed: &[Column],
    ) -> Result<ChangeTxn> {
        ChangeTxn::begin_of(self, snapshot, needed, Some(before))
    }

    /// Keeps maintenance from rewriting the segments of a table (transaction-2); `None` if there is
    /// no such table. Waits for a compaction in progress.
    #[must_use]
    pub fn pin_segments(&self, table: TableId) -> Option<SegmentPin> {
        SegmentPin::new(self, table)
    }

    /// Removes the rows of whole partitions that were committed so far; returns the number of
    /// partitions that had rows.
    ///
    /// # Errors
    /// If there is no such table, or something cannot be written: then nothing has changed.
    pub fn drop_partitions(
        self: &Arc<Self>,
        table: &str,
        partitions: &BTreeSet<PartitionKey>,
    ) -> Result<usize> {
        self.partitions().drop_partitions(table, partitions)
    }

    /// Does all due work: repairs a log that could not be written to, frees space if there is none,
    /// coalesces memtables, flushes those that are large or old, compacts segments,
    /// writes a checkpoint. A call takes as long as that; the owner of the database calls it every
    /// few milliseconds, from one thread or several.
    ///
    /// # Errors
    /// The first error; other due work is done all the same. Nothing is lost: failed work is due
    /// again.
    pub fn maintain(&self) -> Result<MaintenanceReport> {
        self.maintenance().maintain()
    }

    /// The work of maintenance since the database was opened, and the bytes written to the log.
    #[must_use]
    pub fn maintenance_report(&self) -> MaintenanceReport {
        MaintenanceReport { log_bytes: self.committer.log_bytes(), ..self.maintenance.report() }
    }

    /// The bytes written for a table since the database was opened; `None` if it does not exist.
    #[must_use]
    pub fn table_writes(&self, table: TableId) -> Option<TableWrites> {
        Some(self.table_state(table)?.directory.writes().read())
    }

    /// The memory of all memtables in bytes.
    #[must_use]
    pub fn memtable_bytes(&self) -> u64 {
        self.memtable_budget.used_bytes()
    }

    /// The memory of all dictionaries of symbol columns, without pages of their files.
    #[must_use]
    pub fn symbol_memory(&self) -> &Arc<MemoryBudget> {
        self.paths.symbol_memory()
    }

    /// Flushes the memtable of a table: its rows are in segments when the call returns.
    ///
    /// # Errors
    /// If there is no such table, or segments cannot be written: then nothing has changed.
    pub fn flush_table(&self, table: &str) -> Result<()> {
        self.maintenance().flush_table(table)
    }

    /// Compacts segments of a table as far as that is due.
    ///
    /// # Errors
    /// If there is no such table, or segments cannot be written: then nothing has changed.
    pub fn compact_table(&self, table: &str) -> Result<()> {
        self.maintenance().compact_table(table)
    }

    /// Writes the changes in the log into manifests and catalog, and purges the log. Also done on
    /// drop, as far as possible, and by commits when the log has grown.
    ///
    /// # Errors
    /// If it cannot be written; then the log stays as it is, and nothing is lost. If only the
    /// manifest of a table cannot be written, the log is purged all the same, and the records of
    /// that table are retained.
    pub fn checkpoint(&self) -> Result<()> {
        self.checkpointer().checkpoint()
    }

    /// Flushes memtables and writes a checkpoint, so that the next open has nothing to replay. Also
    /// done on drop, as far as possible.
    ///
    /// With more than [`limits::CLOSE_TABLES`] tables that are not in checkpoints it only syncs the
    /// log, and the next open replays it: that takes less time than flushing so many.
    ///
    /// # Errors
    /// If something cannot be written; then it is in the log, and nothing is lost.
    pub fn close(&self) -> Result<()> {
        self.maintenance().close()
    }

    /// Makes everything durable that was acknowledged. With
    /// [`Durability::Sync`](crate::wal::Durability::Sync) it already is.
    ///
    /// # Errors
    /// If the log cannot be written to. Acknowledged commits stay visible, and stay in memory for
    /// the next attempt; nothing more is acknowledged before one succeeds.
    pub fn sync(&self) -> Result<()> {
        self.committer.sync()
    }

    /// Bytes of the log that were acknowledged and are not durable.
    #[must_use]
    pub fn unsynced_bytes(&self) -> u64 {
        self.committer.unsynced_bytes()
    }

    /// Returns true if commits fail because the log cannot be written to.
    #[must_use]
    pub fn is_log_broken(&self) -> bool {
        let is_usable = self.is_recovered.load(Ordering::Acquire)
            && !self.is_moved.load(Ordering::Acquire)
            && !self.committer.is_log_broken();
        !is_usable
    }

    /// Returns true if the disk is full: rows are refused, and operations that free space use that
    /// of the ballast.
    #[must_use]
    pub fn is_short_of_space(&self) -> bool {
        self.ballast.is_short()
    }

    /// Reads every byte: log, catalog, manifests, symbols, deletion vectors, segments. `on_segment`
    /// is called before each segment. Statements may run meanwhile; their commits are not read.
    pub fn verify(&self, on_segment: &dyn Fn(&VerifyStep<'_>)) -> Result<VerifyReport> {
        Verifier { database: self }.verify(on_segment)
    }

    /// The tables with changes that are not committed.
    #[must_use]
    pub fn visible(&self, pending: &PendingDdl) -> VisibleTables<'_> {
        VisibleTables::new(self, pending.clone())
    }

    /// The current columns of a table; `None` if there is no such table, or it is suspended: then
    /// an attempt to create one fails with the reason.
    #[must_use]
    pub fn schema_of(&self, table: &str) -> Option<Arc<Schema>> {
        let published = self.published();
        let known = published.tables.find(table).filter(|table| table.damage().is_none());
        known.map(|table| Arc::clone(&table.manifest.schema))
    }

    /// The committed tables.
    fn committed(&self) -> VisibleTables<'_> {
        self.visible(&PendingDdl::default())
    }

    fn maintenance(&self) -> Maintenance<'_> {
        Maintenance { database: self }
    }

    fn checkpointer(&self) -> Checkpointer<'_> {
        Checkpointer { database: self }
    }

    fn segment_sync(&self) -> SegmentSync<'_> {
        SegmentSync { database: self }
    }

    fn partitions(&self) -> PartitionDropper<'_> {
        PartitionDropper { database: self }
    }

    fn writer(self: &Arc<Self>) -> TableWriter<'_> {
        TableWriter { database: self }
    }

    fn published(&self) -> RwLockReadGuard<'_, Published> {
        self.committer.published()
    }

    fn table_states(&self) -> Vec<Arc<TableState>> {
        self.published().tables.by_id.values().map(Arc::clone).collect()
    }

    fn table_state(&self, id: TableId) -> Option<Arc<TableState>> {
        self.committer.table_state(id)
    }

    /// Does the work that is left before the first commit (database-2).
    fn finish_recovery(&self) -> Result<()> {
        RecoveryCompletion { database: self }.finish()
    }

    /// Commits a request; returns its number in its first table.
    fn commit(&self, request: CommitRequest) -> Result<SeqTxn, CommitError> {
        let committed = self.commit_all(request)?;
        Ok(committed.seq_txns.first().expect("the request is about a table").1)
    }

    /// Commits a request; returns its numbers in its tables.
    fn commit_all(&self, request: CommitRequest) -> Result<Committed, CommitError> {
        let not_committed = |error| CommitError { error, outcome: CommitOutcome::NotCommitted };
        self.finish_recovery().map_err(not_committed)?;
        if self.log_bytes() > self.options.log.bytes_max {
            self.checkpointer().checkpoint_all().map_err(not_committed)?;
        }
        if self.unsynced_bytes() > self.options.log.unsynced_bytes_max {
            self.sync().map_err(not_committed)?;
        }
        let maintenance = self.maintenance();
        let may_have_space = |error: &Error| maintenance.may_have_space_after(error);
        let committed = self.committer.commit(request, &may_have_space)?;
        let as_of = self.checkpoint_as_of.load(Ordering::Acquire);
        if self.published().lsn.0.saturating_sub(as_of) > self.options.log.checkpoint_bytes {
            self.checkpointer().checkpoint_if_idle();
        }
        Ok(committed)
    }

    /// The first step of every change: checks access, and finishes the work of the open.
    fn begin_writing(&self) -> Result<()> {
        match self.options.access {
            Access::ReadWrite if self.is_moved.load(Ordering::Acquire) => self.check_in_place(),
            Access::ReadWrite => self.finish_recovery(),
            Access::ReadOnly => Err(Error::OpenedReadOnly),
        }
    }

    /// Checks that its path still leads to the directory that it has open, and stores the result.
    fn check_in_place(&self) -> Result<()> {
        let is_moved = !self.locks.iter().all(|lock| lock.is_in_place());
        self.is_moved.store(is_moved, Ordering::Release);
        match is_moved {
            true => Err(Error::Moved { dir: self.dir().to_path_buf() }),
            false => Ok(()),
        }
    }

    /// The bytes of the log that a replay would read.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.published().lsn.0.saturating_sub(self.checkpoint_lsn.load(Ordering::Acquire))
    }

    fn new_table_id(&self) -> TableId {
        TableId(self.next_table.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Best effort: everything that is not in a checkpoint is in the log.
        let _ = self.close();
        self.ballast.remove(self.guarded.as_ref());
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("dir", &self.dir()).finish_non_exhaustive()
    }
}
