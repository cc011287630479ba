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
//! - A run takes its id from one of those that it was made from: ids above those of the
//!   records so far may be in a later record.
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
use crate::database::table::coalesce::coalesced;
use crate::database::table::memtable::{Memtable, MemtableRun, memtable_groups};
use crate::database::table::spill::spill_mem_segments;
use crate::error::{Error, Result};
use crate::files::TableDirectory;
use crate::manifest::Manifest;
use crate::segment::MemSegmentBytes;
use crate::snapshot::SegmentFile;

/// Number of runs of a memtable from which it is checked for runs to coalesce.
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

/// The number of runs from which a memtable is checked again.
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

    /// Changes a memtable, and counts its memory afterwards.
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

    /// Reduces the number of runs of a memtable that has many.
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
                is_done &= !self.join(table, &out);
            }
            if is_done {
                break;
            }
        }
        // The cost of checking all runs is spread over as many new ones.
        table.next_coalesce.runs = COALESCE_RUNS.max(2 * table.memtable.runs().len());
    }

    /// Reduces all memtables below half of the bound if they are above it (replay_memory-1).
    pub(crate) fn relieve(&mut self, tables: &mut BTreeMap<TableId, RecoveredTable>) -> Result<()> {
        // The memory of runs besides their in-memory segments is not freed: without this minimum, a
        // file would be written again and again for little gain.
        let worthwhile_bytes = (self.bytes_max / 4).max(1);
        if self.used_bytes <= self.bytes_max || self.spillable_bytes < worthwhile_bytes {
            return Ok(());
        }
        let mut largest: Vec<_> = tables.iter().map(|(&id, table)| (id, &table.memtable)).collect();
        largest.retain(|(_, memtable)| memtable.spillable_bytes() > 0);
        largest.sort_by_key(|(id, memtable)| (Reverse(memtable.spillable_bytes()), *id));
        let largest: Vec<TableId> = largest.into_iter().map(|(id, _)| id).collect();
        let mut taken = Vec::new();
        let mut given_back = 0;
        for id in largest {
            if self.used_bytes.saturating_sub(given_back) <= self.bytes_max / 2 {
                break;
            }
            let table = tables.get_mut(&id).expect("it was just found");
            self.join_all(table);
            given_back += table.memtable.spillable_bytes();
            taken.push(id);
        }
        let failed = Error::disk("spill rows of the log, which are more than memory.limit allows");
        self.spill(tables, &taken).map_err(failed)
    }

    /// Merges all runs of a memtable that fit one run, even if they are few.
    fn join_all(&mut self, table: &mut RecoveredTable) {
        let Some(manifest) = &table.manifest else { return };
        let groups = memtable_groups(&table.memtable, &manifest.segments);
        let parts = groups.iter().flat_map(|group| joinable(group)).map(<[_]>::to_vec);
        let parts: Vec<_> = parts.collect();
        for out in parts {
            self.join(table, &out);
        }
    }

    /// Merges runs, if they can be read now. Symbols of a table or a column that a later record
    /// drops may be gone from the disk: then its runs stay as they are.
    fn join(&mut self, table: &mut RecoveredTable, out: &[Arc<MemtableRun>]) -> bool {
        let RecoveredTable { manifest: Some(manifest), memtable, directory, .. } = table else {
            return false;
        };
        let last = out.iter().map(|run| run.meta.id).max();
        let last: SegmentId = last.expect("a group has a run");
        let joined = coalesced(directory, manifest, out, &mut || last);
        let Ok(Some(run)) = joined else { return false };
        let run = Arc::new(run);
        self.change(memtable, |memtable| {
            *memtable = memtable.replaced(out, &run).expect("its runs are in the memtable");
        });
        self.report.coalesced_runs += out.len() as u64;
        true
    }

    /// Writes the in-memory segments of memtables into a file.
    fn spill(
        &mut self,
        tables: &mut BTreeMap<TableId, RecoveredTable>,
        taken: &[TableId],
    ) -> tidegate_platform::Result<()> {
        let path = self.scratch.join(format!("replay-{}", self.spill_files));
        self.spill_files += 1;
        self.disk.create_dir_all(&self.scratch)?;
        let runs = taken.iter().flat_map(|id| tables[id].memtable.runs());
        let mapping = spill_mem_segments(self.disk, &path, runs)?;
        let spilled = taken.iter().map(|id| tables[id].memtable.spillable_bytes());
        self.report.spilled_bytes += spilled.sum::<u64>();
        let mut start = 0;
        for id in taken {
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
