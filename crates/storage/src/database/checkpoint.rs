//! Checkpoints: manifests and catalog written anew, so that replay begins later and the log can be
//! purged. Writers go on meanwhile.
//!
//! - C3. The catalog names a position only when every manifest on disk, for good, has everything
//!   before it, but for the rows of tails: replay begins where the oldest of them are in the log.
//! - C4. No manifest or catalog has a commit that the log might lose.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tidegate_model::{Lsn, SeqTxn, TableId};
use tidegate_platform::Disk;

use super::Database;
use super::folder::TablePaths;
use super::plan::Tables;
use super::table::TableState;
use crate::catalog::{Catalog, CatalogTable};
use crate::envelope;
use crate::error::{Error, Result};
use crate::manifest::Manifest;

/// What is in checkpoints for good.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// What they are as of.
    pub(super) as_of: Lsn,
    /// Where a replay begins.
    pub(super) lsn: Lsn,
    /// The commit that each table's manifest is as of.
    pub(super) manifests: BTreeMap<TableId, SeqTxn>,
}

impl Checkpoints {
    pub(super) fn of(catalog: &Catalog) -> Checkpoints {
        let manifests = catalog.tables.iter().map(|table| (table.id, table.seq_txn));
        Checkpoints { as_of: catalog.as_of, lsn: catalog.lsn, manifests: manifests.collect() }
    }
}

impl Database {
    /// Writes what the log holds into manifests and catalog, and purges the log. Also done on
    /// drop, as far as possible, and by commits when the log has grown.
    ///
    /// # Errors
    /// If it cannot be written; then the log stays as it is, and nothing is lost.
    pub fn checkpoint(&self) -> Result<()> {
        self.tidy()?;
        self.write_checkpoints()
    }

    /// As `checkpoint`, also while the database is being tidied.
    pub(super) fn write_checkpoints(&self) -> Result<()> {
        self.write_into(&mut self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a checkpoint unless somebody is making one.
    ///
    /// What it is for is committed: if there cannot be a checkpoint now, the next commit tries
    /// again, and fails with its error when the log has reached its bound.
    pub(super) fn checkpoint_if_nobody_does(&self) {
        if let Ok(mut checkpoints) = self.checkpoints.try_lock() {
            let _ = self.write_into(&mut checkpoints);
        }
    }

    fn write_into(&self, checkpoints: &mut Checkpoints) -> Result<()> {
        let (as_of, tables) = {
            let published = self.published();
            let tables = &published.tables;
            let copy = Tables { by_id: tables.by_id.clone(), by_name: BTreeMap::new() };
            (published.lsn, copy)
        };
        let tails = tables.by_id.values().filter_map(|table| table.tail.origin());
        let lsn = tails.map(|origin| origin.lsn).fold(as_of, Lsn::min);
        if (as_of, lsn) == (checkpoints.as_of, checkpoints.lsn) {
            return Ok(());
        }
        if self.durable_lsn.load(Ordering::Acquire) < as_of.0 {
            // C4.
            self.flush()?;
        }
        self.write_manifests(checkpoints, &tables)?;
        let catalog = self.catalog_of((lsn, as_of), &tables);
        envelope::replace(self.guarded.as_ref(), &self.paths.catalog(), &catalog.encode())
            .map_err(Error::disk("write catalog"))?;
        (checkpoints.as_of, checkpoints.lsn) = (as_of, lsn);
        self.checkpoint_lsn.store(lsn.0, Ordering::Release);
        self.checkpoint_as_of.store(as_of.0, Ordering::Release);
        let mut log = self.log.lock().map_err(|_| Error::CommitterPanicked)?;
        log.purge(lsn)
    }

    fn write_manifests(&self, checkpoints: &mut Checkpoints, tables: &Tables) -> Result<()> {
        let disk = self.guarded.as_ref();
        let known = |id: &TableId| checkpoints.manifests.get(id).copied();
        let is_behind =
            |table: &&Arc<TableState>| known(&table.id()) != Some(table.manifest.seq_txn);
        let behind: Vec<_> = tables.by_id.values().filter(is_behind).collect();
        self.several_at_a_time(behind.len(), &|at| {
            write_manifest(disk, behind[at].folder.paths(), &behind[at].manifest)
        })
        .map_err(Error::disk("write manifest"))?;
        let written = behind.iter().map(|table| (table.id(), table.manifest.seq_txn));
        let written: Vec<(TableId, SeqTxn)> = written.collect();
        if written.iter().any(|(id, _)| known(id).is_none()) {
            // Before the catalog names it, the folder of a table must be there for good.
            disk.sync_dir(&self.paths.tables()).map_err(Error::disk("write manifest"))?;
        }
        checkpoints.manifests.extend(written);
        checkpoints.manifests.retain(|id, _| tables.by_id.contains_key(id));
        Ok(())
    }

    fn catalog_of(&self, (lsn, as_of): (Lsn, Lsn), tables: &Tables) -> Catalog {
        let tables = tables.by_id.values().map(|table| CatalogTable {
            id: table.id(),
            seq_txn: table.manifest.seq_txn,
            name: table.name.clone(),
        });
        let next_table = TableId(self.next_table.load(Ordering::Relaxed));
        Catalog { log: self.log_id, lsn, as_of, next_table, tables: tables.collect() }
    }
}

/// Writes the manifest of a table, for good.
pub(super) fn write_manifest(
    disk: &dyn Disk,
    paths: &TablePaths,
    manifest: &Manifest,
) -> tidegate_platform::Result<()> {
    disk.create_dir_all(paths.root())?;
    envelope::replace(disk, &paths.manifest(), &manifest.encode())
}
