//! The state of all tables in memory, as of a commit: metadata, memtables, and new segments that no
//! commit contains yet.

pub(crate) mod parallel;
pub(crate) mod memtable;
pub(crate) mod spill;
pub(crate) mod coalesce;
pub(crate) mod state;
pub(crate) mod budget;
pub(crate) mod new_segments;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::TableId;

use crate::catalog::fold_name;
use state::TableState;

/// All tables as of a position in the log.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) by_id: BTreeMap<TableId, Arc<TableState>>,
    /// Table ids by folded name.
    pub(crate) by_name: BTreeMap<String, TableId>,
}

impl Tables {
    /// The table with this name, in any case.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<TableState>> {
        self.by_id.get(self.by_name.get(&fold_name(name))?)
    }

    /// The memory of all memtables in bytes.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.by_id.values().map(|table| table.memtable.memory_bytes()).sum()
    }
}
