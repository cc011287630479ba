//! Deletion of rows in segments: writes deletion vectors beside the segments, and commits them with
//! one record.
//!
//! - vectors-1. A segment without live rows is removed as a whole, with the record that deletes its
//!   last row, and gets no deletion vector. So a partition exists as long as it has a row.
//! - write_import-2 and write_import-3 hold for deletion vectors too.
//!
//! Not here: rows of memtables (`deletes`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::{SchemaVersion, SegmentId, SeqTxn, TableId};
use tidegate_platform::{Disk, OpenMode};

use crate::database::commit::request::{Deletes, NewDeletionVector, Replace};
use crate::database::table::state::TableState;
use crate::deletion_vector::{DeletionVector, DeletionVectorMeta};
use crate::error::{Error, Result};
use crate::snapshot::{SegmentRun, Snapshot};

/// Rows of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentDeletes {
    /// The segment.
    pub segment: SegmentId,
    /// Positions in the segment; in any order, also twice, also of rows that are deleted already.
    pub rows: Vec<u64>,
}

/// Rows to delete, found in a snapshot, segment by segment.
pub struct SnapshotDeletes<'a> {
    /// The snapshot in which they were found.
    pub snapshot: &'a Snapshot,
    /// Each segment of the snapshot at most once.
    pub rows: &'a mut dyn Iterator<Item = SegmentDeletes>,
}

impl fmt::Debug for SnapshotDeletes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotDeletes")
            .field("table", &self.snapshot.name)
            .finish_non_exhaustive()
    }
}

impl SnapshotDeletes<'_> {
    /// The deletion vector of each segment, if no segment has changed since its rows were found.
    pub(crate) fn into_deletion_vectors(
        self,
        now: &Snapshot,
    ) -> Result<BTreeMap<SegmentId, DeletionVector>> {
        let SnapshotDeletes { snapshot, rows } = self;
        assert_eq!(snapshot.table, now.table, "rows of this table");
        let (found, now) = (runs_of(snapshot), runs_of(now));
        let mut deletion_vectors = BTreeMap::new();
        for SegmentDeletes { segment, rows } in rows {
            let run = found.get(&segment).expect("the segment is one of the snapshot");
            let is_same =
                |now: &&Arc<SegmentRun>| now.deletion_vector_meta() == run.deletion_vector_meta();
            if !now.get(&segment).is_some_and(is_same) {
                let (table, segment) = (snapshot.name.clone(), segment.0);
                return Err(Error::SegmentChanged { table, segment });
            }
            let deletion_vector = DeletionVector::new(run.meta.rows, &rows);
            assert!(
                deletion_vectors.insert(segment, deletion_vector).is_none(),
                "a segment comes once"
            );
        }
        Ok(deletion_vectors)
    }
}

/// The segments of a snapshot by their ids.
pub(crate) fn runs_of(snapshot: &Snapshot) -> BTreeMap<SegmentId, &Arc<SegmentRun>> {
    snapshot.segments().map(|run| (run.meta.id, run)).collect()
}

/// The effect of deleting some rows of a segment.
pub(crate) enum SegmentEffect {
    /// All the rows were deleted already.
    Nothing,
    Rows(NewDeletionVector),
    /// No row is left (vectors-1); with the deletion vector that the segment had.
    All(SegmentId, Option<DeletionVectorMeta>),
}

/// Segments without live rows, with the deletion vectors that they had.
type Emptied = Vec<(SegmentId, Option<DeletionVectorMeta>)>;

/// The effects of a deletion on several segments.
#[derive(Default)]
pub(crate) struct DeleteEffects {
    deletion_vectors: Vec<NewDeletionVector>,
    emptied: Emptied,
}

impl DeleteEffects {
    pub(crate) fn add(&mut self, effect: SegmentEffect) {
        match effect {
            SegmentEffect::Nothing => {}
            SegmentEffect::Rows(deletion_vector) => self.deletion_vectors.push(deletion_vector),
            SegmentEffect::All(segment, deletion_vector) => {
                self.emptied.push((segment, deletion_vector))
            }
        }
    }

    /// The part of a commit that deletes them. `replace` makes its `replace` part of the emptied
    /// segments.
    pub(crate) fn into_deletes(
        self,
        table: &TableState,
        replace: Option<&dyn Fn(Emptied) -> Replace>,
    ) -> Deletes {
        let DeleteEffects { deletion_vectors, emptied } = self;
        let replace = match replace {
            Some(replace) => Some(replace(emptied)),
            None => (!emptied.is_empty()).then(|| Replace::without(table, emptied)),
        };
        Deletes { deletion_vectors, replace }
    }
}

/// Deletion vectors that are not yet part of a table; their files are removed on drop.
pub(crate) struct DeletionVectorFiles<'a> {
    disk: &'a dyn Disk,
    written: Vec<PathBuf>,
}

impl<'a> DeletionVectorFiles<'a> {
    pub(crate) fn new(disk: &'a dyn Disk) -> DeletionVectorFiles<'a> {
        DeletionVectorFiles { disk, written: Vec::new() }
    }

    /// Keeps the files: they are part of the table, or may be, if the commit is in doubt.
    pub(crate) fn keep(&mut self) {
        self.written.clear();
    }

    /// Writes a deletion vector for each segment that loses rows and keeps some (vectors-1), and
    /// makes the deletion vectors and their names durable (write_import-3).
    pub(crate) fn write_all(
        &mut self,
        table: &TableState,
        deletes: SnapshotDeletes<'_>,
    ) -> Result<Deletes> {
        let SnapshotDeletes { snapshot, rows } = deletes;
        assert_eq!(snapshot.table, table.id(), "rows of this table");
        let runs = runs_of(snapshot);
        let (mut effects, mut seen) = (DeleteEffects::default(), BTreeSet::new());
        for SegmentDeletes { segment, rows } in rows {
            assert!(seen.insert(segment), "a segment comes once");
            let run = runs.get(&segment).expect("the segment is one of the snapshot");
            effects.add(self.write(table, run, &DeletionVector::new(run.meta.rows, &rows))?);
        }
        self.sync_directories()?;
        Ok(effects.into_deletes(table, None))
    }

    /// Writes the deletion vector of a segment that loses rows, if it keeps some.
    pub(crate) fn write(
        &mut self,
        table: &TableState,
        run: &SegmentRun,
        left: &DeletionVector,
    ) -> Result<SegmentEffect> {
        let none = DeletionVector::new(run.meta.rows, &[]);
        let known = run.deletion_vector.as_deref().unwrap_or(&none);
        let deletion_vector = known.and(left);
        if deletion_vector == *known {
            return Ok(SegmentEffect::Nothing);
        }
        let segment = run.meta.id;
        if deletion_vector.live().0 == 0 {
            return Ok(SegmentEffect::All(segment, run.deletion_vector_meta()));
        }
        let id = table.directory.new_segment_id();
        let bytes = deletion_vector.encode(table.id(), segment);
        let meta = DeletionVectorMeta {
            id,
            seq_txn: SeqTxn(0),
            live: deletion_vector.live(),
            crc: crc32c::crc32c(&bytes),
        };
        let path =
            table.directory.paths().deletion_vector(&table.manifest.schema, &run.meta, &meta);
        self.written.push(path.clone());
        write_synced(self.disk, &path, &bytes).map_err(Error::disk("write deletion vector"))?;
        assert!(deletion_vector.live() < run.meta.rows, "a deletion vector has a row");
        Ok(SegmentEffect::Rows(NewDeletionVector {
            segment,
            meta,
            replaces: run.deletion_vector_meta(),
        }))
    }

    /// Makes the names of the written files durable (write_import-3).
    pub(crate) fn sync_directories(&self) -> Result<()> {
        let directories: BTreeSet<&Path> =
            self.written.iter().filter_map(|path| path.parent()).collect();
        let synced = directories.into_iter().try_for_each(|dir| self.disk.sync_dir(dir));
        synced.map_err(Error::disk("write deletion vector"))
    }
}

impl Drop for DeletionVectorFiles<'_> {
    fn drop(&mut self) {
        for path in &self.written {
            // If this fails, the next open removes it.
            let _ = self.disk.remove(path);
        }
    }
}

fn write_synced(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> tidegate_platform::Result<()> {
    let file = disk.open(path, OpenMode::CreateNew)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()
}

/// Rows of one table to delete.
#[derive(Debug, Clone)]
pub struct TableDeletes {
    /// The table.
    pub table: TableId,
    /// The version of its columns when the rows were found.
    pub version: SchemaVersion,
    /// Segments in files, each once, which were pinned when they were found.
    pub rows: Vec<SegmentDeletes>,
}

/// The rows to delete of each table.
pub(crate) type DeletesByTable<'a> = BTreeMap<TableId, &'a TableDeletes>;

/// Merges the rows of a table to delete: those that new rows replace, and those that a transaction
/// deletes.
///
/// # Errors
/// If a row that the transaction deletes does not exist any more (transaction-3).
pub(crate) fn merged_deletes(
    superseded: Vec<SegmentDeletes>,
    removed: Option<&TableDeletes>,
    now: &Snapshot,
) -> Result<Vec<SegmentDeletes>> {
    let Some(removed) = removed else { return Ok(superseded) };
    let runs = runs_of(now);
    let mut deletes: BTreeMap<SegmentId, Vec<u64>> = BTreeMap::new();
    for SegmentDeletes { segment, rows } in &removed.rows {
        let is_there = runs.get(segment).is_some_and(|run| {
            let is_live = |row: &u64| {
                run.deletion_vector
                    .as_ref()
                    .is_none_or(|deletion_vector| deletion_vector.is_live(*row))
            };
            rows.iter().all(is_live)
        });
        if !is_there {
            return Err(Error::RowsChanged { table: now.name.clone() });
        }
        deletes.entry(*segment).or_default().extend(rows);
    }
    for SegmentDeletes { segment, rows } in superseded {
        deletes.entry(segment).or_default().extend(rows);
    }
    Ok(deletes.into_iter().map(|(segment, rows)| SegmentDeletes { segment, rows }).collect())
}
