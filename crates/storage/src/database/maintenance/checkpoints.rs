//! The durable content of checkpoints, and the decisions that follow from it, without I/O.
//!
//! - checkpoint-1 holds here too.

use std::collections::BTreeMap;

use tidegate_model::{Lsn, SeqTxn, TableId};

use crate::catalog::{Catalog, RetainedRecords};
use crate::database::table::Tables;
use crate::database::table::state::TableState;

/// The durable content of checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    /// The position up to which they are complete.
    pub(crate) as_of: Lsn,
    /// The position at which a replay begins.
    pub(crate) lsn: Lsn,
    /// The last commit in each table's manifest.
    pub(crate) manifests: BTreeMap<TableId, SeqTxn>,
    /// The tables whose records were retained (checkpoint-1).
    pub(crate) retained: BTreeMap<TableId, RetainedRecords>,
    /// True if they were read from the copy of the catalog (`recovery` recovery-7).
    pub(crate) is_catalog_damaged: bool,
}

impl Checkpoints {
    pub(crate) fn of(catalog: &Catalog, is_catalog_damaged: bool) -> Checkpoints {
        let manifests = catalog.tables.iter().map(|table| (table.id, table.seq_txn));
        let retained = catalog.tables.iter().filter_map(|table| Some((table.id, table.retained?)));
        Checkpoints {
            as_of: catalog.as_of,
            lsn: catalog.lsn,
            manifests: manifests.collect(),
            retained: retained.collect(),
            is_catalog_damaged,
        }
    }
}

/// The position at which a replay must begin for the memtables, given the retained records.
pub(crate) fn needed_from(
    tables: &Tables,
    retained: &BTreeMap<TableId, RetainedRecords>,
    end: Lsn,
) -> Lsn {
    let needed = tables.by_id.values().filter_map(|table| {
        let origin = table.memtable.origin()?;
        match retained.get(&table.id()) {
            None => Some(origin.lsn),
            Some(retained) if table.memtable.last() <= Some(retained.seq_txn) => None,
            // Runs may have been merged with retained ones.
            Some(retained) => Some(origin.lsn.max(retained.until)),
        }
    });
    needed.fold(end, Lsn::min)
}

impl Checkpoints {
    /// Returns true if the manifest of a table is to be written.
    pub(crate) fn is_behind(&self, table: &TableState) -> bool {
        let known = self.manifests.get(&table.id()).copied();
        table.damage().is_none() && known != Some(table.manifest.seq_txn)
    }

    /// Returns true if a checkpoint would write the manifest of a table whose records are retained.
    pub(crate) fn is_late(&self, tables: &Tables) -> bool {
        let tables = self
            .retained
            .iter()
            .filter_map(|(id, retained)| Some((tables.by_id.get(id)?, retained)));
        let mut tables = tables.filter(|(table, _)| table.damage().is_none());
        tables.any(|(table, retained)| self.is_behind(table) || !needs(table, *retained))
    }

    /// Returns true if all records of a table are retained already.
    pub(crate) fn has_retained(&self, table: &TableState) -> bool {
        let retained = self.retained.get(&table.id());
        retained.is_some_and(|retained| {
            table.damage().is_some() || retained.seq_txn == table.manifest.seq_txn
        })
    }
}

/// Returns true if the memtable of a table has rows of retained records.
pub(crate) fn needs(table: &TableState, retained: RetainedRecords) -> bool {
    table.memtable.runs().iter().any(|run| run.meta.seq_first <= retained.seq_txn)
}
