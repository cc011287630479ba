//! Checkpoints: write manifests and catalog, so that replay begins at a later position and the log
//! can be purged. Writers are not blocked.
//!
//! - The catalog names a position only when every manifest is durable with everything before
//!   it, except the rows of memtables: replay begins at the oldest of these in the log.
//! - checkpoint-1. A table whose manifest cannot be written, or whose memtable needs too long a
//!   part of the log, has its records retained, so that it does not block the purge of the log.
//! - checkpoint-2. No manifest or catalog has a commit that the log might lose.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::{Lsn, SeqTxn, TableId};
use tidegate_platform::Disk;

use super::checkpoints::{Checkpoints, needed_from};
use crate::catalog::{Catalog, CatalogTable, RetainedRecords};
use crate::checksummed_file;
use crate::database::Database;
use crate::database::table::Tables;
use crate::error::{Error, Result};
use crate::files::{FailedStep, TablePaths};
use crate::manifest::Manifest;

/// Writes checkpoints of a database, and retains records of tables that hold up the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checkpointer<'a> {
    pub(crate) database: &'a Database,
}

impl Checkpointer<'_> {
    /// Writes the changes in the log into manifests and catalog, and purges the log. Also done on
    /// drop, as far as possible, and by commits when the log has grown.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        match self.checkpoint_all()? {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// As `checkpoint`; returns the error of a table's manifest that could not be written, if any.
    pub(crate) fn checkpoint_all(&self) -> Result<Option<Error>> {
        self.database.finish_recovery()?;
        let mut checkpoints =
            self.database.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        match self.write_into(&mut checkpoints) {
            Err(error) | Ok(Some(error))
                if self.database.maintenance().may_have_space_after(&error) =>
            {
                self.write_into(&mut checkpoints)
            }
            done => done,
        }
    }

    /// Makes a checkpoint unless another thread is making one.
    ///
    /// The commits are in the log already: if no checkpoint is possible now, the next commit tries
    /// again, and fails with its error when the log has reached its bound.
    pub(crate) fn checkpoint_if_idle(&self) {
        if let Ok(mut checkpoints) = self.database.checkpoints.try_lock() {
            let _ = self.write_into(&mut checkpoints);
        }
    }

    fn write_into(&self, checkpoints: &mut Checkpoints) -> Result<Option<Error>> {
        let (as_of, tables) = {
            let published = self.database.published();
            let tables = &published.tables;
            let copy = Tables { by_id: tables.by_id.clone(), by_name: BTreeMap::new() };
            (published.lsn, copy)
        };
        let lsn = needed_from(&tables, &checkpoints.retained, as_of).max(checkpoints.lsn);
        let is_late =
            checkpoints.is_late(&tables) || self.must_retain_records(checkpoints, &tables);
        let is_late = is_late || checkpoints.is_catalog_damaged;
        if (as_of, lsn) == (checkpoints.as_of, checkpoints.lsn) && !is_late {
            return Ok(None);
        }
        if self.database.committer.durable_lsn() < as_of.0 {
            // checkpoint-2.
            self.database.committer.sync()?;
        }
        let failed = self.write_manifests(checkpoints, &tables)?;
        let retained = self.retain_records(checkpoints, &tables, as_of, &failed)?;
        let lsn = needed_from(&tables, &retained, as_of).max(checkpoints.lsn);
        let catalog = self.catalog_of(lsn, as_of, &tables, checkpoints, &retained);
        checksummed_file::replace(
            self.database.guarded.as_ref(),
            &self.database.paths.catalog(),
            &catalog.encode(),
        )
        .map_err(Error::disk("write catalog"))?;
        checksummed_file::replace(
            self.database.guarded.as_ref(),
            &self.database.paths.catalog_copy(),
            &catalog.encode(),
        )
        .map_err(Error::disk("write copy of catalog"))?;
        checkpoints.is_catalog_damaged = false;
        (checkpoints.as_of, checkpoints.lsn) = (as_of, lsn);
        let before = std::mem::replace(&mut checkpoints.retained, retained);
        self.discard_retained(&before, &checkpoints.retained);
        self.database.checkpoint_lsn.store(lsn.0, Ordering::Release);
        self.database.checkpoint_as_of.store(as_of.0, Ordering::Release);
        let mut log = self.database.committer.log.lock().map_err(|_| Error::CommitterPanicked)?;
        log.purge(lsn)?;
        Ok(failed.into_values().next())
    }

    /// Writes the manifests of tables that have changed; returns the errors of those that failed.
    fn write_manifests(
        &self,
        checkpoints: &mut Checkpoints,
        tables: &Tables,
    ) -> Result<BTreeMap<TableId, Error>> {
        let disk = self.database.guarded.as_ref();
        let behind: Vec<_> =
            tables.by_id.values().filter(|table| checkpoints.is_behind(table)).collect();
        let failed: Mutex<BTreeMap<TableId, Arc<Error>>> = Mutex::default();
        self.database.segment_sync().several_at_a_time(behind.len(), &|at| -> Result<()> {
            let table = behind[at];
            match write_manifest(disk, table.directory.paths(), &table.manifest) {
                Ok(()) => table.directory.note_done(FailedStep::Manifest),
                Err(error) => {
                    let error = Arc::new(Error::disk("write manifest")(error));
                    self.database.maintenance().note_failure(table, FailedStep::Manifest, &error);
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.insert(table.id(), error);
                }
            }
            Ok(())
        })?;
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let written = behind.iter().map(|table| (table.id(), table.manifest.seq_txn));
        let written = written.filter(|(id, _)| !failed.contains_key(id));
        let written: Vec<(TableId, SeqTxn)> = written.collect();
        if written.iter().any(|(id, _)| !checkpoints.manifests.contains_key(id)) {
            // The directory of a table must be durable before the catalog names it.
            disk.sync_dir(&self.database.paths.tables()).map_err(Error::disk("write manifest"))?;
        }
        checkpoints.manifests.extend(written);
        checkpoints.manifests.retain(|id, _| tables.by_id.contains_key(id));
        let name = |id: &TableId| tables.by_id[id].name.clone();
        let failed = failed.iter().map(|(id, error)| {
            (*id, Error::NotFlushed { table: name(id), source: Arc::clone(error) })
        });
        Ok(failed.collect())
    }

    fn catalog_of(
        &self,
        lsn: Lsn,
        as_of: Lsn,
        tables: &Tables,
        checkpoints: &Checkpoints,
        retained: &BTreeMap<TableId, RetainedRecords>,
    ) -> Catalog {
        let on_disk = |id| checkpoints.manifests.get(&id).copied().unwrap_or(SeqTxn(0));
        let tables = tables.by_id.values().map(|table| CatalogTable {
            id: table.id(),
            seq_txn: on_disk(table.id()),
            name: table.name.clone(),
            retained: retained.get(&table.id()).copied(),
        });
        let next_table = TableId(self.database.next_table.load(Ordering::Relaxed));
        Catalog { log: self.database.log_id, lsn, as_of, next_table, tables: tables.collect() }
    }
}

/// Writes the manifest of a table durably.
pub(crate) fn write_manifest(
    disk: &dyn Disk,
    paths: &TablePaths,
    manifest: &Manifest,
) -> tidegate_platform::Result<()> {
    disk.create_dir_all(paths.root())?;
    checksummed_file::replace(disk, &paths.manifest(), &manifest.encode())
}
