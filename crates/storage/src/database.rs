//! A database: a directory that one process has open, its tables, and commits to them.
//!
//! - B1. One process has a directory open at a time.
//! - B2. A commit is visible when it is as durable as requested (`Durability`) and not before; an
//!   acknowledged commit is visible to every snapshot that is taken afterwards.
//! - B3. Before the first commit after an open, everything that was replayed is durable, and
//!   unreferenced files are removed.
//!
//! Commits are planned in `plan` and made durable in `commit`; `recovery` opens a database,
//! `checkpoint` keeps the log short, `garbage_collection` removes unreferenced files. Not here: the
//! rows (`segment`).

mod fsync_guard;
mod directory;
mod memtable;
mod table;
mod plan;
mod commit;
mod sync;
mod budget;
mod ddl;
mod pending;
mod segments;
mod import;
mod upsert;
mod deletion_vectors;
mod change;
mod append;
mod transaction;
mod deletes;
mod dedup;
mod maintenance;
mod relief;
mod ballast;
mod kept;
mod replay_memory;
mod delete_compaction;
mod partitions;
mod recovery;
mod garbage_collection;
mod checkpoint;
mod survey;
mod verify;
mod repair;
mod salvage;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tidegate_model::{ByteCount, Lsn, SeqTxn, TableId, limits};
use tidegate_platform::{Clock, DirLock, Disk};

use crate::error::{Error, Result};
use crate::manifest::BatchId;
use crate::snapshot::Snapshot;
use crate::wal::{CommitOutcome, Log, TornGroup};

pub use append::{AppendOptions, Appended, NewTableOptions, TableAppend};
pub use change::ChangeTxn;
pub use ddl::{NewColumns, Relations, SchemaEdit, TableDdl};
pub(crate) use dedup::{Superseded, superseded};
pub use deletion_vectors::{SegmentDeletes, SnapshotDeletes};
pub use import::{ImportTarget, ImportTxn};
pub use maintenance::{MaintenanceOptions, MaintenanceReport, TableWrites};
pub use pending::{PendingDdl, VisibleTables};
pub use repair::{LogRepair, LostCommits, repair_log};
pub use replay_memory::RecoveryReport;
pub use transaction::{SegmentPin, TableDeletes, TransactionCommit};
pub use verify::{VerifyReport, VerifyStep, survey};

pub(crate) use directory::TableFile;

use ballast::Ballast;
use budget::MemtableBudget;
use checkpoint::Checkpoints;
use commit::{CommitError, Committed, Committer};
use directory::Paths;
use fsync_guard::FsyncGuard;
use maintenance::Maintenance;
use plan::{CommitRequest, Tables};
use recovery::PendingRecovery;
use sync::Syncs;

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
    /// Number of files that a commit syncs at a time; these threads only wait for the disk.
    pub sync_threads: NonZeroUsize,
    /// Permission to change tables and rows.
    pub access: Access,
    /// Disk space that is reserved for operations that free space; 0 for a process that does not
    /// take rows for long.
    pub ballast_bytes: ByteCount,
    /// Segments that stay open for reading between two uses.
    pub open_segments_max: usize,
}

/// The access for which a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads and changes.
    ReadWrite,
    /// Reads only. Maintenance goes on.
    ReadOnly,
}

/// The moment at which a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The record of the commit is on disk.
    Sync,
    /// The operating system has the record: it survives a crash of the process, but not of the
    /// machine, until `Database::sync` is called. Such a crash loses only the latest commits.
    Async,
}

/// The bounds of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// The moment at which a commit is acknowledged.
    pub durability: Durability,
    /// Bytes of records that may be acknowledged and not durable; the next commit syncs the log.
    pub unsynced_bytes_max: u64,
    /// Bytes that are filled with zeros ahead of use, at a time.
    pub step_bytes: u64,
    /// Bytes after which another file is started.
    pub file_bytes: u64,
    /// Bytes after which a commit makes a checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes after which commits fail if there cannot be a checkpoint.
    pub bytes_max: u64,
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
    tables: RwLock<Published>,
    next_table: AtomicU64,
    next_import: AtomicU64,
    committer: Committer,
    memtable_budget: Arc<MemtableBudget>,
    maintenance: Maintenance,
    /// Locked by the leader of a group commit. Code that locks both locks `checkpoints` first.
    log: Mutex<Log>,
    checkpoints: Mutex<Checkpoints>,
    /// The position at which a replay would begin.
    checkpoint_lsn: AtomicU64,
    /// The position up to which the last checkpoint is complete; a replay begins earlier if
    /// memtables have older rows.
    checkpoint_as_of: AtomicU64,
    /// The position up to which everything is on disk.
    durable_lsn: AtomicU64,
    /// True after a failed commit: no other can be made before the log is repaired.
    is_log_broken: AtomicBool,
    /// The state of syncs of the log.
    syncs: Syncs,
    /// The work that B3 still requires.
    pending_recovery: Mutex<Option<PendingRecovery>>,
    ballast: Ballast,
    is_recovered: AtomicBool,
    /// True if a flush of a table has failed since the open (`relief`): until then no table is
    /// checked.
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

/// The state that is visible to all readers (B2).
#[derive(Debug)]
struct Published {
    /// The position after the last commit.
    lsn: Lsn,
    tables: Tables,
    schema_epoch: u64,
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
        OpenOptions {
            clock,
            log,
            maintenance,
            sync_threads,
            access,
            ballast_bytes,
            open_segments_max,
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

impl LogOptions {
    /// Space for some thousand commits at a step, and a replay of less than a second.
    pub const STANDARD: LogOptions = LogOptions {
        durability: Durability::Sync,
        unsynced_bytes_max: 64 << 20,
        step_bytes: 4 << 20,
        file_bytes: 64 << 20,
        checkpoint_bytes: 64 << 20,
        bytes_max: 8 << 30,
    };
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
        let paths = Paths::with_segments(dir, options.open_segments_max);
        let fsync_guard = Arc::new(FsyncGuard::new(Arc::clone(&disk), paths.log()));
        let guarded: Arc<dyn Disk> = Arc::clone(&fsync_guard) as _;
        let home = recovery::make_home(guarded.as_ref(), &paths)?;
        let lock = recovery::lock(guarded.as_ref(), &paths)?;
        fsync_guard.stay_in(&lock);
        let recovered = recovery::recover(&guarded, &paths, &home, options)?;
        let locks = [lock, recovery::lock_log(guarded.as_ref(), &paths)?];
        let log_id = recovered.catalog.log;
        let torn_group = recovered.log_end.torn.clone();
        let log = Log::resume(&guarded, &paths.log(), (log_id, recovered.log_end), options.log);
        let checkpoints = Checkpoints::of(&recovered.catalog, recovered.catalog_damage.is_some());
        let ballast = Ballast::new(paths.scratch().join("ballast"), options.ballast_bytes.0);
        let database = Database {
            disk,
            guarded,
            paths,
            options: options.clone(),
            log_id,
            torn_group,
            next_table: AtomicU64::new(recovered.next_table.0),
            next_import: AtomicU64::new(0),
            committer: Committer::default(),
            memtable_budget: Arc::new(MemtableBudget::new(
                options.maintenance.memtable_bytes_max,
                recovered.tables.memtable_bytes(),
            )),
            maintenance: Maintenance::default(),
            checkpoint_lsn: AtomicU64::new(recovered.catalog.lsn.0),
            checkpoint_as_of: AtomicU64::new(recovered.catalog.as_of.0),
            durable_lsn: AtomicU64::new(log.durable().0),
            is_log_broken: AtomicBool::new(false),
            syncs: Syncs::default(),
            tables: RwLock::new(Published {
                lsn: log.end(),
                tables: recovered.tables,
                schema_epoch: 0,
            }),
            log: Mutex::new(log),
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
            database.shorten_log_of_many_files();
        }
        // BA3.
        database.make_ballast();
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
        latest.map(|mark| mark.id).take(max).collect()
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

    fn published(&self) -> std::sync::RwLockReadGuard<'_, Published> {
        // One thread at a time changes it, in a function that does not panic half-way.
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
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
            self.checkpoint_all().map_err(not_committed)?;
        }
        if self.unsynced_bytes() > self.options.log.unsynced_bytes_max {
            self.sync().map_err(not_committed)?;
        }
        let committed = self.committer.commit(self, request)?;
        let as_of = self.checkpoint_as_of.load(Ordering::Acquire);
        if self.published().lsn.0.saturating_sub(as_of) > self.options.log.checkpoint_bytes {
            self.checkpoint_if_nobody_does();
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
