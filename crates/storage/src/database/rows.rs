//! Changes of rows that are there: what goes and what comes is one commit.
//!
//! - RC1. While a change is under way, nobody else rewrites runs of the table: rows that were found
//!   in its snapshot stay where they are. Rows that come meanwhile are not part of it.
//! - RC2. Rows of segments go by masks, those of the tail by sealing it without them; new rows are
//!   appended. One record says all of it.
//!
//! Not here: which rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_model::{PartitionKey, RowCount, SegmentId, SeqTxn, TableId, Timestamp};

use super::append::{encode, resolve_for};
use super::budget::Wake;
use super::commit::Refusal;
use super::folder::{Held, Patience, RunsOf};
use super::masks::MaskFiles;
use super::plan::{Append, AppendTarget, AppendTo, Gone, Replace, Wish};
use super::table::TableState;
use super::upkeep::files::NewSegments;
use super::upkeep::policy::tail_groups;
use super::{Database, MaskedRows};
use crate::batch::RowBatch;
use crate::error::{Error, Result};
use crate::mask::RowMask;
use crate::snapshot::{SegmentRun, Snapshot};
use crate::wal::Fate;

/// A change of a table's rows under way (RC1).
#[derive(Debug)]
pub struct RowsTxn {
    database: Arc<Database>,
    table: HeldTable,
    snapshot: Arc<Snapshot>,
}

/// A table whose runs nobody else rewrites.
#[derive(Debug)]
pub(super) struct HeldTable {
    pub(super) state: Arc<TableState>,
    _tail: Held,
    _segments: Held,
    /// Dropped last: who waits for memory may wait for the tail.
    _wake: Wake,
}

/// Files of rows that go, which are removed if they are not kept.
pub(super) struct GoneFiles<'a> {
    masks: MaskFiles<'a>,
    segments: Option<NewSegments<'a>>,
}

impl GoneFiles<'_> {
    /// They are part of the table, or that is in doubt.
    pub(super) fn keep(&mut self) {
        self.masks.keep();
        if let Some(segments) = &self.segments {
            segments.keep();
        }
    }
}

impl Database {
    /// Begins a change of a table's rows. Until it ends, nothing of the table is sealed or merged,
    /// and so writers may have to wait. It waits for others that are under way, and for upkeep.
    ///
    /// # Errors
    /// If there is no such table, its symbols or masks cannot be read, or the database is
    /// read-only.
    pub fn begin_rows(self: &Arc<Self>, table: &str) -> Result<RowsTxn> {
        self.tidy()?;
        let id = super::find(&self.published().tables, table)?.id();
        let missing = || Error::TableDropped { table: table.to_owned() };
        let table = self.hold_table(id).ok_or_else(missing)?;
        let snapshot = table.state.snapshot()?;
        Ok(RowsTxn { database: Arc::clone(self), table, snapshot })
    }

    /// Removes the rows of whole partitions, those that came up to now; returns how many
    /// partitions had rows.
    ///
    /// # Errors
    /// If there is no such table, or something cannot be written: then nothing has changed.
    pub fn drop_partitions(
        self: &Arc<Self>,
        table: &str,
        partitions: &BTreeSet<PartitionKey>,
    ) -> Result<usize> {
        self.tidy()?;
        let id = super::find(&self.published().tables, table)?.id();
        self.drop_partitions_of(id, &|_| partitions.clone())
    }

    /// Drops partitions that are chosen when nobody else rewrites runs of the table.
    pub(super) fn drop_partitions_of(
        &self,
        id: TableId,
        choose: &dyn Fn(&TableState) -> BTreeSet<PartitionKey>,
    ) -> Result<usize> {
        let Some(held) = self.hold_table(id) else { return Ok(0) };
        let table = &held.state;
        let chosen = choose(table);
        let entries = table.manifest.segments.iter();
        let entries = entries.filter(|entry| chosen.contains(&entry.meta.partition));
        let out: Vec<_> = entries.map(|entry| (entry.meta.id, entry.mask)).collect();
        let of_tail = table.tail.runs().iter().map(|run| run.meta.partition);
        let of_tail: BTreeSet<_> = of_tail.filter(|key| chosen.contains(key)).collect();
        let of_segments = table.manifest.segments.iter().map(|entry| entry.meta.partition);
        let of_segments = of_segments.filter(|key| chosen.contains(key));
        let dropped: BTreeSet<_> = of_segments.chain(of_tail.iter().copied()).collect();
        if dropped.is_empty() {
            return Ok(0);
        }
        let mut written = NewSegments::new(self, table)?;
        let (mut tail, mut symbols) = (Vec::new(), Vec::new());
        if !of_tail.is_empty() {
            for group in tail_groups(table) {
                if !of_tail.contains(&group[0].meta.partition) {
                    let runs: Vec<_> = group.iter().map(|run| Arc::new(run.run())).collect();
                    written.write(&runs)?;
                }
            }
            symbols = written.sync()?;
            tail = table.tail.runs().to_vec();
        }
        let (name, segments) = (table.name.clone(), written.metas());
        let replace = Replace { table: id, name, out, tail, segments, symbols };
        self.commit_rewritten(replace, &written)?;
        Ok(dropped.len())
    }

    /// Keeps everybody else from rewriting runs of a table; `None` if it is gone.
    pub(super) fn hold_table(&self, id: TableId) -> Option<HeldTable> {
        let folder = Arc::clone(&self.table_state(id)?.folder);
        let (tail, segments) = (
            folder.hold(RunsOf::Tail, Patience::Wait)?,
            folder.hold(RunsOf::Segments, Patience::Wait)?,
        );
        let state = self.table_state(id)?;
        let wake = Wake::new(&self.tails);
        Some(HeldTable { state, _tail: tail, _segments: segments, _wake: wake })
    }

    /// Writes what makes rows go of a table that is held (RC2).
    pub(super) fn write_gone<'a>(
        &'a self,
        table: &'a TableState,
        snapshot: &Snapshot,
        gone: &[MaskedRows],
    ) -> Result<(Gone, GoneFiles<'a>)> {
        let ids: BTreeSet<SegmentId> = gone.iter().map(|rows| rows.segment).collect();
        assert_eq!(ids.len(), gone.len(), "a segment comes once");
        let mut files = GoneFiles { masks: MaskFiles::new(self.guarded.as_ref()), segments: None };
        let mut of_tail: Vec<&MaskedRows> = Vec::new();
        let mut masks = Vec::new();
        for rows in gone {
            let run = snapshot.segments().find(|run| run.meta.id == rows.segment);
            let run = run.expect("the segment is one of the snapshot");
            if run.is_in_memory() {
                of_tail.push(rows);
            } else {
                masks.extend(files.masks.write(table, run, &rows.rows)?);
            }
        }
        files.masks.sync_folders()?;
        if of_tail.is_empty() {
            return Ok((Gone { masks, replace: None }, files));
        }
        let mut written = NewSegments::new(self, table)?;
        for group in tail_groups(table) {
            let without = |run: &Arc<super::tail::TailRun>| {
                let rows = of_tail.iter().find(|rows| rows.segment == run.meta.id);
                Arc::new(rows.map_or_else(|| run.run(), |rows| masked(run, &rows.rows)))
            };
            written.write(&group.iter().map(without).collect::<Vec<_>>())?;
        }
        let symbols = written.sync()?;
        let replace = Replace {
            table: table.id(),
            name: table.name.clone(),
            out: Vec::new(),
            tail: table.tail.runs().to_vec(),
            segments: written.metas(),
            symbols,
        };
        files.segments = Some(written);
        Ok((Gone { masks, replace: Some(replace) }, files))
    }

    /// Partitions whose rows are older than a table keeps them.
    pub(super) fn expired(&self, table: &TableState) -> BTreeSet<PartitionKey> {
        let schema = &table.manifest.schema;
        let Some(ttl) = schema.ttl() else { return BTreeSet::new() };
        let metas = || {
            let segments = table.manifest.segments.iter().map(|entry| &entry.meta);
            segments.chain(table.tail.runs().iter().map(|run| &run.meta))
        };
        let Some(newest) = metas().map(|meta| meta.max_ts).max() else { return BTreeSet::new() };
        let unit = schema.time_unit();
        let now =
            i128::from(self.options.clock.now_micros()) * i128::from(unit.per_second()) / 1_000_000;
        // One row from the future drops nothing.
        let now = i64::try_from(now).unwrap_or(i64::MAX).min(newest);
        let mut bound = now;
        for _ in 0..ttl.count {
            // A unit before: its beginning, and as far into it as now is, or its end.
            let start = ttl.unit.floor(Timestamp(bound), unit).0;
            let Some(before) = start.checked_sub(1) else { return BTreeSet::new() };
            let previous = ttl.unit.floor(Timestamp(before), unit).0;
            bound = (previous + (bound - start)).min(before);
        }
        let by = schema.partition_by();
        let is_old = |key: &PartitionKey| by.next(*key, unit).0 <= bound;
        metas().map(|meta| meta.partition).filter(is_old).collect()
    }
}

fn masked(run: &super::tail::TailRun, rows: &[u64]) -> SegmentRun {
    let none = RowMask::new(run.meta.rows, &[]);
    let known = run.mask.as_deref().unwrap_or(&none);
    let mask = known.and(&RowMask::new(run.meta.rows, rows));
    SegmentRun::of_tail(run.meta, &run.file, Some(Arc::new(mask)))
}

impl RowsTxn {
    /// What rows are looked for in; its images are rows of the tail.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// How many rows the table had when the change began.
    #[must_use]
    pub fn rows(&self) -> RowCount {
        self.snapshot.rows()
    }

    /// Removes rows and adds others, all with one commit, whose number it returns. New rows have
    /// columns of the table, with its types; keys of DEDUP are not looked at.
    ///
    /// # Errors
    /// If the table was dropped or truncated, or its columns were changed, since the change began,
    /// or something cannot be written: then nothing has changed. With [`Error::InDoubt`], the next
    /// open decides.
    ///
    /// # Panics
    /// If a segment of `gone` is not one of the snapshot, comes twice, or does not have such a row.
    pub fn commit(self, gone: &[MaskedRows], rows: Option<&RowBatch>) -> Result<SeqTxn> {
        let RowsTxn { database, table: held, snapshot } = self;
        let table = &held.state;
        let (gone, mut files) = database.write_gone(table, &snapshot, gone)?;
        let is_nothing = gone.masks.is_empty() && gone.replace.is_none();
        let to = match rows.filter(|rows| rows.rows() > 0) {
            Some(rows) => AppendTo { gone, ..encode(resolve_for(table, rows)?, rows)? },
            None if is_nothing => return Ok(snapshot.seq_txn),
            None => {
                let target = AppendTarget::Existing {
                    id: table.id(),
                    name: table.name.clone(),
                    version: table.manifest.schema.version(),
                    altered: None,
                };
                let (images, symbols) = (Vec::new(), Vec::new());
                AppendTo { target, images, files: Vec::new(), symbols, gone }
            }
        };
        let since_nanos = database.options.clock.monotonic_nanos();
        let wish = Wish::Append(Append { batch: None, tables: vec![to], since_nanos });
        match database.commit(wish) {
            Ok(seq_txn) => {
                files.keep();
                Ok(seq_txn)
            }
            Err(Refusal { error, fate }) => {
                if fate == Fate::InDoubt {
                    files.keep();
                }
                Err(error)
            }
        }
    }
}
