//! Commits of segments whose rows replace earlier ones: imports and changes of rows in tables with
//! keys of DEDUP.
//!
//! - replace-1. The rows of an import are one commit. If several of them have the same keys, the
//!   last one stays.
//! - replace-2. The runs of the table are locked from before they are read until the commit, so
//!   that no other writer adds rows with the same keys meanwhile. A writer that has
//!   planned for a table without keys commits only if the table still has none.
//! - replace-3. Deletions of a partition are written before the next one is read; only the
//!   positions of memtable rows and the deletion vectors of a statement, one bit for each row, stay
//!   in memory until the commit.
//! - replace-4. A row that an UPDATE writes replaces all rows with its keys, even if the statement
//!   has not found them, and whenever they were written.
//!
//! Not here: finding the rows with the same keys (`dedup`).

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{PartitionKey, Schema, SeqTxn};

use super::dedup::{self, Superseded};
use super::import::{ImportTxn, may_be_committed};
use crate::database::commit::request::{CommitError, Deletes};
use crate::database::deletes::apply::{DeleteWriter, LockedTable};
use crate::database::deletes::vectors::{SegmentDeletes, SnapshotDeletes};
use crate::deletion_vector::DeletionVector;
use crate::error::{Error, Result};
use crate::segment::WrittenSegment;
use crate::snapshot::{SegmentRun, Snapshot};
use crate::symbols::SymbolTables;

/// Number of attempts while other commits keep changing the table.
const ATTEMPTS: usize = 32;

/// Runs of a table by their partition.
type KnownRuns<'a> = BTreeMap<PartitionKey, Vec<&'a Arc<SegmentRun>>>;

impl ImportTxn {
    /// Commits segments that replace rows with the same keys, if the table has keys.
    pub(crate) fn commit_by_keys(&self, segments: &[WrittenSegment]) -> Result<SeqTxn> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.try_commit(segments) {
                Err(Error::SchemaChanged { .. } | Error::SegmentChanged { .. })
                    if attempt < ATTEMPTS => {}
                outcome => return outcome,
            }
        }
    }

    fn try_commit(&self, segments: &[WrittenSegment]) -> Result<SeqTxn> {
        match self.existing() {
            None => self.commit_new_table(segments),
            Some(table) if segments.is_empty() => Ok(table.manifest.seq_txn),
            Some(table) => {
                let state = self.database().table_state(table.id());
                let has_keys = |schema: &Schema| !schema.dedup().is_empty();
                if state.is_some_and(|state| has_keys(&state.manifest.schema)) {
                    self.commit_locked(segments, None)
                } else {
                    self.commit_plain(segments)
                }
            }
        }
    }

    /// Commits segments that replace the rows of `deletes`, and those with the same keys
    /// (replace-4).
    pub(crate) fn commit_with(
        &self,
        segments: &[WrittenSegment],
        deletes: SnapshotDeletes<'_>,
    ) -> Result<SeqTxn> {
        let state = self.database().table_state(self.table());
        let has_keys = state.is_some_and(|state| !state.manifest.schema.dedup().is_empty());
        if has_keys && !segments.is_empty() {
            self.commit_locked(segments, Some(deletes))
        } else {
            self.commit_with_deletes(segments, deletes)
        }
    }

    fn commit_plain(&self, segments: &[WrittenSegment]) -> Result<SeqTxn> {
        let outcome = self.commit_segments(segments, Deletes::default(), Some(Vec::new()));
        outcome.map_err(|CommitError { error, .. }| error)
    }

    /// Commits a new table, which may have keys, and several rows with the same ones.
    fn commit_new_table(&self, segments: &[WrittenSegment]) -> Result<SeqTxn> {
        let schema = self.schema();
        if schema.dedup().is_empty() {
            return self.commit_plain(segments);
        }
        let symbols = self.symbols();
        let mut none = |rows: SegmentDeletes| -> Result<()> {
            unreachable!("segment {} is of no new table", rows.segment)
        };
        let left = self.supersede(segments, schema, &symbols, &KnownRuns::new(), &mut none)?;
        self.commit_plain(&left)
    }

    fn commit_locked(
        &self,
        segments: &[WrittenSegment],
        deletes: Option<SnapshotDeletes<'_>>,
    ) -> Result<SeqTxn> {
        let Some(locked) = LockedTable::lock(self.database(), self.table()) else {
            // The table was dropped, which the commit detects and reports.
            return self.commit_plain(segments);
        };
        let (table, snapshot) = (&locked.state, locked.state.snapshot()?);
        let schema = &table.manifest.schema;
        if schema.dedup().is_empty() {
            return match deletes {
                Some(deletes) => self.commit_with_deletes(segments, deletes),
                None => self.commit_plain(segments),
            };
        }
        let removed =
            deletes.map(|deletes| deletes.into_deletion_vectors(&snapshot)).transpose()?;
        let mut removed = removed.unwrap_or_default();
        let symbols = table.directory.symbols(schema, &table.manifest.symbols)?;
        let mut writer = DeleteWriter::new(self.database(), table, &snapshot);
        let known = by_partition(&snapshot);
        let mut go = |rows: SegmentDeletes| match removed.remove(&rows.segment) {
            Some(deletion_vector) => {
                let left =
                    deletion_vector.and(&DeletionVector::new(deletion_vector.rows(), &rows.rows));
                writer.add_deletion_vector(rows.segment, &left)
            }
            None => writer.add(rows),
        };
        let left = self.supersede(segments, schema, &symbols, &known, &mut go)?;
        removed
            .iter()
            .try_for_each(|(&segment, left)| writer.add_deletion_vector(segment, left))?;
        let (deletes, mut files) = writer.finish()?;
        let outcome = self.commit_segments(&left, deletes, Some(schema.dedup().to_vec()));
        if may_be_committed(&outcome) {
            files.keep();
        }
        outcome.map_err(|CommitError { error, .. }| error)
    }

    /// The segments to be committed, partition by partition (replace-3).
    fn supersede(
        &self,
        segments: &[WrittenSegment],
        schema: &Schema,
        symbols: &SymbolTables,
        known: &KnownRuns<'_>,
        go: &mut dyn FnMut(SegmentDeletes) -> Result<()>,
    ) -> Result<Vec<WrittenSegment>> {
        let mut partitions: BTreeMap<PartitionKey, Vec<&WrittenSegment>> = BTreeMap::new();
        for segment in segments {
            partitions.entry(segment.meta.partition).or_default().push(segment);
        }
        let (mut left, mut rewritten) = (Vec::new(), Vec::new());
        for (partition, mut written) in partitions {
            // The order of rows with equal timestamps.
            written.sort_by_key(|segment| segment.meta.id);
            let files = written.iter().map(|segment| self.file_of(segment.meta));
            let files: Vec<_> = files.collect();
            let run = |(at, deletion_vector)| {
                let segment: &WrittenSegment = written[at];
                Arc::new(SegmentRun::of_memtable(segment.meta, &files[at], deletion_vector))
            };
            let runs: Vec<_> = (0..files.len()).map(|at| run((at, None))).collect();
            let known = known.get(&partition).map_or(&[][..], Vec::as_slice);
            let found = dedup::superseded(&runs, known, schema, symbols)?;
            let Superseded { doubled, deletes } = found;
            deletes.into_iter().try_for_each(&mut *go)?;
            if doubled.is_empty() {
                left.extend(written.into_iter().cloned());
                continue;
            }
            let without = runs.iter().enumerate().filter_map(|(at, whole)| {
                let Some(rows) = doubled.get(&at) else { return Some(Arc::clone(whole)) };
                let deletion_vector = DeletionVector::new(whole.meta.rows, rows);
                (deletion_vector.live().0 > 0).then(|| run((at, Some(Arc::new(deletion_vector)))))
            });
            rewritten.extend(self.rewrite(&without.collect::<Vec<_>>())?);
            self.database().segment_sync().settle_many(&mut rewritten)?;
        }
        left.append(&mut rewritten);
        Ok(left)
    }
}

fn by_partition(snapshot: &Snapshot) -> KnownRuns<'_> {
    let mut runs = KnownRuns::new();
    for run in snapshot.segments() {
        runs.entry(run.meta.partition).or_default().push(run);
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidegate_model::{ColumnType, PartitionUnit, TimeUnit};
    use tidegate_platform::{SimClock, SimDisk};

    use super::*;
    use crate::database::{AppendOptions, Database, ImportTarget, OpenOptions, TableAppend};
    use crate::segment::RowSelection;
    use crate::{BatchColumn, BatchValues, RowBatch};

    /// Rows by their keys.
    type Model = BTreeMap<(i64, i64), i64>;

    fn batch(rows: &[(i64, i64, i64)]) -> RowBatch {
        let column = |name: &str, ty, value_of: fn(&(i64, i64, i64)) -> i64| {
            let values = BatchValues::I64(rows.iter().map(value_of).collect());
            BatchColumn { name: name.to_owned(), ty, values, validity: None }
        };
        let columns = vec![
            column("ts", ColumnType::Timestamp(TimeUnit::Micros), |row| row.0),
            column("key", ColumnType::Int64, |row| row.1),
            column("value", ColumnType::Int64, |row| row.2),
        ];
        RowBatch::new(rows.len(), columns)
    }

    fn read(database: &Database) -> Vec<(i64, i64, i64)> {
        let snapshot = database.snapshot("t").unwrap();
        let mut rows = Vec::new();
        for run in snapshot.segments() {
            let (reader, columns) = (run.reader().unwrap(), snapshot.schema.columns());
            let all = RowSelection::Range(0..usize::try_from(run.meta.rows.0).unwrap());
            let arrays = reader.arrays(0, &all, columns, &snapshot.symbols).unwrap();
            let value = |column: usize, row: usize| {
                arrays[column].to_data().buffers()[0].typed_data::<i64>()[row]
            };
            let live = (0..arrays[0].len()).filter(|&row| {
                run.deletion_vector
                    .as_ref()
                    .is_none_or(|deletion_vector| deletion_vector.is_live(row as u64))
            });
            rows.extend(live.map(|row| (value(0, row), value(1, row), value(2, row))));
        }
        rows.sort_unstable();
        rows
    }

    #[test]
    fn the_last_row_of_each_key_stays_in_every_window() {
        const DAY: u64 = 86_400_000_000;
        let columns = [
            ("ts".to_owned(), ColumnType::Timestamp(TimeUnit::Micros)),
            ("key".to_owned(), ColumnType::Int64),
            ("value".to_owned(), ColumnType::Int64),
        ];
        let schema = Schema::new(&columns, Some("ts"), PartitionUnit::Day).unwrap();
        let options = OpenOptions::new(Arc::new(SimClock::new(1)));
        let disk = Arc::new(SimDisk::new(1));
        let database = Database::open(disk, Path::new("/db"), &options).unwrap();
        database.create_table("t", schema.with_dedup(&["ts", "key"]).unwrap()).unwrap();
        let (mut model, mut seed, mut value) = (Model::new(), 1_u64, 0);
        let mut below = |end: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            i64::try_from((seed >> 33) % end).unwrap()
        };
        for round in 0..40 {
            // Few instants of many rows, or many of few; and two partitions.
            let instants = if round % 2 == 0 { 3 } else { 60 };
            let mut row = || {
                value += 1;
                let day = i64::try_from(DAY).unwrap() * below(2);
                (day + below(instants), below(4), value)
            };
            let batches: Vec<Vec<_>> = (0..2).map(|_| (0..100).map(|_| row()).collect()).collect();
            let batches = if round % 3 == 0 { &batches[..1] } else { &batches };
            for &(ts, key, value) in batches.iter().flatten() {
                model.insert((ts, key), value);
            }
            if round % 5 == 0 {
                let (table, rows) = ("t".to_owned(), batch(&batches.concat()));
                let append = TableAppend {
                    table,
                    id: None,
                    create: None,
                    add_columns: false,
                    made_for: None,
                    rows,
                };
                database.append(&[append], &AppendOptions::default()).unwrap();
            } else {
                let mut txn = database.begin_change(ImportTarget::Existing("t")).unwrap();
                batches.iter().for_each(|rows| txn.add(&batch(rows)).unwrap());
                txn.commit(None).unwrap();
            }
            let expected: Vec<_> =
                model.iter().map(|(&(ts, key), &value)| (ts, key, value)).collect();
            assert_eq!(read(&database), expected, "replace-1, round {round}");
        }
    }
}
