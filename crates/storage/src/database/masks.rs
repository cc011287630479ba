//! Rows that go: masks are written beside their segments, and become true with one record.
//!
//! - T2, T3 as in `import`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::{RowCount, SegmentId, SeqTxn};
use tidegate_platform::{Disk, OpenMode};

use super::Database;
use super::change::Removal;
use super::plan::{NewMask, SnapshotId, Wish};
use super::table::TableState;
use crate::error::{Error, Result};
use crate::manifest::MaskMark;
use crate::mask::RowMask;
use crate::snapshot::{SegmentRun, Snapshot};
use crate::wal::Fate;

/// Rows of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedRows {
    /// The segment.
    pub segment: SegmentId,
    /// Positions in it; in any order, also twice, also of rows that are gone already.
    pub rows: Vec<u64>,
}

impl Database {
    /// Removes rows that somebody has found in a snapshot, all or none, and returns the number of
    /// the commit. A segment all of whose rows are gone stays until it is merged.
    ///
    /// # Errors
    /// If one of the segments has changed since the snapshot, or the masks cannot be written: then
    /// nothing has changed. With [`Error::InDoubt`], the next open decides.
    ///
    /// # Panics
    /// If a segment is not one of the snapshot, comes twice, or does not have such a row.
    pub fn mask_rows(&self, snapshot: &Snapshot, gone: &[MaskedRows]) -> Result<SeqTxn> {
        self.tidy()?;
        let name = snapshot.name.clone();
        let found = self.published().tables.by_id.get(&snapshot.table).map(Arc::clone);
        let table = found.ok_or_else(|| Error::TableDropped { table: name.clone() })?;
        let id = SnapshotId { table: snapshot.table, name, seq_txn: snapshot.seq_txn };
        let mut files = MaskFiles::new(self.guarded.as_ref());
        let masks =
            files.write_all(&table, Removal { snapshot, rows: &mut gone.iter().cloned() })?;
        if masks.is_empty() {
            return Ok(snapshot.seq_txn);
        }
        match self.commit(Wish::Mask { snapshot: id, masks }) {
            Ok(seq_txn) => {
                files.keep();
                Ok(seq_txn)
            }
            Err(refusal) => {
                if refusal.fate == Fate::InDoubt {
                    files.keep();
                }
                Err(refusal.error)
            }
        }
    }
}

/// Masks that are not yet part of a table; removed when it is dropped.
pub(super) struct MaskFiles<'a> {
    disk: &'a dyn Disk,
    written: Vec<PathBuf>,
}

impl<'a> MaskFiles<'a> {
    pub(super) fn new(disk: &'a dyn Disk) -> MaskFiles<'a> {
        MaskFiles { disk, written: Vec::new() }
    }

    /// They are part of the table, or that is in doubt.
    pub(super) fn keep(&mut self) {
        self.written.clear();
    }

    /// Writes the masks of segments without these rows, those that change; they and their names are
    /// on disk then (T3).
    pub(super) fn write_all(
        &mut self,
        table: &TableState,
        removal: Removal<'_>,
    ) -> Result<Vec<NewMask>> {
        let Removal { snapshot, rows } = removal;
        assert_eq!(snapshot.table, table.id(), "rows of this table");
        let runs: BTreeMap<SegmentId, &Arc<SegmentRun>> =
            snapshot.segments().map(|run| (run.meta.id, run)).collect();
        let (mut masks, mut seen) = (Vec::new(), BTreeSet::new());
        for MaskedRows { segment, rows } in rows {
            assert!(seen.insert(segment), "a segment comes once");
            let run = runs.get(&segment).expect("the segment is one of the snapshot");
            masks.extend(self.write(table, run, &rows)?);
        }
        self.sync_folders()?;
        Ok(masks)
    }

    /// Writes a mask of a segment without these rows; `None` if they are gone already.
    pub(super) fn write(
        &mut self,
        table: &TableState,
        run: &SegmentRun,
        rows: &[u64],
    ) -> Result<Option<NewMask>> {
        let none = RowMask::new(run.meta.rows, &[]);
        let known = run.mask.as_deref().unwrap_or(&none);
        let mask = known.and(&RowMask::new(run.meta.rows, rows));
        if mask == *known {
            return Ok(None);
        }
        let (segment, id) = (run.meta.id, table.folder.new_segment_id());
        let bytes = mask.encode(table.id(), segment);
        let mark =
            MaskMark { id, seq_txn: SeqTxn(0), live: mask.live(), crc: crc32c::crc32c(&bytes) };
        let path = table.folder.paths().mask(&table.manifest.schema, &run.meta, &mark);
        self.written.push(path.clone());
        write_synced(self.disk, &path, &bytes).map_err(Error::disk("write row mask"))?;
        assert!(mask.live() < RowCount(run.meta.rows.0), "a mask has lost a row");
        Ok(Some(NewMask { segment, mark, replaces: run.mask_mark() }))
    }

    pub(super) fn sync_folders(&self) -> Result<()> {
        let folders: BTreeSet<&Path> =
            self.written.iter().filter_map(|path| path.parent()).collect();
        let synced = folders.into_iter().try_for_each(|dir| self.disk.sync_dir(dir));
        synced.map_err(Error::disk("write row mask"))
    }
}

impl Drop for MaskFiles<'_> {
    fn drop(&mut self) {
        for path in &self.written {
            // If that fails, the next open removes it.
            let _ = self.disk.remove(path);
        }
    }
}

fn write_synced(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> tidegate_platform::Result<()> {
    let file = disk.open(path, OpenMode::CreateNew)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()
}
