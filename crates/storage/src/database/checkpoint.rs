//! Checkpoints: manifests and catalog written anew, so that replay begins later and the log can be
//! purged. Writers go on meanwhile.
//!
//! - C3. The catalog names a position only when every manifest on disk, for good, has everything
//!   before it.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tidegate_model::{Lsn, SeqTxn, TableId};

use super::Database;
use super::plan::Tables;
use super::table::TableState;
use crate::catalog::{Catalog, CatalogTable};
use crate::envelope;
use crate::error::{Error, Result};

/// What is in checkpoints for good.
#[derive(Debug)]
pub(super) struct Checkpoints {
    pub(super) lsn: Lsn,
    /// The commit that each table's manifest is as of.
    pub(super) manifests: BTreeMap<TableId, SeqTxn>,
}

impl Checkpoints {
    pub(super) fn of(catalog: &Catalog) -> Checkpoints {
        let manifests = catalog.tables.iter().map(|table| (table.id, table.seq_txn));
        Checkpoints { lsn: catalog.lsn, manifests: manifests.collect() }
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
        let (lsn, tables) = {
            let published = self.published();
            let tables = &published.tables;
            let copy = Tables { by_id: tables.by_id.clone(), by_name: BTreeMap::new() };
            (published.lsn, copy)
        };
        if lsn == checkpoints.lsn {
            return Ok(());
        }
        self.write_manifests(checkpoints, &tables)?;
        let catalog = self.catalog_of(lsn, &tables);
        envelope::replace(self.guarded.as_ref(), &self.paths.catalog(), &catalog.encode())
            .map_err(Error::disk("write catalog"))?;
        checkpoints.lsn = lsn;
        self.checkpoint_lsn.store(lsn.0, Ordering::Release);
        let mut log = self.log.lock().map_err(|_| Error::CommitterPanicked)?;
        log.purge(lsn)
    }

    fn write_manifests(&self, checkpoints: &mut Checkpoints, tables: &Tables) -> Result<()> {
        let disk = self.guarded.as_ref();
        let known = |id: &TableId| checkpoints.manifests.get(id).copied();
        let mut written = Vec::new();
        for (id, table) in &tables.by_id {
            let seq_txn = table.manifest.seq_txn;
            if known(id) != Some(seq_txn) {
                write_manifest(disk, table).map_err(Error::disk("write manifest"))?;
                written.push((*id, seq_txn));
            }
        }
        if written.iter().any(|(id, _)| known(id).is_none()) {
            // Before the catalog names it, the folder of a table must be there for good.
            disk.sync_dir(&self.paths.tables()).map_err(Error::disk("write manifest"))?;
        }
        checkpoints.manifests.extend(written);
        checkpoints.manifests.retain(|id, _| tables.by_id.contains_key(id));
        Ok(())
    }

    fn catalog_of(&self, lsn: Lsn, tables: &Tables) -> Catalog {
        let tables = tables.by_id.values().map(|table| CatalogTable {
            id: table.id(),
            seq_txn: table.manifest.seq_txn,
            name: table.name.clone(),
        });
        let next_table = TableId(self.next_table.load(Ordering::Relaxed));
        Catalog { log: self.log_id, lsn, next_table, tables: tables.collect() }
    }
}

fn write_manifest(
    disk: &dyn tidegate_platform::Disk,
    table: &TableState,
) -> tidegate_platform::Result<()> {
    let paths = table.folder.paths();
    disk.create_dir_all(paths.root())?;
    envelope::replace(disk, &paths.manifest(), &table.manifest.encode())
}
