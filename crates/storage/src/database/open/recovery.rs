//! Opening a database: lock, checkpoints, replay, and the work before the first commit.
//!
//! Afterwards the unflushed rows of the log are in memtables again. Nothing is flushed, so opening
//! takes as long as the replay, however many tables have rows in the log.
//!
//! - database-1, database-2 hold here too.
//! - recovery-1. Except scratch files (`replay_memory`), nothing is written before all checkpoints
//!   and log files were read, so that a newer or damaged database stays as it is. If there is
//!   nothing to do, nothing is written at all.
//! - recovery-2. A record is applied to the names if it is not before the catalog's `as_of`, to a
//!   table's manifest if it is after the manifest's commit, and to its memtable if it is after the
//!   manifest's `flushed_seq`: each may be newer than the others.
//! - recovery-3. Files that a replayed record made obsolete are removed only when that record is
//!   durable (recovery-4): until then a power loss may undo it.
//! - A catalog that was read may be lost in the next power loss, if the sync after its rename
//!   has failed. So the log is purged only for a catalog that this process has written.
//! - recovery-4. Before the first commit, and before queries are answered, all replayed records are
//!   durable. Groups that a later group or file counts as durable are: the process that wrote them
//!   had synced them. A sync of the others may have failed, which a later sync does not report;
//!   they are written once more, as the beginning of a new file of the log (wal-6).
//! - recovery-5. Rows that a later record of the log takes from the memtable are never put there:
//!   the record of a flush says up to which commit, and commits made while segments were written
//!   come before it in the log. Runs that were coalesced across that commit could not be split.
//! - recovery-6. A table whose manifest is missing or damaged, or does not fit the log, is
//!   suspended: it is listed and can be dropped, but not used. None of its files is removed or
//!   written.
//! - recovery-7. If the catalog is missing or damaged, its copy is used. The copy is as new, or
//!   older by one checkpoint: the log is purged, and retained records are removed, when both are
//!   written, and the first commit waits until both are the same.
//! - recovery-8. If records of a table were retained, they are applied before the log, in which
//!   they are skipped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tidegate_model::{Lsn, Schema, SegmentId, SeqTxn, TableId, limits};
use tidegate_platform::{DirLock, Disk};

use super::replay_memory::{NextCoalesce, RecoveredTable, RecoveryReport, ReplayMemory};
use crate::catalog::{self, Catalog, fold_name};
use crate::change::{TableChange, TableOp};
use crate::checksummed_file;
use crate::database::maintenance::garbage_collection::{self, Garbage};
use crate::database::maintenance::retained_records;
use crate::database::table::Tables;
use crate::database::table::memtable::{Memtable, Origin};
use crate::database::table::state::{Damage, NewRows, TableState, change_memtable};
use crate::database::{Database, OpenOptions};
use crate::error::{Corruption, Error, Result};
use crate::files::{Paths, TableDirectory};
use crate::manifest::{self, Manifest};
use crate::snapshot::SegmentFile;
use crate::wal::{self, LogEnd, LogSpan, Record, ReplayedRecord, is_unused, list_files};

/// The state of a database read from its files.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) catalog: Catalog,
    pub(crate) tables: Tables,
    pub(crate) next_table: TableId,
    pub(crate) log_end: LogEnd,
    pub(crate) pending_recovery: PendingRecovery,
    pub(crate) report: RecoveryReport,
    /// The reason why the copy of the catalog was read (recovery-7).
    pub(crate) catalog_damage: Option<Error>,
}

/// The work that is left before the first commit (database-2).
#[derive(Debug)]
pub(crate) struct PendingRecovery {
    /// Files that replayed records made obsolete (recovery-3).
    obsolete: Garbage,
    /// True once unreferenced files are removed: this is done only once, because symbol files grow
    /// afterwards.
    is_collected: bool,
}

/// The tables during a replay of the log.
struct Recovery<'a> {
    disk: &'a Arc<dyn Disk>,
    paths: &'a Paths,
    memory: ReplayMemory<'a>,
    /// For each table that a record takes rows from, the last commit whose rows need no memtable at
    /// the end of the log (recovery-5).
    flushed: BTreeMap<TableId, SeqTxn>,
    /// The time from which on rows of the log wait for their flush.
    since_nanos: u64,
    tables: BTreeMap<TableId, RecoveredTable>,
    by_name: BTreeMap<String, TableId>,
    next_table: TableId,
    /// Names and manifests contain everything before this position.
    as_of: Lsn,
    /// The id of the log.
    log: u64,
    obsolete: Garbage,
}

/// Creates the directory if necessary, and returns the directories created, outermost first.
pub(crate) fn make_home(disk: &dyn Disk, paths: &Paths) -> Result<Vec<PathBuf>> {
    let failed = Error::disk("make database");
    let mut made = Vec::new();
    for dir in paths.root().ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
        if disk.exists(dir).map_err(&failed)? {
            break;
        }
        made.push(dir.to_path_buf());
    }
    made.reverse();
    disk.create_dir_all(paths.root()).map_err(&failed)?;
    Ok(made)
}

/// Locks the directory for this process (database-1).
pub(crate) fn lock(disk: &dyn Disk, paths: &Paths) -> Result<Arc<dyn DirLock>> {
    disk.lock_with_folder(&paths.lock()).map(Arc::from).map_err(not_locked(paths))
}

/// Locks the directory of the log too: through a symbolic link it may be that of another database.
pub(crate) fn lock_log(disk: &dyn Disk, paths: &Paths) -> Result<Arc<dyn DirLock>> {
    // No file has this name, so the directory alone is locked.
    let name = paths.log().join("lock");
    disk.lock_existing(&name).map(Arc::from).map_err(not_locked(paths))
}

/// Locks the existing directories for a read-only program: nothing is created.
pub(crate) fn lock_existing(disk: &dyn Disk, paths: &Paths) -> Result<[Arc<dyn DirLock>; 2]> {
    let lock = disk.lock_existing(&paths.lock()).map(Arc::from).map_err(not_locked(paths))?;
    let log = match disk.exists(&paths.log()) {
        // The log is missing, which is reported when it is read.
        Ok(false) => Arc::clone(&lock),
        _ => lock_log(disk, paths)?,
    };
    Ok([lock, log])
}

fn not_locked(paths: &Paths) -> impl Fn(tidegate_platform::Error) -> Error {
    move |error| match error.would_lock() {
        true => Error::InUse { path: paths.root().to_path_buf() },
        false => Error::disk("lock database")(error),
    }
}

/// Reads the database, or creates an empty one if there is none. `home` are the directories that
/// were created for it.
pub(crate) fn recover(
    disk: &Arc<dyn Disk>,
    paths: &Paths,
    home: &[PathBuf],
    options: &OpenOptions,
) -> Result<Recovered> {
    let ReadCatalog { catalog, damage: catalog_damage } = read_catalog(disk.as_ref(), paths)?;
    let catalog = match catalog {
        Some(catalog) => catalog,
        None => create(disk.as_ref(), paths, home, options)?,
    };
    if let Some(path) = wal::aside_files(disk.as_ref(), &paths.log())?.pop() {
        return Err(Error::RepairCutOff { path });
    }
    let mut recovery = Recovery::new(disk, paths, &catalog, options)?;
    let span = LogSpan { log: catalog.log, from: catalog.lsn, until: None };
    recovery.flushed = wal::last_flushed(disk.as_ref(), &paths.log(), span)?;
    recovery.replay_retained()?;
    let mut log_end =
        wal::replay(disk.as_ref(), &paths.log(), span, &mut |record| recovery.apply(&record))?;
    let obsolete = std::mem::take(&mut recovery.obsolete);
    let pending_recovery = PendingRecovery { obsolete, is_collected: false };
    if log_end.lsn < catalog.as_of {
        // The catalog was synced after everything before its `as_of`.
        let what = Corruption::Differs {
            what: "the end of the log",
            expected: catalog.as_of.0,
            actual: log_end.lsn.0,
        };
        return Err(Error::Corrupt { path: paths.log(), offset: 0, what });
    }
    // checkpoint-2.
    log_end.unsynced.count_durable(catalog.as_of);
    let (next_table, report) = (recovery.next_table, recovery.memory.report);
    let tables = recovery.finish();
    Ok(Recovered { catalog, tables, next_table, log_end, pending_recovery, report, catalog_damage })
}

/// The catalog of a database.
#[derive(Debug)]
pub(crate) struct ReadCatalog {
    /// `None` if there is none.
    pub(crate) catalog: Option<Catalog>,
    /// The damage of the catalog's file, if this is the copy (recovery-7).
    pub(crate) damage: Option<Error>,
}

/// Reads the catalog, or its copy (recovery-7).
pub(crate) fn read_catalog(disk: &dyn Disk, paths: &Paths) -> Result<ReadCatalog> {
    let damage = match read_catalog_at(disk, paths.catalog()) {
        Ok(Some(catalog)) => return Ok(ReadCatalog { catalog: Some(catalog), damage: None }),
        Ok(None) => Error::missing(&paths.catalog()),
        Err(error) if is_of_table(&error) => error,
        Err(error) => return Err(error),
    };
    match read_catalog_at(disk, paths.catalog_copy()) {
        Ok(Some(catalog)) => Ok(ReadCatalog { catalog: Some(catalog), damage: Some(damage) }),
        Ok(None) if damage.is_missing() => Ok(ReadCatalog { catalog: None, damage: None }),
        // With a missing catalog, or after an error of the machine, the error of the copy counts.
        Err(error) if !is_of_table(&error) || damage.is_missing() => Err(error),
        Ok(None) | Err(_) => Err(damage),
    }
}

/// Reads the catalog of an existing database.
pub(crate) fn existing_catalog(disk: &dyn Disk, paths: &Paths) -> Result<(Catalog, Option<Error>)> {
    let ReadCatalog { catalog, damage } = read_catalog(disk, paths)?;
    Ok((catalog.ok_or_else(|| Error::missing(&paths.catalog()))?, damage))
}

/// Checks the copy of the catalog, if there is one.
pub(crate) fn check_catalog_copy(disk: &dyn Disk, paths: &Paths) -> Result<()> {
    read_catalog_at(disk, paths.catalog_copy()).map(drop)
}

fn read_catalog_at(disk: &dyn Disk, path: PathBuf) -> Result<Option<Catalog>> {
    let Some(bytes) = checksummed_file::read(disk, &path, "read catalog")? else { return Ok(None) };
    let catalog = catalog::decode(&bytes).map_err(Error::decode(&path))?;
    if !catalog.lsn.0.is_multiple_of(limits::PAGE_BYTES) {
        let what = Corruption::Impossible { what: "the position in the log", value: catalog.lsn.0 };
        return Err(Error::Corrupt { path, offset: 0, what });
    }
    Ok(Some(catalog))
}

pub(crate) fn read_manifest(
    disk: &dyn Disk,
    paths: &Paths,
    table: TableId,
) -> Result<Option<Manifest>> {
    let path = paths.table(table).manifest();
    let Some(bytes) = checksummed_file::read(disk, &path, "read manifest")? else {
        return Ok(None);
    };
    manifest::decode(&bytes, table).map(Some).map_err(Error::decode(&path))
}

/// Creates an empty database, which exists once its catalog does.
fn create(
    disk: &dyn Disk,
    paths: &Paths,
    home: &[PathBuf],
    options: &OpenOptions,
) -> Result<Catalog> {
    refuse_foreign_files(disk, paths)?;
    let id = options.clock.now_micros().cast_unsigned();
    let (lsn, as_of, next_table) = (Lsn(0), Lsn(0), TableId(1));
    let catalog = Catalog { log: id, lsn, as_of, next_table, tables: Vec::new() };
    let outcome = make_directories(disk, paths, home)
        .and_then(|()| wal::create(disk, &paths.log(), id))
        .and_then(|()| checksummed_file::replace(disk, &paths.catalog(), &catalog.encode()));
    match outcome {
        Ok(()) => Ok(catalog),
        Err(error) => {
            // The new names may be lost in the next power loss: they are created again next time.
            if let Some(outermost) = home.first() {
                let _ = disk.remove_dir_all(outermost);
            }
            Err(Error::disk("make database")(error))
        }
    }
}

fn make_directories(
    disk: &dyn Disk,
    paths: &Paths,
    home: &[PathBuf],
) -> tidegate_platform::Result<()> {
    for dir in [paths.tables(), paths.log(), paths.scratch()] {
        // An existing directory is empty, and from a failed attempt, whose sync may have failed
        // too.
        disk.remove_dir_all(&dir)?;
        disk.create_dir_all(&dir)?;
    }
    disk.sync_dir(paths.root())?;
    for dir in home.iter().rev() {
        disk.sync_dir(directory_of(dir))?;
    }
    // An interrupted attempt may have created some of the parent directories without syncing their
    // names. Directories that this process may not sync were not created by it.
    let above = paths.root().ancestors().filter(|dir| !dir.as_os_str().is_empty());
    for dir in above.filter(|dir| !home.iter().any(|made| made == dir)) {
        let _ = disk.sync_dir(directory_of(dir));
    }
    Ok(())
}

/// The parent directory of a path.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Without a catalog, checks that the directory has no files of a database that lost its catalog,
/// and no files that creating a database would overwrite or remove.
fn refuse_foreign_files(disk: &dyn Disk, paths: &Paths) -> Result<()> {
    let list = |dir: &Path| match disk.list(dir) {
        Ok(entries) => Ok(entries),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(Error::disk("make database")(error)),
    };
    let is_temporary = |name: &str| name.ends_with(checksummed_file::TEMPORARY);
    if let Some(entry) = list(&paths.tables())?.iter().find(|entry| !is_temporary(&entry.name)) {
        let is_table = entry.is_dir && entry.name.bytes().all(|byte| byte.is_ascii_digit());
        return Err(if is_table { Error::missing(&paths.catalog()) } else { foreign(paths) });
    }
    let log_entries = list(&paths.log())?;
    let log_files =
        if log_entries.is_empty() { Vec::new() } else { list_files(disk, &paths.log())? };
    for file in &log_files {
        if !is_unused(disk, &file.path)? {
            return Err(Error::missing(&paths.catalog()));
        }
    }
    let temporary = log_entries.iter().filter(|entry| is_temporary(&entry.name)).count();
    if log_entries.len() != log_files.len() + temporary || !list(&paths.scratch())?.is_empty() {
        return Err(foreign(paths));
    }
    Ok(())
}

fn foreign(paths: &Paths) -> Error {
    Error::NotADatabase { path: paths.root().to_path_buf() }
}

impl<'a> Recovery<'a> {
    fn new(
        disk: &'a Arc<dyn Disk>,
        paths: &'a Paths,
        catalog: &Catalog,
        options: &OpenOptions,
    ) -> Result<Recovery<'a>> {
        let bytes_max = options.maintenance.memtable_bytes_max;
        let mut recovery = Recovery {
            disk,
            paths,
            memory: ReplayMemory::new(disk.as_ref(), paths.scratch(), bytes_max),
            flushed: BTreeMap::new(),
            since_nanos: options.clock.monotonic_nanos(),
            tables: BTreeMap::new(),
            by_name: BTreeMap::new(),
            next_table: catalog.next_table,
            as_of: catalog.as_of,
            log: catalog.log,
            obsolete: Garbage::default(),
        };
        for table in &catalog.tables {
            let (manifest, damage) = match read_manifest(disk.as_ref(), paths, table.id) {
                Ok(manifest) => (manifest, None),
                Err(error) if is_of_table(&error) => (None, Some(error)),
                Err(error) => return Err(error),
            };
            recovery.by_name.insert(fold_name(&table.name), table.id);
            let inserted = recovery.insert(table.id, &table.name, manifest);
            (inserted.retained, inserted.damage) = (table.retained, damage);
        }
        Ok(recovery)
    }

    /// Applies the records that were retained (recovery-8).
    fn replay_retained(&mut self) -> Result<()> {
        let retained = self.tables.iter().filter_map(|(&id, table)| Some((id, table.retained?)));
        for (id, retained) in retained.collect::<Vec<_>>() {
            let (disk, paths, log) = (self.disk.as_ref(), self.paths, self.log);
            let replayed =
                retained_records::last_flushed(disk, paths, log, id, retained).and_then(|last| {
                    let known = self.flushed.entry(id).or_insert(last);
                    *known = last.max(*known);
                    let mut apply = |record: &Record| self.apply_retained(record, retained.until);
                    retained_records::read(disk, paths, log, id, retained, &mut apply)
                });
            match replayed {
                Err(error) if is_of_table(&error) => self.suspend(id, error),
                other => other?,
            }
        }
        Ok(())
    }

    fn apply_retained(&mut self, record: &Record, until: Lsn) -> Result<()> {
        let paths = self.paths;
        let mut applies = None;
        for op in &record.ops {
            let path = || paths.retained_file(op.table, until);
            let misfit = |what| Error::Corrupt { path: path(), offset: 0, what };
            if let TableChange::Create { schema, .. } = &op.change {
                let table = self.tables.get_mut(&op.table).expect("its records are kept");
                let is_new = table.manifest.is_none();
                if is_new {
                    table.manifest = Some(Manifest::new(op.table, op.seq_txn, Arc::clone(schema)));
                    // All of the table's history is in records.
                    table.damage = None;
                }
                applies = Some(is_new);
                continue;
            }
            let is_applied = match applies {
                Some(applies) => applies,
                None => self.is_older_than(op).map_err(misfit)?,
            };
            applies = Some(is_applied);
            if is_applied && self.tables[&op.table].manifest.is_some() {
                self.apply_to_manifest(op).map_err(misfit)?;
            }
            self.apply_to_memtable(op, until)?;
        }
        self.memory.spill_above_bound(&mut self.tables)
    }

    fn apply(&mut self, replayed: &ReplayedRecord<'_>) -> Result<()> {
        let misfit = |what| {
            let path = replayed.path.to_path_buf();
            Error::Corrupt { path, offset: replayed.offset, what }
        };
        self.memory.report.records += 1;
        let is_old = replayed.lsn < self.as_of;
        // All changes of a table in one record are applied, or none (wal-1).
        let mut applies: BTreeMap<TableId, bool> = BTreeMap::new();
        for op in &replayed.record.ops {
            let known = self.tables.get(&op.table);
            if is_old && known.is_none_or(|table| table.has_retained(replayed.lsn)) {
                // The table was dropped before the catalog was written, or the record is retained
                // (recovery-8).
                continue;
            }
            if let TableChange::Create { name, schema } = &op.change {
                let is_new = !is_old && self.create(op, name, schema, &misfit)?;
                applies.insert(op.table, is_new);
                continue;
            }
            if known.is_none() {
                let what = "the table of a change";
                return Err(misfit(Corruption::Impossible { what, value: op.table.0 }));
            }
            if let Err(what) = self.apply_to_table(op, is_old, &mut applies) {
                self.suspend(op.table, misfit(what));
            }
            self.apply_to_memtable(op, replayed.lsn)?;
            if !is_old {
                self.apply_to_catalog(op).map_err(misfit)?;
            }
        }
        self.memory.spill_above_bound(&mut self.tables)
    }

    /// Applies a change to the manifest of its table, if the manifest is older (recovery-2).
    fn apply_to_table(
        &mut self,
        op: &TableOp,
        is_old: bool,
        applies: &mut BTreeMap<TableId, bool>,
    ) -> Result<(), Corruption> {
        let applies = match applies.get(&op.table) {
            Some(&applies) => applies,
            None => {
                let decided = self.is_older_than(op)?;
                applies.insert(op.table, decided);
                decided
            }
        };
        let table = self.tables.get_mut(&op.table).expect("the caller has found it");
        table.has_records |= table.manifest.is_none();
        if !applies || table.manifest.is_none() {
            return Ok(());
        }
        if is_old {
            let what = "a commit that a manifest lacks";
            return Err(Corruption::Impossible { what, value: op.seq_txn.0 });
        }
        self.apply_to_manifest(op)
    }

    /// Suspends a table: its files, or its records in the log, are not as they were written
    /// (recovery-6).
    fn suspend(&mut self, id: TableId, error: Error) {
        let table = self.tables.get_mut(&id).expect("it is one of the catalog");
        table.manifest = None;
        self.memory.change(&mut table.memtable, |memtable| *memtable = Memtable::default());
        table.damage.get_or_insert(error);
        table.has_records = true;
    }

    fn insert(
        &mut self,
        id: TableId,
        name: &str,
        manifest: Option<Manifest>,
    ) -> &mut RecoveredTable {
        let directory = TableDirectory::new(self.disk, self.paths, id, SegmentId(0));
        directory.begin_replay();
        let (name, memtable, directory) =
            (name.to_owned(), Memtable::default(), Arc::new(directory));
        let next_coalesce = NextCoalesce::default();
        let (retained, damage, has_records) = (None, None, false);
        self.tables
            .entry(id)
            .insert_entry(RecoveredTable {
                name,
                manifest,
                memtable,
                directory,
                next_coalesce,
                retained,
                damage,
                has_records,
            })
            .into_mut()
    }

    /// Applies the rows of an append that are not in segments, and the effects of other changes on
    /// rows (recovery-2).
    fn apply_to_memtable(&mut self, op: &TableOp, lsn: Lsn) -> Result<()> {
        let Some(table) = self.tables.get_mut(&op.table) else { return Ok(()) };
        let RecoveredTable { manifest: Some(manifest), memtable, directory, .. } = table else {
            return Ok(());
        };
        let mut files = Vec::new();
        match &op.change {
            // Symbol files have its strings, or later records contain them again.
            TableChange::Append { .. } if op.seq_txn <= manifest.flushed_seq => return Ok(()),
            TableChange::Append { mem_segments, symbols, .. } => {
                symbols.iter().for_each(|texts| directory.replay_symbols(texts));
                if self.flushed.get(&op.table).is_some_and(|last| op.seq_txn <= *last) {
                    return Ok(());
                }
                for mem_segment in mem_segments {
                    files.push(Arc::new(SegmentFile::replayed(op.table, mem_segment)?));
                }
            }
            TableChange::Truncate => directory.forget_replayed_symbols(),
            TableChange::Alter { .. }
            | TableChange::AddSegments { .. }
            | TableChange::Replace { .. } => directory.replay_marks(manifest),
            TableChange::Create { .. }
            | TableChange::Drop
            | TableChange::Rename { .. }
            | TableChange::DeletionVector { .. }
            | TableChange::GivenUp => {}
        }
        let origin = Origin { lsn, since_nanos: self.since_nanos };
        let rows = NewRows { files: &files, origin };
        self.memory.change(memtable, |memtable| change_memtable(memtable, &op.change, Some(rows)));
        self.memory.coalesce_if_due(table);
        Ok(())
    }

    /// Returns true if a table's manifest is older than a change (recovery-2).
    fn is_older_than(&self, op: &TableOp) -> Result<bool, Corruption> {
        let unknown = Corruption::Impossible { what: "the table of a change", value: op.table.0 };
        let table = self.tables.get(&op.table).ok_or(unknown)?;
        table.manifest.as_ref().map_or(Ok(false), |manifest| manifest.is_older_than(op))
    }

    /// Creates a table; returns `true` if there is no newer manifest of it.
    fn create(
        &mut self,
        op: &TableOp,
        name: &str,
        schema: &Arc<Schema>,
        misfit: &dyn Fn(Corruption) -> Error,
    ) -> Result<bool> {
        let taken =
            self.tables.contains_key(&op.table) || self.by_name.contains_key(&fold_name(name));
        if taken || op.seq_txn != SeqTxn(1) || op.table.0 == u64::MAX {
            let what = "a new table with a name or number taken";
            return Err(misfit(Corruption::Impossible { what, value: op.table.0 }));
        }
        catalog::check_name(name).map_err(|error| misfit(error.into()))?;
        let known = match read_manifest(self.disk.as_ref(), self.paths, op.table) {
            // The log contains all of the table.
            Err(error) if is_of_table(&error) => None,
            known => known?,
        };
        let is_new = known.is_none();
        let manifest =
            known.unwrap_or_else(|| Manifest::new(op.table, op.seq_txn, Arc::clone(schema)));
        self.by_name.insert(fold_name(name), op.table);
        self.insert(op.table, name, Some(manifest));
        self.next_table = self.next_table.max(TableId(op.table.0 + 1));
        Ok(is_new)
    }

    fn apply_to_manifest(&mut self, op: &TableOp) -> Result<(), Corruption> {
        let paths = self.paths.table(op.table);
        let table = self.tables.get_mut(&op.table);
        let manifest = table.and_then(|table| table.manifest.as_mut()).expect("it is behind");
        for obsolete in manifest.obsoleted_by(&op.change) {
            self.obsolete.files.insert(paths.obsolete(&manifest.schema, &obsolete));
        }
        manifest.apply(op.seq_txn, &op.change)
    }

    fn apply_to_catalog(&mut self, op: &TableOp) -> Result<(), Corruption> {
        let table = self.tables.get_mut(&op.table);
        let Some(table) = table else {
            let what = "a change of a dropped table";
            return Err(Corruption::Impossible { what, value: op.table.0 });
        };
        match &op.change {
            TableChange::Drop => {
                self.by_name.remove(&fold_name(&table.name));
                self.memory.change(&mut table.memtable, |memtable| *memtable = Memtable::default());
                self.tables.remove(&op.table);
                self.obsolete.directories.insert(self.paths.table(op.table).root().to_path_buf());
            }
            TableChange::Rename { name } => {
                catalog::check_name(name)?;
                self.by_name.remove(&fold_name(&table.name));
                if self.by_name.insert(fold_name(name), op.table).is_some() {
                    let what = "a table renamed to a name taken";
                    return Err(Corruption::Impossible { what, value: op.table.0 });
                }
                table.name.clone_from(name);
            }
            TableChange::Create { .. }
            | TableChange::Truncate
            | TableChange::Alter { .. }
            | TableChange::AddSegments { .. }
            | TableChange::DeletionVector { .. }
            | TableChange::Append { .. }
            | TableChange::Replace { .. }
            | TableChange::GivenUp => {}
        }
        Ok(())
    }

    fn finish(self) -> Tables {
        let mut by_id = BTreeMap::new();
        for (id, table) in self.tables {
            let RecoveredTable { name, manifest, memtable, directory, damage, has_records, .. } =
                table;
            let Some(manifest) = manifest else {
                let missing = || Error::missing(&self.paths.table(id).manifest());
                let error = Arc::new(damage.unwrap_or_else(missing));
                let damage = Damage { error, has_records };
                by_id.insert(id, Arc::new(TableState::suspended(directory, name, damage)));
                continue;
            };
            directory.raise_next_segment(manifest.next_segment);
            let replayed = directory.end_replay(&manifest, !memtable.is_empty());
            let table = TableState::recovered(directory, name, manifest, memtable, &replayed);
            by_id.insert(id, Arc::new(table));
        }
        Tables { by_id, by_name: self.by_name }
    }
}

/// Does the work that opening leaves to the first commit (database-2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecoveryCompletion<'a> {
    pub(crate) database: &'a Database,
}

impl RecoveryCompletion<'_> {
    /// Does the work that is left before the first commit (database-2).
    pub(crate) fn finish(&self) -> Result<()> {
        if self.database.is_recovered.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut left =
            self.database.pending_recovery.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pending_recovery) = &mut *left {
            self.run_pending_recovery(pending_recovery).map_err(|error| match error {
                Error::ReadOnly { .. } => error,
                error => Error::ReadOnly { source: Arc::new(error) },
            })?;
            *left = None;
            self.database.is_recovered.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Writes the copy of the catalog, if the catalog can be read (recovery-7).
    fn copy_catalog(&self) -> Result<()> {
        let disk = self.database.guarded.as_ref();
        if !matches!(read_catalog_at(disk, self.database.paths.catalog()), Ok(Some(_))) {
            return Ok(());
        }
        let catalog = checksummed_file::read(disk, &self.database.paths.catalog(), "read catalog")?;
        let copy =
            checksummed_file::read(disk, &self.database.paths.catalog_copy(), "read catalog")
                .ok()
                .flatten();
        match catalog {
            Some(bytes) if copy.as_ref() != Some(&bytes) => {
                checksummed_file::replace(disk, &self.database.paths.catalog_copy(), &bytes)
                    .map_err(Error::disk("write copy of catalog"))
            }
            _ => Ok(()),
        }
    }

    fn run_pending_recovery(&self, pending_recovery: &mut PendingRecovery) -> Result<()> {
        self.copy_catalog()?;
        let disk = self.database.guarded.as_ref();
        if !pending_recovery.is_collected {
            let (garbage, failed) = garbage_collection::find_garbage(
                disk,
                &self.database.paths,
                &self.database.published().tables,
            );
            self.remove(&garbage.without(&pending_recovery.obsolete));
            self.warn(failed);
            let checkpoints =
                self.database.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
            match retained_records::find_garbage(disk, &self.database.paths, &checkpoints.retained)
            {
                Ok(garbage) => self.remove(&garbage),
                Err(error) => self.warn(vec![error]),
            }
            pending_recovery.is_collected = true;
        }
        // recovery-4.
        self.database.committer.sync()?;
        self.remove(&pending_recovery.obsolete);
        Ok(())
    }

    /// Removes files that belong to no commit. Files that cannot be removed stay, and their ids are
    /// not reused.
    fn remove(&self, garbage: &Garbage) {
        for (path, error) in garbage.remove(self.database.guarded.as_ref()) {
            let (table, segment) = garbage_collection::number_of(&self.database.paths, &path);
            if let Some(id) = table {
                self.database.next_table.fetch_max(id.0.saturating_add(1), Ordering::Relaxed);
                if let (Some(table), Some(segment)) = (self.database.table_state(id), segment) {
                    table.directory.raise_next_segment(SegmentId(segment.0.saturating_add(1)));
                }
            }
            self.warn(vec![error]);
        }
    }

    fn warn(&self, errors: Vec<Error>) {
        self.database.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(errors);
    }
}

impl RecoveredTable {
    /// Returns true if the record at this position is among the retained ones.
    fn has_retained(&self, lsn: Lsn) -> bool {
        self.retained.is_some_and(|retained| lsn < retained.until)
    }
}

/// Returns true for errors of one table, not of the machine: then the others are opened without it
/// (recovery-6). Errors that may be transient do not count: a process without file descriptors or
/// memory would suspend intact tables.
fn is_of_table(error: &Error) -> bool {
    match error {
        Error::Corrupt { .. } => true,
        Error::Disk { source, .. } => source.is_of_file(),
        _ => false,
    }
}
