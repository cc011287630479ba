//! Memtables during a replay of the log: bounded like those of an open database, by coalescing, and
//! by a spill file where that is not enough.
//!
//! - replay_memory-1. All memtables together take at most the bound of
//!   `MaintenanceOptions::memtable_bytes_max`, plus the record being applied, and a run being
//!   merged (`COALESCE_BYTES`). A spilled in-memory segment counts with `RUN_BYTES`, so small ones
//!   are merged first.
//! - replay_memory-2. A spill file is not part of the database: it is written in the scratch
//!   directory, is never synced, and has no name once it is mapped. So a crash during a replay
//!   leaves the state before it, and the next replay does the same.
//! - A merged run has the largest id of its source runs, not a new id: a record that is not read
//!   yet may contain any larger id.
//! - Each row is rewritten once for each power of eight rows (policy-1), or when memory is short:
//!   the time of a replay is linear in the log except for that logarithm.
//!
//! No later record of the log takes rows from a memtable here (`recovery` recovery-5). Not here:
//! the choice of the records to apply (`recovery`), flushing the remaining rows (`maintenance`).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_model::{SegmentId, TableId};
use tidegate_platform::Disk;

use crate::catalog::RetainedRecords;
use crate::database::maintenance::policy::{due_coalesce, joinable};
use crate::database::table::coalesce::coalesce_runs;
use crate::database::table::memtable::{Memtable, MemtableRun, memtable_groups};
use crate::database::table::spill::spill_mem_segments;
use crate::error::{Error, Result};
use crate::files::TableDirectory;
use crate::manifest::Manifest;
use crate::segment::MemSegmentBytes;
use crate::snapshot::SegmentFile;

/// The number of runs of a memtable at which it is first checked for runs to coalesce.
const COALESCE_RUNS: usize = 64;

/// The work and the memory of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Number of records read.
    pub records: u64,
    /// The maximal memory of memtables, including the last applied record.
    pub memory_bytes_max: u64,
    /// Number of memtable runs that were merged with others.
    pub coalesced_runs: u64,
    /// Bytes of memtables that were written to spill files.
    pub spilled_bytes: u64,
}

/// A table during the replay of the log.
pub(crate) struct RecoveredTable {
    pub(crate) name: String,
    /// `None` if there is no file, which is valid for a table that is dropped later.
    pub(crate) manifest: Option<Manifest>,
    pub(crate) memtable: Memtable,
    /// The directory, with the strings from records.
    pub(crate) directory: Arc<TableDirectory>,
    pub(crate) next_coalesce: NextCoalesce,
    /// The records of the table that were retained.
    pub(crate) retained: Option<RetainedRecords>,
    /// The reason why the table is suspended.
    pub(crate) damage: Option<Error>,
    /// True if the log has records that could not be applied.
    pub(crate) has_records: bool,
}

/// The number of runs at which a memtable is checked again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextCoalesce {
    runs: usize,
}

/// The memory of all memtables during a replay.
pub(crate) struct ReplayMemory<'a> {
    disk: &'a dyn Disk,
    scratch: PathBuf,
    bytes_max: u64,
    used_bytes: u64,
    spillable_bytes: u64,
    spill_files: u64,
    pub(crate) report: RecoveryReport,
}

impl Default for NextCoalesce {
    fn default() -> NextCoalesce {
        NextCoalesce { runs: COALESCE_RUNS }
    }
}

impl<'a> ReplayMemory<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, scratch: PathBuf, bytes_max: u64) -> ReplayMemory<'a> {
        let (used_bytes, spillable_bytes, spill_files) = (0, 0, 0);
        let report = RecoveryReport::default();
        ReplayMemory { disk, scratch, bytes_max, used_bytes, spillable_bytes, spill_files, report }
    }

    /// Changes a memtable, and updates the counters of memory.
    pub(crate) fn change<T>(
        &mut self,
        memtable: &mut Memtable,
        change: impl FnOnce(&mut Memtable) -> T,
    ) -> T {
        self.used_bytes -= memtable.memory_bytes();
        self.spillable_bytes -= memtable.spillable_bytes();
        let done = change(memtable);
        self.used_bytes += memtable.memory_bytes();
        self.spillable_bytes += memtable.spillable_bytes();
        self.report.memory_bytes_max = self.report.memory_bytes_max.max(self.used_bytes);
        done
    }

    /// Merges runs of a memtable that has many.
    pub(crate) fn coalesce_if_due(&mut self, table: &mut RecoveredTable) {
        if table.memtable.runs().len() < table.next_coalesce.runs {
            return;
        }
        loop {
            let RecoveredTable { manifest: Some(manifest), memtable, .. } = table else { return };
            let groups = memtable_groups(memtable, &manifest.segments);
            let due = groups.iter().filter_map(|group| due_coalesce(group));
            let due: Vec<_> = due.map(<[_]>::to_vec).collect();
            let mut is_done = true;
            for out in due {
                is_done &= !self.merge(table, &out);
            }
            if is_done {
                break;
            }
        }
        // The cost of checking all runs is spread over as many new ones.
        table.next_coalesce.runs = COALESCE_RUNS.max(2 * table.memtable.runs().len());
    }

    /// Spills memtables, the largest first, if all together are above the bound, until they are
    /// below half of it (replay_memory-1).
    pub(crate) fn spill_above_bound(
        &mut self,
        tables: &mut BTreeMap<TableId, RecoveredTable>,
    ) -> Result<()> {
        // A spill frees only the in-memory segments of runs. Without this minimum, file after file
        // would be written for little gain.
        let spill_bytes_min = (self.bytes_max / 4).max(1);
        if self.used_bytes <= self.bytes_max || self.spillable_bytes < spill_bytes_min {
            return Ok(());
        }
        let mut largest: Vec<_> = tables.iter().map(|(&id, table)| (id, &table.memtable)).collect();
        largest.retain(|(_, memtable)| memtable.spillable_bytes() > 0);
        largest.sort_by_key(|(id, memtable)| (Reverse(memtable.spillable_bytes()), *id));
        let largest: Vec<TableId> = largest.into_iter().map(|(id, _)| id).collect();
        let mut to_spill = Vec::new();
        let mut freed_bytes = 0;
        for id in largest {
            if self.used_bytes.saturating_sub(freed_bytes) <= self.bytes_max / 2 {
                break;
            }
            let table = tables.get_mut(&id).expect("it was just found");
            self.merge_all(table);
            freed_bytes += table.memtable.spillable_bytes();
            to_spill.push(id);
        }
        let failed = Error::disk("spill rows of the log, which are more than memory.limit allows");
        self.spill(tables, &to_spill).map_err(failed)
    }

    /// Merges adjacent runs of a memtable wherever their rows fit one run, even if they are few.
    fn merge_all(&mut self, table: &mut RecoveredTable) {
        let Some(manifest) = &table.manifest else { return };
        let groups = memtable_groups(&table.memtable, &manifest.segments);
        let parts = groups.iter().flat_map(|group| joinable(group)).map(<[_]>::to_vec);
        let parts: Vec<_> = parts.collect();
        for out in parts {
            self.merge(table, &out);
        }
    }

    /// Merges runs, and returns true if that was possible. If a later record drops the table or a
    /// column, its symbols may be gone from the disk already: then the runs stay as they are.
    fn merge(&mut self, table: &mut RecoveredTable, out: &[Arc<MemtableRun>]) -> bool {
        let RecoveredTable { manifest: Some(manifest), memtable, directory, .. } = table else {
            return false;
        };
        let largest_id = out.iter().map(|run| run.meta.id).max();
        let largest_id: SegmentId = largest_id.expect("a group has a run");
        let merged = coalesce_runs(directory, manifest, out, &mut || largest_id);
        let Ok(Some(run)) = merged else { return false };
        let run = Arc::new(run);
        self.change(memtable, |memtable| {
            *memtable = memtable.replaced(out, &run).expect("its runs are in the memtable");
        });
        self.report.coalesced_runs += out.len() as u64;
        true
    }

    /// Writes the in-memory segments of these memtables into one file, and maps it.
    fn spill(
        &mut self,
        tables: &mut BTreeMap<TableId, RecoveredTable>,
        to_spill: &[TableId],
    ) -> tidegate_platform::Result<()> {
        let path = self.scratch.join(format!("replay-{}", self.spill_files));
        self.spill_files += 1;
        self.disk.create_dir_all(&self.scratch)?;
        let runs = to_spill.iter().flat_map(|id| tables[id].memtable.runs());
        let mapping = spill_mem_segments(self.disk, &path, runs)?;
        let spilled = to_spill.iter().map(|id| tables[id].memtable.spillable_bytes());
        self.report.spilled_bytes += spilled.sum::<u64>();
        let mut start = 0;
        for id in to_spill {
            let table = tables.get_mut(id).expect("its segments were just written");
            let RecoveredTable { memtable, directory, .. } = table;
            let spilled = |run: &MemtableRun| {
                let end = start + run.file.mem_segment().map_or(0, |mem_segment| mem_segment.len());
                let bytes = MemSegmentBytes::Spilled(mapping.clone(), start..end);
                start = end;
                let file =
                    Arc::new(SegmentFile::of_mem_segment(directory.table(), run.meta, bytes));
                MemtableRun { meta: run.meta, file, origin: run.origin }
            };
            self.change(memtable, |memtable| memtable.spill(spilled));
        }
        Ok(())
    }
}
