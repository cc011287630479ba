//! A table as its session sees it: a snapshot that includes the session's uncommitted changes.
//!
//! - A statement sees what was committed before it began, and all changes of its session before it.
//! - Rows are encoded once, unless other sessions have added symbols in the meantime.
//! - If rows of a table with DEDUP keys are deleted, all rows that the session's rows have replaced
//!   are deleted for good: otherwise a row that a deleted one has replaced would reappear.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, MutexGuard, PoisonError};

use tidegate_model::{RowCount, SegmentId};
use tidegate_storage::{
    Error as StorageError, PrivateRows, PrivateSnapshot, SegmentDeletes, SegmentRun, Snapshot,
    SymbolTables, is_private,
};

use super::{Changes, TableChanges, TemporaryTable, next_number};
use crate::error::Result;

/// The number of cached snapshots: a statement may read a table with and without its memtable, and
/// be planned twice.
const OVERLAYS_MAX: usize = 4;

/// The cached state for reading the changes of a table.
#[derive(Debug, Default)]
pub(super) struct OverlayCache {
    generation: u64,
    /// The table's symbols when this generation began.
    base: SymbolTables,
    /// The same, with those of the session's rows.
    symbols: SymbolTables,
    overlays: VecDeque<Arc<Overlay>>,
}

/// A table as its session sees it.
#[derive(Debug)]
struct Overlay {
    /// The stamp of the changes that it contains.
    stamp: u64,
    committed: Arc<Snapshot>,
    /// The session's sorted runs.
    runs: Vec<Arc<SegmentRun>>,
    snapshot: Arc<Snapshot>,
    /// Rows that later rows of the session replace, by the position of their run in `runs`.
    doubled: BTreeMap<usize, Vec<u64>>,
    /// Committed rows that rows of the session replace.
    replaced: Vec<SegmentDeletes>,
}

/// Row positions by segment.
type Rows = BTreeMap<SegmentId, Vec<u64>>;

impl Changes {
    /// A temporary table with its rows; `None` if there is none of this name.
    pub(crate) fn snapshot(&self, name: &str) -> Result<Option<Arc<Snapshot>>> {
        self.find(name).map(|table| self.overlay_on(&table.empty)).transpose()
    }

    /// A temporary table with its rows.
    pub(crate) fn rows_of(&self, table: &TemporaryTable) -> Result<Arc<Snapshot>> {
        self.overlay_on(&table.empty)
    }

    /// Returns a table of the database with the changes of this session.
    pub(crate) fn overlay_on(&self, committed: &Arc<Snapshot>) -> Result<Arc<Snapshot>> {
        match self.tables.get(&committed.table) {
            Some(changes) => changes.overlay(committed).map(|it| Arc::clone(&it.snapshot)),
            None => Ok(Arc::clone(committed)),
        }
    }
}

impl TableChanges {
    fn cache(&self) -> MutexGuard<'_, OverlayCache> {
        // The state is rebuilt from the changes, so a panic leaves nothing inconsistent.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn overlay(&self, committed: &Arc<Snapshot>) -> Result<Arc<Overlay>> {
        let mut cache = self.cache();
        let is_same = |known: &&Arc<Overlay>| {
            known.stamp == self.stamp && Arc::ptr_eq(&known.committed, committed)
        };
        if let Some(known) = cache.overlays.iter().find(is_same) {
            return Ok(Arc::clone(known));
        }
        let version = committed.schema.version();
        if self.found_in.is_some_and(|found| found != version) {
            return Err(StorageError::RowsChanged { table: self.name.clone() }.into());
        }
        let runs = self.encode(&mut cache, committed)?;
        let rows = PrivateRows { runs: &runs, symbols: &cache.symbols, deleted: &self.deleted };
        let PrivateSnapshot { snapshot, doubled, replaced } = committed.with_private(rows)?;
        let (stamp, committed, snapshot) = (self.stamp, Arc::clone(committed), Arc::new(snapshot));
        let overlay = Overlay { stamp, committed, runs, snapshot, doubled, replaced };
        let overlay = Arc::new(overlay);
        if OVERLAYS_MAX <= cache.overlays.len() {
            cache.overlays.pop_front();
        }
        cache.overlays.push_back(Arc::clone(&overlay));
        Ok(overlay)
    }

    /// The session's rows as sorted runs for a snapshot.
    fn encode(
        &self,
        cache: &mut OverlayCache,
        committed: &Snapshot,
    ) -> Result<Vec<Arc<SegmentRun>>> {
        let has_others = !cache.base.is_as_long_as(&committed.symbols);
        let has_own = !cache.symbols.is_as_long_as(&cache.base);
        if has_others || !has_own {
            if has_others && has_own || cache.generation == 0 {
                cache.generation = next_number() + 1;
            }
            cache.base = committed.symbols.clone();
            cache.symbols = committed.symbols.clone();
        }
        let OverlayCache { symbols, generation, .. } = cache;
        let mut runs = Vec::new();
        for batch in &self.batches {
            runs.extend(batch.runs(self.id, symbols, *generation, &self.account)?);
        }
        Ok(runs)
    }

    /// Splits deleted rows into the session's own and those of the table.
    pub(super) fn split(
        &self,
        seen: &Arc<Snapshot>,
        rows: impl Iterator<Item = SegmentDeletes>,
    ) -> (Rows, Rows) {
        let (mut own, mut of_table) = (Rows::new(), Rows::new());
        let overlay = self.overlay_of(seen);
        let replaced = overlay.iter().flat_map(|overlay| overlay.replaced.clone());
        for SegmentDeletes { segment, rows } in rows.chain(replaced) {
            let gone = if is_private(segment) { &mut own } else { &mut of_table };
            gone.entry(segment).or_default().extend(rows);
        }
        if let Some(overlay) = overlay {
            for (&at, rows) in &overlay.doubled {
                own.entry(overlay.runs[at].meta.id).or_default().extend(rows);
            }
        }
        (own, of_table)
    }

    /// The sizes of the segments that a snapshot was made from.
    pub(super) fn committed_sizes(&self, seen: &Arc<Snapshot>) -> Vec<(SegmentId, RowCount)> {
        let overlay = self.overlay_of(seen);
        let runs = overlay.iter().flat_map(|overlay| overlay.committed.segments());
        runs.map(|run| (run.meta.id, run.meta.rows)).collect()
    }

    fn overlay_of(&self, seen: &Arc<Snapshot>) -> Option<Arc<Overlay>> {
        let cache = self.cache();
        let is_same = |known: &&Arc<Overlay>| Arc::ptr_eq(&known.snapshot, seen);
        cache.overlays.iter().find(is_same).map(Arc::clone)
    }
}
